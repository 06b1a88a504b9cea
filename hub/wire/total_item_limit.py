"""Limits of a whole value: how many items it may have on all levels together to be opened, counted before that.

Opening an object or array takes 100 to 300 bytes and up to some microseconds per item, and its sender chose how many
there are. Counting items on the bytes costs next to nothing, so a value with too many is refused in time. A text counts
as one item, however long it is.
"""

from typing import Final

from msgspec import DecodeError, Raw, ValidationError, structs

from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import Failure, RemoteProtocolError, peek_object
from hub.wire.level_item_limit import list_decoder, members_decoder
from hub.wire.mcp import INVALID_PARAMS

SMALL_BYTES: Final = 64 << 10
"""A value up to this is opened without counting: 30 000 items at most, a few milliseconds."""
MAX_ITEMS: Final = 100_000
"""Items on all levels of a value that the hub has to open: 10 ms. A list of 5 000 links has 40 000."""
MAX_STRINGS: Final = 2_048
"""Strings in a list that a host sends: more than any host may subscribe to at a time."""
_MAX_QUOTES: Final = 1_000_000
"""Quotes of strings that hold commas or quotes, which have to be cut out one by one."""

_UNWANTED = bytes(set(range(256)) - set(b'",'))


class TooManyItems(ValueError):
    """A value has too many items to be opened. The text says which value, and how many it may have."""


_decode_known = members_decoder("content", "contents", "messages", "completion", "structuredContent").decode
"""Members of results that may be large, and are opened only if there is a reason."""


def has_too_many_items(value: Raw | bytes, most: int = MAX_ITEMS) -> bool:
    """True if JSON has more than `most` items on all levels together. Linear, without an object per item."""
    data = bytes(value)
    if len(data) <= 2 * most or data.count(b",") < most:  # an item has two bytes at least: `1,`
        return False
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    marks = data.translate(None, _UNWANTED).replace(b'""', b"")
    if marks.count(b'"') > _MAX_QUOTES:
        return True
    return sum(len(outside) for outside in marks.split(b'"')[::2]) >= most if b'"' in marks else len(marks) >= most


def refuse_too_many_items(value: Raw, what: str) -> None:
    """Refuse to open a value with too many items; not needed for values up to `SMALL_BYTES`. Raises TooManyItems: the
    value, called `what`, has more than `MAX_ITEMS`."""
    if has_too_many_items(value):
        raise TooManyItems(f"{what} has more than {MAX_ITEMS} items, which is more than the hub looks through")


def peek_limited(value: Raw | None) -> dict[str, Raw]:
    """The members of a JSON object, if it does not have too many items; empty for anything else."""
    if value is None or (memoryview(value).nbytes > SMALL_BYTES and has_too_many_items(value)):
        return {}
    return peek_object(value, counted=True)


def data_of(failure: Failure) -> dict[str, Raw]:
    """The members of the data of an error; empty if there is none, or too much."""
    return peek_limited(failure.data if isinstance(failure.data, Raw) else None)


def open_result(value: Raw) -> dict[str, Raw]:
    """The members of a result; empty if the result is no object. Raises TooManyItems: the result has too many items
    outside of the members that the hub need not open."""
    if memoryview(value).nbytes > SMALL_BYTES:
        try:
            members = structs.astuple(_decode_known(value))
        except (DecodeError, RecursionError):
            return {}
        if memoryview(value).nbytes - sum(memoryview(each).nbytes for each in members) > SMALL_BYTES:
            refuse_too_many_items(value, "a result")
    return peek_object(value, counted=True)


def read_strings(value: Raw, name: str) -> list[str]:
    """Read a JSON list of strings, without repetitions, in order. Errors call the list `name`. Raises
    RemoteProtocolError: -32602, `value` is no list of strings, or has more than `MAX_STRINGS`."""
    try:
        items = structs.astuple(list_decoder(str, MAX_STRINGS).decode(value))
    except ValidationError:
        text = f"{name} is a list of at most {MAX_STRINGS} strings"
        raise RemoteProtocolError(INVALID_PARAMS, text) from None
    except READ_ERRORS as error:
        raise RemoteProtocolError(INVALID_PARAMS, f"{name} cannot be read: {error}") from None
    return list(dict.fromkeys(item for item in items if item is not None))
