"""One upstream as the rest of the hub sees it: a name to call, a state to show, a snapshot of what it offers.

`call` is the seam. Which session serves a call is decided in `pool`, nowhere else. State is changed by sync methods
only, which the supervisor's task of this upstream calls; everybody else reads.
"""

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from math import ceil, inf
from typing import Final

import trio
from msgspec import Raw, structs

from config.schema import UpstreamConfig
from hub.link.exchange import (
    Caller,
    Draining,
    Exchange,
    HubError,
    Operation,
    Tenant,
    UpstreamLoop,
    UpstreamLost,
    UpstreamUnauthorized,
    UpstreamUnavailable,
    UpstreamVersionError,
)
from hub.wire.jsonrpc import Failure, Reply, peek_str
from hub.wire.legacy import ServerFacts
from hub.wire.loops import all_behind, with_behind
from hub.wire.mcp import TOOLS_CALL, Era, Kind, Snapshot, era_of
from upstreams.chronicle import Chronicle
from upstreams.elders import Elders
from upstreams.elicited import Elicitations
from upstreams.holdings import Holdings
from upstreams.journal import Journal
from upstreams.lifecycle import TRANSITIONS, Backoff, Event, State
from upstreams.lists import Listing
from upstreams.place import Flag, Place
from upstreams.pool import Memory, Opener, Pool
from upstreams.session import CallTimeouts, Exit, Session
from upstreams.status import (
    Counts,
    LogBudget,
    UpstreamStatus,
    configured_transport,
    empty_snapshot,
    health,
    is_local,
)
from upstreams.watches import Holder

log = logging.getLogger(__name__)

