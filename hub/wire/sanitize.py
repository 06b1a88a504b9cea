"""What a message may contain before it is read as one: UTF-8, depth, line ends, surrogates, members given twice.

All of it is decided on bytes, in linear time whatever they are, since anybody may send them (SEC-13).
"""

import re
from array import array
from codecs import utf_8_decode
from itertools import accumulate, compress
from typing import Final

import msgspec
from msgspec import Raw

MAX_DEPTH: Final = 128
MAX_MEMBERS: Final = 1024
"""Of a message, its params or its `_meta`, whose members are looked at one by one; arguments may have any number."""
MAX_STRUCTURES: Final = 400_000
"""Objects and arrays of one message, and as many members at all its levels, if they have to be counted one by one."""
MAX_COUNTED: Final = 3 * MAX_STRUCTURES
"""Brackets and colons that are counted one by one: an object has two brackets, a member of it a colon."""
MAX_SMALL: Final = 1 << 20
"""Objects and arrays of one message, however they may be counted."""
MAX_QUOTES: Final = 1_000_000
"""Of strings that hold what is counted."""
MAX_REPAIRED_BYTES: Final = 4 << 20
MAX_ESCAPES: Final = 200_000
"""Of a message with lone surrogates, which is repaired; a larger one is refused."""
MAX_LINE_ENDS: Final = 100_000
"""Of the characters that are legal in strings, yet line ends to some, each of which is written anew."""
PIECE_BYTES: Final = 1 << 18


class UnacceptableBytes(Exception):
    """What no message may contain. The text says what and where."""


READ_ERRORS: Final = (UnacceptableBytes, msgspec.DecodeError, UnicodeDecodeError, RecursionError, MemoryError)
"""What reading hostile bytes may raise."""

