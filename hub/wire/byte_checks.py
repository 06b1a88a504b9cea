"""Checks on the bytes of a message before it is parsed: UTF-8, depth, line ends, surrogates, members given twice.

All checks take linear time, whatever the bytes are: they may come from anybody.
"""

import json
import re
from array import array
from codecs import utf_8_decode
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, compress
from typing import Any, Final

import msgspec
from msgspec import Raw

MAX_DEPTH: Final = 128
MAX_MEMBERS: Final = 1024
"""Members of a message, its params or its `_meta`, which are read one by one; arguments may have any number."""
MAX_STRUCTURES: Final = 400_000
"""Objects and arrays of one message, and as many members on all levels, where they have to be counted one by one."""
MAX_COUNTED: Final = 3 * MAX_STRUCTURES
"""Brackets and colons that are counted one by one: an object has two brackets, each of its members a colon."""
MAX_SMALL: Final = 1 << 20
"""Objects and arrays of one message, however they are counted."""
MAX_QUOTES: Final = 1_000_000
"""Quotes of strings that hold brackets or colons."""
MAX_REPAIRED_BYTES: Final = 4 << 20
MAX_ESCAPES: Final = 200_000
"""Backslashes in a message with lone surrogates, which is repaired; a message beyond either limit is refused."""
MAX_LINE_ENDS: Final = 100_000
"""Characters that are legal in strings, yet line ends to some readers; each is escaped."""
PIECE_BYTES: Final = 1 << 18


class UnacceptableBytes(Exception):
    """A message contains what none may contain; the text says what and where."""


