"""Answers of token endpoints: tokens, an error, or nonsense; and the grant that an answer makes. Pure.

RFC 6749 5.1 and 5.2, and what is seen beside them: errors with status 200, answers in form encoding, numbers as text,
status 201. Nothing of an answer but its error code gets into texts, and that only if it is one.
"""

import re
from math import isfinite
from typing import Any, Final
from urllib.parse import parse_qsl

from msgspec.structs import asdict, replace

from config.setting_declarations import Secret
from upstreams.fetch.strict_json import read_json_object
from upstreams.fetch.terms_and_answers import Fetched, retry_after_s
from upstreams.oauth import model
from upstreams.oauth.check_id_token import claims_of
from upstreams.oauth.discovery.peer_urls import address_of

MAX_TOKEN_CHARS: Final = 16 << 10
MAX_SCOPE_CHARS: Final = 8 << 10
MAX_FIELDS: Final = 64
"""Members of an answer in form encoding."""
LONGEST_LIFE_S: Final = 10 * 365 * 86_400.0
LONGEST_PAUSE_S: Final = 3600.0
"""The longest `Retry-After` that is believed."""

ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"
"""The type of an identity assertion that an identity provider makes for another server."""

_ERROR_CODE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,64}")
_VISIBLE: Final = re.compile(rf"[\x21-\x7e]{{1,{MAX_TOKEN_CHARS}}}")
_PRINTABLE: Final = re.compile(rf"[\x20-\x7e]{{1,{MAX_TOKEN_CHARS}}}")
_SCOPE: Final = re.compile(rf"[\x20\x21\x23-\x5b\x5d-\x7e]{{0,{MAX_SCOPE_CHARS}}}")
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)

