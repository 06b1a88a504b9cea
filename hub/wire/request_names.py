"""Lists of strings that a host sends, such as what it wants to subscribe to: a list too long is refused unread."""

from typing import Final

import msgspec
from msgspec import Raw, structs

from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.open_limits import list_decoder
from hub.wire.sanitize import MALFORMED

MAX_STRINGS: Final = 2_048
"""More than any host may subscribe to at a time."""


def read_strings(value: Raw, name: str) -> list[str]:
    """The different strings of the JSON list `value`, in their order. `name` is what an error calls it.

    Raises:
        RemoteProtocolError: -32602, it is no list of strings, or has more than `MAX_STRINGS`.
    """
    try:
        items = structs.astuple(list_decoder(str, MAX_STRINGS).decode(value))
    except msgspec.ValidationError:
        text = f"{name} is a list of at most {MAX_STRINGS} strings"
        raise RemoteProtocolError(INVALID_PARAMS, text) from None
    except MALFORMED as error:
        raise RemoteProtocolError(INVALID_PARAMS, f"{name} cannot be read: {error}") from None
    return list(dict.fromkeys(item for item in items if item is not None))
