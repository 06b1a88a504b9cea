"""Reads of resources: from what is kept, or once for all who ask at the same time (D-14).

`Reads` stands between the hosts' side and `Upstream.call`, for `resources/read` only:

    peek            what is kept, at once
    call            else, one read of the upstream (`flight`), which is kept if it may be (`results`)
    onlooker        what an upstream says meanwhile, and what becomes of its sessions: so that nothing old is kept

Nobody is given what was read before a change that the hub had heard of when they asked. Two rules see to that: what is
kept is dropped the moment that it becomes doubtful, and a read during which it became so is kept by nobody, and joined
by nobody who asks later.
"""

from collections.abc import Callable

import msgspec
import trio

from cache.facts import CacheFacts, StoreFacts
from cache.flight import Flight, Released
from cache.index import is_followed
from cache.keeping import Keeping, everyones
from cache.memory import Kept, length
from cache.observing import Observing
from cache.onlooker import Onlooker
from cache.results import entry_of, has_ttl, is_complete, kept_result, stale_result
from cache.sameness import is_plain, source_of
from cache.shared import Shared
from cache.sides import Place, Server
from cache.subject import Cause, Entry, Subject
from config.schema import CacheConfig
from hub.link.exchange import (
    Caller,
    DeadlineExceeded,
    Exchange,
    HubError,
    Operation,
    UpstreamLoop,
    UpstreamLost,
    UpstreamUnavailable,
)
from hub.wire.jsonrpc import Reply, Result, peek_str
from hub.wire.mcp import Era


class Hit(msgspec.Struct, frozen=True):
    """What is kept of what somebody wants to read, and may be given to them."""

    subject: Subject
    kept: Kept


