"""Arguments as conditions see them, and as the server gets them: written so that all readers take them for the same.
Pure."""

import re
from collections.abc import Mapping
from contextlib import suppress
from json import JSONDecoder, JSONEncoder
from math import isinf
from typing import Final, NoReturn

import msgspec
from msgspec import Raw, Struct

from hub.wire.modern_metadata import fold

MAX_ARGUMENTS_BYTES: Final = 16 << 10
"""Arguments that are larger are judged by no condition."""
MAX_WHOLE: Final = 2**53
"""The largest whole number that readers of doubles do not take for another one."""
ArgumentTypes = Mapping[str, frozenset[str]]
"""The types of JSON that arguments may have, by name."""
_ESCAPE: Final = rb"\u0000"
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_TYPES: Final[Mapping[type, tuple[str, ...]]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}
_encode: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class _Member(Struct):
    type: str | list[str] | None = None


class _Schema(Struct):
    properties: dict[str, _Member] = {}


def decode_arguments(arguments: Raw | None) -> object:
    """The arguments of a call as conditions see them. Raises ValueError: they are too large, or cannot be written as
    JSON again."""
    if arguments is None:
        return {}
    if memoryview(arguments).nbytes > MAX_ARGUMENTS_BYTES:
        raise ValueError(f"the arguments have more than {MAX_ARGUMENTS_BYTES} bytes")
    data = bytes(arguments)
    if data.find(_ESCAPE) >= 0 and _NUL.search(data):
        raise ValueError("a text of the arguments holds a NUL character, where conditions would end it")
    found: object = _decode(data.decode())
    return found


def types_of(schema: Raw | None) -> ArgumentTypes:
    """The types of JSON that an input schema says its members have, as far as it says it in plain words."""
    with suppress(msgspec.DecodeError, RecursionError):
        found = msgspec.json.decode(schema or b"{}", type=_Schema).properties
        return {
            name: frozenset([each.type] if isinstance(each.type, str) else each.type)
            for name, each in found.items()
            if each.type
        }
    return {}


def refuse_other_types(arguments: object, types: ArgumentTypes) -> None:
    """Raise ValueError if an argument is of another type than its tool declares: many servers make one of the other, so
    `"true"` would pass a rule about `true`."""
    if not isinstance(arguments, dict):
        return
    for name in types.keys() & arguments.keys():
        if types[name].isdisjoint(_types_of_value(arguments[name])):
            raise ValueError(f"the argument {name} is not of the type that its tool declares")


def _types_of_value(value: object) -> tuple[str, ...]:
    if isinstance(value, float):
        return ("number", "integer") if value.is_integer() else ("number",)
    return _TYPES[type(value)]


def encode_arguments(arguments: object) -> Raw:
    """Arguments that were decoded, in the one way in which every reader understands them. Raises ValueError: a text in
    them is none."""
    return Raw(_encode(arguments).encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _whole(text: str) -> int:
    if len(text) > len(str(MAX_WHOLE)) + 1 or abs(value := int(text)) > MAX_WHOLE:
        raise ValueError("a whole number beyond 2^53 is read as another one by some servers")
    return value


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)  # the same name twice is written once, as the last one says
    if len({fold(name) for name in members}) != len(members):
        raise ValueError("two names of the arguments differ in case only, and some servers take them for the same")
    return members


def _finite(text: str) -> float:
    if isinf(value := float(text)):
        raise ValueError("a number is too large")
    return value


_decode: Final = JSONDecoder(
    object_pairs_hook=_members, parse_constant=_refuse, parse_float=_finite, parse_int=_whole
).decode
