"""The ways to the next token: by a refresh token, or without a person by the hub itself or its identity provider."""

from msgspec.structs import replace

from upstreams.oauth import model
from upstreams.oauth.client_id import client_of_settings
from upstreams.oauth.credential_machine import Shared
from upstreams.oauth.discovery.discover import allowance_for, discover, discover_issuer
from upstreams.oauth.discovery.metadata import below
from upstreams.oauth.token_answers import TokenRefused, first_grant, next_grant
from upstreams.oauth.token_endpoint import JWT_BEARER, TokenEndpoint, with_settings


class TokenSource:
    """The way to the tokens of one account: by the refresh token of a person's sign-in, or the hub as itself: client
    credentials (RFC 6749 4.4), or, for `id_jag`, as the person who signed in at the company's identity provider.
    Everything is found out anew when the client is refused. Raises OAuthProblem: a person has to do something;
    OAuthUnavailable: it cannot be asked now."""

    def __init__(self, account: model.OAuthAccount, shared: Shared) -> None:
        self._account = account
        self._shared = shared
        self._found: model.Discovery | None = None
        self._audience = ""
        """Whom signed statements are for, if not the issuer."""

    def endpoint_of(self, grant: model.Grant) -> TokenEndpoint:
        """The token endpoint that gave the grant, with the client's secret as it is configured now."""
        return self._endpoint(grant.server, with_settings(grant.client, self._account.settings))

    def _endpoint(self, server: model.AuthorizationServer, client: model.OAuthClient) -> TokenEndpoint:
        url, settings, wall = self._account.url, self._account.settings, self._shared.wall
        allowed = allowance_for(url, settings)
        return TokenEndpoint(self._shared.fetch, server, client, settings, allowed, wall=wall, audience=self._audience)

    async def key(self, challenge: model.Challenge) -> model.GrantKey:
        """The key of a grant that is not there yet."""
        account, settings = self._account, self._account.settings
        if account.by_person:
            raise model.OAuthProblem("a person has to sign in")
        if not (settings.issuer and settings.client_id):
            text = f'grant = "{settings.grant}" needs issuer and client_id; set them {below(account.upstream)}.'
            raise model.OAuthProblem(text)
        if self._found is None:
            self._found = await discover(self._shared.fetch, account.url, settings, challenge, (settings.issuer,))
        found = self._found
        return model.GrantKey(found.server.issuer, found.resource.resource, account.upstream, account.principal)

    async def next(self, grant: model.Grant | None, scope: str) -> model.Grant:
        """Ask for the next generation of `grant`. `scope`: what to ask for, "": as before."""
        if self._account.by_person:
            assert grant is not None
            answer = await self.endpoint_of(grant).refresh(grant)
            return next_grant(grant, answer, self._shared.wall())
        key = await self.key(model.Challenge()) if grant is None or self._found is None else grant.key
        assert self._found is not None
        account, settings, server = self._account, self._account.settings, self._found.server
        wanted = scope or (grant.asked_scope if grant else self._found.scope)
        client = client_of_settings(server, settings, "", account.upstream)
        sends = bool(key.resource) and settings.resource_parameter == "send"
        answer = await self._answer(self._endpoint(server, client), wanted, key.resource if sends else None)
        now = self._shared.wall()
        first = first_grant(answer, key, account.url, server, client, wanted, now, sends_resource=sends)
        if grant is None:
            return first
        return replace(first, generation=grant.generation + 1, signed_in_at=grant.signed_in_at)

    async def _answer(self, endpoint: TokenEndpoint, scope: str, resource: str | None) -> model.TokenAnswer:
        try:
            return await self._ask(endpoint, scope, resource)
        except TokenRefused as refused:
            is_signed = endpoint.client.token_auth == "private_key_jwt"
            if refused.code == "invalid_client" and is_signed and not self._audience:
                self._audience = endpoint.server.token_endpoint  # some servers want themselves named so
                return await self._ask(replace(endpoint, audience=self._audience), scope, resource)
            if refused.code == "invalid_client":
                self._found = None
            raise

    async def _ask(self, endpoint: TokenEndpoint, scope: str, resource: str | None) -> model.TokenAnswer:
        if self._account.settings.grant == "client_credentials":  # RFC 6749 4.4
            return await endpoint.tokens("client_credentials", scope=scope, resource=resource)
        assertion = await self._assertion(endpoint.server.issuer, scope, resource)
        return await endpoint.tokens(JWT_BEARER, assertion=assertion, scope=scope, resource=resource)  # RFC 7523 2.1

    async def _assertion(self, audience: str, scope: str, resource: str | None) -> str:
        """The identity provider's statement to the server with the issuer `audience` about the person who signed in
        (RFC 8693), good for minutes. A configured ID token stands in place of that sign-in. Raises OAuthProblem: nobody
        has signed in at the identity provider, or it refuses; OAuthUnavailable: it cannot say now."""
        shared, idp = self._shared, self._shared.idp()
        settings = model.settings_of(idp)
        if idp.id_token is not None:
            server = (await discover_issuer(shared.fetch, replace(settings, grant="id_jag"))).server
            client, id_token = client_of_settings(server, settings, "", ""), idp.id_token
        else:
            grant = await shared.idp_grant(self._account.principal)
            assert grant.id_token is not None
            server, client, id_token = grant.server, with_settings(grant.client, settings), grant.id_token
        at_idp = TokenSource(model.OAuthAccount("", settings.issuer, self._account.principal, settings), shared)
        endpoint = at_idp._endpoint(server, client)
        return await endpoint.exchange_for_id_jag(id_token.reveal(), audience, scope, resource)
