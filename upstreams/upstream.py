"""One upstream as the rest of the hub sees it: a name to call, a state to show, a snapshot of what it offers.

`call` is the seam. An `Upstream` is put together of parts that each know one thing, and tells them what happens:

    standing        whether it is there, and if not, why and until when
    offered         what it offers
    heard           what its sessions say that belongs to no call
    pool, openings  its sessions, whose they are, and how they come about
    elders          those of another era than its main one
    finder, calls   how a call comes by one, and what it does there
    holdings        what hosts watch

State is changed by sync methods only, which the supervisor's task of this upstream calls; everybody else reads.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf

import trio
from msgspec import structs

from config.schema import UpstreamConfig
from hub.link.interface import Caller, Exchange, HubError, Operation, Tenant, UpstreamLoop, UpstreamUnavailable
from hub.link.wakeups import Flag
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.mcp import Era, Kind, Snapshot, era_of
from upstreams.availability import Standing
from upstreams.host_subscriptions import HostSubscriptions
from upstreams.invalidation import Onlooker, Onlooking
from upstreams.inventory.freshness import declares_changes
from upstreams.inventory.offered import Offered
from upstreams.inventory.refresh import Reading
from upstreams.journal.journal import Journal
from upstreams.lifecycle import Event, State
from upstreams.notifications import NotificationSink
from upstreams.questions.completed_elicitations import Elicitations
from upstreams.sessions.calls import Calls
from upstreams.sessions.connector import Opener, SessionConnector
from upstreams.sessions.legacy_sessions import LegacySessions
from upstreams.sessions.pool import Memory, Pool
from upstreams.sessions.pooled_session import Place
from upstreams.sessions.selector import SessionSelector
from upstreams.status import Counts, UpstreamStatus, configured_transport, health, is_local
from upstreams.subscriptions.subscription import Holder


class Upstream:
    """One configured MCP server, whether it runs or not."""

    def __init__(
        self,
        name: str,
        config: UpstreamConfig,
        on_change: Callable[["Upstream"], None],
        memory: Memory,
        open_session: Opener,
        slots: trio.Semaphore,
        last_known: Snapshot | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.standing = Standing(name, config, journal or Journal(lambda: 0.0))
        self._onlooking = looks = Onlooking()
        self.offered = Offered(name, last_known, lambda: on_change(self), local=is_local(config), onlooker=looks)
        chronicle = self.standing.chronicle
        self._mask = chronicle.mask
        self.heard = NotificationSink(
            name, chronicle, self.offered, on_asked=self._asked, on_ended=self.lost, onlooker=looks
        )

        def make(of: UpstreamConfig, severity: int) -> SessionConnector:
            pool = Pool(name, of, memory)
            return SessionConnector(pool, self.heard, memory, open_session, slots, onlooker=looks, severity=severity)

        self.openings = make(config, logging.WARNING)
        self.pool = self.openings.pool
        self.elders = LegacySessions(name, config, memory, make)
        self.pools = self.pool, self.elders.pool
        """Where all sessions are."""
        self.finder = SessionSelector(name, self.standing, self.openings, self.elders, config.timeouts.start)
        self.holdings = HostSubscriptions(name, self.finder)
        for pool in self.pools:
            pool.moved = self.holdings.settle
        self.calls = Calls(name, config, self.standing)
        self.adjusted = Flag()
        """It may have to be stopped earlier or later than it seemed: settings changed, or what it offers is known."""
        self.successor: Upstream | None = None
        self.predecessor: Upstream | None = None
        """One that is being stopped, while it is."""
        self._needed_at = trio.current_time()
        """When a main session that is over was used last."""

    def __repr__(self) -> str:
        return f"<Upstream {self.name} {self.state.value} [{self.in_flight} in flight]>"

    @property
    def state(self) -> State:
        """What it is doing."""
        return self.standing.state

    @property
    def in_flight(self) -> int:
        """How many calls are with it."""
        return self.calls.in_flight

    @property
    def snapshot(self) -> Snapshot:
        """What it offers, or offered last; it stays while the upstream is away."""
        return self.offered.snapshot

    @property
    def elicitations(self) -> Elicitations:
        """What was begun at URLs and is done."""
        return self.heard.elicitations

    @property
    def onlooker(self) -> Onlooker:
        """Who hears first of what becomes of its resources."""
        return self._onlooking.onlooker

    @onlooker.setter
    def onlooker(self, onlooker: Onlooker) -> None:
        self._onlooking.onlooker = onlooker

    # --- the seam -----------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """Carry out an operation. Waits for an upstream that is about to be there (D-11).

        Raises:
            UpstreamUnavailable: it is not there within `timeouts.start`, or not to be had; nothing was sent.
            HubError: as `Session.call`.
        Cancellation: passes to the upstream, which is told.
        """
        if operation.session and (named := self._named(operation.session)):
            holder, place = named
            with suppress(UpstreamUnavailable):  # nothing was sent; if that session is over, the next one may have it
                return await holder.calls.carry(place, operation, exchange)
        try:
            return await self._call_here(operation, exchange)
        except UpstreamUnavailable as error:  # nothing was sent
            if self.successor is None:
                self._mask.error(error)
                raise
        except HubError as error:
            self._mask.error(error)
            raise
        reply = await self.successor.call(operation, exchange)
        self.offered.snapshot = self.successor.snapshot  # by its version the reply is read
        return reply

    async def _call_here(self, operation: Operation, exchange: Exchange) -> Reply:
        caller = exchange.caller
        place = self.elders.serve(caller) and await self.elders.find(exchange)
        place = place or self.pool.find(caller) or await self.finder.wait(exchange)
        try:
            return await self.calls.carry(place, operation, exchange)
        except UpstreamUnavailable:  # if that session is over, the next one may have it
            if place in (self.pool.find(caller), self.elders.pool.find(caller)):
                raise
        return await self.calls.carry(await self.finder.wait(exchange), operation, exchange)

    def place_of(self, caller: Caller) -> Place | None:
        """The open session that a call of `caller` would go to now; None: there is none yet, or never will be."""
        place = self.finder.having(caller)
        if place is None and self.standing.retired and self.successor is not None:
            return self.successor.place_of(caller)
        return place

    def version_for(self, caller: Caller) -> str:
        """The revision that calls of `caller` are likely made in; "" while nothing is known."""
        return self.elders.version() if self.elders.serve(caller) else self.snapshot.version

    def nudge(self) -> None:
        """As `Standing.nudge`."""
        self.standing.nudge()

    # --- what it offers -----------------------------------------------------------------------------------------------

    def ttl_ms(self, kind: Kind) -> int:
        """How long hosts may go without asking again what it lists."""
        return self.offered.ttl_ms(kind, self._told_since(kind))

    def reread(self, kind: Kind) -> Reading | None:
        """Have a list read anew that may be another by now; what to wait for, None: nothing.

        Nobody waits for an upstream that is not there, nor for one that has not said what it offers.
        """
        if self.state is not State.CONNECTED or not self.offered.listed:
            return None
        return self.offered.reread(kind, self._told_since(kind))

    def _told_since(self, kind: Kind) -> float:
        """Since when the hub has heard whenever a list changes; `inf`: it may not have."""
        main = self.pool.main
        if main is None:
            return inf
        if main.session.era is Era.MODERN:
            return main.hearing.lists_since.get(kind, inf)
        return main.hearing.since if declares_changes(self.snapshot, kind) else inf

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """Have these lists read again: there is reason to believe that they changed."""
        self.offered.changed(kinds)

    async def refresh(self, kind: Kind) -> None:
        """Have a list read from now on, and wait for that within reason, if the upstream is there or tried.

        Raises:
            UpstreamUnavailable: it is disabled.
        """
        self.standing.refuse_if_disabled()
        if self.state is State.CONNECTED and self.offered.listed:
            if reading := self.offered.rereading.ask(kind, anew=True):
                await reading.wait()
        elif self.state in (State.CONNECTED, State.CONNECTING, State.RECONNECTING):
            await self.offered.refresh(kind)

    # --- what hosts watch ---------------------------------------------------------------------------------------------

    async def watch(self, uri: str, holder: Holder) -> Failure | None:
        """Watch a resource for `holder`; None once the upstream agreed, else why it did not.

        Raises:
            HubError: it is not there in time, or could not be asked.
        Cancellation: the holder does not hold it.
        """
        try:
            refusal = await self.holdings.watch(uri, holder)
            return None if refusal is None else self._mask.failure(refusal)
        except UpstreamUnavailable as error:
            if self.successor is None:
                self._mask.error(error)
                raise
        except HubError as error:
            self._mask.error(error)
            raise
        return await self.successor.watch(uri, holder)

    def is_watched(self, uri: str, holder: Holder) -> bool:
        """Whether `watch` succeeded, and `unwatch` did not follow."""
        return self._last.holdings.is_held(uri, holder)

    def unwatch(self, uri: str, holder: Holder) -> None:
        """`holder` watches it no longer."""
        self._last.holdings.unwatch(uri, holder)

    # --- what hosts do ------------------------------------------------------------------------------------------------

    def left(self, tenant: Tenant) -> None:
        """A host is gone; what it had for itself is closed when its calls are over."""
        for pool in self.pools:
            pool.left(tenant)

    def roots_changed(self, tenant: Tenant) -> None:
        """The roots of a host are others now."""
        for pool in self.pools:
            pool.roots_changed(tenant)

    def set_log_level(self, level: str | None) -> None:
        """The least severe level any host wants to hear, None for none.

        Calls of hosts that want any wait until a legacy upstream was told (bridging.md 9.3).
        """
        for pool in self.pools:
            pool.want_level(level)

    def expect(self, session: str, caller: Caller, for_s: float) -> None:
        """Keep `session` for so long though no call may use it, since a task lives in it; "": that of `caller`."""
        named = self._named(session)
        place = self.pool.find(caller) if not session else named and named[1]
        if place:
            place.needed_until = max(place.needed_until, trio.current_time() + for_s)

    def has_lost(self, session: str) -> bool:
        """Whether `session` is over, and with it everything that was begun in it: it was a process."""
        return self.config.command is not None and self._named(session) is None

    def _named(self, session: str) -> "tuple[Upstream, Place] | None":
        """The open session of this name, and who has it: this one, or one that is being stopped. "" names none."""
        if not session:
            return None
        for pool in self.pools:
            if place := pool.named(session):
                return self, place
        return self.predecessor._named(session) if self.predecessor is not None else None

    # --- what the keeper's task does to it ----------------------------------------------------------------------------

    def opened(self, main: Place) -> None:
        """The main session is ready."""
        session = main.session
        self.pool.main_opened(main)
        self.elders.begin(session.era, session.transport)
        self.offered.connected(session.facts)
        self.standing.opened(f"{session.facts.version} over {session.transport}", session.pid)

    def lost(self) -> None:
        """The main session carries no more calls."""
        if self.pool.main is not None:
            self._needed_at = max(self._needed_at, self.pool.main.idle_since)
            self.pool.main_lost()
            self.standing.move(Event.LOST)

    def failed(self, error: HubError | None) -> float | None:
        """As `Standing.failed`, of the main session."""
        self.lost()
        if isinstance(error, UpstreamLoop):
            self.offered.withdraw()  # all of it is our own, under longer names
        return self.standing.failed(error)

    def restarted(self) -> None:
        """It starts over by command."""
        self.lost()
        self.standing.restarted()

    def rest(self) -> None:
        """Nobody needs it: its main session is to be closed, and the next call has it started."""
        if self.pool.main is not None:
            self.pool.main_lost()
        self.elders.rest()
        self.standing.rests(self.config.idle_stop_s)

    def _asked(self) -> None:
        """As `UpstreamEvents.asked`."""
        (self.elders.pool if era_of(self.snapshot.version) is Era.MODERN else self.pool).asked()

    @property
    def needed_until(self) -> float:
        """When it was last needed, or will be for certain: now, while a call, a subscription or a host's own session is
        with it. That it is read what it offers, and that it is pinged, does not count."""
        now, main = trio.current_time(), self.pool.main
        held = main is not None and main.holders
        if self.in_flight or self.finder.waiting or held or self.holdings or any(pool.places for pool in self.pools):
            return now
        needed_at = max(self._needed_at, self.finder.needed_at)
        return needed_at if main is None else max(needed_at, main.idle_since, main.needed_until)

    @property
    def is_dormant(self) -> bool:
        """Whether it need not be started before a call needs it: it is lazy, and what it offers is known."""
        return self.state is State.IDLE and self.config.start == "lazy" and self.offered.known

    # --- another configuration ----------------------------------------------------------------------------------------

    def adjust(self, config: UpstreamConfig) -> None:
        """Take over settings that need no other session (`config.diff.SHOWN`, `LIMITS`)."""
        self.config = config
        self.calls.adjust(config)
        self.finder.start_s = config.timeouts.start
        self.standing.backoff.attempts = config.restart.attempts
        self.adjusted.set()
        if config.start == "eager" and not config.idle_stop_s:
            self.standing.wanted.set()
        self.pool.adjust(config)
        self.elders.adjust(config)
        self.offered.relocate(local=is_local(config))

    def follow(self, old: "Upstream") -> None:
        """Take the place of `old`, which takes no more calls from now on: those that wait there come here. What it
        offered stays listed until this one has said what it offers; what is watched there is watched here."""
        if not (self.offered.listed or self.offered.remembered or self.state is State.DISABLED):
            self.offered.follow(old.offered, local=is_local(self.config))
        self.heard.follow(old.heard)
        self.predecessor = old
        self.standing.waits_for = "Its configuration has changed, and the one before still has calls to end"
        self.holdings.take_over(old.holdings)
        old.successor = self
        old.retire()

    def retire(self) -> None:
        """Take no more calls. Those that are running go on, until `drained`, or until the keeper is stopped."""
        self.standing.retired = True
        self.elders.retire()
        for pool in self.pools:
            pool.retire()
        self.standing.tell()

    async def drained(self) -> None:
        """Wait until no call is with it, and no task that was begun in one of its sessions can be asked for."""
        while True:
            places = [place for pool in self.pools for place in pool.open_places()]
            needed_until = max((place.needed_until for place in places), default=-inf)
            if not self.in_flight and needed_until <= trio.current_time():
                return
            with trio.move_on_at(max(needed_until, trio.current_time()) if not self.in_flight else inf):
                await self.standing.news()

    def gone(self) -> None:
        """It is stopped: nothing of it is in the way of its successor any more."""
        if self.successor is not None:
            self.successor.predecessor = None
            self.successor.standing.waits_for = ""

    @property
    def _last(self) -> "Upstream":
        """The one that is in its place by now."""
        return self if self.successor is None else self.successor._last

    # --- for others to see --------------------------------------------------------------------------------------------

    @property
    def last_error(self) -> str | None:
        """Why it is away, or was, with the last words of its process."""
        return self.standing.chronicle.last_error

    @property
    def has_reported(self) -> bool:
        """Whether it is known what it offers, or that it cannot be had."""
        offered = self.offered
        return offered.listed or offered.remembered or self.last_error is not None or self.state is State.DISABLED

    @property
    def settling(self) -> bool:
        """Whether its lists may soon be others than `snapshot` says."""
        if self.state is State.CONNECTED:
            return not self.offered.listed
        if self.state is State.IDLE and self.offered.known:
            return False
        return self.state not in (State.DISABLED, State.UNAUTHORIZED)

    def status(self) -> UpstreamStatus:
        """For `hubd status`."""
        session = self.pool.main.session if self.pool.main else None
        lists = self.snapshot.lists
        silent_s = session.silent_s if session else None
        trouble = self.standing.chronicle.trouble(self.state, trio.current_time())
        return UpstreamStatus(
            name=self.name,
            state=self.state.value,
            era=session.era.value if session else None,
            version=self.snapshot.version or None,
            transport=session.transport if session else configured_transport(self.config),
            pid=session.pid if session else None,
            counts=Counts(*(len(lists.get(kind, ())) for kind in Kind)),
            **structs.asdict(trouble),
            failures=self.standing.backoff.failures,
            health=health(session, silent_s),
            silent_s=silent_s,
            in_flight=self.in_flight,
            degraded=self.snapshot.degraded,
            sessions=sum(map(len, self.pools)),
            mode=self.pool.sharing.value if self.pool.sharing else None,
            unattributed=self.heard.refused,
        )
