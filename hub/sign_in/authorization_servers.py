"""The authorization servers, as `upstreams.oauth` asks them, and everything else around the flow of a sign-in."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

import trio
from msgspec import Struct

from config.settings import HubConfig, UpstreamConfig
from config.tables import OAuthConfig
from hub.sign_in.authorization_url import Listening
from hub.sign_in.connection_owner import ConnectionOwners
from hub.sign_in.tickets import SignInRecord
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.accounts import Accounts
from upstreams.oauth.client_metadata import client_document
from upstreams.oauth.client_search import ClientSearch, ClientWish
from upstreams.oauth.discovery.discover import discover, discover_issuer
from upstreams.oauth.model import Challenge, Discovery, Grant, GrantKey, OAuthClient
from upstreams.oauth.token_answers import check_id_token, first_grant
from upstreams.oauth.token_endpoint import TokenEndpoint


class AuthorizationServers:
    """Authorization servers out there, and what they publish.

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
        self, upstream: str, config: UpstreamConfig, challenge: Challenge, preferred: Collection[str] = ()
    ) -> Discovery:
        """Ask which authorization server there is, and what it can do."""
        if not upstream:
            return await discover_issuer(self._fetch, config.oauth)
        url = config.url or ""
        return await discover(self._fetch, url, config.oauth, challenge, preferred, upstream=upstream)

    async def client(
        self, upstream: str, config: UpstreamConfig, discovery: Discovery, redirect_uri: str, wish: ClientWish
    ) -> OAuthClient:
        """Find the hub's client id there, or register."""
        store = await trio.to_thread.run_sync(self._accounts.store)
        search = self._search(upstream, config, discovery, redirect_uri)
        return await search.find(store.clients, self._wall(), wish)

    async def foresee(self, upstream: str, config: UpstreamConfig, discovery: Discovery, redirect_uri: str) -> str:
        """Find out in what way the hub would get its client id there."""
        return await self._search(upstream, config, discovery, redirect_uri).foresee()

    def _search(self, upstream: str, config: UpstreamConfig, discovery: Discovery, redirect_uri: str) -> ClientSearch:
        return ClientSearch(self._fetch, discovery, config.oauth, self._config(), redirect_uri, upstream)

    async def redeem(self, config: UpstreamConfig, record: SignInRecord, code: str) -> Grant:
        """Get the tokens for a code, the response to the request of `record`."""
        server, client, ticket = record.discovery.server, record.client, record.ticket
        endpoint = TokenEndpoint(self._fetch, server, client, config.oauth, record.discovery.allowed, wall=self._wall)
        answer = await endpoint.exchange_code(code, record.verifier, record.redirect.text, record.resource or None)
        if not ticket.upstream:
            check_id_token(answer.id_token, server.issuer, client.client_id, record.nonce, self._wall())
        url = config.url or ""
        return first_grant(
            answer,
            GrantKey(server.issuer, record.discovery.resource.resource or url, ticket.upstream, ticket.principal),
            url=url,
            server=server,
            client=client,
            asked_scope=record.scope,
            now=self._wall(),
            sends_resource=bool(record.resource),
        )

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
    servers: AuthorizationServers
    ends: ConnectionOwners
    signed_in: Callable[[str, str], None]
    """Called with the upstream when a grant for it is there: it is started, and waiting calls go on; and with the id of
    the visit that hosts were sent to."""
    spawn: Callable[[Callable[[], Awaitable[None]]], None]
    """Runs something beside, until the hub ends."""
    wall: Callable[[], float]
    """Wall time, for people."""
