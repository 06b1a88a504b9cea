"""Vocabulary of the cache: keys, entries, causes of dropping an entry, and which reads give the same result, since it
depends on nothing but the URI. Pure.
"""

from enum import Enum
from typing import Final

from msgspec import Raw, Struct

from config.settings import UpstreamConfig
from hub.link.interface import Caller, Operation, Tenant
from hub.wire.declarations import capabilities_for_upstream
from hub.wire.jsonrpc import encode
from hub.wire.mcp import RESOURCES_READ

HARMLESS: Final = frozenset({"traceparent", "tracestate", "baggage"})
"""Members of a request's `_meta` that no result depends on."""


EVERYONE: Final = ""
"""The owner of public entries."""


class DropCause(Enum):
    """Reasons why an entry is dropped; `hubd cache` shows the values."""

    UPDATED = "updated"
    """The upstream reported a change of the resource, of a part of it, or of a resource that it is a part of."""
    LISTS = "lists changed"
    """The upstream reported that its list of resources changed."""
    SESSION = "session ended"
    """Changes could no longer be reported."""
    CONFIG = "configuration"
    CLEARED = "cleared"
    """By command."""
    ELSEWHERE = "another hub"
    """Another hub on the same store reported a change."""
    STORE_LOST = "store lost"
    """The store could not deliver changes that other hubs reported."""


class CacheKey(Struct, frozen=True):
    """Key of an entry: one resource as one reader may see it. Hashable."""

    upstream: str
    """The name of the upstream in this hub."""
    source: str
    """Identity of the server: a digest of its configuration, secrets included."""
    uri: str
    """In the spelling of the upstream."""
    owner: str
    """The principal who may see the entry, or EVERYONE."""
    tenant: Tenant | None = None
    """The host over whose own session it was read; None: over a shared session."""
    abilities: str = ""
    """Capabilities of the reader's host, as a modern upstream is told: its answer may depend on them."""


class Entry(Struct, frozen=True):
    """The result of one read, and how long it may be used."""

    value: Raw
    """The result of the upstream, byte for byte."""
    version: str
    """The protocol revision of the result."""
    public: bool
    """True if the upstream allows everyone to see it."""
    fresh_until: float
    """Time of the clock in seconds; `inf`: as long as it is observed."""
    stale_until: float
    """Until when it may stand in, marked, for a failed read; not above `fresh_until`: never."""
    observed: bool
    """True if it is valid only while this hub is told of changes (it has no time-to-live)."""

    @property
    def size(self) -> int:
        """Bytes."""
        return memoryview(self.value).nbytes


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
