"""Arguments that mean one thing only, whoever reads them: what people and hooks are shown is what is sent."""

import json
import re
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final

import msgspec
import trio
from msgspec import Raw

from hub.link.call_interface import Operation
from hub.wire.byte_checks import without_doubles
from hub.wire.jsonrpc import RemoteProtocolError
from hub.wire.mcp import INVALID_PARAMS

LARGE_BYTES: Final = 64 << 10
"""Arguments that are larger are looked through in a thread."""
_WHOLE: Final = re.compile(r"(-?[0-9]{1,15})(?:\.0+)?")
"""Numbers that every reader takes for the same, with or without a fraction of zeros."""
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


def digest_of(method: str, arguments: Raw) -> str:
    """The digest of what a person is asked about: that of no other arguments, however like them they are read. The
    order of names does not count, and neither does `1` or `1.0`; of `LARGE_BYTES` and more everything does."""
    data = bytes(arguments)
    if len(data) < LARGE_BYTES:
        numbers: Any = {"parse_int": _exact, "parse_float": _exact}
        with suppress(ValueError, RecursionError):
            data = b"read " + repr(json.loads(data, object_pairs_hook=_sort, **numbers)).encode()
    return sha256(b"%b %b" % (method.encode(), data)).hexdigest()


def _sort(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(dict(pairs).items()))


def _exact(text: str) -> bytes:
    found = text if (whole := _WHOLE.fullmatch(text)) is None else whole[1]
    return b"0" if found == "-0" else found.encode()
