"""Facade of the cache: answers reads of resources from memory, or by one read for all hosts that ask meanwhile.

`ResourceCache` stands between the hosts' side and `Upstream.call`, for `resources/read` only:

    peek            an entry in memory, at once
    call            otherwise one read of the upstream for all hosts that want the same (`single_flight`, `fetch`)
    listener_for    the listener that an upstream reports changes and ended sessions to (`CacheListener`)

No host gets a result that was read before a change of which the hub had heard when the host asked. Two rules ensure it:
an entry is dropped as soon as it may be stale, and a read during which that happened is neither kept nor joined later.
"""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

import trio

from cache.cache_entry import CacheKey, DropCause, abilities_of, fresh_result, is_plain, stale_result
from cache.cache_state import CacheState, for_everyone
from cache.fetch import Fetches
from cache.memory import CachedEntry
from cache.resource_index import is_trackable
from cache.single_flight import Flight, Released
from cache.upstream_interface import ReadablePooledSession, ReadableUpstream
from config.diff import source_of
from config.settings import CacheConfig, UpstreamConfig
from hub.link.call_interface import Call, Caller, Exchange, Operation, Tenant
from hub.link.hub_errors import DeadlineExceeded, UpstreamLoop, UpstreamLost, UpstreamUnavailable
from hub.linux.boot_clock import current_time
from hub.wire.jsonrpc import Reply, peek_str
from hub.wire.mcp import Era

if TYPE_CHECKING:
    from cache.redis.store import RedisStore

STAND_IN_S: Final = 1.5
"""Time that an absent upstream is waited for, if an expired entry may stand in."""


class CacheListener:
    """The listener of one upstream. Satisfies `upstreams.subscriptions.resource_subscription.InvalidationListener`."""

    def __init__(self, state: CacheState, name: str, source: str) -> None:
        self._state = state
        self._name = name
        self.source = source
        """The identity of the upstream, the same in all hubs that share it."""

    def resource_changed(self, uri: str) -> None:
        """Drop `uri`, its parts, and the resources that it is a part of."""
        self._state.auto_subscriptions.note_change(self._name, uri)
        self._state.drop_changed(self._name, uri, DropCause.UPDATED)
        self._state.invalidate_shared(self._name, self.source, uri)

    def resources_relisted(self) -> None:
        self._state.drop_all(self._name, DropCause.LISTS)
        self._state.invalidate_shared(self._name, self.source, None)

    def subscribed(self, uri: str) -> None:
        """Drop `uri`: changes before the subscription may have been missed."""
        state, name = self._state, self._name
        state.drop(state.memory.index.of_resource(name, uri), DropCause.SESSION)
        state.disturb(state.flights.of_resource(name, uri))
        state.invalidate_shared(name, self.source, uri)

    def gap(self, tenant: Tenant | None) -> None:
        """Expire what was read over the session of `tenant`, None: over all sessions. Results of reads over a session
        that is not known yet are not kept either."""
        state, name = self._state, self._name
        if tenant is not None:
            state.expire(state.memory.index.of_tenant(name, tenant))
            unknown = [flight for flight in state.flights.of(name) if flight.pooled is None]
            state.disturb([*state.flights.of_tenant(name, tenant), *unknown])
            return
        state.expire(state.memory.index.of(name))
        state.disturb(state.flights.of(name))
        state.invalidate_shared(name, self.source, None)


