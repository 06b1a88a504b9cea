"""Proof of the hub's client id in a request (RFC 6749 2.3): a secret, or a signed statement in its place (RFC 7523):
`private_key_jwt`, for which `cryptography` is loaded at the first one.
"""

import json
import secrets
from base64 import b64encode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from msgspec import Struct
from msgspec.structs import replace

from config.setting import Secret
from config.tables.oauth import UpstreamOAuth
from upstreams.oauth.model import OAuthClient, OAuthProblem, same_issuer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE_S: Final = 60
MIN_RSA_BITS: Final = 2048


class Proof(Struct, frozen=True):
    """Fields and headers of a request that say who asks."""

    fields: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<Proof {[name for name, _ in (*self.fields, *self.headers)]}>"


def proof_of(client: OAuthClient, settings: UpstreamOAuth, *, audience: str, now: float) -> Proof:
    """The proof of `client`. `audience` is whom a signed statement is for; `now` wall time.

    Raises:
        OAuthProblem: the secret or the key is missing, or the key cannot be used.
    """
    method, id = client.token_auth, ("client_id", client.client_id)
    if method == "none":
        return Proof((id,))
    if method == "private_key_jwt":
        signed = client_assertion(client.client_id, audience, settings, now=now)
        return Proof((("client_assertion_type", ASSERTION_TYPE), ("client_assertion", signed)))
    if client.secret is None:
        raise OAuthProblem(f"there is no client_secret for {method} at {client.issuer}")
    if method == "client_secret_post":
        return Proof((id, ("client_secret", client.secret.reveal())))
    if method == "client_secret_basic":
        return Proof((id,), (("authorization", basic(client.client_id, client.secret.reveal())),))
    raise OAuthProblem(f"hubd cannot prove its client_id at {client.issuer}: it knows no token_auth {method[:40]!r}")


def basic(client_id: str, secret: str) -> str:
    """The value of `Authorization`: both parts in form encoding, before they are joined (RFC 6749 2.3.1)."""
    joined = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return f"Basic {b64encode(joined.encode()).decode()}"


def with_settings(client: OAuthClient, settings: UpstreamOAuth) -> OAuthClient:
    """`client` with the secret that the operator has configured for it by now, if it is the operator's. A secret is for
    the issuer that is configured beside it, and is shown to no other one."""
    if client.kind != "configured" or client.client_id != settings.client_id:
        return client
    if settings.client_secret is not None and not same_issuer(settings.issuer, client.issuer):
        return client
    method = client.token_auth if settings.token_auth == "auto" else settings.token_auth
    return replace(client, secret=settings.client_secret, token_auth=method)


def client_assertion(client_id: str, audience: str, settings: UpstreamOAuth, *, now: float) -> str:
    """A JWT in which `client_id` says to `audience` who it is, good for a minute from wall time `now`.

    Raises:
        OAuthProblem: there is no private key, or it cannot be used.
    """
    if settings.private_key is None:
        raise OAuthProblem("there is no private_key for private_key_jwt; set it beside client_id")
    header: dict[str, object] = {"alg": settings.signing_alg, "typ": "JWT"}
    if settings.key_id:
        header["kid"] = settings.key_id
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": int(now),
        "exp": int(now) + LIFE_S,
        "jti": secrets.token_urlsafe(16),
    }
    signed = f"{_part(header)}.{_part(claims)}"
    return f"{signed}.{_text(_signature(signed.encode(), settings.private_key, settings.signing_alg))}"


def _part(members: object) -> str:
    return _text(json.dumps(members, separators=(",", ":")).encode())


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _signature(data: bytes, pem: Secret, algorithm: str) -> bytes:
    key = _load_key(pem)
    try:
        made = _sign(data, key, algorithm)
    except ValueError:
        made = None
    if made is None:
        raise OAuthProblem(f'private_key does not fit signing_alg = "{algorithm}"; correct one of them')
    return made


def _load_key(pem: Secret) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem.reveal().encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OAuthProblem("private_key is no private key in PEM form without a password; correct it") from None


def _sign(data: bytes, key: "PrivateKeyTypes", algorithm: str) -> bytes | None:
    """The signature as in RFC 7518 3; None: the key is of another kind."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if algorithm == "EdDSA":
        return key.sign(data) if isinstance(key, Ed25519PrivateKey) else None
    if algorithm in ("ES256", "ES384"):
        hashed, size = (hashes.SHA256(), 32) if algorithm == "ES256" else (hashes.SHA384(), 48)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.key_size != size * 8:
            return None
        r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashed)))
        return r.to_bytes(size, "big") + s.to_bytes(size, "big")
    if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < MIN_RSA_BITS:
        return None
    if algorithm == "RS256":
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    if algorithm == "PS256":
        return key.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size), hashes.SHA256())
    return None
