"""Arguments that mean one thing only, whoever reads them: what people and hooks are shown is what is sent."""

import json
from functools import partial
from typing import Any, Final

import msgspec
import trio
from msgspec import Raw, structs

from hub.link.call_interface import Operation
from hub.wire.jsonrpc import RemoteProtocolError, raw
from hub.wire.mcp import INVALID_PARAMS

LARGE_BYTES: Final = 64 << 10
"""Arguments that are larger are looked through in a thread."""
_reading: Final = trio.CapacityLimiter(1)


async def settle(operation: Operation) -> Operation:
    """An operation whose arguments have no name twice; the same, if that is so already.

    Raises:
        RemoteProtocolError: -32602, nobody can look through the arguments.
    """
    if (arguments := operation.params.get("arguments")) is None:
        return operation
    work = partial(without_doubles, arguments)
    is_large = memoryview(arguments).nbytes > LARGE_BYTES
    once = await trio.to_thread.run_sync(work, limiter=_reading) if is_large else work()
    return (
        operation if once is arguments else structs.replace(operation, params={**operation.params, "arguments": once})
    )


def without_doubles(arguments: Raw) -> Raw:
    """The arguments, as they are if no name stands twice in an object; else with the last of its values, as JSON is
    mostly read. Raises RemoteProtocolError: they cannot be read."""
    has_doubles = False

    def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_doubles
        members = dict(pairs)
        has_doubles = has_doubles or len(members) < len(pairs)
        return members

    try:
        numbers: Any = {"parse_int": _number, "parse_float": _number, "parse_constant": _number}
        value = json.loads(bytes(arguments), object_pairs_hook=read_members, **numbers)
        return raw(value) if has_doubles else arguments
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        text = f"The arguments cannot be looked through, so nobody can approve them: {error}"
        raise RemoteProtocolError(INVALID_PARAMS, text[:300]) from None


def _number(text: str) -> Raw:
    return Raw(text.encode())