FINAL: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Errors that mean what they say, whatever the status."""
_LATER: Final = frozenset({"temporarily_unavailable", "server_error", "slow_down"})
_GRANT_GONE: Final = frozenset({"bad_refresh_token", "invalid_refresh_token"})
"""Own words of some servers for `invalid_grant`."""


class TokenRefused(model.OAuthProblem):
    """The token endpoint refused; `code` is its error, "" if it named none that can be read. `status`: of HTTP."""

    def __init__(self, text: str, *, code: str, status: int) -> None:
        super().__init__(text, code=code)
        self.status = status


def read_token_answer(answer: Fetched, *, now: float, where: str = "the authorization server") -> model.TokenAnswer:
    """The tokens of an answer. `now` is wall time, `where` names the server in texts. Raises TokenRefused: it says no;
    OAuthUnavailable: it cannot say now, or nobody can read what it says; it may have acted then."""
    members = _accept(answer, now, where)
    access, kind = members.get("access_token"), members.get("token_type")
    if not (isinstance(access, str) and _VISIBLE.fullmatch(access)):
        raise model.OAuthUnavailable(f"{where} gave an answer without an access token that can be used", sent=True)
    if not (isinstance(kind, str) and kind.lower() == "bearer"):
        raise model.OAuthUnavailable(f"{where} gave a token that is no bearer token", sent=True)
    if (life := _number(members.get("expires_in"))) is None:
        life = life_of(access, now)
    return model.TokenAnswer(
        access_token=Secret(access),
        refresh_token=_secret(members.get("refresh_token")),
        expires_in_s=None if life is None else min(max(life, 0.0), LONGEST_LIFE_S),
        scope=_scope(members.get("scope")),
        id_token=_secret(members.get("id_token")),
    )


def read_id_jag(answer: Fetched, *, now: float, where: str) -> str:
    """The statement that a token exchange gave (RFC 8693 2.2.1), an identity assertion for another server. Raises
    TokenRefused, OAuthUnavailable: as `read_token_answer`."""
    members = _accept(answer, now, where)
    token, kind = members.get("access_token"), members.get("issued_token_type")
    if kind != ID_JAG or not (isinstance(token, str) and _VISIBLE.fullmatch(token)):
        raise model.OAuthUnavailable(f"{where} gave no identity assertion for the other server", sent=True)
    return token


def _accept(answer: Fetched, now: float, where: str) -> dict[str, Any]:
    """The members of an answer that is no refusal."""
    members = _members(answer)
    error = members.get("error")
    status = answer.status
    if error is not None and not (isinstance(error, str) and _ERROR_CODE.fullmatch(error)):
        error = ""
    if error in _GRANT_GONE:
        error = "invalid_grant"
    if error in FINAL:
        raise TokenRefused(f"{where} refuses ({error})", code=str(error), status=status)
    if status == 429 or status >= 500 or error in _LATER:
        text = f"{where} cannot answer now ({error or status})"
        sent = status in (502, 504)
        raise model.OAuthUnavailable(text, retry_after_s=retry_after_s(answer.headers, LONGEST_PAUSE_S, now), sent=sent)
    if error or status == 400:
        raise TokenRefused(f"{where} refuses ({error or status})", code=error or "", status=status)
    if status in (200, 201) and error is None:
        return members
    raise model.OAuthUnavailable(f"{where} gave an answer that cannot be used ({status})", sent=status < 300)


def life_of(token: str, now: float) -> float | None:
    """Seconds that a token says itself it lives, if it is a JWT (RFC 9068); a hint, nobody has checked it."""
    if token.count(".") != 2:
        return None
    try:
        claims = claims_of(token)
    except (ValueError, TypeError):
        return None
    ends, begins = _number(claims.get("exp")), _number(claims.get("iat"))
    return None if ends is None else ends - (now if begins is None else begins)


def _number(value: object) -> float | None:
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _secret(value: object) -> Secret | None:
    return Secret(value) if isinstance(value, str) and _PRINTABLE.fullmatch(value) else None


def _scope(value: object) -> str | None:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = " ".join(value)
    return value if isinstance(value, str) and _SCOPE.fullmatch(value) else None


def _members(answer: Fetched) -> dict[str, Any]:
    """The members of an answer, by JSON or else as form fields; {}: it is neither."""
    if (found := read_json_object(answer.body)) is not None:
        return found
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", "text/plain"):
        return {}
    try:
        fields = parse_qsl(answer.body.decode("ascii"), max_num_fields=MAX_FIELDS, strict_parsing=True)
    except ValueError:
        return {}
    named = dict(fields)
    return named if len(named) == len(fields) else {}


# --- grants -----------------------------------------------------------------------------------------------------------


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL in one spelling; "": it is none of HTTP."""
    return f"{found.scheme}://{found.host}:{found.port}" if (found := address_of(url)) else ""


def first_grant(
    answer: model.TokenAnswer,
    key: model.GrantKey,
    url: str,
    server: model.AuthorizationServer,
    client: model.OAuthClient,
    asked_scope: str,
    now: float,
    *,
    sends_resource: bool,
) -> model.Grant:
    """The grant of a new sign-in at the upstream `url`; its tokens are sent to no other origin. `now` is wall time."""
    empty = model.Grant(
        key=key,
        generation=0,
        access_token=answer.access_token,
        obtained_at=now,
        scope=asked_scope,
        asked_scope=asked_scope,
        signed_in_at=now,
        server=server,
        client=client,
        sends_resource=sends_resource,
        origin=origin_of(url),
    )
    return next_grant(empty, answer, now)


def next_grant(grant: model.Grant, answer: model.TokenAnswer, now: float) -> model.Grant:
    """The next generation: what the answer does not replace stays (RFC 6749 6). `now` is wall time."""
    given = {name: value for name, value in asdict(answer).items() if value is not None}
    life_s = given.pop("expires_in_s", None)
    ends_at, generation = None if life_s is None else now + life_s, grant.generation + 1
    times = {"obtained_at": now, "expires_at": ends_at}
    return replace(grant, **given, **times, generation=generation, note="", sign_in_needed=False)


def is_for(grant: model.Grant, url: str) -> bool:
    """True if the tokens of `grant` may be sent to `url`: it is of the origin that they were got for."""
    return origin_of(url) == (grant.origin or origin_of(grant.key.resource or grant.key.issuer)) != ""
