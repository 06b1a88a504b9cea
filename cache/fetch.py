"""Reads of upstreams, from beginning to end (D-14).

    look in the store that hubs share, and have it observed, at the same time
      |--- it is there ---->  kept here, too; everybody has it
      `--- read ----------->  everybody has it; kept here and put there, if it may be (`cacheability`), unless it became
                              doubtful meanwhile

Each is a task of its own, which nobody who waits for it can end alone (`flight`).
"""

import logging
from collections.abc import Callable
from functools import partial

import trio
from msgspec import structs

from cache.auto_subscribe import Observing
from cache.cacheability import entry_of, has_ttl, is_complete, kept_result
from cache.entry import Entry
from cache.flight import Flight
from cache.state import CacheState
from cache.upstream_interface import Place, Server
from hub.link.fault_isolation import FaultLog, run_isolated
from hub.link.interface import HubError, kept
from hub.wire.jsonrpc import Reply, Result
from hub.wire.mcp import Era

log = logging.getLogger("cache.redis")


class Fetches:
    """Runs them. `run` must be running."""

    def __init__(self, keeping: CacheState, observing: Observing, clock: Callable[[], float]) -> None:
        self._keeping = keeping
        self._observing = observing
        self._clock = clock
        self._wall = FaultLog(log, "keeping what was read")
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Fetches, {'running' if self.is_running else 'not running'}>"

    @property
    def is_running(self) -> bool:
        """Whether reads can begin."""
        return self._nursery is not None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the reads, until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def begin(self, flight: Flight) -> None:
        """Have it read."""
        assert self._nursery is not None, "`is_running` says so"
        self._keeping.begin(flight)
        self._nursery.start_soon(self._fly, flight)

    async def _fly(self, flight: Flight) -> None:
        """Read, and give everybody what comes of it. A wall: they get the hub's bugs, too."""
        put: Entry | None = None
        try:
            with flight.scope:
                try:
                    put = await self._carry(flight)
                except HubError as error:
                    self._land(flight, kept(error))
                except Exception as error:  # noqa: BLE001  # whoever waits raises it
                    self._land(flight, error)
        finally:
            self._keeping.end(flight)
            flight.end()
        if put is not None and flight.ticket is not None:
            try:
                await self._keeping.share(flight.ticket, flight.subject, put)
            except* Exception as errors:  # noqa: BLE001  # a wall: logged there
                self._wall.caught(errors)

    async def _carry(self, flight: Flight) -> Entry | None:
        """Read, and land; what is to be kept where other hubs find it."""
        if (found := await self._look(flight)) is not None:
            self._keeping.tally.of(flight.subject.upstream).found += 1
            self._keeping.keep(flight.subject, found, common=True)
            flight.land(kept_result(found, self._clock()))
            return None
        flight.is_reading, flight.is_disturbed = True, False
        place, uri = flight.place, flight.subject.uri
        flight.is_observed = place is not None and place.subscriptions.is_observed(uri)
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
        place = flight.server.session_for(flight.caller) or flight.place
        is_known = isinstance(outcome, Exception) if place is None else place.tenant == flight.subject.tenant
        if not is_known:
            flight.claim()
        flight.land(outcome)

    # --- what is there, and may be used -------------------------------------------------------------------------------

    async def _look(self, flight: Flight) -> Entry | None:
        """Have it observed, and ask the store that hubs share; what may be used of what is there."""
        place, subject, reader = flight.place, flight.subject, flight.caller.conversation
        if place is None:
            return None
        watched = (
            place.session.era is Era.LEGACY
            and not place.subscriptions.is_observed(subject.uri)
            and self._observing.is_worth_trying(flight.server, place, subject.uri)
        )
        if not self._keeping.is_common(flight.server, subject):
            if watched:
                await self._observing.observe(subject.upstream, place, subject.uri, reader)
            return None
        async with trio.open_nursery() as nursery:
            if watched:
                nursery.start_soon(self._observing.observe, subject.upstream, place, subject.uri, reader)
            entry = await self._ask_store(flight)
        if flight.is_disturbed:  # by the agreement itself, most likely: whatever is found from now on is good
            flight.is_disturbed = False
            entry = await self._ask_store(flight)
        if entry is None or flight.is_disturbed or self._clock() >= entry.fresh_until:
            return None
        return None if entry.observed and not place.subscriptions.is_observed(subject.uri) else entry

    async def _ask_store(self, flight: Flight) -> Entry | None:
        """What the store has. A wall: what goes wrong there is no reason not to read."""
        try:
            return await self._keeping.look(flight)
        except Exception as error:  # noqa: BLE001  # logged there
            self._wall.caught(error)
            return None

    # --- what was read, and may be kept -------------------------------------------------------------------------------

    def _kept(self, flight: Flight, reply: Result) -> Entry | None:
        """Keep what was read, if it may be; what is kept."""
        server, subject = flight.server, flight.subject
        place = server.session_for(flight.caller)
        if place is None or (flight.place is not None and place is not flight.place):
            return None
        if self._keeping.source_of(server) != subject.source or not server.config.cache:
            return None
        observed = flight.is_observed and place.subscriptions.is_observed(subject.uri)
        now, stale_s = self._clock(), self._keeping.config.stale_if_error_s
        if place.session.era is Era.MODERN and not observed and not has_ttl(reply.value):
            self._observe_later(server, place, subject.uri, flight.caller.conversation)
        version = server.snapshot.version
        entry = entry_of(reply.value, version, place.session.era, now, stale_s, observed=observed)
        if entry is None:
            return None
        abilities = "" if place.session.era is Era.LEGACY else subject.abilities
        subject = structs.replace(subject, tenant=place.tenant, abilities=abilities)
        common = self._keeping.is_common(server, subject)
        if common and not observed and not self._keeping.is_vouched:
            return None  # another hub may be told of a change, and could not say so
        return entry if self._keeping.keep(subject, entry, common=common) else None

    def _observe_later(self, server: Server, place: Place, uri: str, reader: int) -> None:
        """A modern upstream gave no time-to-live: be told of changes before it is read the next time."""
        if self._nursery is not None and self._observing.is_worth_trying(server, place, uri):
            observe = partial(self._observing.observe, server.name, place, uri, reader)
            self._nursery.start_soon(run_isolated, "Watching a resource", observe)
