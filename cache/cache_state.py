"""State of the cache: entries, reads under way, and everything that can make either stale.

When a session ends, entries with a time-to-live expire: they may still stand in, marked, for a failed read. Every other
entry that may be stale is dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import convert, structs

from cache.auto_subscribe import AutoSubscriptions
from cache.cache_entry import EVERYONE, CacheKey, DropCause, Entry
from cache.memory import MemoryStore
from cache.resource_index import ResourceIndex, is_trackable
from cache.shared_store import ReadTicket
from cache.single_flight import Flight
from cache.statistics import CacheCounters, CacheStatistics, UpstreamCacheStatistics
from cache.upstream_interface import ReadablePooledSession, ReadableUpstream
from config.settings import CacheConfig

if TYPE_CHECKING:
    from cache.redis.store import RedisStore


@dataclass(eq=False, repr=False)
class CacheState:
    """The state of the cache. It changes in sync methods only."""

    config: CacheConfig
    clock: Callable[[], float]
    shared: "RedisStore | None"
    """The store that hubs share; None: there is none."""
    counters: CacheCounters = field(default_factory=CacheCounters)
    flights: ResourceIndex[Flight] = field(default_factory=ResourceIndex)
    _sources: dict[str, tuple[ReadableUpstream, str]] = field(default_factory=dict)
    """By name, the upstream with its present configuration, and its identity in all hubs."""
    _joinable: dict[tuple[CacheKey, ReadablePooledSession | None], Flight] = field(default_factory=dict)
    _running: set[Flight] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.memory = MemoryStore(self.config.max_bytes, self.config.max_entries, self.clock)
        self.auto_subscriptions = AutoSubscriptions(self.clock)

    # --- upstreams ----------------------------------------------------------------------------------------------------

    def register(self, upstream: ReadableUpstream, source: str) -> None:
        """Make `upstream` the current one of its name."""
        self._sources[upstream.name] = upstream, source

    def source_of(self, upstream: ReadableUpstream) -> str | None:
        """The identity of `upstream`; None: it is not the current one of its name."""
        known, source = self._sources.get(upstream.name, (None, None))
        return source if known is upstream else None

    def forget_upstream(self, name: str) -> None:
        """An upstream was removed: drop everything about it."""
        self.drop_all(name, DropCause.CONFIG)
        self._sources.pop(name, None)
        self.auto_subscriptions.forget_upstream(name)
        self.counters.forget_upstream(name)

    # --- reads under way ----------------------------------------------------------------------------------------------

    def joinable(self, key: CacheKey, pooled: ReadablePooledSession | None) -> Flight | None:
        """The read over `pooled` that a host may join now; None: none."""
        flight = self._joinable.get((key, pooled))
        return None if flight is None or flight.scope.cancel_called or flight.is_private else flight

    def add_flight(self, flight: Flight) -> None:
        self._joinable[flight.key, flight.pooled] = flight
        self.flights.add(flight.key.upstream, flight.key.uri, flight.key.tenant, flight)
        self._running.add(flight)

    def remove_flight(self, flight: Flight) -> None:
        """Remove a read that is over. Idempotent."""
        self._unlist(flight)
        self.flights.discard(flight.key.upstream, flight.key.uri, flight.key.tenant, flight)
        self._running.discard(flight)

    def _unlist(self, flight: Flight) -> None:
        if self._joinable.get((flight.key, flight.pooled)) is flight:
            del self._joinable[flight.key, flight.pooled]

    def disturb(self, flights: list[Flight]) -> None:
        """Mark reads whose result may be stale: it is not kept, and hosts that ask from now on do not join."""
        for flight in flights:
            flight.is_disturbed = True
            if flight.is_reading:
                self._unlist(flight)

    def note_call(self, name: str) -> None:
        """A call may have changed resources: hosts that ask from now on join no read that began before."""
        for flight in self.flights.of(name):
            self._unlist(flight)

    # --- the shared store ---------------------------------------------------------------------------------------------

    def is_shareable(self, upstream: ReadableUpstream, key: CacheKey) -> bool:
        """True if results may be shared with other hubs: not those of servers on this machine or of a host's own
        session. A process belongs to the hub that started it, wherever its files are."""
        own = upstream.snapshot.local or upstream.config.command is not None
        return self.shared is not None and key.tenant is None and not own

    async def share(self, ticket: ReadTicket, key: CacheKey, entry: Entry) -> None:
        """Put an entry into the store. Raises nothing."""
        if self.shared is not None:
            owner = self._key_for(key, entry).owner
            await self.shared.put(ticket, key.source, key.uri, owner, entry, key.abilities)

    def keep(self, key: CacheKey, entry: Entry, *, shareable: bool) -> bool:
        """Keep an entry in memory; False: no room. `shareable`: other hubs may have it, too."""
        counts = self.counters.of[key.upstream]
        fits = entry.size <= self.config.max_entry_bytes
        if not fits or not self.memory.put(self._key_for(key, entry), entry, shareable=shareable):
            counts.refused += 1
            return False
        counts.stored += 1
        return True

    def _key_for(self, key: CacheKey, entry: Entry) -> CacheKey:
        """The key with its owner: everyone only if the upstream says `public` and the configuration trusts it across
        accounts."""
        upstream, _ = self._sources.get(key.upstream, (None, ""))
        return for_everyone(key) if entry.public and upstream is not None and upstream.config.across_principals else key

    # --- invalidation -------------------------------------------------------------------------------------------------

    def invalidate_shared(self, name: str, source: str, uri: str | None) -> None:
        """Invalidate a resource, or all of a source, for all hubs. A URI whose parents are unknown counts as all. As in
        memory, what is said in a session of earlier settings is said of the present source of `name`, too."""
        if self.shared is not None:
            _, present = self._sources.get(name, (None, source))
            for each in dict.fromkeys((source, present)):
                self.shared.invalidate(each, uri if uri is not None and is_trackable(uri) else None)

    def drop_all(self, name: str | None, cause: DropCause) -> int:
        """Drop all entries of one upstream, or of all; how many there were. A command drops them for all hubs."""
        count = 0
        for known, (_, source) in self._sources.items():
            if name in (None, known):
                if cause is DropCause.CLEARED:
                    self.invalidate_shared(known, source, None)
                count += self.drop_changed(known, None, cause)
        return count

    def on_stale(self, source: str, uri: str | None) -> None:
        """Another hub reports a change of `uri`, None: of anything in `source`."""
        for name, (_, known) in self._sources.items():
            if known == source:
                self.drop_changed(name, uri, DropCause.ELSEWHERE)

    def on_gap(self) -> None:
        """Reports of other hubs may have been missed: drop shareable entries that this hub does not observe itself."""
        doubtful = [each.key for each in self.memory.all() if each.shareable and not each.entry.observed]
        self.drop(doubtful, DropCause.STORE_LOST)
        self.disturb([flight for flight in self._running if self.is_shareable(flight.upstream, flight.key)])

    def drop_changed(self, name: str, uri: str | None, cause: DropCause) -> int:
        """Drop what a change of `uri` affects, None: everything of the upstream; how many entries there were."""
        self.disturb(self.flights.items_below(name, uri))
        return self.drop(self.memory.index.items_below(name, uri), cause)

    def drop(self, keys: list[CacheKey], cause: DropCause) -> int:
        count = sum(map(self.memory.discard, keys))
        self.counters.dropped[cause] += count
        return count

    def expire(self, keys: list[CacheKey]) -> None:
        until = self.clock() + self.config.stale_if_error_s
        self.counters.dropped[DropCause.SESSION] += sum(self.memory.expire(key, until) for key in keys)

    # --- settings and statistics --------------------------------------------------------------------------------------

    def reconfigure(self, config: CacheConfig) -> None:
        """Apply other settings. Those of the shared store need a restart."""
        self.config = config
        if not config.enabled:
            self.drop_all(None, DropCause.CONFIG)
        if (config.max_bytes, config.max_entries) != (self.memory.max_bytes, self.memory.max_entries):
            self.memory.resize(config.max_bytes, config.max_entries)

    def statistics(self) -> CacheStatistics:
        """Counts, sizes and ages, for `hubd cache` and `hubd status`."""
        now, counts = self.clock(), self.counters.of
        sizes: dict[str, list[int]] = {name: [] for name in counts}
        for cached in self.memory.all():
            sizes.setdefault(cached.key.upstream, []).append(cached.size)
        ages = [now - cached.at for cached in self.memory.all()]
        return structs.replace(
            convert(self.memory, CacheStatistics, from_attributes=True),
            enabled=self.config.enabled,
            entries=len(self.memory),
            counts=self.counters.total,
            invalidations=self.counters.invalidations,
            oldest_s=max(ages, default=None),
            newest_s=min(ages, default=None),
            flights=len(self._running),
            upstreams=tuple(
                UpstreamCacheStatistics(
                    name=name, entries=len(its), bytes=sum(its), counts=structs.replace(counts[name])
                )
                for name, its in sorted(sizes.items())
            ),
            store=None if self.shared is None else self.shared.statistics(),
        )


def for_everyone(key: CacheKey) -> CacheKey:
    """The same key with EVERYONE as owner."""
    return structs.replace(key, owner=EVERYONE)
