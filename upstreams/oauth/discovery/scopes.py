"""Scopes: those that can be read, and those that the hub asks for. Pure.

A scope is visible ASCII without quotes and backslash (RFC 6749 3.3). What servers list is bounded, since all of it ends
in one URL, and a person reads it before signing in.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from config.name_globs import NameChoice

MAX_SCOPES: Final = 100
MAX_SCOPE_CHARS: Final = 256
MAX_CHARS: Final = 4096
"""Characters of all scopes of one request."""
OFFLINE: Final = "offline_access"
"""The scope that makes many servers give a refresh token (OpenID Connect Core 11)."""
_SCOPE: Final = re.compile(r"[!#-\[\]-~]++")


def is_scope(text: object) -> bool:
    """True if `text` is one scope that can be asked for."""
    return isinstance(text, str) and len(text) <= MAX_SCOPE_CHARS and _SCOPE.fullmatch(text) is not None


def readable_scopes(text: str) -> tuple[str, ...]:
    """The scopes in `text`, which joins them by spaces; none if it is too long, or if one of them is no scope."""
    if len(text) > MAX_CHARS:
        return ()
    scopes = tuple(dict.fromkeys(text.split(" ")))
    scopes = tuple(scope for scope in scopes if scope)
    return scopes if len(scopes) <= MAX_SCOPES and all(map(is_scope, scopes)) else ()


def listed_scopes(value: object) -> tuple[str, ...]:
    """The scopes in `scopes_supported` of some metadata; what is no scope is passed over."""
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(scope for scope in value if is_scope(scope)))


def fits(scopes: Collection[str]) -> bool:
    """True if so many scopes can be asked for at once."""
    return len(scopes) <= MAX_SCOPES and sum(map(len, scopes)) + len(scopes) <= MAX_CHARS


def permitted(scopes: Iterable[str], max_scopes: Sequence[str]) -> tuple[str, ...]:
    """`scopes` without repeats and without those that the operator's globs do not choose; no globs choose all."""
    choice = NameChoice(max_scopes or ("*",))
    return tuple(scope for scope in dict.fromkeys(scopes) if scope in choice)
