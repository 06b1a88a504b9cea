"""A store that several hubs share, as the cache sees it; `cache.redis.store` is one, in Redis or Valkey.

Everything in the store may be lost. Before a hub reads an upstream, it gets a `Ticket` from the store: the state of all
invalidations at that moment. An entry put under a ticket is found only while nothing that it depends on was invalidated
since, by any hub. So the result of a read that spans an invalidation is put where no hub finds it.
"""

from typing import Final, Protocol

from msgspec import Struct

MAX_FACT_BYTES: Final = 256 << 10
"""Bytes of a value in a `Directory`; longer values are not found. The largest are the settings of sessions."""


class StoreUnreachable(Exception):
    """The store did not answer in time, or not correctly. The text is for the log."""


class ReadTicket(Struct, frozen=True):
    """The permission to put the result of a read that begins now."""

    stamp: str
    ahead_s: float = 0.0
    """Seconds by which the store's clock is ahead of this hub's."""
    read_at: int = 0
    """Time at which it was issued, in microseconds of the store's clock."""


class StoreListener(Protocol):
    """The listener to other hubs: `cache.resource_cache.ResourceCache`."""

    def on_stale(self, source: str, uri: str | None) -> None:
        """Another hub reports a change of `uri`, None: of anything in `source`."""

    def on_gap(self) -> None:
        """A time in which other hubs are not heard begins or ends. Entries from before and from meanwhile may be stale,
        except those that this hub observes itself."""


class Directory(Protocol):
    """A part of such a store: small facts of hubs, by name. They may be lost."""

    async def get(self, name: str) -> bytes | None:
        """Raises: StoreUnreachable."""

    async def put(self, name: str, value: bytes, ttl_s: float) -> None:
        """Raises: StoreUnreachable."""

    async def swap(self, name: str, old: bytes | None, new: bytes, ttl_s: float) -> bool:
        """Replace `old` (None: nothing) by `new`; False: something else is there now. Raises: StoreUnreachable."""

    async def delete(self, name: str) -> None:
        """Raises: StoreUnreachable."""
