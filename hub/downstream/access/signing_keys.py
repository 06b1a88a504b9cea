"""The keys by which an issuer signs (RFC 7517), and signatures by them.

Imports joserfc when the first keys are read: a hub without issuers never does.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from hub.downstream.access.claims import Jwt

MAX_KEYS: Final = 64
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
"""Larger ones would take long to verify with."""
MAX_SIGNATURE: Final = 1024
ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The algorithms that can be accepted, with the type and the curve of their keys. No other is ever tried."""
_B64: Final = re.compile(r"[A-Za-z0-9_-]+")


class SigningKey(Struct, frozen=True):
    """One public key."""

    key_id: str | None
    kind: str
    curve: str | None
    algorithm: str | None
    """The only algorithm that it is for; None: each of its type."""
    print: str
    """The text that tells it from all others."""
    key: Any
    """As joserfc has it."""

    def fits(self, algorithm: str) -> bool:
        """True if a signature by this key can be of that algorithm."""
        own = "EdDSA" if self.algorithm == "Ed25519" else self.algorithm
        return own in (None, algorithm) and ALGORITHMS.get(algorithm) in ((self.kind, self.curve), (self.kind, None))


def read_keys(document: dict[str, Any]) -> tuple[SigningKey, ...]:
    """The keys of a set that signatures can be verified with; others are passed over."""
    rows = document.get("keys")
    found = (_read_key(row) for row in (rows[:MAX_KEYS] if isinstance(rows, list) else ()) if isinstance(row, dict))
    return tuple(key for key in found if key is not None)


def _read_key(row: dict[str, Any]) -> SigningKey | None:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    kind, key_id, use, operations = row.get("kty"), row.get("kid"), row.get("use"), row.get("key_ops")
    members = {"EC": ("crv", "x", "y"), "OKP": ("crv", "x"), "RSA": ("n", "e")}.get(str(kind), ())
    texts = {name: row.get(name) for name in members}
    if not members or not all(isinstance(text, str) and _B64.fullmatch(text) for text in texts.values()):
        return None
    if use not in (None, "sig") or not (key_id is None or isinstance(key_id, str)):
        return None
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return None
    algorithm, curve = row.get("alg"), texts.get("crv") if kind != "RSA" else None
    if not (algorithm is None or isinstance(algorithm, str)):
        return None
    if kind == "RSA" and not _is_sound_rsa(str(texts["n"]), str(texts["e"])):
        return None
    types: dict[str, Any] = {"EC": ECKey, "OKP": OKPKey, "RSA": RSAKey}
    plain = {"kty": kind, **texts}
    try:
        key = types[str(kind)].import_key(plain)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    print = sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()
    return SigningKey(key_id, str(kind), curve, algorithm, print, key)


def _is_sound_rsa(modulus: str, exponent: str) -> bool:
    bits = len(modulus) * 6
    return MIN_RSA_BITS <= bits <= MAX_RSA_BITS + 64 and len(exponent) <= 8


def key_for(token: Jwt, keys: tuple[SigningKey, ...]) -> SigningKey | None:
    """The key that a token names; of a token that names none the only one that fits. None: there is none."""
    if token.key_id is not None:
        named = [key for key in keys if key.key_id == token.key_id]
        fitting = [key for key in named if key.fits(token.algorithm)]
    else:
        fitting = [key for key in keys if key.fits(token.algorithm)]
    return fitting[0] if len(fitting) == 1 else None


def is_signed(token: Jwt, key: SigningKey) -> bool:
    """True if `key` has signed the token."""
    from joserfc.errors import JoseError
    from joserfc.jws import JWSRegistry

    if len(token.signature) > MAX_SIGNATURE or not key.fits(token.algorithm):
        return False
    try:
        return JWSRegistry.algorithms[token.algorithm].verify(token.signed, token.signature, key.key)
    except (JoseError, ValueError, TypeError):
        return False
