"""Machines: grants of the liar that nobody signs in for, and the ID token that begins cross app access.

RFC 6749 4.4 (client credentials), RFC 8693 (ID token for an ID-JAG) and RFC 7523 (ID-JAG for an access token). What it
issues has no signature that counts: who trusts its tokens is told by `token_issuer`.
"""

import base64
import json
import time
from typing import Any, Final

from tests.support.oauth.liar_state import State

CREDENTIALS: Final = "client_credentials"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
GRANTS: Final = (CREDENTIALS, EXCHANGE, BEARER)
ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
LIFE_S: Final = 300

Said = tuple[int, dict[str, Any]]


def unsigned(type: str, claims: dict[str, Any]) -> str:
    """A JWT whose signature is nothing."""
    parts = ({"alg": "ES256", "typ": type}, claims)
    return ".".join([*(_b64(json.dumps(part).encode()) for part in parts), _b64(bytes(64))])


def opened(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims; both are empty if it is no JWT."""
    try:
        head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    except ValueError:
        return {}, {}
    return head, claims


def id_token(state: State, client: str, nonce: str | None) -> str:
    """Who has signed in, for the client."""
    claims = {"iss": state.base, "sub": "alice", "aud": client, **_times(), **({"nonce": nonce} if nonce else {})}
    made = unsigned("JWT", claims)
    state.remember(made)
    return made


def answer(state: State, grant: str, form: dict[str, str], client: str) -> Said:
    """What the token endpoint says to one of `GRANTS`."""
    if grant == EXCHANGE:
        return _exchanged(state, form, client)
    if grant == BEARER:
        head, claims = opened(form.get("assertion", ""))
        state.remember(form.get("assertion"))
        if head.get("typ") != "oauth-id-jag+jwt" or claims.get("aud") != state.base:
            return 400, {"error": "invalid_grant"}
    given = state.give(client, form.get("scope", state.args.scope), form.get("resource"))
    state.refresh.pop(given.pop("refresh_token"))
    return 200, given


def _exchanged(state: State, form: dict[str, str], client: str) -> Said:
    """An ID-JAG for the ID token of this server."""
    _, claims = opened(form.get("subject_token", ""))
    asked = (form.get("requested_token_type"), form.get("subject_token_type"))
    if asked != (ID_JAG, ID_TOKEN) or not form.get("audience") or claims.get("iss") != state.base:
        return 400, {"error": "invalid_request"}
    wanted = {name: form[name] for name in ("resource", "scope") if name in form}
    about = {"iss": state.base, "sub": claims["sub"], "aud": form["audience"], "client_id": client, **_times()}
    jag = unsigned("oauth-id-jag+jwt", about | wanted)
    state.remember(jag)
    return 200, {"access_token": jag, "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": LIFE_S}


def _times() -> dict[str, int]:
    now = int(time.time())  # noqa: TID251
    return {"iat": now, "exp": now + LIFE_S}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
