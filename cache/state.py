"""What is kept and what is being read, and all that can make either doubtful (bridging.md 13).

Entries that live by a time-to-live of the upstream's own are let stand in, marked, after the end of a session: nothing
was said against them. Everything else that becomes doubtful is dropped.
"""

from collections import Counter
from collections.abc import Callable

from msgspec import structs

from cache.auto_subscribe import Observing
from cache.entry import EVERYONE, Cause, Entry, Subject
from cache.facts import CacheFacts, UpstreamCacheFacts
from cache.flight import Flight
from cache.index import Index, is_followed
from cache.memory import MemoryStore
from cache.shared_store import Shared, Ticket
from cache.tally import Tally
from cache.upstream_interface import Place, Server
from config.schema import CacheConfig
from hub.link.interface import Tenant


class Source:
    """One upstream, as it is configured now."""

    __slots__ = ("id", "server")

    def __init__(self, server: Server, id: str) -> None:
        self.server = server
        self.id = id


class CacheState:
    """The state of the cache. Changes in sync methods only."""

    def __init__(self, config: CacheConfig, observing: Observing, clock: Callable[[], float]) -> None:
        self.memory = MemoryStore(config.max_bytes, config.max_entries, clock)
        self.shared: Shared | None = None
        """The store that hubs have in common; None: there is none."""
        self.config = config
        self.tally = Tally()
        self._observing = observing
        self._clock = clock
        self._sources: dict[str, Source] = {}
        self._joinable: dict[tuple[Subject, Place | None], Flight] = {}
        self._flights: Index[Flight] = Index()
        self._running: set[Flight] = set()

    def __repr__(self) -> str:
        return f"<CacheState {self.memory!r}, {len(self._running)} flights>"

    # --- who is who ---------------------------------------------------------------------------------------------------

    def know(self, server: Server, source: str) -> None:
        """`server` is the one of its name from now on."""
        self._sources[server.name] = Source(server, source)

    def source_of(self, server: Server) -> str | None:
        """What `server` is; None: another one has taken its place."""
        known = self._sources.get(server.name)
        return known.id if known is not None and known.server is server else None

    def forget(self, name: str) -> None:
        """There is no such upstream any more."""
        self.drop_all(name, Cause.CONFIG)
        self._sources.pop(name, None)
        self._observing.forget(name)
        self.tally.forget(name)

    # --- reads that are running ---------------------------------------------------------------------------------------

    def joinable(self, subject: Subject, place: Place | None) -> Flight | None:
        """The read over `place` that whoever asks now may wait for."""
        flight = self._joinable.get((subject, place))
        return None if flight is None or flight.scope.cancel_called or flight.is_private else flight

    def begin(self, flight: Flight) -> None:
        """A read begins."""
        self._joinable[flight.subject, flight.place] = flight
        self._flights.add(flight.subject.upstream, flight.subject.uri, flight.subject.tenant, flight)
        self._running.add(flight)

    def end(self, flight: Flight) -> None:
        """It is over; more than once is once."""
        self._unlist(flight)
        self._flights.discard(flight.subject.upstream, flight.subject.uri, flight.subject.tenant, flight)
        self._running.discard(flight)

    def _unlist(self, flight: Flight) -> None:
        key = flight.subject, flight.place
        if self._joinable.get(key) is flight:
            del self._joinable[key]

    def _disturb(self, flights: list[Flight]) -> None:
        """What they read, or found, may be old: it is not kept, and whoever asks from now on does not get it."""
        for flight in flights:
            flight.is_disturbed = True
            if flight.is_reading:
                self._unlist(flight)

    def part(self, name: str) -> None:
        """Let nobody join what is being read of an upstream now."""
        for flight in self._flights.of(name):
            self._unlist(flight)

    # --- the store that hubs share ------------------------------------------------------------------------------------

    def is_common(self, server: Server, subject: Subject) -> bool:
        """Whether other hubs may have use for it: what runs on this machine, or is one host's own, is not theirs. A
        process belongs to the hub that started it, wherever the files are of which it speaks."""
        own = server.snapshot.local or server.config.command is not None
        return self.shared is not None and subject.tenant is None and not own

    @property
    def is_vouched(self) -> bool:
        """Whether what other hubs are told of changes is heard here."""
        return self.shared is None or self.shared.vouched

    async def look(self, flight: Flight) -> Entry | None:
        """What the store has; the flight gets a ticket. Raises nothing."""
        assert self.shared is not None, "it was asked whether there is one"
        subject = flight.subject
        entry, flight.ticket = await self.shared.look(subject.source, subject.uri, subject.owner, subject.abilities)
        return entry

    async def share(self, ticket: Ticket, subject: Subject, entry: Entry) -> None:
        """Put it where other hubs find it. Raises nothing."""
        if self.shared is not None:
            owner = self._owned_by(subject, entry).owner
            await self.shared.put(ticket, subject.source, subject.uri, owner, entry, subject.abilities)

    def keep(self, subject: Subject, entry: Entry, *, common: bool) -> bool:
        """Keep it in this process; whether there is room. `common`: other hubs may have it, too."""
        counts = self.tally.of(subject.upstream)
        fits = entry.size <= self.config.max_entry_bytes
        if not fits or not self.memory.put(self._owned_by(subject, entry), entry, common=common):
            counts.refused += 1
            return False
        counts.stored += 1
        return True

    def _owned_by(self, subject: Subject, entry: Entry) -> Subject:
        """Whose it is. That an upstream calls it public is a claim, and not enough where its hosts' accounts are kept
        apart (SEC-23)."""
        known = self._sources.get(subject.upstream)
        across = known is not None and known.server.config.across_principals
        return everyones(subject) if entry.public and across else subject

    # --- what is said -------------------------------------------------------------------------------------------------

    def updated(self, name: str, source: str, uri: str) -> None:
        """The upstream says that `uri` changed."""
        self._observing.changed(name, uri)
        self._drop(self.memory.concerned(name, uri), Cause.UPDATED)
        self._disturb(self._flights.concerned(name, uri))
        self._invalidate(source, uri)

    def confirmed(self, name: str, source: str, uri: str) -> None:
        """It is observed from now on; what happened before this was perhaps not heard."""
        self._drop(self.memory.exactly(name, uri), Cause.SESSION)
        self._disturb(self._flights.exactly(name, uri))
        self._invalidate(source, uri)

    def _invalidate(self, source: str, uri: str) -> None:
        if self.shared is not None:
            self.shared.invalidate(source, uri if is_followed(uri) else None)

    def lost(self, name: str, source: str, tenant: Tenant | None) -> None:
        """Changes may have been missed in the session of `tenant`, None: of many."""
        if tenant is not None:
            self._expire(self.memory.of_tenant(name, tenant))
            unknown = [flight for flight in self._flights.of(name) if flight.place is None]
            self._disturb([*self._flights.of_tenant(name, tenant), *unknown])
            return
        self._expire(self.memory.of(name))
        self._disturb(self._flights.of(name))
        if self.shared is not None:
            self.shared.invalidate(source, None)

    def relisted(self, name: str, source: str) -> None:
        """The resources that there are may be others."""
        self.drop_all(name, Cause.LISTS)
        if self.shared is not None:
            self.shared.invalidate(source, None)

    def cleared(self, name: str | None) -> int:
        """By command: how many entries that was."""
        if self.shared is not None:
            for known, source in self._sources.items():
                if name in (None, known):
                    self.shared.invalidate(source.id, None)
        return self.drop_all(name, Cause.CLEARED)

    def drop_all(self, name: str | None, cause: Cause) -> int:
        """Drop all of one upstream, or of all; how many entries that was."""
        names = [name] if name is not None else [*self._sources]
        for each in names:
            self._disturb(self._flights.of(each))
        subjects = self.memory.of(name) if name is not None else [subject for subject, _ in self.memory.all()]
        return self._drop(subjects, cause)

    def elsewhere(self, source: str, uri: str | None) -> None:
        """Another hub says so."""
        for name, known in self._sources.items():
            if known.id == source:
                found = self.memory.of(name) if uri is None else self.memory.concerned(name, uri)
                self._drop(found, Cause.ELSEWHERE)
                self._disturb(self._flights.of(name) if uri is None else self._flights.concerned(name, uri))

    def unvouched(self) -> None:
        """What was in common and is not observed here may have changed unheard."""
        doubtful = [subject for subject, kept in self.memory.all() if kept.common and not kept.entry.observed]
        self._drop(doubtful, Cause.UNVOUCHED)
        self._disturb([flight for flight in self._running if self.is_common(flight.server, flight.subject)])

    def _drop(self, subjects: list[Subject], cause: Cause) -> int:
        count = sum(map(self.memory.discard, subjects))
        self.tally.dropped(cause, count)
        return count

    def _expire(self, subjects: list[Subject]) -> None:
        until = self._clock() + self.config.stale_if_error_s
        self.tally.dropped(Cause.SESSION, sum(self.memory.expire(subject, until) for subject in subjects))

    # --- for others to see --------------------------------------------------------------------------------------------

    def adjust(self, config: CacheConfig) -> None:
        """Other settings from now on; how hubs share a store is not among them."""
        self.config = config
        if not config.enabled:
            self.drop_all(None, Cause.CONFIG)
        if (config.max_bytes, config.max_entries) != (self.memory.max_bytes, self.memory.max_entries):
            self.memory.resize(config.max_bytes, config.max_entries)

    def facts(self) -> CacheFacts:
        """What is to be seen."""
        now, config = self._clock(), self.config
        all_kept = self.memory.all()
        entries: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for subject, kept in all_kept:
            entries[subject.upstream] += 1
            sizes[subject.upstream] += kept.size
        names = sorted(self.tally.names | entries.keys())
        return CacheFacts(
            enabled=config.enabled,
            entries=len(self.memory),
            bytes=self.memory.bytes,
            max_entries=self.memory.max_entries,
            max_bytes=self.memory.max_bytes,
            counts=self.tally.total,
            evicted=self.memory.evicted,
            invalidations=self.tally.invalidations,
            oldest_s=max((now - kept.at for _, kept in all_kept), default=None),
            newest_s=min((now - kept.at for _, kept in all_kept), default=None),
            flights=len(self._running),
            upstreams=tuple(
                UpstreamCacheFacts(
                    name=name, entries=entries[name], bytes=sizes[name], counts=structs.replace(self.tally.of(name))
                )
                for name in names
            ),
            store=None if self.shared is None else self.shared.facts(),
        )


def everyones(subject: Subject) -> Subject:
    """The same for everyone."""
    return Subject(subject.upstream, subject.source, subject.uri, EVERYONE, subject.tenant, subject.abilities)
