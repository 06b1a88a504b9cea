"""The limit of what is opened item by item, and how it is seen before an object or an array is opened.

`hub.wire.value_limits` counts what is in a value on all its levels; this is about one level.
"""

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from hub.wire.sanitize import READ_ERRORS, members

MAX_OPENED: Final = 4_096
"""Members of an object, or items of an array, that are looked at one by one, whoever sent it. Each would cost a hundred
bytes and more time than it has bytes (SEC-13)."""
FREE_BYTES: Final = 4 * MAX_OPENED
"""Of what may be opened at once: there are not many more in it."""
PREFIX_BYTES: Final = 64 * MAX_OPENED
"""In which a crowd of small members shows already."""


def is_long_array(raw: Raw | bytes) -> bool:
    """Whether that is an array of more than `MAX_OPENED` items, which is not opened."""
    try:
        return memoryview(raw).nbytes > FREE_BYTES and len(first_items(raw, MAX_OPENED + 1)) > MAX_OPENED
    except READ_ERRORS:
        return False


def first_items(raw: Raw | bytes, most: int) -> list[Raw]:
    """The first items of a JSON array, at most so many; no others cost anything but being passed over.

    Raises: what `READ_ERRORS` says, if it is something else.
    """
    return [item for item in structs.astuple(list_decoder(Raw, most, is_whole=False).decode(raw)) if item]


@cache
def list_decoder(kind: type, most: int, *, is_whole: bool = True) -> msgspec.json.Decoder[Any]:
    """Reads an array of at most `most` items of `kind` into a struct, where an absent one is empty (`Raw`) or None.

    In a struct in place of a list, one item too many is refused when it is met, not when all of them take memory; or
    passed over, if the list need not be the whole one.
    """
    absent = Raw(b"") if kind is Raw else None
    fields = [(f"item_{number}", kind, absent) for number in range(most)]
    items = msgspec.defstruct("_Items", fields, array_like=True, forbid_unknown_fields=is_whole)
    return msgspec.json.Decoder(items)


class _Bulk(Struct):
    """What makes objects large that have few members."""

    content: Raw = Raw(b"")
    contents: Raw = Raw(b"")
    messages: Raw = Raw(b"")
    structuredContent: Raw = Raw(b"")
    arguments: Raw = Raw(b"")
    text: Raw = Raw(b"")
    data: Raw = Raw(b"")
    blob: Raw = Raw(b"")
    resource: Raw = Raw(b"")


_decode_bulk = msgspec.json.Decoder(_Bulk).decode


def bulk_bytes(raw: Raw | bytes) -> int:
    """How much of an object stands in those of its members that are large by right, such as `arguments`.

    Raises: what `READ_ERRORS` says, if it is none.
    """
    return sum(len(memoryview(each)) for each in structs.astuple(_decode_bulk(raw)))


def has_too_many_members(raw: Raw | bytes) -> bool:
    """Whether there are more than `MAX_OPENED` members in an object.

    Raises:
        Unclean: there is so much within them that they cannot be counted.
    """
    data = bytes(raw)
    if data.count(b":") <= MAX_OPENED:
        return False
    if len(data) - bulk_bytes(data) <= 5 * MAX_OPENED:  # a member has five bytes: `"":0,`
        return False
    return members(data[:PREFIX_BYTES])[0] > MAX_OPENED or members(data)[0] > MAX_OPENED
