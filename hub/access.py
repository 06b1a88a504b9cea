"""Who may talk to the HTTP listener: Host and Origin first, then a bearer token (SEC-02, SEC-03, D-16).

Nothing here reads a body or knows a path: a refusal is decided from the head alone, before anything else is done for the
request.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from config.schema import HubConfig
from hub.link.exchange import Identity


class Denied(Struct, frozen=True):
    """An answer given in place of the handler's; the connection is closed after it."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Head(Protocol):
    """What is looked at of a request (`http_server.HttpRequest` has it)."""

    headers: dict[str, str]
    identity: Identity | None


class Access:
    """The rules of one listener. `tokens` maps a token's name (the host label) to the token.

    `ports`: the bound ports; none given: the port of `config.listen`.
    """

    def __init__(self, config: HubConfig, tokens: Mapping[str, str], ports: Collection[int] = ()) -> None:
        raise NotImplementedError

    def check(self, request: Head) -> Identity | Denied:
        """Who sends this, or the refusal: 403 for a wrong Host or Origin, 401 for a missing or wrong token."""
        raise NotImplementedError

    def guard(self, request: Head) -> Denied | None:
        """`check` as the guard of an `HttpServer`: what it finds is left in `request.identity`."""
        found = self.check(request)
        if isinstance(found, Denied):
            return found
        request.identity = found
        return None


def read_or_make_token(path: Path) -> str:
    """The bearer token kept in `path` (mode 0600), made at the first call: 256 random bits.

    Raises:
        ConfigError: the file is not ours, is readable by others, or holds no token.
    """
    raise NotImplementedError
