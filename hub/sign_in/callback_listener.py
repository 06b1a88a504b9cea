"""Listening for browsers where the hub does not listen anyway: while a sign-in runs, and at loopback only.

Needed where the hub has no HTTP listener or one whose port will be another next time, for a redirect URI that was
registered elsewhere, and for the second family of `localhost`.
"""

import errno
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import trio

from hub.net.http_message import EarlyReply, HttpRequest
from hub.net.http_server import Handler, HttpLimits, HttpServer
from hub.sign_in.redirect_uri import RedirectUri

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
    """All of them, by the redirect URI that they are for."""

    def __init__(self, handler: Handler, spawn: Callable[..., None]) -> None:
        self._handler = handler
        self._spawn = spawn
        self._open: dict[tuple[str, int], _Listener] = {}

    def __repr__(self) -> str:
        return f"<CallbackListeners {sorted(self._open)}>"

    def listen(self, redirect: RedirectUri, missing: Iterable[tuple[str, int]], for_s: float) -> None:
        """Listen at the `missing` addresses of a redirect URI, or go on doing so, for so long.

        Raises:
            PortTaken: one of them cannot be had; then there is none.
        """
        until = trio.current_time() + for_s
        new: list[_Listener] = []
        try:
            for address in missing:
                known = self._open.get(address)
                if known is not None and known.scope.cancel_called:
                    known.socket.close()
                    known = None
                if known is None:
                    found = bind(*address)
                    if found is None:
                        continue
                    known = _Listener(address, found)
                    new.append(known)
                known.serves(redirect, until)
            for listener in new:
                self._spawn(partial(self._serve, listener))
        except (PortTaken, RuntimeError):  # RuntimeError: the hub ends
            for listener in new:
                listener.socket.close()
            raise
        self._open |= {listener.address: listener for listener in new}

    def is_open(self, address: str, port: int) -> bool:
        """True if one of them is open there."""
        return (address, port) in self._open

    def hold(self, port: int) -> int:
        """Find a port of 127.0.0.1 that is free, `port` if that is."""
        for wanted in (port, 0):
            try:
                with _bound("127.0.0.1", wanted) as found:
                    return int(found.getsockname()[1])
            except OSError:
                continue
        raise PortTaken

    def release(self, redirect: RedirectUri) -> None:
        """A sign-in with this redirect URI is over."""
        for address in redirect.addresses:
            if (listener := self._open.get(address)) is not None:
                listener.release(redirect)

    async def _serve(self, listener: "_Listener") -> None:
        http = HttpServer(self._handler, listener.guard, LIMITS)
        try:
            with listener.scope:
                await http.serve([trio.SocketListener(trio.socket.from_stdlib_socket(listener.socket))])
        finally:
            listener.socket.close()
            if self._open.get(listener.address) is listener:
                del self._open[listener.address]


class _Listener:
    """One address."""

    def __init__(self, address: tuple[str, int], found: socket.socket) -> None:
        self.address = address
        self.socket = found
        self.scope = trio.CancelScope()
        self._redirects: dict[str, RedirectUri] = {}

    def serves(self, redirect: RedirectUri, until: float) -> None:
        """Take browsers for this redirect URI, too, until then at least."""
        self._redirects[redirect.text] = redirect
        if self.scope.deadline == float("inf"):
            self.scope.deadline = until
        self.scope.deadline = max(self.scope.deadline, until)

    def release(self, redirect: RedirectUri) -> None:
        """Close soon, unless it is for other redirect URIs as well."""
        self._redirects.pop(redirect.text, None)
        if not self._redirects:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + LINGER_S)
            self._redirects[redirect.text] = redirect

    def guard(self, request: HttpRequest) -> EarlyReply | None:
        """Host first; then nothing but what a browser asks for in a sign-in."""
        hosts = {urlsplit(text).netloc.lower() for text in self._redirects}
        if request.headers.get("host", "").lower() not in hosts or "origin" in request.headers:
            return FORBIDDEN
        path, headers = request.path, request.headers
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            return NOT_FOUND
        if request.method == "GET" and any(path == redirect.path for redirect in self._redirects.values()):
            return None
        if request.method in ("GET", "HEAD") and path.startswith(("/oauth/begin/", "/oauth/done/")):
            return None
        return NOT_FOUND


def bind(host: str, port: int) -> socket.socket | None:
    """A listening socket; None: this machine has no such address.

    Raises:
        PortTaken: another program has it.
    """
    try:
        found = _bound(host, port)
    except OSError as error:
        if error.errno in NO_ADDRESS:
            return None
        raise PortTaken from None
    try:
        found.listen(BACKLOG)
        found.setblocking(False)
    except OSError:
        found.close()
        raise PortTaken from None
    return found


def _bound(host: str, port: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    return found
