"""Listeners at redirect URIs for browsers that come back from a sign-in, while it runs.

They are at loopback only, and needed where the hub has no HTTP listener or one whose port will be another next time,
for a redirect URI that was registered elsewhere, and for the second family of `localhost`.
"""

import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final
from urllib.parse import urlsplit

import trio

from hub.net.http_request import EarlyReply, HttpRequest
from hub.net.look_after_connections import Handler, HttpLimits, HttpServer
from hub.sign_in.parse_redirect_uri import RedirectUri
from hub.sign_in.pending_sign_ins import RECORD_S

BACKLOG: Final = 64
LIMITS: Final = HttpLimits(max_request_body=0, max_connections=64, max_strangers=64)
NO_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""The machine has no such family: nobody else can have the address either."""
FORBIDDEN: Final = EarlyReply(403, b"This address is for browsers that come back from a sign-in.\n", (), "text/plain")
NOT_FOUND: Final = EarlyReply(404, b"There is nothing here.\n", (), "text/plain")
LINGER_S: Final = 30.0
"""Time that it stays after a sign-in, for the page that says how it went."""


class PortTaken(Exception):
    """Another program has the port, in one of the families at least."""


class CallbackListeners:
    """The listeners of redirect URIs that the hub's own listener does not serve."""

    def __init__(self, handler: Handler, spawn: Callable[..., None]) -> None:
        self._handler = handler
        self._spawn = spawn
        self._open: dict[tuple[str, int], _Listener] = {}

    def listen(self, redirect: RedirectUri, missing: Iterable[tuple[str, int]]) -> None:
        """Listen at the `missing` addresses of a redirect URI, or go on doing so, for as long as a record lasts. Raises
        PortTaken: one of them cannot be had; then there is none."""
        until = trio.current_time() + RECORD_S
        new: dict[tuple[str, int], _Listener] = {}
        try:
            for address in missing:
                if (listener := self._find(address)) is None and (found := bind(*address)) is not None:
                    listener = new[address] = _Listener(address, found)
                if listener is not None:
                    listener.serve(redirect, until)
            for listener in new.values():
                self._spawn(partial(self._run, listener))
        except (PortTaken, RuntimeError):  # RuntimeError: the hub ends
            for listener in new.values():
                listener.socket.close()
            raise
        self._open |= new

    def _find(self, address: tuple[str, int]) -> "_Listener | None":
        """The listener at an address; one that is about to end gives it up."""
        if (found := self._open.get(address)) is None or not found.scope.cancel_called:
            return found
        found.socket.close()
        return None

    def is_open(self, address: str, port: int) -> bool:
        """True if one of them is open there."""
        return (address, port) in self._open

    def release(self, redirect: RedirectUri) -> None:
        """A sign-in with this redirect URI is over."""
        for address in redirect.addresses:
            if (listener := self._open.get(address)) is not None:
                listener.release(redirect)

    async def _run(self, listener: "_Listener") -> None:
        http = HttpServer(self._handler, listener.guard, LIMITS)
        try:
            with listener.scope:
                await http.serve([trio.SocketListener(trio.socket.from_stdlib_socket(listener.socket))])
        finally:
            listener.socket.close()
            if self._open.get(listener.address) is listener:
                del self._open[listener.address]


@dataclass(eq=False)
class _Listener:
    """A socket at which browsers come back to some redirect URIs, until the deadline of its scope."""

    address: tuple[str, int]
    socket: socket.socket
    scope: trio.CancelScope = field(default_factory=lambda: trio.CancelScope(deadline=-inf))
    redirects: set[RedirectUri] = field(default_factory=set)

    def serve(self, redirect: RedirectUri, until: float) -> None:
        """Take browsers for this redirect URI, too, until then at least."""
        self.redirects.add(redirect)
        self.scope.deadline = max(self.scope.deadline, until)

    def release(self, redirect: RedirectUri) -> None:
        """Close soon, unless it is for other redirect URIs as well."""
        if self.redirects == {redirect}:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + LINGER_S)
        self.redirects -= {redirect} if len(self.redirects) > 1 else set()

    def guard(self, request: HttpRequest) -> EarlyReply | None:
        """Host first; then nothing but what a browser asks for in a sign-in."""
        path, method, headers = request.path, request.method, request.headers
        hosts = {urlsplit(redirect.text).netloc.lower() for redirect in self.redirects}
        if headers.get("host", "").lower() not in hosts or "origin" in headers:
            return FORBIDDEN
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        comes_back = method == "GET" and any(path == redirect.path for redirect in self.redirects)
        is_page = method in ("GET", "HEAD") and path.startswith(("/oauth/begin/", "/oauth/done/"))
        return None if not has_body and (comes_back or is_page) else NOT_FOUND


def bind(host: str, port: int) -> socket.socket | None:
    """A listening socket; None: this machine has no such address. Raises PortTaken: another program has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno in NO_ADDRESS:
            return None
        raise PortTaken from None
    found.setblocking(False)
    return found