class Reads:
    """The cache of one hub. `run` must be running; `key` is what names in the store are made with."""

    def __init__(
        self,
        config: CacheConfig,
        *,
        key: bytes,
        shared: Shared | None = None,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._config = config
        self._key = key
        self._clock = clock
        self._observing = Observing(clock)
        self._keeping = Keeping(config, self._observing, shared, clock)
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Reads: {self._keeping!r}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the reads of upstreams, until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def use(self, shared: Shared, facts: Callable[[], StoreFacts]) -> None:
        """Keep in `shared`, too, what hubs may have in common. Before anything is read."""
        self._keeping.shared = shared
        self._keeping.store_facts = facts

    def adjust(self, config: CacheConfig) -> None:
        """Take over other settings; how hubs share a store is not among them."""
        self._config = config
        self._keeping.resize(config)

    def facts(self) -> CacheFacts:
        """What is to be seen of it."""
        return self._keeping.facts()

    # --- what is kept -------------------------------------------------------------------------------------------------

    def peek(self, server: Server, uri: str, caller: Caller) -> Hit | None:
        """What `caller` may be given at once; it counts as a hit."""
        subject, place = self._subject(server, uri, caller)
        if subject is None:
            return None
        now = self._clock()
        for each in (subject, everyones(subject)):
            kept = self._keeping.memory.find(each)
            if kept is None or now >= kept.entry.fresh_until:
                continue
            if kept.entry.observed:
                if place is None or not place.watches.is_observed(uri):
                    continue
                self._observing.read(server.name, place, uri)
            self._keeping.counts(server.name).hits += 1
            return Hit(each, kept)
        return None

    def _subject(self, server: Server, uri: str, caller: Caller) -> tuple[Subject | None, Place | None]:
        """What reading it comes to, and the session that serves `caller`; None: nothing of it may be kept."""
        source = self._keeping.source_of(server)
        if source is None or not self._config.enabled or not server.config.cache or not is_followed(uri):
            return None, None
        place = server.place_of(caller)
        tenant = None if place is None else place.tenant
        return Subject(server.name, source, uri, caller.identity.principal, tenant), place

    def keep_form(self, hit: Hit, key: object, form: object, size: int) -> None:
        """As `MemoryStore.keep_form`."""
        self._keeping.memory.keep_form(hit.subject, hit.kept, key, form, size)

    def drop_forms(self, hit: Hit) -> None:
        """As `MemoryStore.drop_forms`."""
        self._keeping.memory.drop_forms(hit.subject, hit.kept)

    # --- what is read -------------------------------------------------------------------------------------------------

    async def call(self, server: Server, operation: Operation, exchange: Exchange) -> Reply:
        """As `Upstream.call`, but perhaps without one, or with one for many; other operations than reads as they are.

        Raises:
            HubError: as `Upstream.call`.
        Cancellation: passes to the upstream, unless others wait for the same.
        """
        if not is_plain(operation) or self._nursery is None:
            return await server.call(operation, exchange)
        uri = peek_str(operation.params["uri"]) or ""
        if (hit := self.peek(server, uri, exchange.caller)) is not None:
            return kept_result(hit.kept.entry, self._clock())
        subject, place = self._subject(server, uri, exchange.caller)
        if subject is None:
            return await server.call(operation, exchange)
        asked_at = self._clock()
        try:
            return await self._join(server, subject, place, operation, exchange)
        except (UpstreamUnavailable, UpstreamLost, DeadlineExceeded) as error:
            stale = None if isinstance(error, UpstreamLoop) else self._stale(subject, asked_at, error)
            if stale is None:
                raise
            return stale

    async def _join(
        self, server: Server, subject: Subject, place: Place | None, operation: Operation, exchange: Exchange
    ) -> Reply:
        counts = self._keeping.counts(subject.upstream)
        flight = self._keeping.joinable(subject, place)
        if flight is None:
            flight = Flight(server, subject, operation, exchange.caller, place)
            self._keeping.begin(flight)
            counts.misses += 1
            assert self._nursery is not None, "reads are running"
            self._nursery.start_soon(self._fly, flight)
        else:
            counts.coalesced += 1
        try:
            return await flight.wait(exchange)
        except Released:
            return await server.call(operation, exchange)

    def _stale(self, subject: Subject, asked_at: float, error: HubError) -> Result | None:
        """What may stand in where reading has failed (K-6)."""
        for each in (subject, everyones(subject)):
            kept = self._keeping.memory.find(each, at=asked_at)
            if kept is not None and not kept.entry.observed and kept.entry.stale_until > asked_at:
                self._keeping.counts(subject.upstream).stale += 1
                return stale_result(kept.entry, kept.at, self._clock(), error)
        return None

    # --- one read of an upstream --------------------------------------------------------------------------------------

    async def _fly(self, flight: Flight) -> None:
        """Read, and give everybody what comes of it. A wall: they get the hub's bugs, too."""
        put: Entry | None = None
        try:
            with flight.scope:
                try:
                    put = await self._carry(flight)
                except Exception as error:  # noqa: BLE001  # whoever waits raises it
                    self._land(flight, error)
        finally:
            self._keeping.end(flight)
            flight.end()
        if put is not None and flight.ticket is not None:
            await self._keeping.share(flight.ticket, flight.subject, put)

    async def _carry(self, flight: Flight) -> Entry | None:
        """Read, and land; what is to be kept where other hubs find it."""
        if (found := await self._look(flight)) is not None:
            self._keeping.counts(flight.subject.upstream).found += 1
            self._keep(flight.subject, found, common=True)
            flight.land(kept_result(found, self._clock()))
            return None
        flight.is_reading, flight.is_disturbed = True, False
        place, uri = flight.place, flight.subject.uri
        flight.is_observed = place is not None and place.watches.is_observed(uri)
        reply = await flight.server.call(flight.operation, flight)
        if not is_complete(reply, flight.server.snapshot.version):
            flight.claim()
        entry = None
        if isinstance(reply, Result) and not flight.is_disturbed and not flight.is_private:
            entry = self._kept(flight, reply)
        self._land(flight, reply)
        return entry

    def _land(self, flight: Flight, outcome: Reply | Exception) -> None:
        """Only the one who began it gets what was read over a session that is, or may be, that host's own."""
        self._keeping.end(flight)
        place = flight.server.place_of(flight.caller) or flight.place
        is_known = isinstance(outcome, Exception) if place is None else place.tenant == flight.subject.tenant
        if not is_known:
            flight.claim()
        flight.land(outcome)

    async def _look(self, flight: Flight) -> Entry | None:
        """Have it observed, and ask the store that hubs share; what may be used of what is there."""
        place, subject = flight.place, flight.subject
        if place is None:
            return None
        watched = (
            place.session.era is Era.LEGACY
            and not place.watches.is_observed(subject.uri)
            and self._observing.is_worth_trying(flight.server, place, subject.uri)
        )
        if not self._keeping.is_common(flight.server, subject):
            if watched:
                await self._observing.observe(subject.upstream, place, subject.uri)
            return None
        async with trio.open_nursery() as nursery:
            if watched:
                nursery.start_soon(self._observing.observe, subject.upstream, place, subject.uri)
            entry = await self._keeping.look(flight)
        if flight.is_disturbed:  # by the agreement itself, most likely: whatever is found from now on is good
            flight.is_disturbed = False
            entry = await self._keeping.look(flight)
        if entry is None or flight.is_disturbed or self._clock() >= entry.fresh_until:
            return None
        return None if entry.observed and not place.watches.is_observed(subject.uri) else entry

    def _kept(self, flight: Flight, reply: Result) -> Entry | None:
        """Keep what was read, if it may be; what is kept."""
        server, subject = flight.server, flight.subject
        place = server.place_of(flight.caller)
        if place is None or (flight.place is not None and place is not flight.place):
            return None
        if self._keeping.source_of(server) != subject.source or not server.config.cache:
            return None
        observed = flight.is_observed and place.watches.is_observed(subject.uri)
        now, stale_s = self._clock(), self._config.stale_if_error_s
        if place.session.era is Era.MODERN and not observed and not has_ttl(reply.value):
            self._observe_later(server, place, subject.uri)
        version = server.snapshot.version
        entry = entry_of(reply.value, version, place.session.era, now, stale_s, observed=observed)
        if entry is None:
            return None
        subject = msgspec.structs.replace(subject, tenant=place.tenant)
        common = self._keeping.is_common(server, subject)
        if common and not observed and not self._keeping.is_vouched:
            return None  # another hub may be told of a change, and could not say so
        return entry if self._keep(subject, entry, common=common) else None

    def _observe_later(self, server: Server, place: Place, uri: str) -> None:
        """A modern upstream gave no time-to-live: be told of changes before it is read the next time."""
        if self._nursery is not None and self._observing.is_worth_trying(server, place, uri):
            self._nursery.start_soon(self._observing.observe, server.name, place, uri)

    def _keep(self, subject: Subject, entry: Entry, *, common: bool) -> bool:
        counts = self._keeping.counts(subject.upstream)
        target = self._keeping.owned_by(subject, entry)
        if length(entry.value) > self._config.max_entry_bytes or not self._keeping.memory.put(
            target, entry, common=common
        ):
            counts.refused += 1
            return False
        counts.stored += 1
        return True

    def source_of(self, name: str) -> str | None:
        """By what name hubs that have it in common speak of an upstream; None: there is none of this name."""
        return self._keeping.source_named(name)

    # --- what makes it doubtful ---------------------------------------------------------------------------------------

    def onlooker(self, server: Server) -> Onlooker:
        """Who must be told what `server` says from now on. What was kept of another one of its name is dropped."""
        self.invalidate(server.name, Cause.CONFIG)
        source = source_of(self._key, server.config)
        self._keeping.know(server, source)
        return Onlooker(self._keeping, server.name, source)

    def forget(self, name: str) -> None:
        """There is no such upstream any more."""
        self._keeping.forget(name)

    def invalidate(self, upstream: str | None, cause: Cause) -> int:
        """Drop all that is kept, of one upstream or of all; how many entries that was."""
        if cause is Cause.CLEARED:
            return self._keeping.cleared(upstream)
        return self._keeping.drop_all(upstream, cause)

    def acted(self, upstream: str) -> None:
        """It did something that may have changed resources: who asks from now on joins no read that began before."""
        self._keeping.part(upstream)

    def elsewhere(self, source: str, uri: str | None) -> None:
        """Another hub says that a resource changed, or any of a source may have."""
        self._keeping.elsewhere(source, uri)

    def unvouched(self) -> None:
        """Nobody can tell any more what other hubs have said."""
        self._keeping.unvouched()
