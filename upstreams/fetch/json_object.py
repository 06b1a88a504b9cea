"""Strict reading of a JSON object (RFC 8259, I-JSON): what two parsers could read differently is not read at all. Pure.

Such documents decide where secrets go, so a second member of the same name is no detail.
"""

import json
import math
from typing import Any, Final

MAX_DEPTH: Final = 32


def read_json_object(data: bytes) -> dict[str, Any] | None:
    """The object in `data`; None if it is no UTF-8, no JSON, no object, or deeper than `MAX_DEPTH`, and for members of
    the same name, NaN, numbers beyond a double, and half surrogate pairs."""
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_members,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_finite_int,
        )
        if not isinstance(value, dict) or _too_deep(value):
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


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number beyond a double")
    return number


def _finite_int(text: str) -> int:
    if len(text) > 309:
        raise ValueError("a number beyond a double")
    return int(text)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
