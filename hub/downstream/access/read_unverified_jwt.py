"""Tokens of authorization servers that are JWTs, read strictly before their signature is verified (RFC 7515, RFC 7519,
RFC 9068): what readers could understand in two ways is refused. Pure.
"""

import re
from base64 import urlsafe_b64decode
from typing import Any, Final

from msgspec import Struct

from upstreams.fetch.strict_json import read_json_object

MAX_CHARS: Final = 16 << 10
TYPES: Final = frozenset({"jwt", "at+jwt"})
ELSEWHERE: Final = ("cnf", "nonce", "at_hash", "c_hash", "events")
"""Claims of tokens that are no access tokens for whoever has them: bound to a key, or about something else."""
_PARTS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


class Unfit(Exception):
    """A token does not count. The text is for whoever may see the token: whoever shows it to the hub is not told."""


class Unsigned(Unfit):
    """None of the keys that are known has signed a token; others may have."""


class Jwt(Struct, frozen=True):
    """A token that has one meaning. Nothing of it is to be believed before its signature was verified."""

    algorithm: str
    key_id: str | None
    issuer: str
    claims: dict[str, Any]
    signed: bytes
    """The bytes that the signature is over."""
    signature: bytes

    def __repr__(self) -> str:
        return f"<Jwt {self.algorithm}>"


def read_jwt(token: str) -> Jwt:
    """The token in this text. Raises Unfit: it is none that could count."""
    if len(token) > MAX_CHARS:
        raise Unfit(f"it has more than {MAX_CHARS} characters")
    if (found := _PARTS.fullmatch(token)) is None:
        raise Unfit("it is not made of three parts of base64url without padding, joined by dots")
    head, body, signature = (_decode(part) for part in found.groups())
    header, claims = (None if part is None else read_json_object(part) for part in (head, body))
    if header is None or claims is None or not signature:
        raise Unfit("it is not two JSON objects, in which nothing is named twice, and a signature")
    return _check(header, claims, token[: found.end(2)].encode(), signature)


def _check(header: dict[str, Any], claims: dict[str, Any], signed: bytes, signature: bytes) -> Jwt:
    for name in ("crit", "b64"):
        if name in header:
            raise Unfit(f"its header has `{name}`, so that it has to be read in another way than others")
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
    issuer = claims.get("iss")
    if not isinstance(algorithm, str):
        raise Unfit("its header does not name the algorithm (`alg`)")
    if "kid" in header and not isinstance(key_id, str):
        raise Unfit("the `kid` of its header is not a text")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in TYPES:
        raise Unfit("its `typ` is not that of an access token (`JWT` or `at+jwt`)")
    if not isinstance(issuer, str):
        raise Unfit("it does not name its issuer (`iss`)")
    for claim in ELSEWHERE:
        if claim in claims:
            raise Unfit(f"it has `{claim}`, so it is no access token for whoever has it, but an ID token or the like")
    name = "EdDSA" if algorithm == "Ed25519" else algorithm
    return Jwt(name, key_id, issuer, claims, signed, signature)


def _decode(text: str) -> bytes | None:
    """The bytes of base64url without padding (RFC 7515 2); None: it is none, or one of several ways to write them."""
    if len(text) % 4 == 1:
        return None
    # the last character may have no bits that say nothing
    is_canonical = {2: text[-1] in "AQgw", 3: text[-1] in "AEIMQUYcgkosw048"}.get(len(text) % 4, True)
    return urlsafe_b64decode(text + "=" * (-len(text) % 4)) if is_canonical else None
