"""The terms of a guarded request, its answer, and the reason why there was none."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from upstreams.fetch.json_object import read_json_object

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as texts; raises OSError if there are none."""


class Allowed(Struct, frozen=True):
    """Who may be asked beside public addresses. Link-local addresses and listeners of the hub never are."""

    private_hosts: frozenset[str] = frozenset()
    """Hosts that the operator wrote in a configuration, in lower case: they may have private addresses."""
    loopback_http: bool = False
    """The upstream itself is on loopback: others may be there too, and `http://` is allowed to them."""


class Fetched(Struct, frozen=True):
    """One answer, whole."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; several values of one name are joined by ", "."""
    body: bytes

    def __repr__(self) -> str:
        return f"<Fetched {self.status}, {len(self.body)} bytes>"

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object, whatever its type is said to be; None if it is none, or an ambiguous one."""
        return read_json_object(self.body)


class FetchFailed(Exception):
    """The reason why there is no answer, in words for a person: no part of an answer, no path or query, no secret.

    `refused`: the guard forbids this request, now and later. `sent`: the request may have arrived.
    `too_large`: there is an answer, which is larger than one may be.
    """

    def __init__(self, text: str, *, refused: bool = False, sent: bool = False, too_large: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.refused = refused
        self.sent = sent
        self.too_large = too_large