READ_ERRORS: Final = (UnacceptableBytes, msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
"""Exceptions that reading hostile bytes may raise."""

_TOO_MANY = f"More than {MAX_STRUCTURES} objects, arrays and members"
_OPENING = re.compile(rb"[ \t\r\n]*+\{")
_NAME = re.compile(rb'[ \t\r\n]*+"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+:[ \t\r\n]*+', re.S)
_END = re.compile(rb"[ \t\r\n]*+([,}])")
"""Parts of an object: before the first member; a member's name; after its value."""
_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_BRACKETS_AND_COLONS = bytes(set(_BRACKETS) - set(b":"))
"""Bytes to delete so that only these, and quotes, remain."""
_STEPS = bytes.maketrans(b"[{]}:", b"\x01\x01\xff\xff\x00")
_ALIKE = bytes.maketrans(b"{}", b"[]")
_FEW_BRACKETS: Final = 10_000
_MAX_PEELED: Final = 6
"""Innermost levels of brackets that are removed at most, each in one pass over the rest."""
_HARDLY_LESS: Final = 0.95
_COLONS = bytes(byte == ord(":") for byte in range(256))
_SURROGATE = re.compile(rb"\\u[dD]").search
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_LINE_ENDS = {b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029", b"\xc2\x85": rb"\u0085"}


def sanitize(data: bytes) -> bytes:
    """Make `data` strict UTF-8 on one line, and refuse JSON that is nested too deep.

    `data` is only parsed if it holds a line end: what is not JSON may pass. Raises UnacceptableBytes: `data` is not
    UTF-8, nested too deep, or holds too much to be checked; msgspec.DecodeError: `data` is not JSON."""
    if not data.isascii() and _read_utf8(data):
        data = one_line(data)
    if len(data) > PIECE_BYTES or data.count(b"{") + data.count(b"[") > MAX_DEPTH:  # in strings, too
        refuse_deep(data)
    if data.find(b"\n") >= 0 or data.find(b"\r") >= 0:  # `in` tries the bytes as a number first, which raises
        data = msgspec.json.format(data, indent=-1)
    return data


def is_one_line(data: bytes) -> bool:
    """True if `sanitize` would leave `data` as it is, but for its depth. Raises UnacceptableBytes: it is not UTF-8."""
    return data.find(b"\n") < 0 and data.find(b"\r") < 0 and (data.isascii() or not _read_utf8(data))


def refuse_deep(data: bytes, most: int = MAX_DEPTH) -> None:
    """Raises UnacceptableBytes: JSON is nested deeper than `most` levels, or holds too much to be checked."""
    if count_some(data, b"{", most) + count_some(data, b"[", most) > most and _depth(data) > most:
        raise UnacceptableBytes(f"JSON nested deeper than {most} levels")


def count_some(data: bytes, byte: bytes, most: int) -> int:
    """The number of times that `byte` occurs, or one more than `most` if that is less.

    `bytes.count` looks at each byte; `find` passes over a large text ten times faster.
    """
    found, at = 0, data.find(byte)
    while at >= 0 and found <= most:
        found, at = found + 1, data.find(byte, at + 1)
    return found


def _read_utf8(data: bytes) -> int:
    """Count the non-ASCII line ends in `data`, piece by piece: one rare character makes every character of a Python
    string take four bytes. Raises UnacceptableBytes: `data` is not UTF-8, or has too many line ends."""
    at = found = 0
    try:
        while at < len(data):
            piece = data[at : at + PIECE_BYTES]
            text, taken = utf_8_decode(piece, "strict", at + len(piece) == len(data))
            at += taken
            found += text.count("\u2028") + text.count("\u2029") + text.count("\x85")
            if found > MAX_LINE_ENDS:
                what = "line separators (U+2028, U+2029 or U+0085) in its strings"
                raise UnacceptableBytes(f"More than {MAX_LINE_ENDS} {what}")
    except UnicodeDecodeError as error:
        raise UnacceptableBytes(f"Not UTF-8: {error.reason} at byte {at + error.start}") from None
    return found


def one_line(data: bytes) -> bytes:
    """Escape the three characters that are legal in JSON strings, yet line ends to some text-mode readers."""
    if data.isascii():
        return data
    found = [end for end in _LINE_ENDS if end[:1] in data and end in data]  # one byte is found faster than three
    if any(b"\\" + end in data for end in found):
        bare = data.replace(rb"\\", b"")
        if any(b"\\" + end in bare for end in found):  # an escaped line end is not JSON; it must not become JSON here
            return data
    for end in found:
        data = data.replace(end, _LINE_ENDS[end])
    return data


def well_formed(data: bytes) -> bytes:
    """Replace each surrogate escape that lacks its other half by U+FFFD, in `data`, which does not decode. Raises
    UnacceptableBytes: the repair would take too long."""
    if not _SURROGATE(data) or b"\0" in data:  # not JSON; it must not become JSON here
        return data
    if len(data) > MAX_REPAIRED_BYTES or data.count(b"\\") > MAX_ESCAPES:
        raise UnacceptableBytes("Not JSON: a lone surrogate or worse, in a message too large to be repaired")
    return _LONE.sub(rb"\\ufffd", data.replace(rb"\\", b"\0\0")).replace(b"\0\0", rb"\\")


def _depth(data: bytes) -> int:
    """The depth to which brackets nest outside of strings.

    The innermost pairs, such as the rows of a large table, are cut out first, in one pass for each level. The brackets
    that are left are counted one by one.
    """
    refused = f"More than {MAX_SMALL} objects and arrays"
    brackets = _outside_strings(data, _BRACKETS, 2 * MAX_SMALL, refused).translate(_ALIKE)
    levels = 0
    while len(brackets) > _FEW_BRACKETS and levels < _MAX_PEELED:
        sample = brackets[:_FEW_BRACKETS]
        if len(sample.replace(b"[]", b"")) > _HARDLY_LESS * len(sample):
            break  # hardly any pair is innermost: it nests deep everywhere
        brackets, levels = brackets.replace(b"[]", b""), levels + 1
    if len(brackets) > MAX_COUNTED:
        raise UnacceptableBytes(_TOO_MANY)
    return levels + max(_depths(brackets), default=0)


def members(data: bytes) -> tuple[int, int, int]:
    """Count the members on each of the first three levels of `data`, which is JSON that is not too deep: the colons
    outside of strings, by the depth at which they stand. Zeros: so few that nobody need count."""
    few = 5 * MAX_MEMBERS  # a member has five bytes: `"":0,`
    if len(data) <= few or count_some(data, b":", MAX_MEMBERS) <= MAX_MEMBERS:
        return 0, 0, 0
    marks = _outside_strings(data, _BRACKETS_AND_COLONS, MAX_COUNTED, _TOO_MANY)
    colons = bytes(compress(_depths(marks), marks.translate(_COLONS)))
    return colons.count(1), colons.count(2), colons.count(3)


def _depths(marks: bytes) -> Iterator[int]:
    """The depth behind each bracket, and at each colon."""
    return accumulate(array("b", marks.translate(_STEPS)))


def _outside_strings(data: bytes, unwanted: bytes, most: int, refused: str) -> bytes:
    """The bytes outside of strings but for the `unwanted` ones, cut out piece by piece. Raises UnacceptableBytes."""
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    found: list[bytes] = []
    length = quotes = 0
    opened = b""  # the quote of a string that began in an earlier piece
    for at in range(0, len(data), PIECE_BYTES):
        marks = (opened + data[at : at + PIECE_BYTES].translate(None, unwanted)).replace(b'""', b"")
        count = marks.count(b'"')
        quotes += count
        if quotes > MAX_QUOTES:
            raise UnacceptableBytes(f"More than {MAX_QUOTES // 2} strings with brackets or colons in them")
        outside = b"".join(marks.split(b'"')[::2])
        length += len(outside)
        if length > most:
            raise UnacceptableBytes(refused)
        found.append(outside)
        opened = b'"' if count % 2 else b""
    return b"".join(found)


def has_duplicates(raw: bytes | Raw, fields: dict[str, Raw]) -> bool:
    """True if the object `raw`, which decodes to `fields`, has a member twice; False for anything but an object.

    A member given twice leaves bytes that `fields` does not account for, so comparing lengths suffices for compact
    JSON. `raw` and `fields` are compared member by member only where there is whitespace, or a name is escaped or not
    ASCII.
    """
    view = memoryview(raw)
    return bool(fields) and not (_is_plain(view, fields) or _is_spelled_by(view, fields))


def _is_plain(raw: memoryview, fields: dict[str, Raw]) -> bool:
    """True if `{"name":value,...}` of `fields` has exactly the length of `raw`."""
    return 1 + sum(len(name) + 4 + len(memoryview(value)) for name, value in fields.items()) == len(raw)


def _is_spelled_by(raw: memoryview, fields: dict[str, Raw]) -> bool:
    """True if `raw` consists of the members of `fields` in their order, with any escapes in names and any whitespace.

    Values are compared as bytes, not parsed: they may be large.
    """
    end = _OPENING.match(raw)
    for value in fields.values():
        name = _NAME.match(raw, end.end()) if end else None
        if name is None:
            return False
        start, size = name.end(), len(memoryview(value))
        if bytes(raw[start : start + size]) != bytes(value):
            return False
        end = _END.match(raw, start + size)
    return end is not None and end[1] == b"}"


def without_doubles(value: Raw) -> Raw:
    """A value, as it is if no name stands twice in an object at any level; else with the last of its values, as JSON is
    mostly read, so that all who read it read the same. Raises: ValueError, RecursionError, MsgspecError: it cannot be
    read."""
    data, has_doubles = bytes(value), False
    with suppress(ValueError, RecursionError, msgspec.MsgspecError):
        if msgspec.json.encode(msgspec.json.decode(data)) == data:
            return value

    def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_doubles
        members = dict(pairs)
        has_doubles = has_doubles or len(members) < len(pairs)
        return members

    numbers: Any = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), lambda text: Raw(text.encode()))
    found = json.loads(data, object_pairs_hook=read_members, **numbers)
    return Raw(msgspec.json.encode(found)) if has_doubles else value
