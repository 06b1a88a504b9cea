"""One token endpoint, as one client of it asks: for a code, for a renewal, for the hub itself, or to end a grant.

Each method is one request (RFC 6749 3.2, RFC 7009, RFC 8693, RFC 7523); nothing is asked twice here. The client proves
itself (RFC 6749 2.3) by a secret, or a signed statement in its place (RFC 7523): `private_key_jwt`, for which
`cryptography` is loaded at the first one.
"""

import json
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

import trio
from msgspec import Struct
from msgspec.structs import replace

from config.security_settings import UpstreamOAuth
from config.setting_declarations import Secret
from upstreams.fetch.fetcher import Fetcher
from upstreams.fetch.terms_and_answers import Allowed, Fetched, FetchFailed
from upstreams.oauth import model
from upstreams.oauth.token_answers import ID_JAG, read_id_jag, read_token_answer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"


class TokenEndpoint(Struct, frozen=True):
    """The token endpoint of `server` for `client`. Raises TokenRefused: the server says no; OAuthProblem: the client's
    secret or key is missing or cannot be used, or the server must not be asked; OAuthUnavailable: there is no answer
    that can be used now; `sent` says whether the server may have acted."""

    fetch: Fetcher
    server: model.AuthorizationServer
    client: model.OAuthClient
    settings: UpstreamOAuth
    allowed: Allowed
    wall: Callable[[], float]
    """The time of day: statements of the hub are dated."""
    audience: str = ""
    """For whom the hub's signed statements are; "": the issuer."""

    def __repr__(self) -> str:
        return f"<TokenEndpoint of {self.server.issuer} for {self.client.client_id}>"

    async def exchange_code(self, code: str, verifier: str, redirect: str, resource: str | None) -> model.TokenAnswer:
        """The tokens for an authorization code (RFC 6749 4.1.3, RFC 7636). `resource`: if it is to be sent."""
        proof = {"code": code, "redirect_uri": redirect, "code_verifier": verifier}
        return await self.tokens("authorization_code", **proof, resource=resource)

    async def refresh(self, grant: model.Grant) -> model.TokenAnswer:
        """New tokens for a grant that has a refresh token; of the same scopes (RFC 6749 6)."""
        assert grant.refresh_token is not None
        resource = grant.key.resource if grant.sends_resource else None
        return await self.tokens("refresh_token", refresh_token=grant.refresh_token.reveal(), resource=resource)

    async def exchange_for_id_jag(self, id_token: str, audience: str, scope: str, resource: str | None) -> str:
        """A statement of an identity provider, to the server with the issuer `audience`, about who signed in here
        (RFC 8693 2). Good for minutes, and never to be kept."""
        wanted = {"requested_token_type": ID_JAG, "audience": audience}
        subject = {"subject_token": id_token, "subject_token_type": ID_TOKEN}
        answered = await self._ask(TOKEN_EXCHANGE, **wanted, **subject, resource=resource, scope=scope)
        return read_id_jag(answered, now=self.wall(), where=self.server.issuer)

    async def revoke(self, grant: model.Grant) -> bool:
        """End a grant at the server: its refresh token, else its access token (RFC 7009). True: the server did; False:
        it has no place for that, or did not."""
        if not self.server.revocation_endpoint:
            return False
        kind = "refresh_token" if grant.refresh_token else "access_token"
        token = (grant.refresh_token or grant.access_token).reveal()
        answered = await self._post(self.server.revocation_endpoint, {"token": token, "token_type_hint": kind})
        return answered.status in (200, 204)

    async def tokens(self, grant_type: str, **fields: str | None) -> model.TokenAnswer:
        """The tokens for a grant of this type; fields that are empty are left out."""
        answered = await self._ask(grant_type, **fields)
        return read_token_answer(answered, now=self.wall(), where=self.server.issuer)

    async def _ask(self, grant_type: str, **fields: str | None) -> Fetched:
        """The answer to a request with these fields; what is empty is left out."""
        given = {name: value for name, value in fields.items() if value}
        return await self._post(self.server.token_endpoint, {"grant_type": grant_type, **given})

    async def _post(self, url: str, fields: dict[str, str]) -> Fetched:
        audience = self.audience or self.server.issuer
        prove = partial(proof_of, self.client, self.settings, audience=audience, now=self.wall())
        is_signed = self.client.token_auth == "private_key_jwt"  # by a key, which is read, and checked, for long
        proof = await trio.to_thread.run_sync(prove) if is_signed else prove()
        headers = {"accept": "application/json", **dict(proof.headers)}
        try:
            return await self.fetch.post_form(url, (*fields.items(), *proof.fields), self.allowed, headers=headers)
        except FetchFailed as failed:
            text = f"{self.server.issuer} cannot be asked: {failed.text}"
            if failed.refused:
                raise model.OAuthProblem(text) from None
            raise model.OAuthUnavailable(text, sent=failed.sent) from None


ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE_S: Final = 60
MIN_RSA_BITS: Final = 2048


