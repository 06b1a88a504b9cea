"""The check that an ID token belongs to this sign-in, and whether it lasts long enough to be shown. Pure.

ID tokens (OpenID Connect Core 2) are read only straight from the token endpoint, over TLS, so their signature adds
nothing (3.1.3.7, 6.).
"""

from base64 import urlsafe_b64decode
from typing import Any, Final

from config.setting_declarations import Secret
from upstreams.fetch.strict_json import read_json_object
from upstreams.oauth import model

LEFT_S: Final = 30.0
"""An ID token that lasts less is renewed before it is shown."""
SKEW_S: Final = 60.0


def lasts(id_token: Secret, wall: float) -> bool:
    """True if an ID token lasts long enough to be shown to the identity provider; what cannot be read does."""
    try:
        return not float(claims_of(id_token.reveal())["exp"]) - wall < LEFT_S
    except (ValueError, LookupError, TypeError, OverflowError):
        return True


def check_id_token(id_token: Secret | None, issuer: str, client_id: str, nonce: str, wall: float) -> None:
    """Check that an ID token is the answer to the request with `nonce` (3.1.3.7). Raises OAuthProblem: there is none,
    or it is for somebody else or from another time."""
    if id_token is None:
        raise model.OAuthProblem(f"{issuer} gave no ID token; the hub needs one to sign in elsewhere")
    try:
        claims = claims_of(id_token.reveal())
        audience = claims.get("aud")
        ends = float(claims["exp"])
    except (ValueError, LookupError, TypeError, OverflowError):
        raise model.OAuthProblem(f"{issuer} gave an ID token that cannot be read") from None
    is_ours = audience == client_id or (isinstance(audience, list) and client_id in audience)
    if claims.get("iss") != issuer or not is_ours or claims.get("nonce") != nonce or not ends + SKEW_S > wall:
        raise model.OAuthProblem(f"{issuer} gave an ID token that does not belong to this sign-in, so it is not used")


def claims_of(token: str) -> dict[str, Any]:
    """Raises ValueError or LookupError for what is no JWT."""
    part = token.split(".")[1]
    if (claims := read_json_object(urlsafe_b64decode(part + "=" * (-len(part) % 4)))) is None:
        raise ValueError("no object")
    return claims
