"""What the cache speaks of: what is read, what is kept of it, and why it may not be used any more. Pure."""

from enum import Enum
from typing import Final

from msgspec import Raw, Struct

from hub.link.interface import Tenant

EVERYONE: Final = ""
"""The owner of what an upstream calls public."""


class DropCause(Enum):
    """Why something kept may not be used any more; the values are what `hubd cache` shows."""

    UPDATED = "updated"
    """The upstream said that the resource, or a part of it, or what it is a part of, changed."""
    LISTS = "lists changed"
    """The upstream said that its resources are others."""
    SESSION = "session ended"
    """Nobody would have heard of changes."""
    CONFIG = "configuration"
    CLEARED = "cleared"
    """By command."""
    ELSEWHERE = "another hub"
    """Another hub on the same store said so."""
    STORE_LOST = "store lost"
    """The store that hubs share cannot tell any more what others have said."""


class CacheKey(Struct, frozen=True):
    """One resource, as one reader may see it: the key of an entry (SEC-23). Hashable."""

    upstream: str
    """The name of the upstream in this hub."""
    source: str
    """What server that is, and what it is asked with: a digest of its configuration, secrets included."""
    uri: str
    """As the upstream writes it."""
    owner: str
    """The principal who may see it, or EVERYONE."""
    tenant: Tenant | None = None
    """The host whose own session it was read over; None: what hosts have together."""
    abilities: str = ""
    """What a modern upstream is told that the reader's host can do: its answer may depend on that (K-2)."""


class Entry(Struct, frozen=True):
    """What is kept of one reading."""

    value: Raw
    """The upstream's result, byte for byte."""
    version: str
    """The revision that it is written in."""
    public: bool
    """Whether the upstream says that everyone may see it."""
    fresh_until: float
    """The clock's time; `inf`: as long as it is observed."""
    stale_until: float
    """Until when it may stand in, marked, for one that cannot be read anew; not above `fresh_until`: never."""
    observed: bool
    """Whether it is good only while this hub is told of changes of it (no ttl)."""

    @property
    def size(self) -> int:
        """Bytes."""
        return memoryview(self.value).nbytes
