"""One token endpoint, as one client of it asks: for a code, for a renewal, for the hub itself, or to end a grant.

Each method is one request (RFC 6749 3.2, RFC 7009, RFC 8693, RFC 7523); nothing is asked twice here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from config.tables.oauth import UpstreamOAuth
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.model import Allowed, Fetched, FetchFailed
from upstreams.oauth.client_proof import proof_of
from upstreams.oauth.model import AuthorizationServer, Grant, OAuthClient, OAuthProblem, OAuthUnavailable, TokenAnswer
from upstreams.oauth.tokens import ID_JAG, read_id_jag, read_token_answer

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"

Fields = Sequence[tuple[str, str]]


class TokenEndpoint:
    """The token endpoint of `server` for `client`. `wall` is the time of day: statements of the hub are dated.

    `audience`: whom the hub's signed statements are for, by default the issuer.

    Raises:
        TokenRefused: the server says no.
        OAuthProblem: the client's secret or key is missing or cannot be used, or the server must not be asked.
        OAuthUnavailable: there is no answer that can be used now; `sent` says whether the server may have acted.
    """

    def __init__(
        self,
        fetch: Fetcher,
        server: AuthorizationServer,
        client: OAuthClient,
        settings: UpstreamOAuth,
        allowed: Allowed,
        *,
        wall: Callable[[], float],
        audience: str = "",
    ) -> None:
        self._fetch = fetch
        self._server = server
        self._client = client
        self._settings = settings
        self._allowed = allowed
        self._wall = wall
        self._audience = audience or server.issuer

    def __repr__(self) -> str:
        return f"<TokenEndpoint of {self._server.issuer} for {self._client.client_id}>"

    async def exchange_code(self, code: str, verifier: str, redirect_uri: str, resource: str | None) -> TokenAnswer:
        """The tokens for an authorization code (RFC 6749 4.1.3, RFC 7636). `resource`: if it is to be sent."""
        fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        ]
        return await self._tokens(fields + _resource(resource))

    async def refresh(self, grant: Grant) -> TokenAnswer:
        """New tokens for a grant that has a refresh token; of the same scopes (RFC 6749 6)."""
        assert grant.refresh_token is not None
        fields = [("grant_type", "refresh_token"), ("refresh_token", grant.refresh_token.reveal())]
        return await self._tokens(fields + _resource(grant.key.resource if grant.sends_resource else None))

    async def client_credentials(self, scope: str, resource: str | None) -> TokenAnswer:
        """A token for the hub itself (RFC 6749 4.4)."""
        fields = [("grant_type", "client_credentials")]
        return await self._tokens(fields + _scope(scope) + _resource(resource))

    async def exchange_for_id_jag(self, id_token: str, audience: str, scope: str, resource: str | None) -> str:
        """A statement of an identity provider, to the server with the issuer `audience`, about who signed in here
        (RFC 8693 2). Good for minutes, and never to be kept."""
        fields = [
            ("grant_type", TOKEN_EXCHANGE),
            ("requested_token_type", ID_JAG),
            ("audience", audience),
            ("subject_token", id_token),
            ("subject_token_type", ID_TOKEN),
        ]
        answered = await self._post(self._server.token_endpoint, fields + _resource(resource) + _scope(scope))
        return read_id_jag(answered, now=self._wall(), where=self._server.issuer)

    async def jwt_bearer(self, assertion: str, scope: str, resource: str | None) -> TokenAnswer:
        """Tokens for a statement of an identity provider (RFC 7523 2.1)."""
        fields = [("grant_type", JWT_BEARER), ("assertion", assertion)]
        return await self._tokens(fields + _scope(scope) + _resource(resource))

    async def revoke(self, grant: Grant) -> bool:
        """End a grant at the server: its refresh token, else its access token (RFC 7009). True: the server did; False:
        it has no place for that, or did not."""
        if not self._server.revocation_endpoint:
            return False
        kind, token = ("refresh_token", grant.refresh_token) if grant.refresh_token else ("access_token", None)
        fields = [("token", (token or grant.access_token).reveal()), ("token_type_hint", kind)]
        answered = await self._post(self._server.revocation_endpoint, fields)
        return answered.status in (200, 204)

    async def _tokens(self, fields: Fields) -> TokenAnswer:
        answered = await self._post(self._server.token_endpoint, fields)
        return read_token_answer(answered, now=self._wall(), where=self._server.issuer)

    async def _post(self, url: str, fields: Fields) -> Fetched:
        prove = partial(proof_of, self._client, self._settings, audience=self._audience, now=self._wall())
        is_signed = self._client.token_auth == "private_key_jwt"  # by a key, which is read, and checked, for long
        proof = await trio.to_thread.run_sync(prove) if is_signed else prove()
        headers = {"accept": "application/json", **dict(proof.headers)}
        try:
            return await self._fetch.post_form(url, (*fields, *proof.fields), self._allowed, headers=headers)
        except FetchFailed as failed:
            text = f"{self._server.issuer} cannot be asked: {failed.text}"
            if failed.refused:
                raise OAuthProblem(text) from None
            raise OAuthUnavailable(text, sent=failed.sent) from None


def _resource(resource: str | None) -> list[tuple[str, str]]:
    return [("resource", resource)] if resource else []


def _scope(scope: str) -> list[tuple[str, str]]:
    return [("scope", scope)] if scope else []
