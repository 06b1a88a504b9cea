"""Key building: which reads give the same result, since it depends on nothing but the URI. Pure."""

from typing import Final

from config.settings import UpstreamConfig
from hub.link.interface import Caller, Operation
from hub.wire.capabilities import capabilities_for_upstream
from hub.wire.jsonrpc import encode
from hub.wire.mcp import RESOURCES_READ

HARMLESS: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of a request's `_meta` that no result depends on."""


def is_plain(operation: Operation) -> bool:
    """True if this is a read whose result depends on the URI alone."""
    return (
        operation.method == RESOURCES_READ and operation.params.keys() == {"uri"} and operation.meta.keys() <= HARMLESS
    )


def abilities_of(caller: Caller, config: UpstreamConfig) -> str:
    """The capabilities that a modern upstream is told for the host of `caller`, as `CacheKey.abilities`."""
    told = capabilities_for_upstream(
        caller.capabilities, client_features=config.client_features, absorbs_tasks=config.tasks == "absorb"
    )
    return encode(told).decode()
