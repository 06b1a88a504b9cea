"""The authorization servers, as `upstreams.oauth` asks them."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import trio

from config.settings import UpstreamConfig
from config.tables.oauth import OAuthConfig
from hub.sign_in.surroundings import Code
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.discovery.discover import allowance_for, discover, discover_issuer
from upstreams.oauth.model import AuthorizationServer, Challenge, Discovery, Grant, OAuthClient
from upstreams.oauth.registration.client_metadata import client_document
from upstreams.oauth.registration.clients import client_for
from upstreams.oauth.registration.trial import SignInProspect, try_sign_in
from upstreams.oauth.store.grant_store import GrantStore
from upstreams.oauth.tokens.answer import check_id_token
from upstreams.oauth.tokens.endpoint import TokenEndpoint
from upstreams.oauth.tokens.grants import first_grant


class RealServers:
    """The servers out there. `store` may block when it is called first."""

    def __init__(
        self,
        fetch: Fetcher,
        config: Callable[[], OAuthConfig],
        store: Callable[[], GrantStore],
        wall: Callable[[], float],
    ) -> None:
        self._fetch = fetch
        self._config = config
        self._store = store
        self._wall = wall

    def __repr__(self) -> str:
        return f"<RealServers by {self._fetch!r}>"

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
        store = await trio.to_thread.run_sync(self._store)
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
