"""Signed statements of the hub about itself, in place of a secret (RFC 7523 3): `private_key_jwt`.

`cryptography` is loaded here, at the first statement.
"""

import json
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from config.oauth_settings import UpstreamOAuth
from config.setting import Secret
from upstreams.oauth.model import OAuthProblem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

LIFE_S: Final = 60
MIN_RSA_BITS: Final = 2048


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
    key = _loaded(pem)
    try:
        made = _signed(data, key, algorithm)
    except ValueError:
        made = None
    if made is None:
        raise OAuthProblem(f'private_key does not fit signing_alg = "{algorithm}"; correct one of them')
    return made


def _loaded(pem: Secret) -> "PrivateKeyTypes":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem.reveal().encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OAuthProblem("private_key is no private key in PEM form without a password; correct it") from None


def _signed(data: bytes, key: "PrivateKeyTypes", algorithm: str) -> bytes | None:
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
