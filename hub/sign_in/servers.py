"""The authorization servers, as `upstreams.oauth` asks them, and everything else around the flow of a sign-in."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import trio
from msgspec import Struct

from config.setting import Secret
from config.settings import HubConfig, UpstreamConfig
from config.tables.oauth import OAuthConfig
from hub.sign_in.authorization_url import Listening
from hub.sign_in.browser_end import BrowserEnds
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.accounts import Accounts
from upstreams.oauth.discovery.discover import allowance_for, discover, discover_issuer
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, Grant, GrantKey, OAuthClient
from upstreams.oauth.registration.client_metadata import client_document
from upstreams.oauth.registration.clients import client_for
from upstreams.oauth.registration.trial import SignInProspect, try_sign_in
from upstreams.oauth.tokens.answer import check_id_token
from upstreams.oauth.tokens.endpoint import TokenEndpoint
from upstreams.oauth.tokens.grants import first_grant


class Code(Struct, frozen=True, kw_only=True):
    """An authorization code, and everything that was said when it was asked for."""

    key: GrantKey
    discovery: Discovery
    client: OAuthClient
    code: Secret
    verifier: Secret
    redirect_uri: str
    nonce: str
    """That of the request, which an ID token has to have."""
    resource: str
    """As it was sent; "": it was not."""
    scope: str


class Servers:
    """The servers out there, and what they publish.

    Every method raises OAuthProblem if a person has to do something, OAuthUnavailable if one cannot be asked now.
    """

    def __init__(
        self, fetch: Fetcher, config: Callable[[], OAuthConfig], accounts: Accounts, wall: Callable[[], float]
    ) -> None:
        self._fetch = fetch
        self._config = config
        self._accounts = accounts
        self._wall = wall

    async def discover(
        self, upstream: str, config: UpstreamConfig, challenge: Challenge, preferred: Collection[str]
    ) -> Discovery:
        """Ask which authorization server there is, and what it can do."""
        url = config.url or ""
        if not upstream:
            return await discover_issuer(self._fetch, config.oauth)
        return await discover(self._fetch, url, config.oauth, challenge, preferred_issuers=preferred, upstream=upstream)

    async def client(
        self,
        upstream: str,
        config: UpstreamConfig,
        discovery: Discovery,
        redirect_uri: str,
        *,
        anew: bool = False,
        other_method: bool = False,
        with_scope: bool = False,
    ) -> OAuthClient:
        """Find the hub's client id there, or register."""
        store = await trio.to_thread.run_sync(self._accounts.store)
        return await client_for(
            self._fetch,
            discovery,
            config.oauth,
            self._config(),
            redirect_uri,
            upstream,
            store.clients,
            anew=anew,
            other_method=other_method,
            with_scope=with_scope,
            now=self._wall(),
            allowed=allowance_for(config.url or "", config.oauth),
        )

    async def redeem(self, config: UpstreamConfig, code: Code) -> Grant:
        """Get the tokens for a code."""
        url, settings, server = config.url or "", config.oauth, code.discovery.server
        allowed = allowance_for(url, settings)
        endpoint = TokenEndpoint(self._fetch, server, code.client, settings, allowed, wall=self._wall)
        answer = await endpoint.exchange_code(
            code.code.reveal(), code.verifier.reveal(), code.redirect_uri, code.resource or None
        )
        if not code.key.upstream:
            check_id_token(answer.id_token, server.issuer, code.client.client_id, code.nonce, self._wall())
        return first_grant(
            answer,
            code.key,
            url=url,
            server=server,
            client=code.client,
            asked_scope=code.scope,
            now=self._wall(),
            sends_resource=bool(code.resource),
        )

    async def trial(
        self,
        upstream: str,
        config: UpstreamConfig,
        challenge: Challenge,
        redirect_of: Callable[[AuthorizationServer], Awaitable[str]],
    ) -> SignInProspect:
        """Try a sign-in up to the registration."""
        url, settings = config.url or "", config.oauth
        return await try_sign_in(self._fetch, url, settings, self._config(), redirect_of, upstream, challenge)

    def document(self, base_url: str) -> dict[str, Any]:
        """The client metadata document of a hub at this origin."""
        return client_document(base_url, self._config())


class Surroundings(Struct, frozen=True, kw_only=True):
    """Everything around the flow."""

    config: Callable[[], HubConfig]
    upstream: Callable[[str], UpstreamConfig | None]
    """The settings of an upstream, references filled in; None: there is no such upstream."""
    listening: Callable[[], Listening | None]
    """The hub's HTTP listener; None: it has none."""
    accounts: Accounts
    """Credentials of principals, and what is kept of sign-ins."""
    servers: Servers
    ends: BrowserEnds
    signed_in: Callable[[str, str], None]
    """Called with the upstream when a grant for it is there: it is started, and waiting calls go on; and with the id of
    the visit that hosts were sent to."""
    spawn: Callable[[Callable[[], Awaitable[None]]], None]
    """Runs something beside, until the hub ends."""
    wall: Callable[[], float]
    """Wall time, for people."""
