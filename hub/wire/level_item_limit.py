"""Limits of one level: how many members or items an object or array may have to be opened, counted before that.

`hub.wire.total_item_limit` has the limits for all levels of a value together.
"""

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw, structs

from hub.wire.byte_checks import READ_ERRORS, members

MAX_OPENED: Final = 4_096
"""Members of an object, or items of an array, that are read one by one, whoever sent it. Each costs a hundred bytes of
memory, however small it is."""
FREE_BYTES: Final = 4 * MAX_OPENED
"""A value up to this is opened without counting: it cannot have many more."""
FEW: Final = 128
"""Items that a list is first read for: most have no more, and a decoder takes half a kilobyte per item it may read."""
PREFIX_BYTES: Final = 64 * MAX_OPENED
"""A prefix in which too many small members show already."""


def is_long_array(raw: Raw | bytes) -> bool:
    """True if `raw` is an array of more than `MAX_OPENED` items, which is not opened."""
    try:
        return memoryview(raw).nbytes > FREE_BYTES and len(first_items(raw, MAX_OPENED + 1)) > MAX_OPENED
    except READ_ERRORS:
        return False


def first_items(raw: Raw | bytes, most: int) -> list[Raw]:
    """The first `most` items of a JSON array; all others are skipped without making objects.

    Raises: one of `READ_ERRORS`, if `raw` is anything else.
    """
    few = _first(raw, min(FEW, most))
    return few if len(few) < FEW else _first(raw, most)


def _first(raw: Raw | bytes, most: int) -> list[Raw]:
    return [item for item in structs.astuple(list_decoder(Raw, most, is_whole=False).decode(raw)) if item]


@cache
def list_decoder(kind: type, most: int, *, is_whole: bool = True) -> msgspec.json.Decoder[Any]:
    """Make a decoder that reads at most `most` items of `kind` into a struct; absent items are empty (`Raw`) or None.

    A struct, unlike a list, refuses one item too many when the decoder meets it, before all of them take memory; or
    skips it, unless `is_whole`.
    """
    absent = Raw(b"") if kind is Raw else None
    fields = [(f"item_{number}", kind, absent) for number in range(most)]
    items = msgspec.defstruct("_Items", fields, array_like=True, forbid_unknown_fields=is_whole)
    return msgspec.json.Decoder(items)


def members_decoder(*names: str) -> msgspec.json.Decoder[Any]:
    """Make a decoder that reads just these members of an object into a struct, unread; absent ones are empty."""
    return msgspec.json.Decoder(msgspec.defstruct("_Members", [(name, Raw, Raw(b"")) for name in names]))


_decode_bulk = members_decoder(
    *("content", "contents", "messages", "structuredContent", "arguments", "text", "data", "blob", "resource")
).decode
"""Members that are large by right, in objects with few members."""


def bulk_bytes(raw: Raw | bytes) -> int:
    """The number of bytes of an object in members that are large by right, such as `arguments`.

    Raises: one of `READ_ERRORS`, if `raw` is no object.
    """
    return sum(len(memoryview(each)) for each in structs.astuple(_decode_bulk(raw)))


def has_too_many_members(raw: Raw | bytes) -> bool:
    """True if an object has more than `MAX_OPENED` members. Raises UnacceptableBytes: the members hold too much to be
    counted."""
    data = bytes(raw)
    if data.count(b":") <= MAX_OPENED:
        return False
    if len(data) - bulk_bytes(data) <= 5 * MAX_OPENED:  # a member has five bytes: `"":0,`
        return False
    return members(data[:PREFIX_BYTES])[0] > MAX_OPENED or members(data)[0] > MAX_OPENED