_TOO_MANY = f"More than {MAX_STRUCTURES} objects, arrays and members"
_OPENING = re.compile(rb"[ \t\r\n]*+\{")
_NAME = re.compile(rb'[ \t\r\n]*+"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+:[ \t\r\n]*+', re.S)
_END = re.compile(rb"[ \t\r\n]*+([,}])")
"""Of an object, what comes before a member, its name, and what comes after its value."""
_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_BRACKETS_AND_COLONS = bytes(set(_BRACKETS) - set(b":"))
"""What to leave out to be left with these, and with quotes."""
_STEPS = bytes.maketrans(b"[{]}:", b"\x01\x01\xff\xff\x00")
_ALIKE = bytes.maketrans(b"{}", b"[]")
_FEW_BRACKETS: Final = 10_000
_MAX_PEELED: Final = 6
"""Levels of brackets that are taken away from within: a pass over what is left for each."""
_HARDLY_LESS: Final = 0.95
_COLONS = bytes(byte == ord(":") for byte in range(256))
_SURROGATE = re.compile(rb"\\u[dD]").search
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_LINE_ENDS = {b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029", b"\xc2\x85": rb"\u0085"}


def sanitize(data: bytes) -> bytes:
    """`data` as strict UTF-8 JSON on one line, not too deep.

    It is not parsed, unless it holds a line end: what is not JSON may pass.

    Raises:
        Unclean: that cannot be.
        msgspec.DecodeError: it is not JSON.
    """
    if not data.isascii() and _read_utf8(data):
        data = one_line(data)
    opened = data.count(b"{") + data.count(b"[")  # in strings, too
    if opened > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise UnacceptableBytes(f"JSON nested deeper than {MAX_DEPTH} levels")
    if b"\n" in data or b"\r" in data:
        data = msgspec.json.format(data, indent=-1)
    return data


def _read_utf8(data: bytes) -> int:
    """How many line ends there are in `data`. Piece by piece: one rare character makes four bytes of each in all of a
    string.

    Raises:
        Unclean: it is not UTF-8, or there are too many of them.
    """
    at = found = 0
    try:
        while at < len(data):
            piece = data[at : at + PIECE_BYTES]
            text, taken = utf_8_decode(piece, "strict", at + len(piece) == len(data))
            at += taken
            found += text.count("\u2028") + text.count("\u2029") + text.count("\x85")
            if found > MAX_LINE_ENDS:
                raise UnacceptableBytes(
                    f"More than {MAX_LINE_ENDS} line separators (U+2028, U+2029 or U+0085) in its strings"
                )
    except UnicodeDecodeError as error:
        raise UnacceptableBytes(f"Not UTF-8: {error.reason} at byte {at + error.start}") from None
    return found


def one_line(data: bytes) -> bytes:
    """JSON without the three characters that are legal in its strings, yet line ends to some text-mode readers."""
    if data.isascii():
        return data
    found = [end for end in _LINE_ENDS if end[:1] in data and end in data]  # one byte is found faster than three
    if not found:
        return data
    if any(_is_escaped(data, end) for end in found):  # not JSON; it must not become JSON here
        return data
    for end in found:
        data = data.replace(end, _LINE_ENDS[end])
    return data


def _is_escaped(data: bytes, end: bytes) -> bool:
    """Whether the line end `end` stands somewhere behind a backslash that is not escaped itself."""
    at = data.find(b"\\" + end)
    while at >= 0:
        if _backslashes(data, at + 1) % 2:
            return True
        at = data.find(b"\\" + end, at + 1)
    return False


def _backslashes(data: bytes, end: int) -> int:
    """How many there are in a row before `end`."""
    width = 16
    while True:
        window = data[max(0, end - width) : end]
        found = len(window) - len(window.rstrip(b"\\"))
        if found < width:
            return found
        width *= 4


def well_formed(data: bytes) -> bytes:
    """`data`, which does not decode, with U+FFFD for each surrogate escape that lacks its other half.

    Raises:
        Unclean: that would take too long.
    """
    if not _SURROGATE(data) or b"\0" in data:  # not JSON; it must not become JSON here
        return data
    if len(data) > MAX_REPAIRED_BYTES or data.count(b"\\") > MAX_ESCAPES:
        raise UnacceptableBytes("Not JSON: a lone surrogate or worse, in a message too large to be repaired")
    return _LONE.sub(rb"\\ufffd", data.replace(rb"\\", b"\0\0")).replace(b"\0\0", rb"\\")


# --- depth and members ------------------------------------------------------------------------------------------------


def _depth(data: bytes) -> int:
    """How deep brackets nest outside of strings.

    They are counted one by one only where few are left once the innermost pairs are taken away, level by level, which
    the rows of a large table are.
    """
    outside = _brackets(data)
    levels = 0
    while len(outside) > _FEW_BRACKETS and levels < _MAX_PEELED:
        first = outside[:_FEW_BRACKETS]
        if len(first.replace(b"[]", b"")) > _HARDLY_LESS * len(first):
            break  # it goes deep everywhere, or would take too long
        outside, levels = outside.replace(b"[]", b""), levels + 1
    if len(outside) > MAX_COUNTED:
        raise UnacceptableBytes(_TOO_MANY)
    return levels + max(accumulate(array("b", outside.translate(_STEPS))), default=0)


def _brackets(data: bytes) -> bytes:
    """The brackets outside of strings, all as square ones."""
    refused = f"More than {MAX_SMALL} objects and arrays"
    return _outside_strings(data, _BRACKETS, 2 * MAX_SMALL, refused).translate(_ALIKE)


def members(data: bytes) -> tuple[int, int, int]:
    """How many members there are at the first three levels of `data`, which is JSON that is not too deep."""
    if len(data) <= 5 * MAX_MEMBERS or data.count(b":") <= MAX_MEMBERS:  # a member has five bytes: `"":0,`
        return 0, 0, 0
    outside = _outside_strings(data, _BRACKETS_AND_COLONS, MAX_COUNTED, _TOO_MANY)
    depths = accumulate(array("b", outside.translate(_STEPS)))
    found = bytes(compress(depths, outside.translate(_COLONS)))
    return found.count(1), found.count(2), found.count(3)


def _outside_strings(data: bytes, unwanted: bytes, most: int, refused: str) -> bytes:
    """What stands outside of strings, without the `unwanted` characters. Piece by piece, up to one too many.

    Raises:
        Unclean: there are more than `most` such characters, which the text `refused` says, or too many strings.
    """
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    found: list[bytes] = []
    length = quotes = 0
    opened = b""  # the quote of a string that began in an earlier piece
    for at in range(0, len(data), PIECE_BYTES):
        marks = (opened + _marks(data[at : at + PIECE_BYTES], unwanted)).replace(b'""', b"")
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


def _marks(piece: bytes, unwanted: bytes) -> bytes:
    return piece.translate(None, unwanted)


# --- members given twice ----------------------------------------------------------------------------------------------


def has_duplicates(raw: bytes | Raw, fields: dict[str, Raw]) -> bool:
    """Whether the object `raw`, which decodes to `fields`, names a member twice; what is no object does not.

    A member given twice leaves bytes that `fields` does not account for, so counting suffices for compact JSON; only
    where there is whitespace, or a name is escaped or not ASCII, the two are compared member by member.
    """
    view = memoryview(raw)
    return bool(fields) and not (_is_plain(view, fields) or _is_spelled_by(view, fields))


def _is_plain(raw: memoryview, fields: dict[str, Raw]) -> bool:
    """Whether `{"name":value,...}` of `fields` has exactly the length of `raw`."""
    length = 1
    for name, value in fields.items():
        length += len(name) + 4 + len(memoryview(value))
    return length == len(raw)


def _is_spelled_by(raw: memoryview, fields: dict[str, Raw]) -> bool:
    """Whether `raw` consists of the members of `fields` in their order, however their names are escaped and whatever
    whitespace there is. Values are compared, not read: they may be large."""
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