class Proof(Struct, frozen=True):
    """Fields and headers of a request that say who asks."""

    fields: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<Proof {[name for name, _ in (*self.fields, *self.headers)]}>"


def proof_of(client: model.OAuthClient, settings: UpstreamOAuth, *, audience: str, now: float) -> Proof:
    """The proof of `client`. `audience` is whom a signed statement is for; `now` wall time. Raises OAuthProblem: the
    secret or the key is missing, or the key cannot be used."""
    method, id = client.token_auth, ("client_id", client.client_id)
    if method == "none":
        return Proof((id,))
    if method == "private_key_jwt":
        signed = client_assertion(client.client_id, audience, settings, now=now)
        return Proof((("client_assertion_type", ASSERTION_TYPE), ("client_assertion", signed)))
    if client.secret is None:
        raise model.OAuthProblem(f"there is no client_secret for {method} at {client.issuer}")
    if method == "client_secret_post":
        return Proof((id, ("client_secret", client.secret.reveal())))
    if method == "client_secret_basic":
        return Proof((id,), (("authorization", basic(client.client_id, client.secret.reveal())),))
    text = f"hubd cannot prove its client_id at {client.issuer}: it knows no token_auth {method[:40]!r}"
    raise model.OAuthProblem(text)


def basic(client_id: str, secret: str) -> str:
    """The value of `Authorization`: both parts in form encoding, before they are joined (RFC 6749 2.3.1)."""
    joined = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {b64encode(joined.encode()).decode()}"


def with_settings(client: model.OAuthClient, settings: UpstreamOAuth) -> model.OAuthClient:
    """`client` with the secret that the operator has configured for it by now, if it is the operator's. A secret is for
    the issuer that is configured beside it, and is shown to no other one."""
    if client.kind != "configured" or client.client_id != settings.client_id:
        return client
    if settings.client_secret is not None and not model.same_issuer(settings.issuer, client.issuer):
        return client
    method = client.token_auth if settings.token_auth == "auto" else settings.token_auth
    return replace(client, secret=settings.client_secret, token_auth=method)


def client_assertion(client_id: str, audience: str, settings: UpstreamOAuth, *, now: float) -> str:
    """A JWT in which `client_id` says to `audience` who it is, good for a minute from wall time `now`. Raises
    OAuthProblem: there is no private key, or it cannot be used."""
    if settings.private_key is None:
        raise model.OAuthProblem("there is no private_key for private_key_jwt; set it beside client_id")
    header: dict[str, object] = {"alg": settings.signing_alg, "typ": "JWT"}
    if settings.key_id:
        header["kid"] = settings.key_id
    at, id = int(now), secrets.token_urlsafe(16)
    claims = {"iss": client_id, "sub": client_id, "aud": audience, "iat": at, "exp": at + LIFE_S, "jti": id}
    signed = f"{_part(header)}.{_part(claims)}"
    return f"{signed}.{_text(_signature(signed.encode(), settings.private_key, settings.signing_alg))}"


def _part(members: object) -> str:
    return _text(json.dumps(members, separators=(",", ":")).encode())


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _signature(data: bytes, pem: Secret, algorithm: str) -> bytes:
    key = _load_key(pem)
    try:
        return _sign(data, key, algorithm)
    except ValueError:
        raise model.OAuthProblem(f'private_key does not fit signing_alg = "{algorithm}"; correct one of them') from None


def _load_key(pem: Secret) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem.reveal().encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise model.OAuthProblem("private_key is no private key in PEM form without a password; correct it") from None


def _sign(data: bytes, key: "PrivateKeyTypes", algorithm: str) -> bytes:
    """The signature as in RFC 7518 3. Raises ValueError: the key is of another kind."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    sha = hashes.SHA384() if algorithm == "ES384" else hashes.SHA256()
    if algorithm == "EdDSA" and isinstance(key, Ed25519PrivateKey):
        return key.sign(data)
    if isinstance(key, ec.EllipticCurvePrivateKey) and algorithm == f"ES{key.key_size}":
        parts = decode_dss_signature(key.sign(data, ec.ECDSA(sha)))
        return b"".join(part.to_bytes(sha.digest_size, "big") for part in parts)
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size >= MIN_RSA_BITS:
        if algorithm == "RS256":
            return key.sign(data, padding.PKCS1v15(), sha)
        if algorithm == "PS256":
            return key.sign(data, padding.PSS(padding.MGF1(sha), sha.digest_size), sha)
    raise ValueError(f"a key of another kind than {algorithm} is by")
