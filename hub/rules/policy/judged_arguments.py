"""Arguments as conditions see them, and as the server gets them: written so that all readers take them for the same.
Pure."""

import re
from json import JSONDecoder, JSONEncoder
from math import isinf
from typing import Final, NoReturn

from msgspec import Raw

MAX_ARGUMENTS_BYTES: Final = 16 << 10
"""Arguments that are larger are judged by no condition."""
_ESCAPE: Final = rb"\u0000"
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_encode: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


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


def encode_arguments(arguments: object) -> Raw:
    """Arguments that were decoded, in the one way in which every reader understands them. Raises ValueError: a text in
    them is none."""
    return Raw(_encode(arguments).encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    if isinf(value := float(text)):
        raise ValueError("a number is too large")
    return value


_decode: Final = JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
