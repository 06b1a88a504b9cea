"""One request to the demo server with its metadata read, and what answers are made of."""

import math
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import UNSET, Struct

from hub.wire import jsonrpc, mcp

Json = dict[str, Any]

TTL_MS: Final = 60_000
"""Time that modern clients may keep a list; nothing in it changes but by `touch`, which says so."""


class DemoRefusal(Exception):
    """Answer this request with an error."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.failure = jsonrpc.Failure(code, message, data if data is UNSET else jsonrpc.raw(data))


class Call(Struct, frozen=True):
    """One request. `modern`: its era."""

    id: jsonrpc.RequestId
    params: Json
    modern: bool
    log_level: str | None
    token: int | str | None
    """For progress; None: none wanted."""
    now: float

    def object(self, key: str) -> Json:
        """The object among the params; empty if it is absent.

        Raises:
            DemoRefusal: it is something else.
        """
        value = self.params.get(key, {})
        if not isinstance(value, dict):
            raise DemoRefusal(mcp.INVALID_PARAMS, f"{key} is an object")
        return value


def read_call(request: jsonrpc.Request, now: float) -> Call:
    """The request with its metadata read.

    Raises:
        DemoRefusal: params that cannot be read, or modern metadata that is incomplete or of an unknown revision.
    """
    try:
        params: Json = {key: msgspec.json.decode(value) for key, value in request.params.items()}
    except msgspec.DecodeError as error:
        raise DemoRefusal(mcp.INVALID_PARAMS, f"params hold what the demo server cannot read: {error}") from None
    meta = params.pop("_meta", None)
    meta = meta if isinstance(meta, dict) else {}
    version = meta.get(mcp.VERSION_KEY)
    if version is not None and version not in mcp.MODERN_VERSIONS:
        data = {"supported": mcp.ALL_VERSIONS, "requested": version}
        raise DemoRefusal(mcp.UNSUPPORTED_VERSION, f"The demo server does not speak revision {version}", data)
    if version is not None and not isinstance(meta.get(mcp.CLIENT_CAPABILITIES_KEY), dict):
        raise DemoRefusal(mcp.INVALID_PARAMS, f"_meta lacks {mcp.CLIENT_CAPABILITIES_KEY}")
    level = meta.get(mcp.LOG_LEVEL_KEY)
    return Call(
        id=request.id,
        params=params,
        modern=version is not None,
        log_level=level if level in mcp.LOG_LEVELS else None,
        token=meta.get(mcp.PROGRESS_TOKEN),
        now=now,
    )


def cacheable(call: Call, result: Json, *, ttl_ms: int = TTL_MS) -> Json:
    """A result that modern clients may keep: it carries for how long, and that everybody gets the same."""
    return {**result, "ttlMs": ttl_ms, "cacheScope": "public"} if call.modern else result


def is_number(value: Any) -> TypeGuard[int | float]:
    """True if `value` is a finite JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def text_result(text: str) -> Json:
    """The result of a tool that has one text to say."""
    return {"content": [{"type": "text", "text": text}]}


def mistake(text: str) -> Json:
    """A tool's own failure: a result for the model to act on, not a protocol error."""
    return {**text_result(text), "isError": True}
