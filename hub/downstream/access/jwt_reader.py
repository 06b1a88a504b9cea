"""Strict reading of a signed token (RFC 7515, RFC 7519, RFC 9068): what readers could understand in two ways is refused
before any library or key sees it. Pure.

Keys and addresses of keys in the header (`jwk`, `jku`, `x5c`, `x5u`) are not looked at: keys come from the issuer
alone.
"""

import re
from base64 import urlsafe_b64decode
from typing import Any, Final

from msgspec import Struct

from upstreams.fetch.json_object import read_json_object

MAX_CHARS: Final = 16 << 10
TYPES: Final = frozenset({"jwt", "at+jwt"})
ELSEWHERE: Final = ("cnf", "nonce", "at_hash", "c_hash", "events")
"""Claims of tokens that are no access tokens for whoever has them: bound to a key, or about something else."""
_PARTS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


class Jwt(Struct, frozen=True):
    """A token that has one meaning. Nothing of it is to be believed before its signature was verified."""

    algorithm: str
    key_id: str | None
    issuer: str
    claims: dict[str, Any]
    signed: bytes
    """What the signature is over."""
    signature: bytes

    def __repr__(self) -> str:
        return f"<Jwt {self.algorithm}>"


def read_jwt(token: str) -> Jwt | None:
    """The token in this text; None: it is none that could count."""
    found = _PARTS.fullmatch(token) if len(token) <= MAX_CHARS else None
    if found is None:
        return None
    parts = [_decoded(part) for part in found.groups()]
    header, claims = (None if part is None else read_json_object(part) for part in parts[:2])
    signature = parts[2]
    if header is None or claims is None or not signature or "crit" in header or "b64" in header:
        return None
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    issuer = claims.get("iss")
    if not (isinstance(algorithm, str) and isinstance(kind, str) and isinstance(issuer, str)):
        return None
    if "kid" in header and not isinstance(key_id, str):
        return None
    if kind.lower().removeprefix("application/") not in TYPES or any(claim in claims for claim in ELSEWHERE):
        return None
    name = "EdDSA" if algorithm == "Ed25519" else algorithm
    return Jwt(name, key_id, issuer, claims, token[: found.end(2)].encode(), signature)


def _decoded(text: str) -> bytes | None:
    """The bytes of base64url without padding (RFC 7515 2); None: it is none, or one of several ways to write them."""
    if len(text) % 4 == 1:
        return None
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if _is_canonical(text) else None


def _is_canonical(text: str) -> bool:
    """True if the last character has no bits that say nothing."""
    return {2: text[-1] in "AQgw", 3: text[-1] in "AEIMQUYcgkosw048"}.get(len(text) % 4, True)
