"""Reads of resources: from what is kept, or once for all who ask at the same time (D-14).

`ResourceCache` stands between the hosts' side and `Upstream.call`, for `resources/read` only:

    peek            what is kept, at once
    call            else, one read of the upstream for all who want the same now (`flight`, `fetch`)
    onlooker        what an upstream says meanwhile, and what becomes of its sessions: so that nothing old is kept

Nobody is given what was read before a change that the hub had heard of when they asked. Two rules see to that: what is
kept is dropped the moment that it becomes doubtful, and a read during which it became so is kept by nobody, and joined
by nobody who asks later.
"""

from collections.abc import Callable
from math import inf
from typing import Final

import msgspec
import trio

from cache.auto_subscribe import Observing
from cache.cacheability import kept_result, stale_result
from cache.entry import Cause, Subject
from cache.facts import CacheFacts
from cache.fetch import Fetches
from cache.flight import Flight, Released
from cache.index import is_followed
from cache.invalidation import Onlooker
from cache.key import abilities_of, is_plain
from cache.memory import Kept
from cache.shared_store import Shared
from cache.state import CacheState, everyones
from cache.upstream_interface import Place, Server
from config.identity import source_of
from config.schema import CacheConfig
from hub.link.interface import (
    Caller,
    DeadlineExceeded,
    Exchange,
    Operation,
    UpstreamLoop,
    UpstreamLost,
    UpstreamUnavailable,
)
from hub.link.machine_clock import current_time
from hub.wire.jsonrpc import Reply, peek_str
from hub.wire.mcp import Era

STAND_IN_S: Final = 1.5
"""How long an upstream that is away is waited for, where something may stand in."""


class Hit(msgspec.Struct, frozen=True):
    """What is kept of what somebody wants to read, and may be given to them."""

    subject: Subject
    kept: Kept


class ResourceCache:
    """The cache of one hub. `run` must be running."""

    def __init__(self, config: CacheConfig, *, clock: Callable[[], float] = current_time) -> None:
        self._clock = clock
        self._observing = Observing(clock)
        self._keeping = CacheState(config, self._observing, clock)
        self._fetching = Fetches(self._keeping, self._observing, clock)

    def __repr__(self) -> str:
        return f"<ResourceCache: {self._keeping!r}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the reads of upstreams, until cancelled."""
        await self._fetching.run(task_status=task_status)

    def use(self, shared: Shared) -> None:
        """Keep there, too, what hubs may have in common, and hear what others say. Before anything is read."""
        self._keeping.shared = shared
        shared.on_stale, shared.on_unvouched = self.elsewhere, self.unvouched

    def adjust(self, config: CacheConfig) -> None:
        """As `CacheState.adjust`."""
        self._keeping.adjust(config)

    def facts(self) -> CacheFacts:
        """What is to be seen of it."""
        return self._keeping.facts()

    # --- what is kept -------------------------------------------------------------------------------------------------

    def peek(self, server: Server, uri: str, caller: Caller) -> Hit | None:
        """What `caller` may be given at once; it counts as a hit."""
        subject, place = self._subject(server, uri, caller)
        return None if subject is None else self._peek(subject, place)

    def _peek(self, subject: Subject, place: Place | None) -> Hit | None:
        now = self._clock()
        for each in (subject, everyones(subject)):
            kept = self._keeping.memory.find(each)
            if kept is None or now >= kept.entry.fresh_until:
                continue
            if kept.entry.observed:
                if place is None or not place.subscriptions.is_observed(subject.uri):
                    continue
                self._observing.read(subject.upstream, place, subject.uri)
            self._keeping.tally.of(subject.upstream).hits += 1
            return Hit(each, kept)
        return None

    def _subject(self, server: Server, uri: str, caller: Caller) -> tuple[Subject | None, Place | None]:
        """What reading it comes to, and the session that serves `caller`; None: nothing of it may be kept."""
        source = self._keeping.source_of(server)
        if source is None or not self._keeping.config.enabled or not server.config.cache:
            return None, None
        place = server.session_for(caller)
        tenant = None if place is None else place.tenant
        is_legacy = place is not None and place.session.era is Era.LEGACY
        abilities = "" if is_legacy else abilities_of(caller, server.config)
        return Subject(server.name, source, uri, caller.identity.principal, tenant, abilities), place

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
        if not is_plain(operation) or not self._fetching.is_running:
            return await server.call(operation, exchange)
        uri = peek_str(operation.params["uri"]) or ""
        subject, place = self._subject(server, uri, exchange.caller)
        if subject is None or not is_followed(uri):
            return await server.call(operation, exchange)
        if (hit := self._peek(subject, place)) is not None:
            return kept_result(hit.kept.entry, self._clock())
        asked_at = self._clock()
        is_away = place is None and self._substitute(subject, asked_at) is not None
        try:
            with trio.move_on_after(STAND_IN_S if is_away else inf):
                return await self._join(server, subject, place, operation, exchange)
            raise UpstreamUnavailable(f"{server.name} is not there", upstream=server.name)
        except (UpstreamUnavailable, UpstreamLost, DeadlineExceeded) as error:
            kept = None if isinstance(error, UpstreamLoop) else self._substitute(subject, asked_at)
            if kept is None:
                raise
            self._keeping.tally.of(subject.upstream).stale += 1
            return stale_result(kept.entry, kept.at, self._clock(), error)

    async def _join(
        self, server: Server, subject: Subject, place: Place | None, operation: Operation, exchange: Exchange
    ) -> Reply:
        counts = self._keeping.tally.of(subject.upstream)
        flight = self._keeping.joinable(subject, place)
        if flight is None:
            flight = Flight(server, subject, operation, exchange.caller, place)
            self._fetching.begin(flight)
            counts.misses += 1
        else:
            counts.coalesced += 1
        try:
            return await flight.wait(exchange)
        except Released:
            return await server.call(operation, exchange)

    def _substitute(self, subject: Subject, asked_at: float) -> Kept | None:
        """What may stand in where reading fails (K-6)."""
        for each in (subject, everyones(subject)):
            kept = self._keeping.memory.find(each, at=asked_at)
            if kept is not None and not kept.entry.observed and kept.entry.stale_until > asked_at:
                return kept
        return None

    # --- what makes it doubtful ---------------------------------------------------------------------------------------

    def onlooker(self, server: Server) -> Onlooker:
        """Who must be told what `server` says from now on. What was kept of another one of its name is dropped."""
        self.invalidate(server.name, Cause.CONFIG)
        source = source_of(server.config)
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
