"""The challenge of a server that refuses a request: what `Bearer` says in its `WWW-Authenticate` fields. Pure.

RFC 9110 11.6.1: a field is a list of challenges, and each of them may itself be a list of parameters, with the same
comma. So one element is a scheme with a token68 or with its first parameter, a scheme alone, or one more parameter of
the scheme before.

The first `Bearer` counts, in any case of letters. What cannot be read leaves it without parameters, as does a parameter
that comes twice: servers write what they like there, and all that it says can also be found in other places.

A scope is visible ASCII without quotes and backslash (RFC 6749 3.3). What servers list is bounded, since all of it ends
in one URL, and a person reads it before signing in.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from config.name_globs import NameChoice
from upstreams.oauth.model import Challenge

MAX_CHARS: Final = 16 * 1024
"""Characters of all fields that are read; a field that goes beyond is not."""
MAX_URL_CHARS: Final = 2048
MAX_ERROR_CHARS: Final = 64

_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_QUOTED: Final = r'"(?:[^"\\\x00-\x08\x0a-\x1f\x7f]|\\[^\x00-\x08\x0a-\x1f\x7f])*+"'
_END: Final = r"[ \t]*+(?=,|\Z)"
_GAP: Final = re.compile(r"[ \t,]*+")
_PARAMETER: Final = re.compile(
    rf"(?:(?P<scheme>{_TOKEN})[ \t]++)?(?P<name>{_TOKEN})[ \t]*+=[ \t]*+(?P<value>{_TOKEN}|{_QUOTED}){_END}"
)
_SCHEME: Final = re.compile(rf"(?P<scheme>{_TOKEN})(?:[ \t]++[A-Za-z0-9\-._~+/]++=*+)?{_END}")
_BAD_SCHEME: Final = re.compile(rf"(?P<scheme>{_TOKEN})(?=[ \t,]|\Z)")
_UNREADABLE: Final = re.compile(rf'(?:[^,"]++|{_QUOTED})*+')
"""The part that cannot be read, up to a comma outside quotes, or up to a quote that nothing ends."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ERROR: Final = re.compile(r"[!#-\[\]-~]++")
_VISIBLE: Final = re.compile(r"[!-~]++")
MAX_SCOPES: Final = 100
MAX_SCOPE_CHARS: Final = 256
MAX_SCOPES_CHARS: Final = 4096
"""Characters of all scopes of one request."""
OFFLINE: Final = "offline_access"
"""The scope that makes many servers give a refresh token (OpenID Connect Core 11)."""
_SCOPE: Final = re.compile(r"[!#-\[\]-~]++")


def parse_challenges(values: Sequence[str]) -> Challenge:
    """The first `Bearer` challenge in the values of `WWW-Authenticate` fields; empty if there is none."""
    left = MAX_CHARS
    for value in values:
        left -= len(value)
        if left < 0:
            break
        if (found := _bearer(value)) is not None:
            url, error = found.get("resource_metadata", ""), found.get("error", "")
            return Challenge(
                resource_metadata=url if len(url) <= MAX_URL_CHARS and _VISIBLE.fullmatch(url) else "",
                scope=" ".join(readable_scopes(found.get("scope", ""))),
                error=error if len(error) <= MAX_ERROR_CHARS and _ERROR.fullmatch(error) else "",
            )
    return Challenge()


def _bearer(value: str) -> dict[str, str] | None:
    """The parameters of the first `Bearer` in one field; None: there is none."""
    found: dict[str, str] | None = None
    at = 0
    while (at := _end(_GAP, value, at)) < len(value):
        element = _PARAMETER.match(value, at) or _SCHEME.match(value, at) or _BAD_SCHEME.match(value, at)
        scheme = element["scheme"] if element else None
        if scheme is not None:
            if found is not None:
                return found
            if scheme.lower() == "bearer":
                found = {}
        if element is None or element.re is _BAD_SCHEME:
            if found is not None:
                return {}
            at = _end(_UNREADABLE, value, at)
            if value[at : at + 1] == '"':
                return None
            continue
        at = element.end()
        if found is not None and element.re is _PARAMETER:
            if (name := element["name"].lower()) in found:
                return {}
            found[name] = _text(element["value"])
    return found


def _end(pattern: re.Pattern[str], value: str, at: int) -> int:
    return found.end() if (found := pattern.match(value, at)) else at


def _text(value: str) -> str:
    return _ESCAPE.sub(r"\1", value[1:-1]) if value.startswith('"') else value


def is_scope(text: object) -> bool:
    """True if `text` is one scope that can be asked for."""
    return isinstance(text, str) and len(text) <= MAX_SCOPE_CHARS and _SCOPE.fullmatch(text) is not None


def readable_scopes(text: str) -> tuple[str, ...]:
    """The scopes in `text`, which joins them by spaces; none if it is too long, or if one of them is no scope."""
    if len(text) > MAX_SCOPES_CHARS:
        return ()
    scopes = tuple(scope for scope in dict.fromkeys(text.split(" ")) if scope)
    return scopes if len(scopes) <= MAX_SCOPES and all(map(is_scope, scopes)) else ()


def pick_scopes(value: object) -> tuple[str, ...]:
    """The scopes in `scopes_supported` of some metadata; what is no scope is passed over."""
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(scope for scope in value if is_scope(scope)))


def fits(scopes: Collection[str]) -> bool:
    """True if so many scopes can be asked for at once."""
    return len(scopes) <= MAX_SCOPES and sum(map(len, scopes)) + len(scopes) <= MAX_SCOPES_CHARS


def permit_scopes(scopes: Iterable[str], max_scopes: Sequence[str]) -> tuple[str, ...]:
    """`scopes` without repeats and without those that the operator's globs do not choose; no globs choose all."""
    choice = NameChoice(max_scopes or ("*",))
    return tuple(scope for scope in dict.fromkeys(scopes) if scope in choice)
