"""The ways to the next token: by a refresh token, or without a person by the hub itself or its identity provider."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from config.oauth_settings import IdentityProvider, UpstreamOAuth
from upstreams.oauth.model import (
    AuthorizationServer,
    Challenge,
    Grant,
    GrantKey,
    OAuthClient,
    OAuthProblem,
    TokenAnswer,
)
from upstreams.oauth.parts import Shared
from upstreams.oauth.tokens.answer import TokenRefused
from upstreams.oauth.tokens.client_proof import with_settings
from upstreams.oauth.tokens.endpoint import TokenEndpoint
from upstreams.oauth.tokens.grants import first_grant, next_grant


class Obtaining(Protocol):
    """One way to get tokens. Raises OAuthProblem, OAuthUnavailable."""

    by_person: bool
    """It begins with a person who signs in."""
    issuer: str
    """The configured authorization server, "" if there is none."""

    def can(self, grant: Grant | None) -> bool:
        """True if another token can be got without a person."""
        ...

    async def key(self, challenge: Challenge) -> GrantKey:
        """The key of a grant that is not there yet."""
        ...

    async def next(self, grant: Grant | None, scope: str) -> Grant:
        """Ask for the next generation of `grant`. `scope`: what to ask for, "": as before."""
        ...


class ByRefreshToken:
    """The refresh token of a person's sign-in."""

    by_person = True

    def __init__(self, url: str, settings: UpstreamOAuth, shared: Shared) -> None:
        self.issuer = settings.issuer
        self._url = url
        self._settings = settings
        self._shared = shared

    def can(self, grant: Grant | None) -> bool:
        return grant is not None and grant.refresh_token is not None and not grant.sign_in_needed

    async def key(self, challenge: Challenge) -> GrantKey:
        raise OAuthProblem("a person has to sign in")

    async def next(self, grant: Grant | None, scope: str) -> Grant:
        assert grant is not None
        answer = await self.endpoint(grant).refresh(grant)
        return next_grant(grant, answer, self._shared.wall())

    def endpoint(self, grant: Grant) -> TokenEndpoint:
        """The token endpoint that gave the grant, with the client's secret as it is configured now."""
        shared = self._shared
        client = with_settings(grant.client, self._settings)
        allowed = shared.finding.allowed(self._url, self._settings)
        return TokenEndpoint(shared.fetch, grant.server, client, self._settings, allowed, wall=shared.wall)


class ByItself:
    """The hub as itself: client credentials (RFC 6749 4.4), or, with `through_idp`, as the person who signed in at the
    company's identity provider. Everything is found out anew when the client is refused."""

    by_person = False

    def __init__(
        self,
        upstream: str,
        url: str,
        principal: str,
        settings: UpstreamOAuth,
        shared: Shared,
        *,
        through_idp: "IdentityProviderGrant | None" = None,
    ) -> None:
        self.issuer = settings.issuer
        self._upstream = upstream
        self._url = url
        self._principal = principal
        self._settings = settings
        self._shared = shared
        self._idp = through_idp
        self._found: tuple[AuthorizationServer, str, str] | None = None
        """The server, the resource and the scopes that were found out."""
        self._audience = ""
        """Whom signed statements are for, if not the issuer."""

    def can(self, grant: Grant | None) -> bool:
        return True

    async def key(self, challenge: Challenge) -> GrantKey:
        settings = self._settings
        if not (settings.issuer and settings.client_id):
            where = f"[upstreams.{self._upstream}.oauth]"
            raise OAuthProblem(f'grant = "{settings.grant}" needs issuer and client_id; set them below {where}.')
        if self._found is None:
            found = await self._shared.finding.discover(self._url, settings, challenge, (settings.issuer,))
            self._found = found.server, found.resource.resource, found.scope
        server, resource, _ = self._found
        return GrantKey(server.issuer, resource, self._upstream, self._principal)

    async def next(self, grant: Grant | None, scope: str) -> Grant:
        key = await self.key(Challenge()) if grant is None or self._found is None else grant.key
        assert self._found is not None
        server, _, found_scope = self._found
        wanted = scope or (grant.asked_scope if grant else found_scope)
        client = self._shared.finding.client(server, self._settings, self._upstream)
        sends = bool(key.resource) and self._settings.resource_parameter == "send"
        answer = await self._answer(server, client, wanted, key.resource if sends else None)
        first = first_grant(
            answer,
            key,
            url=self._url,
            server=server,
            client=client,
            asked_scope=wanted,
            now=self._shared.wall(),
            sends_resource=sends,
        )
        if grant is None:
            return first
        return replace(first, generation=grant.generation + 1, signed_in_at=grant.signed_in_at)

    async def _answer(
        self, server: AuthorizationServer, client: OAuthClient, scope: str, resource: str | None
    ) -> TokenAnswer:
        try:
            return await self._asked(server, client, scope, resource)
        except TokenRefused as refused:
            if refused.code != "invalid_client":
                raise
            if client.token_auth != "private_key_jwt" or self._audience:
                self._found = None
                raise
            self._audience = server.token_endpoint  # some servers want themselves named so
            return await self._asked(server, client, scope, resource)

    async def _asked(
        self, server: AuthorizationServer, client: OAuthClient, scope: str, resource: str | None
    ) -> TokenAnswer:
        shared = self._shared
        allowed = shared.finding.allowed(self._url, self._settings)
        endpoint = TokenEndpoint(
            shared.fetch, server, client, self._settings, allowed, wall=shared.wall, audience=self._audience
        )
        if self._idp is None:
            return await endpoint.client_credentials(scope, resource)
        assertion = await self._idp.assertion(server.issuer, scope, resource)
        return await endpoint.jwt_bearer(assertion, scope, resource)


class IdentityProviderGrant:
    """The sign-in at the company's identity provider, which vouches for the person at other servers (RFC 8693).

    `current` returns the grant of that sign-in, with an ID token that lasts. A configured ID token stands in its place.
    """

    def __init__(self, shared: Shared, current: Callable[[], Awaitable[Grant]]) -> None:
        self._shared = shared
        self._current = current

    async def assertion(self, audience: str, scope: str, resource: str | None) -> str:
        """A statement to the server with the issuer `audience`, good for minutes.

        Raises:
            OAuthProblem: nobody has signed in at the identity provider, or it refuses.
            OAuthUnavailable: it cannot say now.
        """
        shared, idp = self._shared, self._shared.idp()
        settings = settings_of(idp)
        if idp.id_token is not None:
            server = await shared.finding.server(replace(settings, grant="id_jag"))
            client, id_token = shared.finding.client(server, settings, ""), idp.id_token
        else:
            grant = await self._current()
            assert grant.id_token is not None
            server, client, id_token = grant.server, with_settings(grant.client, settings), grant.id_token
        allowed = shared.finding.allowed(settings.issuer, settings)
        endpoint = TokenEndpoint(shared.fetch, server, client, settings, allowed, wall=shared.wall)
        return await endpoint.exchange_for_id_jag(id_token.reveal(), audience, scope, resource)


def settings_of(idp: IdentityProvider) -> UpstreamOAuth:
    """The settings of signing in at the identity provider."""
    return UpstreamOAuth(issuer=idp.issuer, client_id=idp.client_id, client_secret=idp.client_secret)
