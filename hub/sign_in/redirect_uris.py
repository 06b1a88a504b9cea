"""Return addresses: which redirect URI a sign-in uses, and that somebody listens there.

First what the configuration says, exactly; else the hub's own listener, if it will be there next time, too; else a port
that is picked once and kept. What the hub does not listen at anyway is listened at while the sign-in runs.

That is at loopback only, and needed where the hub has no HTTP listener or one whose port will be another next time, for
a redirect URI that was registered elsewhere, and for the second family of `localhost`.
"""

import errno
import re
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final, TypeVar
from urllib.parse import urlsplit

import trio

from config.security_settings import UpstreamOAuth
from hub.net.http_server import Handler, HttpLimits, HttpServer
from hub.net.request_and_response import EarlyReply, HttpRequest
from hub.sign_in.authorization_servers import Surroundings
from hub.sign_in.pending_sign_ins import RECORD_S
from hub.sign_in.sign_in_urls import RedirectUri, base_url, callback_at, parse_redirect
from upstreams.oauth.client_metadata import CALLBACK
from upstreams.oauth.model import AuthorizationServer, OAuthProblem
from upstreams.oauth.store.sign_in_facts import SignInFactsFile

PROXIED: Final = "proxy/"
"""Principals that a trusted proxy has named begin so."""
NO_PORT: Final = "No port of 127.0.0.1 is free for a browser to come back to"
_PORT = re.compile(r":[0-9]+\Z")
R = TypeVar("R")


class ReturnAddresses:
    """Chooses redirect URIs and listens at them."""

    def __init__(self, around: Surroundings, handler: Handler) -> None:
        self._around = around
        self.listeners = CallbackListeners(handler, around.spawn)

    def proxy_origin(self) -> str | None:
        """The origin at which browsers reach the hub through its proxy; None: it has none. Names
        without a port are those with the listener's, as everywhere."""
        config = self._around.config()
        if not config.behind_tls_proxy or not config.allowed_hosts:
            return None
        name, listening = config.allowed_hosts[0].lower(), self._around.listening()
        if not _PORT.search(name) and listening is not None:
            name = f"{name}:{listening.port}"
        return f"https://{name.removesuffix(':443')}"

    def begin_base(self, principal: str, redirect: RedirectUri | None = None) -> str | None:
        """The origin of begin pages; None: no browser can open one. `redirect`: one that is listened at now.

        Behind a proxy nobody is known but by what the proxy says: a page is for those whom it names."""
        if (proxied := self.proxy_origin()) is not None:
            is_named = self._around.config().auth == "proxy" and principal.startswith(PROXIED)
            return proxied if is_named else None
        if (listening := self._around.listening()) is not None and listening.base is not None:
            return listening.base
        return None if redirect is None or not redirect.is_loopback else redirect.text.removesuffix(redirect.path)

    async def choose(self, settings: UpstreamOAuth, server: AuthorizationServer) -> RedirectUri:
        """The redirect URI for a sign-in at `server`, where the hub listens from now on. Raises OAuthProblem: there is
        none, or another program has its port."""
        if configured := self._redirect_uri(settings):
            if not server.sends_issuer:
                await self._claim(configured, server.issuer)
            return self.listen_at(configured)
        number = await self._number(server)
        if (base := self._lasting_base()) is not None:
            return parse_redirect(callback_at(base, number))
        return await self._listen_at_kept(number)

    async def expect(self, settings: UpstreamOAuth, server: AuthorizationServer) -> str:
        """The redirect URI that a sign-in at `server` would use. Nothing listens there for that. Raises OAuthProblem:
        there is none."""
        if configured := self._redirect_uri(settings):
            return configured
        if (base := self._lasting_base()) is None:
            port = await self._ask(lambda notes: notes.port())
            base = base_url("127.0.0.1", port or await self._pick_port())
        return callback_at(base, await self._number(server))

    def _redirect_uri(self, settings: UpstreamOAuth) -> str:
        return settings.redirect_uri or self._around.config().oauth.redirect_uri

    async def _ask(self, question: Callable[[SignInFactsFile], R]) -> R:
        return await self._around.accounts.ask(lambda store: question(store.facts))

    async def _number(self, server: AuthorizationServer) -> int:
        return 0 if server.sends_issuer else await self._ask(lambda notes: notes.redirect_number(server.issuer))

    async def _pick_port(self) -> int:
        """A port of 127.0.0.1 that is free, which is kept from now on."""
        with suppress(PortTaken):
            if (found := bind("127.0.0.1", 0)) is not None:
                with found:
                    port = int(found.getsockname()[1])
                await self._ask(lambda notes: notes.keep_port(port))
                return port
        raise OAuthProblem(NO_PORT)

    def _lasting_base(self) -> str | None:
        """The origin at which browsers reach the hub, next time, too; None: there is none."""
        if (proxied := self.proxy_origin()) is not None:
            return proxied
        listening = self._around.listening()
        return listening.base if listening is not None and listening.is_lasting else None

    async def _claim(self, uri: str, issuer: str) -> None:
        """Let one issuer alone use a redirect URI: none of them says who sends an answer."""
        if (before := await self._ask(lambda notes: notes.only_for(uri, issuer))) != issuer:
            raise OAuthProblem(
                f"{uri} is the redirect_uri for {before}, and neither that nor {issuer} says who sends an answer, so it"
                f" cannot be used for both; register another one. If the hub is registered at {before} no more, stop"
                f" the hub and take {uri} out of only_for in oauth/facts.json of its state directory."
            )

    async def _listen_at_kept(self, number: int) -> RedirectUri:
        """At the port that is kept for this, or at another one if that is taken."""

        def listen(port: int) -> RedirectUri:
            redirect = parse_redirect(callback_at(base_url("127.0.0.1", port), number))
            self.listeners.listen(redirect, redirect.addresses)
            return redirect

        if known := await self._ask(lambda notes: notes.port()):
            with suppress(PortTaken):
                return listen(known)
        try:
            return listen(await self._pick_port())
        except PortTaken:
            raise OAuthProblem(NO_PORT) from None

    def listen_at(self, uri: str) -> RedirectUri:
        """Listen at this redirect URI, exactly. Raises OAuthProblem: another program has its port, or it is none that
        can be listened at."""
        redirect = parse_redirect(uri)
        if not redirect.is_loopback:
            return redirect
        listening = self._around.listening()
        covered = frozenset() if listening is None else listening.covers
        if covered & set(redirect.addresses) and not _is_served(redirect.path):
            raise OAuthProblem(f"redirect_uri: at the hub's own port the path is {CALLBACK}, and not {redirect.path}")
        try:
            self.listeners.listen(redirect, [each for each in redirect.addresses if each not in covered])
        except PortTaken:
            text = f"Port {redirect.port} of redirect_uri is taken by another program; stop it, or register another URI"
            raise OAuthProblem(f"{text}.") from None
        return redirect


def _is_served(path: str) -> bool:
    number = path.removeprefix(f"{CALLBACK}/")
    return path == CALLBACK or (number.isdecimal() and number.isascii() and len(number) < 7 and number[0] != "0")


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
