"""Settles the arguments of a call: no name stands twice, so that what people and hooks are shown is what is sent."""

from functools import partial
from typing import Final

import msgspec
import trio
from msgspec import Raw

from hub.link.call_interface import Operation
from hub.wire.byte_checks import without_doubles
from hub.wire.jsonrpc import RemoteProtocolError
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
    work = partial(_without_doubles, arguments)
    is_large = memoryview(arguments).nbytes > LARGE_BYTES
    once = await trio.to_thread.run_sync(work, limiter=_reading) if is_large else work()
    return operation if once is arguments else operation.with_arguments(once)


def _without_doubles(arguments: Raw) -> Raw:
    try:
        return without_doubles(arguments)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        text = f"The arguments cannot be looked through, so nobody can approve them: {error}"
        raise RemoteProtocolError(INVALID_PARAMS, text[:300]) from None
