"""What the cache needs of a store that several hubs have in common; `cache.redis.store` is one, for Redis and Valkey.

The store holds nothing that may not be lost. Whoever reads an upstream first asks the store for a `Ticket`: the state
of all invalidations at that moment. What is put under a ticket can be found only as long as nothing that it depends on
was invalidated since, by whichever hub. So a reading that began before an invalidation and ended after it is kept where
nobody looks (bridging.md 13, faults.md 6.7).
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from cache.entry import Entry
from cache.statistics import StoreStatistics

MAX_FACT_BYTES: Final = 256 << 10
"""Of a value in a `Directory`; what is longer is not found there. The largest are what a session has set."""


class Unreachable(Exception):
    """The store did not answer in time, or not as it should. The text is for the log."""


class Ticket(Struct, frozen=True):
    """What a reading that begins now may be kept under."""

    stamp: str
    ahead_s: float = 0.0
    """By how much the store's clock is ahead of this hub's."""
    read_at: int = 0
    """When it was issued, in microseconds of the store's clock."""


class SharedStore(Protocol):
    """A store of several hubs. `source` and `uri` are those of a `CacheKey`; `owner` and `abilities` too,
    EVERYONE included."""

    on_stale: Callable[[str, str | None], None]
    """Told that another hub says that a resource of a source, None: all of it, is not to be used any more."""
    on_gap: Callable[[], None]
    """Told at the beginning and at the end of each time in which other hubs are not heard: what was kept before, and
    what was kept meanwhile, may be stale, but for what is observed."""

    @property
    def is_coherent(self) -> bool:
        """Whether invalidations by other hubs reach this one now, and its own reach them."""
        ...

    async def look_up(
        self, source: str, uri: str, owner: str, abilities: str = ""
    ) -> tuple[Entry | None, Ticket | None]:
        """What is kept for `owner` or for everyone, and a ticket for reading it anew; None: nothing, not kept.

        Raises nothing; takes no longer than the store's deadline.
        """
        ...

    async def put(self, ticket: Ticket, source: str, uri: str, owner: str, entry: Entry, abilities: str = "") -> None:
        """Keep `entry` for `owner`. Raises nothing; what cannot be kept is dropped and counted."""
        ...

    def invalidate(self, source: str, uri: str | None) -> None:
        """Nothing that was read before now may be found any more, of one resource with its parts and wholes, or of all.

        Never blocks. Until every hub on the store goes by it, `look_up` waits within its deadline, or finds nothing, of
        this source here.
        """
        ...

    def statistics(self) -> StoreStatistics:
        """What is shown of it."""
        ...


class Directory(Protocol):
    """A part of such a store: small facts that hubs tell each other, and that may be lost; by name."""

    async def get(self, name: str) -> bytes | None:
        """Raises: Unreachable."""
        ...

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        """Raises: Unreachable."""
        ...

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        """Put `new` if `old` is there now (None: nothing); whether it was.

        Raises: Unreachable.
        """
        ...

    async def delete(self, name: str) -> None:
        """Raises: Unreachable."""
        ...
