"""Claims of a token whose signature counts: who comes, until when, with which scopes, and for whom it is. Pure."""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from config.security_settings import AccessIssuer
from hub.downstream.access.read_unverified_jwt import Unfit
from hub.link.call_interface import NO_RIGHTS, Identity, Rights

SKEW_S: Final = 60.0
MAX_NAME: Final = 256
MAX_CLIENT: Final = 1024
MAX_AUDIENCES: Final = 64
ANY_CLIENT: Final = "oauth"
"""The label of a host whose token does not say which client it was made for."""
_CLIENT = re.compile(rf"[!-~]{{1,{MAX_CLIENT}}}")


class TokenVerdict(Struct, frozen=True):
    """The content of a token that is believed."""

    identity: Identity
    until: float
    """Wall time from which it does not count any more, with the skew of clocks."""
    scopes: frozenset[str]
    audiences: frozenset[str]
    """The audiences that it is for, one at least."""
    issuer: str
    rights: Rights = NO_RIGHTS
    """What rules may go by, beside who it is."""
    key: str = ""
    """The key of its signature, which takes its verdicts along when it goes; "": the issuer was asked."""


def verdict_of(claims: dict[str, Any], issuer: AccessIssuer, now: float, *, is_asked: bool = False) -> TokenVerdict:
    """The meaning of `claims`. `is_asked`: they are the answer of an introspection (RFC 7662 2.2), which may lack the
    end. Raises Unfit: they do not count now."""
    until = _until(claims, now, is_asked=is_asked)
    subject = _subject(claims, issuer)
    if not (audiences := _audiences(claims.get("aud"))):
        raise Unfit("it does not say for whom it is (`aud`)")
    client = claims.get("client_id", claims.get("azp"))
    if client is not None and not (isinstance(client, str) and _CLIENT.fullmatch(client)):
        raise Unfit("its client (`client_id` or `azp`) is not one that can be")
    if issuer.clients and client not in issuer.clients:
        raise Unfit("its client (`client_id` or `azp`) is not one of `clients` of this issuer")
    scopes = _scopes(claims.get("scope", claims.get("scp")))
    identity = Identity(f"{issuer.name}/{subject}", client or ANY_CLIENT)
    rights = Rights(issuer.name, scopes, _groups(claims.get(issuer.groups)))
    return TokenVerdict(identity, until, scopes, audiences, issuer.issuer, rights)


def _until(claims: dict[str, Any], now: float, *, is_asked: bool) -> float:
    """The time at which it ends, unless that is over, not yet begun, or not said."""
    numbers = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers.values()):
        raise Unfit("a time in it (`exp`, `nbf`, `iat`) is not a number")
    if "exp" not in numbers and not is_asked:
        raise Unfit("it does not say when it ends (`exp`)")
    try:
        until = float(numbers.get("exp", now + SKEW_S * 60)) + SKEW_S
        begins = max(float(numbers.get("nbf", 0)), float(numbers.get("iat", 0))) - SKEW_S
    except OverflowError:
        raise Unfit("a time in it (`exp`, `nbf`, `iat`) is beyond all times") from None
    if now >= until:
        raise Unfit("it has ended (`exp`)")
    if begins > now:
        raise Unfit("it has not begun (`nbf`, `iat`), or the clock here is late")
    return until


def _subject(claims: dict[str, Any], issuer: AccessIssuer) -> str:
    """The name of the person."""
    name = claims.get(issuer.subject)
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        rule = f"1 to {MAX_NAME} printable characters; `subject` of the issuer takes another claim"
        raise Unfit(f"its `{issuer.subject}` is not the name of a person: {rule}")
    if issuer.subject == "email" and claims.get("email_verified") is not True:
        raise Unfit("its issuer does not say that the mail address was verified (`email_verified`)")
    return name


def _audiences(value: object) -> frozenset[str]:
    """The audiences of a token; none if it names none, or they are malformed."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in found) or len(found) > MAX_AUDIENCES:
        return frozenset()
    return frozenset(found)


def _scopes(value: object) -> frozenset[str]:
    """The scopes of a token: a text, or a list of texts."""
    found = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(each for each in found if isinstance(each, str) and each)


MAX_GROUPS: Final = 1_000


def _groups(value: object) -> frozenset[str]:
    """The groups of a person: a list of texts, or one text. What is none of these says nothing."""
    found = value if isinstance(value, list) else [value]
    return frozenset(each for each in found[:MAX_GROUPS] if isinstance(each, str) and each)


def lacking(required: Sequence[str], scopes: frozenset[str]) -> bool:
    """True if a required scope is not among `scopes`; one that is begun by a scope and a colon is part of that."""
    return not all(any(need == scope or need.startswith(f"{scope}:") for scope in scopes) for need in required)
