"""Redirect URIs: which one a sign-in uses, where its browser comes back to.

First what the configuration says, exactly; else the hub's own listener, if it will be there next time, too; else a port
that is picked once and kept. What the hub does not listen at anyway `callback_listeners` do while the sign-in runs.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from config.security_settings import UpstreamOAuth
from hub.net.look_after_connections import Handler
from hub.sign_in.ask_authorization_server import Surroundings
from hub.sign_in.callback_listeners import CallbackListeners, PortTaken, bind
from hub.sign_in.parse_redirect_uri import RedirectUri, base_url, callback_at, parse_redirect
from upstreams.oauth.client_metadata import CALLBACK
from upstreams.oauth.model import AuthorizationServer, OAuthProblem
from upstreams.oauth.store.redirects_and_consents import SignInFactsFile

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
