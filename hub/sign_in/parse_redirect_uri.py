"""Redirect URIs, taken apart and put together. Pure.

The usual one is `/oauth/callback` at the listener that the hub has anyway, so that it stays the same: some
authorization servers compare redirect URIs as text, ports included. One that does not promise to say who it is with
every answer (RFC 9207) gets a path of its own, `/oauth/callback/N`: an answer that another server was made to send
comes to another path, and no code that is for one of them is shown to the other (RFC 9700 4.4.2.2).
"""

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from upstreams.oauth.client_metadata import CALLBACK
from upstreams.oauth.model import OAuthProblem

WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}
_PATH = re.compile(r"/[!-~]*", re.A)


class Listening(NamedTuple):
    """The hub's HTTP listener, as a sign-in sees it."""

    host: str
    port: int
    is_lasting: bool
    """It is at this port in the next run, too."""

    @property
    def base(self) -> str | None:
        """The origin at which browsers of this machine reach it; None: at none."""
        host = WILDCARDS.get(self.host, self.host)
        return base_url(host, self.port) if host in ("127.0.0.1", "::1") else None

    @property
    def covers(self) -> frozenset[tuple[str, int]]:
        """The loopback addresses and ports that are this listener's."""
        hosts = {"0.0.0.0": ("127.0.0.1",), "::": ("127.0.0.1", "::1")}.get(self.host, (self.host,))
        return frozenset((host, self.port) for host in hosts)


class RedirectUri(NamedTuple):
    """A redirect URI, taken apart."""

    text: str
    host: str
    port: int
    path: str

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses at which browsers look for it: for `localhost` on both families, whichever they prefer."""
        hosts = ("127.0.0.1", "::1") if self.host == "localhost" else (self.host,)
        return tuple((host, self.port) for host in hosts)

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")


def parse_redirect(uri: str) -> RedirectUri:
    """Read a redirect URI. Raises OAuthProblem: it is none that a browser could come back to."""
    problem = OAuthProblem(f"redirect_uri: {uri!r} is no loopback http address with a port, nor an https one")
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise problem from None
    if not host or "@" in parts.netloc or "#" in uri or "?" in uri or "\\" in uri:
        raise problem
    found = RedirectUri(uri, host, port or (443 if parts.scheme == "https" else 80), parts.path or "/")
    is_reachable = parts.scheme == "https" or (parts.scheme == "http" and found.is_loopback)
    if not is_reachable or not _PATH.fullmatch(found.path):
        raise problem
    return found


def callback_at(base: str, number: int) -> str:
    """The redirect URI below `base`, such as `http://127.0.0.1:8765`; `number` 0: the one without a number."""
    return f"{base}{CALLBACK}/{number}" if number else f"{base}{CALLBACK}"


def base_url(host: str, port: int) -> str:
    """The origin of a listener."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
