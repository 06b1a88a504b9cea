"""Authorization servers, as the flow of a sign-in asks them by `upstreams.oauth`; and everything else around that flow
(`Surroundings`)."""

from collections.abc import Awaitable, Callable, Collection

import trio
from msgspec import Struct

from config.security_settings import OAuthConfig
from config.settings import HubConfig, UpstreamConfig
from hub.sign_in.connection_owner import ConnectionOwners
from hub.sign_in.parse_redirect_uri import Listening
from hub.sign_in.pending_sign_ins import SignInRecord
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.check_id_token import check_id_token
from upstreams.oauth.client_id import ClientSearch, ClientWish
from upstreams.oauth.credentials_by_upstream import Accounts
from upstreams.oauth.discovery.discover import discover, discover_issuer
from upstreams.oauth.model import Challenge, Discovery, Grant, GrantKey, OAuthAccount, OAuthClient
from upstreams.oauth.token_answers import first_grant
from upstreams.oauth.token_endpoint import TokenEndpoint


class AuthorizationServers(Struct, frozen=True):
    """Authorization servers out there, and what they publish.

    Every method raises OAuthProblem if a person has to do something, OAuthUnavailable if one cannot be asked now."""

    fetch: Fetcher
    config: Callable[[], OAuthConfig]
    accounts: Accounts
    wall: Callable[[], float]

    async def discover(self, account: OAuthAccount, challenge: Challenge, preferred: Collection[str] = ()) -> Discovery:
        """Ask which authorization server there is, and what it can do."""
        settings, upstream = account.settings, account.upstream
        if not upstream:
            return await discover_issuer(self.fetch, settings)
        return await discover(self.fetch, account.url, settings, challenge, preferred, upstream=upstream)

    def search(self, account: OAuthAccount, discovery: Discovery, redirect_uri: str) -> ClientSearch:
        """The search for the hub's client id there."""
        return ClientSearch(self.fetch, discovery, account.settings, self.config(), redirect_uri, account.upstream)

    async def client(self, account: OAuthAccount, discovery: Discovery, uri: str, wish: ClientWish) -> OAuthClient:
        """Find the hub's client id there, or register; `uri`: the redirect URI."""
        store = await trio.to_thread.run_sync(self.accounts.store)
        return await self.search(account, discovery, uri).find(store.clients, self.wall(), wish)

    async def redeem(self, record: SignInRecord, code: str) -> Grant:
        """Get the tokens for a code, the response to the request of `record`."""
        server, client, account = record.discovery.server, record.client, record.account
        allowed, sent = record.discovery.allowed, record.resource or None
        endpoint = TokenEndpoint(self.fetch, server, client, account.settings, allowed, wall=self.wall)
        answer = await endpoint.exchange_code(code, record.verifier, record.redirect.text, sent)
        if not account.upstream:
            check_id_token(answer.id_token, server.issuer, client.client_id, record.nonce, self.wall())
        resource = record.discovery.resource.resource or account.url
        key, now = GrantKey(server.issuer, resource, account.upstream, account.principal), self.wall()
        return first_grant(answer, key, account.url, server, client, record.scope, now, sends_resource=sent is not None)


class Surroundings(Struct, frozen=True, kw_only=True):
    """Everything around the flow."""

    config: Callable[[], HubConfig]
    upstream: Callable[[str], UpstreamConfig | None]
    """The settings of an upstream, references filled in; None: there is no such upstream."""
    name_of: Callable[[str], str] = str
    """The name under which sign-ins at an upstream are kept."""
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
