"""Contract of guarded requests: the terms of one, its answer, how JSON in that is read, and why there was none. Pure.

Documents in answers decide where secrets go, so a JSON object is read strictly (RFC 8259, I-JSON): what two parsers
could read differently is not read at all, and a second member of the same name is no detail.
"""

import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from msgspec import Struct

from config.loading.text_limits import is_deep

MAX_DEPTH: Final = 32
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as texts; raises OSError if there are none."""


def read_json_object(data: bytes) -> dict[str, Any] | None:
    """The object in `data`; None if it is no UTF-8, no JSON, no object, or deeper than `MAX_DEPTH`, and for members of
    the same name, NaN, numbers beyond a double, and half surrogate pairs."""
    try:
        value = _decode(data.decode())
        if not isinstance(value, dict) or is_deep(value, MAX_DEPTH):
            return None
        json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except (ValueError, RecursionError):
        return None
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("two members of the same name")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("no number of JSON, or one beyond a double")
    return number


def _finite_int(text: str) -> int:
    if len(text) > 309:
        raise ValueError("a number beyond a double")
    return int(text)


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_members, parse_constant=_finite, parse_float=_finite, parse_int=_finite_int
).decode


def retry_after_s(headers: Mapping[str, str], longest_s: float, now: float | None = None) -> float | None:
    """The seconds of `Retry-After` (RFC 9110 10.2.3), within 0 and `longest_s`; None: it does not say. A date is
    measured against the wall time `now`, by default the server's own `Date`."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), longest_s)
    try:
        began = parsedate_to_datetime(headers.get("date", "")).timestamp() if now is None else now
        return min(max(parsedate_to_datetime(value).timestamp() - began, 0.0), longest_s)
    except (ValueError, TypeError, OverflowError):
        return None


class Allowed(Struct, frozen=True):
    """Who may be asked beside public addresses. Link-local addresses and listeners of the hub never are."""

    private_hosts: frozenset[str] = frozenset()
    """Hosts that the operator wrote in a configuration, in lower case: they may have private addresses."""
    loopback_http: bool = False
    """The upstream itself is on loopback: others may be there too, and `http://` is allowed to them."""


class Fetched(Struct, frozen=True):
    """One answer, whole."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; several values of one name are joined by ", "."""
    body: bytes

    def __repr__(self) -> str:
        return f"<Fetched {self.status}, {len(self.body)} bytes>"

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object, whatever its type is said to be; None if it is none, or an ambiguous one."""
        return read_json_object(self.body)


class FetchFailed(Exception):
    """The reason why there is no answer, in words for a person: no part of an answer, no path or query, no secret.

    `refused`: the guard forbids this request, now and later. `sent`: the request may have arrived.
    `too_large`: there is an answer, which is larger than one may be.
    """

    def __init__(self, text: str, *, refused: bool = False, sent: bool = False, too_large: bool = False) -> None:
        super().__init__(text)
        self.text = text
        self.refused = refused
        self.sent = sent
        self.too_large = too_large
