"""Fetching: reads of upstreams, each from the look-up in the shared store to the entry.

    look up in the shared store, and subscribe, at the same time
      |--- found ---->  kept in memory; given to all hosts that wait
      `--- read ----->  given to all hosts that wait; kept in memory and put into the store, if it may be
                        (`cache_entry`) and is not stale meanwhile

Each read is a task of its own, which no waiting host can end alone (`single_flight`).
"""

import logging
from functools import partial

import trio
from msgspec import structs

from cache.cache_entry import Entry, entry_of, fresh_result, has_ttl, is_complete
from cache.cache_state import CacheState
from cache.single_flight import Flight
from hub.link.fault_isolation import FaultLog, run_isolated
from hub.link.hub_errors import HubError, without_frames
from hub.wire.jsonrpc import Reply, Result
from hub.wire.mcp import Era

log = logging.getLogger("cache.redis")


class Fetches:
    """Runs reads. `run` must be running."""

    def __init__(self, state: CacheState) -> None:
        self._state, self._clock = state, state.clock
        self._auto_subscriptions = state.auto_subscriptions
        self._faults = FaultLog(log, "keeping what was read")
        self._nursery: trio.Nursery | None = None

    @property
    def is_running(self) -> bool:
        return self._nursery is not None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run reads until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def start(self, flight: Flight) -> None:
        assert self._nursery is not None, "`is_running` says so"
        self._state.add_flight(flight)
        self._nursery.start_soon(self._run_flight, flight)

    async def _run_flight(self, flight: Flight) -> None:
        """Run one read to its end. All waiting hosts get the outcome, even a fault of the hub."""
        put: Entry | None = None
        try:
            with flight.scope:
                try:
                    put = await self._fetch(flight)
                except HubError as error:
                    self._land(flight, without_frames(error))
                except Exception as error:  # noqa: BLE001  # whoever waits raises it
                    self._land(flight, error)
        finally:
            self._state.remove_flight(flight)
            flight.end()
        if put is not None and flight.ticket is not None:
            try:
                await self._state.share(flight.ticket, flight.key, put)
            except* Exception as errors:  # noqa: BLE001  # a fault is logged, and the work goes on
                self._faults.log_once(errors)

    async def _fetch(self, flight: Flight) -> Entry | None:
        """Read and give the outcome to waiting hosts; returns the entry to put into the shared store."""
        if (found := await self._look_up(flight)) is not None:
            self._state.counters.of[flight.key.upstream].found += 1
            self._state.keep(flight.key, found, shareable=True)
            flight.land(fresh_result(found, self._clock()))
            return None
        flight.is_reading, flight.is_disturbed = True, False
        pooled, uri = flight.pooled, flight.key.uri
        flight.is_observed = pooled is not None and pooled.subscriptions.is_observed(uri)
        reply = await flight.call(flight.operation, flight)
        if not is_complete(reply, flight.upstream.snapshot.version):
            flight.make_private()
        entry = None
        if isinstance(reply, Result) and not flight.is_disturbed and not flight.is_private:
            entry = self._keep_result(flight, reply)
        self._land(flight, reply)
        return entry

    def _land(self, flight: Flight, outcome: Reply | Exception) -> None:
        """Give the outcome to all waiting hosts; if the session belongs, or may belong, to the first, only to that."""
        self._state.remove_flight(flight)
        pooled = flight.upstream.session_for(flight.caller) or flight.pooled
        may_be_shared = isinstance(outcome, Exception) if pooled is None else pooled.tenant == flight.key.tenant
        if not may_be_shared:
            flight.make_private()
        flight.land(outcome)

    # --- the shared store ---------------------------------------------------------------------------------------------

    async def _look_up(self, flight: Flight) -> Entry | None:
        """Subscribe if worthwhile, and look up in the shared store; the entry, if it may be used."""
        pooled, key, reader = flight.pooled, flight.key, flight.caller.program
        if pooled is None:
            return None
        watched = (
            pooled.session.era is Era.LEGACY
            and not pooled.subscriptions.is_observed(key.uri)
            and self._auto_subscriptions.is_worth_trying(flight.upstream, pooled, key.uri)
        )
        if not self._state.is_shareable(flight.upstream, key):
            if watched:
                await self._auto_subscriptions.observe(key.upstream, pooled, key.uri, reader)
            return None
        async with trio.open_nursery() as nursery:
            if watched:
                nursery.start_soon(self._auto_subscriptions.observe, key.upstream, pooled, key.uri, reader)
            entry = await self._ask_store(flight)
        if flight.is_disturbed:  # most likely by the subscription itself: an entry found from now on is right
            flight.is_disturbed = False
            entry = await self._ask_store(flight)
        if entry is None or flight.is_disturbed or self._clock() >= entry.fresh_until:
            return None
        return None if entry.observed and not pooled.subscriptions.is_observed(key.uri) else entry

    async def _ask_store(self, flight: Flight) -> Entry | None:
        """The entry in the shared store, with a ticket for the flight; None also after a fault, which is logged."""
        key, store = flight.key, self._state.shared
        assert store is not None, "it was asked whether there is one"
        try:
            entry, flight.ticket = await store.look_up(key.source, key.uri, key.owner, key.abilities)
            return entry
        except Exception as error:  # noqa: BLE001  # a fault is logged, and the work goes on
            self._faults.log_once(error)
            return None

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _keep_result(self, flight: Flight, reply: Result) -> Entry | None:
        upstream, key = flight.upstream, flight.key
        pooled = upstream.session_for(flight.caller)
        if pooled is None or (flight.pooled is not None and pooled is not flight.pooled):
            return None
        if self._state.source_of(upstream) != key.source or not upstream.config.cache:
            return None
        observed = flight.is_observed and pooled.subscriptions.is_observed(key.uri)
        now, stale_s = self._clock(), self._state.config.stale_if_error_s
        lacks_ttl = pooled.session.era is Era.MODERN and not observed and not has_ttl(reply.value)
        auto = self._auto_subscriptions
        if lacks_ttl and self._nursery is not None and auto.is_worth_trying(upstream, pooled, key.uri):
            observe = partial(auto.observe, upstream.name, pooled, key.uri, flight.caller.program)
            self._nursery.start_soon(run_isolated, "Watching a resource", observe)  # so the next read can be kept
        version = upstream.snapshot.version
        entry = entry_of(reply.value, version, pooled.session.era, now, stale_s, observed=observed)
        if entry is None:
            return None
        abilities = "" if pooled.session.era is Era.LEGACY else key.abilities
        key = structs.replace(key, tenant=pooled.tenant, abilities=abilities)
        shareable = self._state.is_shareable(upstream, key)
        store = self._state.shared
        if shareable and not observed and store is not None and not store.is_coherent:
            return None  # another hub may hear of a change, and could not report it here
        return entry if self._state.keep(key, entry, shareable=shareable) else None