SEVERITY: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
LOGS_PER_S: Final = 20
LOG_CHARS: Final = 2_000
TELL_REFUSED_S: Final = 60.0
REFRESH_WAIT_S: Final = 1.5
"""How long it may take to make sure that a list is what it was (bridging.md 13)."""


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

        def make_pool(of: UpstreamConfig) -> Pool:
            return Pool(name, of, self, memory, open_session, slots)

        self.pool = make_pool(config)
        self.elders = Elders(name, config, memory, make_pool)
        self.pools = self.pool, self.elders.pool
        """Where all sessions are."""
        self.state = State.DISABLED if config.disabled else State.IDLE
        self.snapshot = last_known or empty_snapshot(name, is_local(config))
        """What it offers, or offered last; it stays while the upstream is away."""
        self.remembered = last_known is not None
        """Whether it was known from an earlier run what it offers, when this one began."""
        self.known = self.remembered
        """Whether `snapshot` is what it offers, as far as anybody can know."""
        self.backoff = Backoff(lambda: random.uniform(-1, 1), attempts=config.restart.attempts)
        self.chronicle = Chronicle(config, journal or Journal(lambda: 0.0), trio.current_time())
        self.note = self.chronicle.note
        self.said = self.chronicle.said
        self._failure: type[UpstreamUnavailable] = UpstreamUnavailable
        """What calls fail with while it is away."""
        self.in_flight = 0
        self.listed = False
        """Whether its lists have been read since it was last connected."""
        self.stale: dict[Kind, trio.Event] = {}
        """Lists to be read again; whoever does so sets the events."""
        self.became_stale = Flag()
        self.elicitations = Elicitations()
        """What was begun at URLs and is done."""
        self.refused = 0
        """Questions of which nobody can tell whose they are."""
        self._on_change = on_change
        self._waiting = 0
        """Calls that wait for it."""
        self._needed_at = trio.current_time()
        """When it was last needed, as far as no session knows."""
        self._timeouts = CallTimeouts(config.timeouts.call, config.timeouts.call_total)
        self._news = trio.Event()
        self.wanted = trio.Event()
        """Set by a call that finds the upstream not trying, or idle."""
        self.adjusted = Flag()
        """It may have to be stopped earlier or later than it seemed: settings changed, or it is `known` now."""
        self._logged = LogBudget(LOGS_PER_S)
        self._told_refused = float("-inf")
        self.retired = False
        """It takes no more calls: the configuration has another in its place, or none."""
        self.stopped = False
        """And those that it still has end now."""
        self.successor: Upstream | None = None
        self.predecessor: Upstream | None = None
        """One that is being stopped, while it is."""
        self.holdings = Holdings(name, self)
        for pool in self.pools:
            pool.moved = self.holdings.settle

    def __repr__(self) -> str:
        return f"<Upstream {self.name} {self.state.value} [{self.in_flight} in flight]>"

    # --- the seam -----------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """Carry out an operation. Waits for an upstream that is about to be there (D-11).

        Raises:
            UpstreamUnavailable: it is not there within `timeouts.start`, or not to be had; nothing was sent.
            HubError: as `Session.call`.
        Cancellation: passes to the upstream, which is told.
        """
        caller = exchange.caller
        place = self._named(operation.session) if operation.session else None
        if place is None and self.elders.serve(caller):
            place = await self.elders.find(exchange)
        place = place or self.pool.find(caller) or await self._wait_for_place(exchange)
        try:
            return await self._call(place, operation, exchange)
        except UpstreamUnavailable:  # nothing was sent; if that session is over, the next one may have it
            if place in (self.pool.find(caller), self.elders.pool.find(caller)):
                raise
        return await self._call(await self._wait_for_place(exchange), operation, exchange)

    async def _call(self, place: Place, operation: Operation, exchange: Exchange) -> Reply:
        self.in_flight += 1
        place.hold(exchange.caller)
        try:
            if exchange.caller.log_level is not None:
                await place.level.told.wait()
            reply = await place.session.call(operation, exchange, self._timeouts_of(operation))
            return reply if "task" not in operation.params else place.sign(reply)
        except UpstreamLost:
            if self.stopped:
                text = f"{self.name} was stopped by a change of the hub's configuration while the call was with it;"
                raise Draining(f"{text} whether it acted is unknown", upstream=self.name) from None
            raise
        finally:
            self.in_flight -= 1
            place.release()
            if self.retired:
                self._tell()

    def version_for(self, caller: Caller) -> str:
        """The revision that calls of `caller` are likely made in; "" while nothing is known."""
        return self.elders.version() if self.elders.serve(caller) else self.snapshot.version

    def _timeouts_of(self, operation: Operation) -> CallTimeouts:
        if not self.config.tool_timeouts or operation.method != TOOLS_CALL:
            return self._timeouts
        idle_s = self.config.tool_timeouts.get(peek_str(operation.params.get("name")) or "")
        return self._timeouts if idle_s is None else CallTimeouts(idle_s, self._timeouts.total_s)

    async def _wait_for_place(self, exchange: Exchange) -> Place:
        try:
            if (place := self.pool.find(exchange.caller)) is None and self.pool.main is None:
                place = await self._wait_for_main(exchange.caller)
                if self.elders.serve(exchange.caller):  # which was not known before
                    place = await self.elders.find(exchange) or place
            return place or await self.pool.open(exchange)
        except UpstreamUnavailable:  # nothing was sent
            if self.successor is None:
                raise
        place = await self.successor.place_for_call(exchange)
        self.snapshot = self.successor.snapshot  # by its version the reply is read
        return place

    async def place_for_call(self, exchange: Exchange) -> Place:
        """The session that a call of this host goes to, waited for or opened.

        Raises:
            HubError: as `call`.
        """
        if self.elders.serve(exchange.caller) and (place := await self.elders.find(exchange)):
            return place
        return self.pool.find(exchange.caller) or await self._wait_for_place(exchange)

    async def _wait_for_main(self, caller: Caller) -> Place | None:
        """Wait for a main session, or that of `caller`; the latter."""
        start_s = self.config.timeouts.start
        self._waiting += 1
        try:
            with trio.move_on_after(start_s):
                while (place := self.pool.find(caller)) is None and self.pool.main is None:
                    self._refuse_if_hopeless()
                    await self._news.wait()
                return place
        finally:
            self._waiting -= 1
            self._needed_at = trio.current_time()
        raise self._unavailable(f"{self.name} did not become ready within {start_s:g} seconds")

    def _refuse_if_hopeless(self) -> None:
        """Raise, unless the upstream is being started; have an idle one started, and from `failed` an attempt made if
        one is due (D-10)."""
        if self.retired:
            text = f"{self.name} was removed from the hub's configuration; list what there is, and use something else"
            raise UpstreamUnavailable(text, upstream=self.name)
        if self.state is State.DISABLED:
            raise UpstreamUnavailable(f"{self.name} is disabled in the hub's configuration", upstream=self.name)
        if self.state is State.IDLE:
            self.wanted.set()
        if self.state in (State.FAILED, State.UNAUTHORIZED):
            wait_s = self.backoff.retry_in_s(trio.current_time())
            if wait_s > 0:
                raise self._unavailable(f"{self.name} is not available", retry_after_s=wait_s)
            self.nudge()

    # --- what hosts watch ---------------------------------------------------------------------------------------------

    async def watch(self, uri: str, holder: Holder) -> Failure | None:
        """Watch a resource for `holder`; None once the upstream agreed, else why it did not.

        Raises:
            HubError: it is not there in time, or could not be asked.
        Cancellation: the holder does not hold it.
        """
        try:
            return await self.holdings.watch(uri, holder)
        except UpstreamUnavailable:
            if self.successor is None:
                raise
        return await self.successor.watch(uri, holder)

    def is_watched(self, uri: str, holder: Holder) -> bool:
        """Whether `watch` succeeded, and `unwatch` did not follow."""
        return self._last.holdings.is_held(uri, holder)

    def unwatch(self, uri: str, holder: Holder) -> None:
        """`holder` watches it no longer."""
        self._last.holdings.unwatch(uri, holder)

    def serving(self, caller: Caller) -> Place | None:
        """As `upstreams.holdings.Places.serving`. Whom `elders` serve watches there from the first call on."""
        elder = self.elders.pool.serving(caller) if self.elders.serve(caller) else None
        return elder or self.pool.serving(caller) or self.pool.lodging(caller)

    async def place_for(self, exchange: Exchange) -> Place:
        """As `upstreams.holdings.Places.place_for`."""
        if self.pool.main is None:
            await self._wait_for_main(exchange.caller)
        if place := self.serving(exchange.caller):
            return place
        if self.pool.is_shy(exchange.caller):
            text = f"{self.name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self.name)
        return await self.pool.open(exchange)

    async def reopen_for(self, exchange: Exchange) -> None:
        """As `upstreams.holdings.Places.reopen_for`."""
        caller = exchange.caller
        if self.pool.main is not None and self.serving(caller) is None and not self.pool.is_shy(caller):
            await self.pool.open(exchange)

    # --- another configuration ----------------------------------------------------------------------------------------

    def adjust(self, config: UpstreamConfig) -> None:
        """Take over settings that need no other session (`config.diff.SHOWN`, `LIMITS`)."""
        self.config = config
        self._timeouts = CallTimeouts(config.timeouts.call, config.timeouts.call_total)
        self.backoff.attempts = config.restart.attempts
        self.adjusted.set()
        if config.start == "eager" and not config.idle_stop_s:
            self.wanted.set()
        self.pool.adjust(config)
        self.elders.adjust(config)
        if self.snapshot.local != is_local(config):
            self.snapshot = structs.replace(self.snapshot, local=is_local(config))

    def follow(self, old: "Upstream") -> None:
        """Take the place of `old`, which takes no more calls from now on: those that wait there come here. What it
        offered stays listed until this one has said what it offers; what is watched there is watched here."""
        if not (self.listed or self.remembered or self.state is State.DISABLED):
            self.snapshot = structs.replace(old.snapshot, local=is_local(self.config))
        self.elicitations = old.elicitations
        self.refused += old.refused
        self.predecessor = old
        self.holdings.take_over(old.holdings)
        old.successor = self
        old.retire()

    def retire(self) -> None:
        """Take no more calls. Those that are running go on, until `drained`, or until the keeper is stopped."""
        self.retired = True
        self.elders.retire()
        for pool in self.pools:
            pool.retire()
        self._tell()

    async def drained(self) -> None:
        """Wait until no call is with it, and no task that was begun in one of its sessions can be asked for."""
        while True:
            places = [place for pool in self.pools for place in pool.open_places()]
            needed_until = max((place.needed_until for place in places), default=-inf)
            if not self.in_flight and needed_until <= trio.current_time():
                return
            with trio.move_on_at(max(needed_until, trio.current_time()) if not self.in_flight else inf):
                await self._news.wait()

    @property
    def _last(self) -> "Upstream":
        """The one that is in its place by now."""
        return self if self.successor is None else self.successor._last

    def _named(self, session: str) -> Place | None:
        """The open session of this name, here or where it is being stopped."""
        place = self.pool.named(session)
        return place if place or self.predecessor is None else self.predecessor._named(session)

    # --- whether it is there ------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """A host needs this upstream, or looks at lists it belongs in: make the attempt that is due, if any (D-10)."""
        if self.state in (State.FAILED, State.UNAUTHORIZED) and self.backoff.retry_in_s(trio.current_time()) <= 0:
            self.wanted.set()

    def _unavailable(self, text: str, *, retry_after_s: float = 0.0) -> HubError:
        """What failed, why, and what to do."""
        kind = UpstreamUnauthorized if self.state is State.UNAUTHORIZED else self._failure
        reason = (self.last_error or "").partition("\n")[0]
        if self.predecessor is not None:
            reason = reason or "Its configuration has changed, and the one before still has calls to end"
        text += f" (state: {self.state.value}). {reason or 'It has not said why'}."
        if retry_after_s:
            text += f" Try again in {ceil(retry_after_s)} seconds, or let the user look at `hubd status`"
            text += f" and run `hubd restart {self.name}`."
        else:
            text += " Try again later, or let the user look at `hubd status`."
        return kind(text, upstream=self.name, retry_after_ms=ceil(retry_after_s * 1000) or None)

    # --- what the supervisor's task does to it ------------------------------------------------------------------------

    def move(self, event: Event) -> None:
        """Change state by the table."""
        before, self.state = self.state, TRANSITIONS[self.state][event]
        if event is Event.START:
            self.chronicle.attempted()
        if self.state is not before:
            self.chronicle.moved(trio.current_time())
            log.debug("%s: %s to %s", self.name, before.value, self.state.value)
        self._tell()

    def opened(self, main: Place) -> None:
        """The main session is ready."""
        self.backoff.opened(trio.current_time())
        self.listed = False
        self.pool.main_opened(main)
        session = main.session
        self.elders.begin(session.era, session.transport)
        facts = session.facts
        self.snapshot = structs.replace(
            self.snapshot,
            version=facts.version,
            capabilities=facts.capabilities,
            server_info=facts.server_info,
            instructions=facts.instructions,
        )
        self.move(Event.OPENED)
        self.changed(tuple(Kind))
        self.chronicle.opened(f"{facts.version} over {session.transport}", session.pid)
        log.info("%s is connected: %s over %s", self.name, facts.version, session.transport)

    def lost(self) -> None:
        """The main session carries no more calls."""
        if self.pool.main is not None:
            self._needed_at = max(self._needed_at, self.pool.main.idle_since)
            self.pool.main_lost()
            self.move(Event.LOST)

    def restarted(self) -> None:
        """It starts over by command."""
        self.lost()
        self.backoff.reset()
        self.chronicle.restarted()
        self.move(Event.RESTART)

    def rest(self) -> None:
        """Nobody needs it: its main session is to be closed, and the next call sets `wanted`."""
        idle_s = self.config.idle_stop_s
        log.info("%s is stopped: nobody has needed it for %g s", self.name, idle_s)
        self.wanted = trio.Event()
        if self.pool.main is not None:
            self.pool.main_lost()
        self.elders.rest()
        self.chronicle.rests(idle_s)
        self.move(Event.UNUSED)

    @property
    def needed_until(self) -> float:
        """When it was last needed, or will be for certain: now, while a call, a subscription or a host's own session is
        with it. That it is read what it offers, and that it is pinged, does not count."""
        now, main = trio.current_time(), self.pool.main
        held = main is not None and main.holders
        if self.in_flight or self._waiting or held or self.holdings or any(pool.places for pool in self.pools):
            return now
        return self._needed_at if main is None else max(self._needed_at, main.idle_since, main.needed_until)

    @property
    def is_dormant(self) -> bool:
        """Whether it need not be started before a call needs it: it is lazy, and what it offers is known."""
        return self.state is State.IDLE and self.config.start == "lazy" and self.known

    def failed(self, error: HubError | None) -> float | None:
        """A session ended, or could not be opened: seconds until the next attempt, None for when it is wanted."""
        self.lost()
        now = trio.current_time()
        self.chronicle.failed(error, now)
        self._failure = UpstreamLoop if isinstance(error, UpstreamLoop) else UpstreamUnavailable
        if self._failure is UpstreamLoop:
            self.snapshot = empty_snapshot(self.name, self.snapshot.local)  # all of it is our own, under longer names
            self._on_change(self)
        pause_s = self.backoff.failed(now)
        event = Event.LOST
        if isinstance(error, UpstreamUnauthorized):
            event = Event.REFUSED
        elif pause_s is None or isinstance(error, UpstreamVersionError | UpstreamLoop):
            event = Event.GAVE_UP
        if event is not Event.LOST or pause_s is None:
            self.wanted = trio.Event()
            self.move(event)
            self.chronicle.gave_up(self.state)
            return None
        self.chronicle.pauses(pause_s, now)
        self.move(event)
        return pause_s

    def take_lists(self, facts: ServerFacts, found: Mapping[Kind, Listing], degraded: Iterable[str]) -> bool:
        """Replace the snapshot by one with these lists, the others staying; whether that changed anything."""
        old = self.snapshot
        behind = all_behind(listing.behind for listing in found.values())
        new = Snapshot(
            upstream=self.name,
            version=facts.version,
            capabilities=with_behind(facts.capabilities, behind) if behind else facts.capabilities,
            server_info=facts.server_info,
            instructions=facts.instructions,
            lists={**old.lists, **{kind: listing.entries for kind, listing in found.items()}},
            freshness={**old.freshness, **{kind: listing.freshness for kind, listing in found.items()}},
            local=old.local,
            degraded=tuple(degraded),
        )
        if new.degraded and new.degraded != old.degraded:
            log.warning("%s is degraded: %s", self.name, "; ".join(new.degraded))
        settled = not self.settling
        self.listed = True
        changed = new != old
        if changed:
            self.snapshot = new
        if changed or not settled:
            self._on_change(self)
        return changed

    def _tell(self) -> None:
        """Wake whoever waits for this upstream to get anywhere."""
        news, self._news = self._news, trio.Event()
        news.set()

    # --- session events -----------------------------------------------------------------------------------------------

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        """As `UpstreamEvents.changed`."""
        for kind in kinds:
            self.stale.setdefault(kind, trio.Event())
        self.became_stale.set()

    async def refresh(self, kind: Kind) -> None:
        """Have a list read anew and wait for it, but never for longer than `REFRESH_WAIT_S`."""
        if self.state not in (State.CONNECTED, State.CONNECTING, State.RECONNECTING):
            return
        self.changed((kind,))
        with trio.move_on_after(REFRESH_WAIT_S):
            await self.stale[kind].wait()

    def log(self, params: dict[str, Raw]) -> None:
        """As `UpstreamEvents.log`: into the hub's own log and the journal, so many per second."""
        if not self._logged.take(trio.current_time()):
            return
        level = peek_str(params.get("level")) or ""
        text = self.chronicle.logged(level, bytes(params.get("data", b"")).decode(errors="replace")[:LOG_CHARS])
        log.log(SEVERITY.get(level, logging.ERROR), "%s: %s", peek_str(params.get("logger")), text)

    def exited(self, exit: Exit) -> None:
        """As `UpstreamEvents.exited`."""
        self.chronicle.exited(exit, trio.current_time())

    def asked(self) -> None:
        """As `UpstreamEvents.asked`."""
        (self.elders.pool if era_of(self.snapshot.version) is Era.MODERN else self.pool).asked()

    def unattributed(self, method: str) -> None:
        """As `UpstreamEvents.unattributed`: counted, and said now and then (bridging.md 16.3)."""
        self.refused += 1
        if trio.current_time() >= self._told_refused + TELL_REFUSED_S:
            self._told_refused = trio.current_time()
            text = "%s asked something (%s), and nobody can tell which host it is for: refused, %d so far."
            text += ' With session_mode = "per_host" each host has its own %s'
            log.warning(text, self.name, method, self.refused, self.name)

    def elicited(self, id: str) -> None:
        """As `UpstreamEvents.elicited`."""
        self.elicitations.note(id)

    def ended(self) -> None:
        """As `UpstreamEvents.ended`."""
        self.lost()

    # --- for others to see --------------------------------------------------------------------------------------------

    @property
    def last_error(self) -> str | None:
        """Why it is away, or was, with the last words of its process."""
        return self.chronicle.last_error

    @property
    def has_reported(self) -> bool:
        """Whether it is known what it offers, or that it cannot be had."""
        return self.listed or self.remembered or self.last_error is not None or self.state is State.DISABLED

    @property
    def settling(self) -> bool:
        """Whether its lists may soon be others than `snapshot` says."""
        if self.state is State.CONNECTED:
            return not self.listed
        if self.state is State.IDLE and self.known:
            return False
        return self.state not in (State.DISABLED, State.UNAUTHORIZED)

    def expect(self, session: str, caller: Caller, for_s: float) -> None:
        """Keep `session` for so long though no call may use it, since a task lives in it; "": that of `caller`."""
        place = self._named(session) if session else self.pool.find(caller)
        if place is not None:
            place.needed_until = max(place.needed_until, trio.current_time() + for_s)

    def has_lost(self, session: str) -> bool:
        """Whether `session` is over, and with it everything that was begun in it: it was a process."""
        return self.config.command is not None and self._named(session) is None

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

    @property
    def _session(self) -> Session | None:
        """The main one, while it is open."""
        return self.pool.main.session if self.pool.main else None

    def status(self) -> UpstreamStatus:
        """For `hubd status`."""
        session = self._session
        lists = self.snapshot.lists
        silent_s = session.silent_s if session else None
        trouble = self.chronicle.trouble(self.state, trio.current_time())
        return UpstreamStatus(
            name=self.name,
            state=self.state.value,
            era=session.era.value if session else None,
            version=self.snapshot.version or None,
            transport=session.transport if session else configured_transport(self.config),
            pid=session.pid if session else None,
            counts=Counts(*(len(lists.get(kind, ())) for kind in Kind)),
            **structs.asdict(trouble),
            failures=self.backoff.failures,
            health=health(session, silent_s),
            silent_s=silent_s,
            in_flight=self.in_flight,
            degraded=self.snapshot.degraded,
            sessions=sum(map(len, self.pools)),
            mode=self.pool.sharing.value if self.pool.sharing else None,
            unattributed=self.refused,
        )
