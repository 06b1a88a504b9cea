"""Cheap looks at large messages: what a whole one costs, a search for a word costs too, and most have nothing to find.

`excerpt` leaves out what stands in long texts, so that all searches for short strings together cost less than one.
`read_tool_result` reads the commonest large message, text that a tool found, in the one pass that validates it.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct, structs

from hub.wire import byte_checks
from hub.wire.byte_checks import MAX_DEPTH, READ_ERRORS

LARGE_BYTES: Final = 64 << 10
"""A message up to this is simply searched."""
MAX_QUOTES: Final = 512
"""Quotes of a large message beyond which it is searched as it is: a step for each takes 0.1 us."""
STRETCH_BYTES: Final = 512
"""Bytes kept of what stands between two quotes: more than any name that is looked for takes, were it all escapes."""
MAX_TEXTS: Final = 64
"""Content blocks of one result that are read at once."""


def excerpt(value: Raw | bytes) -> bytes:
    """The JSON `value` with what stands between two quotes cut after `STRETCH_BYTES`: short strings and the beginnings
    of long ones are all there, whole if they were. It is no JSON. `value` itself, if it is small or has many quotes."""
    data = value if isinstance(value, bytes) else bytes(value)
    if len(data) <= LARGE_BYTES:
        return data
    stretches: list[bytes] = []
    at = 0
    while len(stretches) <= MAX_QUOTES:
        if (end := data.find(b'"', at)) < 0:
            stretches.append(data[at : at + STRETCH_BYTES])
            return b'"'.join(stretches)
        stretches.append(data[at : min(end, at + STRETCH_BYTES)])
        at = end + 1
    return data


_NOT_PLAIN: Final = (
    *(b'"_meta"', b'"resultType"', b'"task"', b'"structuredContent"', b'"uri"', b'"resource_link"', b'"audio"'),
    rb"\u00",  # a letter of a name may be written so
)


ERROR: Final = b'"isError"'
"""In every result that says it is an error, and in some others."""


def look_at_result(value: Raw) -> tuple[bool, bool | None]:
    """True if a cheap look tells that `value` is a small result of a tool in which no host of the handshake era is to
    see anything otherwise: ASCII, no metadata, no URIs, no blocks that some revision lacks. And True if it says that
    the tool has failed; None: it is no result of a tool, or has no content."""
    data = excerpt(value)
    if data.find(b'"content":[') < 0:
        return False, None
    says_error = data.find(ERROR) >= 0 and tells_error(value)
    if not data.isascii() or memoryview(value).nbytes > LARGE_BYTES:
        return False, says_error
    for sign in _NOT_PLAIN:  # a loop, since every result comes by
        if data.find(sign) >= 0:
            return False, says_error
    return True, says_error


class _MayBeError(Struct):
    isError: bool = False


_decode_error: Final = msgspec.json.Decoder(_MayBeError).decode


def tells_error(value: Raw | bytes) -> bool:
    """True if a result says that the tool has failed."""
    if excerpt(value).find(ERROR) < 0:
        return False
    try:
        return _decode_error(value).isError
    except READ_ERRORS:
        return False


class _Text(Struct, forbid_unknown_fields=True):
    type: Literal["text"]
    text: Raw


_NONE = Raw(b"{}")


_Texts = msgspec.defstruct(
    "_Texts",
    [(f"text_{number}", _Text | None, None) for number in range(MAX_TEXTS)],
    array_like=True,
    forbid_unknown_fields=True,
)
_Members = msgspec.defstruct(
    "_Members",
    [
        ("content", _Texts),
        ("isError", bool, False),
        *((name, Raw, _NONE) for name in ("structuredContent", "resultType", "_meta")),
    ],
    forbid_unknown_fields=True,
)


_LEAST_BLOCK: Final = len('{"type":"text","text":},')
MAX_REST: Final = MAX_DEPTH
"""Bytes of a result outside of what is looked at. A member given twice is hidden there, nested half as deep at most."""
_decode_members: Callable[[memoryview], Any] = msgspec.json.Decoder(_Members).decode
_ID = rb'"jsonrpc": ?"2\.0", ?"id": ?(0|[1-9][0-9]{0,14})'
_BEFORE = re.compile(rb"\{ ?" + _ID + rb', ?"result": ?(?=\{)').match
_RESULT_FIRST: Final = b'{"result":'
_BEHIND = re.compile(rb"(?<=\}), ?" + _ID + rb" ?\}\Z").search
_BEHIND_BYTES: Final = 64


def read_tool_result(data: bytes) -> tuple[int, Raw, bool, bool] | None:
    """Read `data`, if it is a response with a large result of a tool in a usual form: the id, the result, whether
    that is plain: nothing but text, and perhaps structured content, which is an object; and whether it says that the
    tool has failed. None: it is something else, or is to be refused.

    What is returned has passed every check of `hub.wire.jsonrpc`: the envelope has these members only, known by their
    place; the one JSON value between them is decoded; it nests no deeper than its form says, but for three members that
    are looked at; and a member that is given twice has no room to nest deep.
    """
    if found := _BEFORE(data):
        value = memoryview(data)[found.end() : -1]
    elif data.startswith(_RESULT_FIRST) and (found := _BEHIND(data, len(data) - _BEHIND_BYTES)):
        value = memoryview(data)[len(_RESULT_FIRST) : found.start()]
    else:
        return None
    if not data.endswith(b"}"):
        return None
    try:
        members = _decode_members(value)
        texts = [memoryview(each.text) for each in structs.astuple(members.content) if each is not None]
        others = [memoryview(each) for each in (members.structuredContent, members.resultType, members._meta)]
        rest = len(value) - sum(map(len, texts)) - sum(map(len, others)) - _LEAST_BLOCK * len(texts)
        is_sound = rest <= MAX_REST and all(text[0] == ord('"') for text in texts) and byte_checks.is_one_line(data)
        for each in others:
            byte_checks.refuse_deep(bytes(each), MAX_DEPTH - 2)
    except READ_ERRORS:
        return None
    if not is_sound:
        return None
    is_plain = others[0][0] == ord("{") and members.resultType is members._meta is _NONE
    return int(found[1]), Raw(value), is_plain, members.isError
