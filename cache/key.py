"""Which reads come to the same: of one server, and depending on nothing but the URI (K-2, K-13). Pure."""

from typing import Final

from config.schema import UpstreamConfig
from hub.link.interface import Caller, Operation
from hub.wire.capabilities import capabilities_for_upstream
from hub.wire.jsonrpc import encode
from hub.wire.mcp import RESOURCES_READ

HARMLESS: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of a request's `_meta` that no result depends on."""


def is_plain(operation: Operation) -> bool:
    """Whether it is a read on whose URI alone the result depends (K-2, K-5)."""
    return (
        operation.method == RESOURCES_READ and operation.params.keys() == {"uri"} and operation.meta.keys() <= HARMLESS
    )


def abilities_of(caller: Caller, config: UpstreamConfig) -> str:
    """What a request to a modern upstream says that the host of `caller` can do, as `CacheKey.abilities`."""
    told = capabilities_for_upstream(
        caller.capabilities, client_features=config.client_features, absorbs_tasks=config.tasks == "absorb"
    )
    return encode(told).decode()
