"""JSON objects, read strictly (RFC 8259, I-JSON). Pure.

Documents in answers decide where secrets go: what two parsers could read differently is not read at all, and a second
member of the same name is no detail.
"""

import json
import math
from typing import Any, Final

from config.loading.text_limits import is_deep

MAX_DEPTH: Final = 32


def read_json_object(data: bytes, max_depth: int = MAX_DEPTH) -> dict[str, Any] | None:
    """The object in `data`; None if it is no UTF-8, no JSON, no object, or deeper than `max_depth`, and for members of
    the same name, NaN, numbers beyond a double, and half surrogate pairs."""
    try:
        value = _decode(data.decode())
        if not isinstance(value, dict) or is_deep(value, max_depth):
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