class ResourceCache:
    """The cache of one hub; a `cache.shared_store.StoreListener`. `run` must be running."""

    def __init__(
        self, config: CacheConfig, shared: "RedisStore | None" = None, *, clock: Callable[[], float] = current_time
    ) -> None:
        """`shared`: the store that hubs share; its maker runs it, with this cache as its listener."""
        self._clock = clock
        self._state = CacheState(config, clock, shared)
        self._fetches = Fetches(self._state)
        self.run = self._fetches.run
        self.reconfigure = self._state.reconfigure
        self.statistics = self._state.statistics
        self.memory, self.counters = self._state.memory, self._state.counters
        self.forget_upstream = self._state.forget_upstream
        self.note_call, self.invalidate = self._state.note_call, self._state.drop_all
        self.on_stale, self.on_gap = self._state.on_stale, self._state.on_gap
        self.keep_form, self.drop_forms = self._state.memory.keep_form, self._state.memory.drop_forms

    # --- what is kept -------------------------------------------------------------------------------------------------

    def peek(self, upstream: ReadableUpstream, uri: str, caller: Caller) -> CachedEntry | None:
        """The fresh entry that may answer `caller` at once; counts as a hit. None: there is none."""
        key, pooled = self._key_and_session(upstream, uri, caller)
        return None if key is None else self._peek(key, pooled)

    def _peek(self, key: CacheKey, pooled: ReadablePooledSession | None) -> CachedEntry | None:
        now = self._clock()
        for each in (key, for_everyone(key)):
            cached = self._state.memory.find(each)
            if cached is None or now >= cached.entry.fresh_until:
                continue
            if cached.entry.observed:
                if pooled is None or not pooled.subscriptions.is_observed(key.uri):
                    continue
                self._state.auto_subscriptions.note_read(key.upstream, pooled, key.uri)
            self._state.counters.of[key.upstream].hits += 1
            return cached
        return None

    def _key_and_session(
        self, upstream: ReadableUpstream, uri: str, caller: Caller
    ) -> tuple[CacheKey | None, ReadablePooledSession | None]:
        """The key of a read, None: its result may not be kept; and the session that serves `caller`, if known."""
        source = self._state.source_of(upstream)
        if source is None or not self._state.config.enabled or not upstream.config.cache:
            return None, None
        pooled = upstream.session_for(caller)
        tenant = None if pooled is None else pooled.tenant
        is_legacy = pooled is not None and pooled.session.era is Era.LEGACY
        abilities = "" if is_legacy else abilities_of(caller, upstream.config)
        return CacheKey(upstream.name, source, uri, caller.identity.principal, tenant, abilities), pooled

    # --- reading ------------------------------------------------------------------------------------------------------

    async def call(self, upstream: ReadableUpstream, operation: Operation, exchange: Exchange, call: Call) -> Reply:
        """Answer a read from memory, or by a read that hosts share. `call` sends an operation to the upstream.
        Raises: HubError, as `Upstream.call`.
        Cancellation: passes to the upstream, unless others wait for the same."""
        if not is_plain(operation) or not self._fetches.is_running:
            return await call(operation, exchange)
        uri = peek_str(operation.params["uri"]) or ""
        key, pooled = self._key_and_session(upstream, uri, exchange.caller)
        if key is None or not is_trackable(uri):
            return await call(operation, exchange)
        if (hit := self._peek(key, pooled)) is not None:
            return fresh_result(hit.entry, self._clock())
        asked_at, counts = self._clock(), self._state.counters.of[key.upstream]
        is_away = pooled is None and self._substitute(key, asked_at) is not None
        if (flight := self._state.joinable(key, pooled)) is None:
            flight = Flight(upstream, key, operation, exchange.caller, pooled, call)
            self._fetches.start(flight)
            counts.misses += 1
        else:
            counts.coalesced += 1
        try:
            with trio.move_on_after(STAND_IN_S if is_away else inf):
                try:
                    return await flight.wait(exchange)
                except Released:
                    return await call(operation, exchange)
            raise UpstreamUnavailable(f"{upstream.name} is not there", upstream=upstream.name)
        except (UpstreamUnavailable, UpstreamLost, DeadlineExceeded) as error:
            cached = None if isinstance(error, UpstreamLoop) else self._substitute(key, asked_at)
            if cached is None:
                raise
            counts.stale += 1
            return stale_result(cached.entry, cached.at, self._clock(), error)

    def _substitute(self, key: CacheKey, asked_at: float) -> CachedEntry | None:
        for each in (key, for_everyone(key)):
            cached = self._state.memory.find(each, at=asked_at)
            if cached is not None and not cached.entry.observed and cached.entry.stale_until > asked_at:
                return cached
        return None

    # --- invalidation -------------------------------------------------------------------------------------------------

    def listener_for(self, name: str, config: UpstreamConfig) -> CacheListener:
        """The listener that an upstream `name` with this configuration reports to."""
        return CacheListener(self._state, name, source_of(config))

    def register(self, upstream: ReadableUpstream) -> None:
        """Read from `upstream` from now on. Entries of an earlier upstream of its name are dropped."""
        self.invalidate(upstream.name, DropCause.CONFIG)
        self._state.register(upstream, source_of(upstream.config))
