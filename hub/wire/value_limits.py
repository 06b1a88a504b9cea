"""How much there is in a JSON value, counted before anything is made of it.

To open an object or an array costs 100 to 300 bytes and up to some microseconds for each item, and whoever wrote it
chose how many there are. Counting them on the bytes costs next to nothing for each, so that a value with too many can
be refused in time (SEC-13). Text counts as one item, however long it is.
"""

from typing import Final

from msgspec import DecodeError, Raw, Struct, ValidationError, structs
from msgspec.json import Decoder

from hub.wire.jsonrpc import RemoteProtocolError, peek_object
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.open_limits import list_decoder
from hub.wire.sanitize import READ_ERRORS

SMALL_BYTES: Final = 64 << 10
"""A value up to this is opened whatever is in it: 30 000 items at most, a few milliseconds."""
MAX_ITEMS: Final = 100_000
"""Items of a value on all its levels together, if the hub has to open it: 10 ms. A list of 5 000 links has 40 000."""
MAX_STRINGS: Final = 2_048
"""More than any host may subscribe to at a time."""
_MAX_QUOTES: Final = 1_000_000
"""Of strings that hold commas or quotes, which have to be cut out one by one."""

_UNWANTED = bytes(set(range(256)) - set(b'",'))
_NONE: Final = Raw(b"")


class TooManyItems(ValueError):
    """A value has too many items for the hub to look through them. The text says which and how many it may have."""


class _Known(Struct):
    """The members of results that may be large, and are opened only if there is a reason."""

    content: Raw = _NONE
    contents: Raw = _NONE
    messages: Raw = _NONE
    completion: Raw = _NONE
    structuredContent: Raw = _NONE


_decode_known = Decoder(_Known).decode


def has_too_many_items(value: Raw | bytes, most: int = MAX_ITEMS) -> bool:
    """Whether JSON has more than `most` items, on all levels together. Linear, and nothing is made for each item."""
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
    """Refuse to open a value with too many items. Small ones need not be asked about: see `SMALL_BYTES`.

    Raises:
        Crowd: it has more than `MAX_ITEMS`. `what` names it.
    """
    if has_too_many_items(value):
        raise TooManyItems(f"{what} has more than {MAX_ITEMS} items, which is more than the hub looks through")


def peek_limited(value: Raw | None) -> dict[str, Raw]:
    """The members of a JSON object that is no crowd; empty for anything else."""
    if value is None or (memoryview(value).nbytes > SMALL_BYTES and has_too_many_items(value)):
        return {}
    return peek_object(value, counted=True)


def open_result(value: Raw) -> dict[str, Raw]:
    """The members of a result; empty, if it is no object.

    Raises:
        Crowd: it has too many.
    """
    if memoryview(value).nbytes > SMALL_BYTES:
        _refuse_large_result(value)
    return peek_object(value, counted=True)


def _refuse_large_result(value: Raw) -> None:
    """The same for a result, whose members may be as large as they like where the hub need not open them.

    Raises:
        Crowd: see there.
    """
    try:
        known = _decode_known(value)
    except (DecodeError, RecursionError):
        return  # no object: there is nothing to open
    members = (known.content, known.contents, known.messages, known.completion, known.structuredContent)
    if memoryview(value).nbytes - sum(memoryview(each).nbytes for each in members) > SMALL_BYTES:
        refuse_too_many_items(value, "a result")


def read_strings(value: Raw, name: str) -> list[str]:
    """The different strings of the JSON list `value`, in their order. `name` is what an error calls it.

    Raises:
        RemoteProtocolError: -32602, it is no list of strings, or has more than `MAX_STRINGS`.
    """
    try:
        items = structs.astuple(list_decoder(str, MAX_STRINGS).decode(value))
    except ValidationError:
        text = f"{name} is a list of at most {MAX_STRINGS} strings"
        raise RemoteProtocolError(INVALID_PARAMS, text) from None
    except READ_ERRORS as error:
        raise RemoteProtocolError(INVALID_PARAMS, f"{name} cannot be read: {error}") from None
    return list(dict.fromkeys(item for item in items if item is not None))
