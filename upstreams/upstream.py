"""One upstream as the rest of the hub sees it: a name to call, a state to show, a snapshot of what it offers.

`call` is the seam. An `Upstream` consists of parts that each know one thing:

    availability           its state; why it is away, and until when
    offered, lists         what it offers, and how its lists are read again
    events                 those of its sessions that belong to no call
    pool, opener          its sessions, their owners, and how they are opened
    legacy_sessions        sessions of another era than its main one
    selector, calls        how a call finds a session, and what it does there
    host_subscriptions     what hosts are subscribed to

State is changed by sync methods only, which the runner of this upstream calls; everybody else reads.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from math import inf

import trio
from msgspec import Struct, structs

from config.loading.split_accounts import whole_name
from config.remembered_facts import Memory
from config.server_names import ACCOUNT_MARK
from config.settings import UpstreamConfig
from hub.link.call_interface import Caller, Done, Exchange, Operation, RunningCall, Tenant
from hub.link.elicitation_ends import FinishedElicitations
from hub.link.hub_errors import HubError, UpstreamLoop, UpstreamUnauthorized, UpstreamUnavailable
from hub.link.sync_primitives import DirtyFlag
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.mcp import Era, Kind, era_of
from hub.wire.questions.askable_questions import Question, QuestionRefusal, outcome_of_question
from hub.wire.upstream_snapshot import Snapshot
from upstreams.availability import Availability
from upstreams.cold_start.start_gate import StartGate
from upstreams.inventory.current_lists import Offered, declares_changes, empty_snapshot, is_local
from upstreams.inventory.refresh import ListRefresh, Reading
from upstreams.journal.journal import Journal
from upstreams.lifecycle import Event, State
from upstreams.questions.budgets import OnAsked, QuestionBudget
from upstreams.read_secret_references import ReadReferences, ReferenceValues
from upstreams.redact import CommonSecrets
from upstreams.session_contract import CredentialSource, SessionWatch
from upstreams.sessions.calls import Calls
from upstreams.sessions.find_session_for_host import LegacySessions, SessionSelector
from upstreams.sessions.pool import Pool
from upstreams.sessions.pooled_session import PooledSession
from upstreams.sessions.session_opener import RunSession, SessionOpener, SessionParts
from upstreams.sessions.sharing import Sharing
from upstreams.status_facts import Counts, UpstreamStatus
from upstreams.subscriptions.resource_subscription import InvalidationListener, ResourceSubscriber
from upstreams.subscriptions_across_sessions import HostSubscriptions
from upstreams.unasked_events import EventSink


class UpstreamParts(Struct, frozen=True):
    """The parts that all upstreams of a hub are made with."""

    memory: Memory
    run_session: RunSession
    read_references: ReadReferences
    credentials: CredentialSource
    secrets: CommonSecrets | None
    """Secrets that any upstream may tell, since it may be sent them; None: there are none."""
    gate: StartGate
    """Lets sessions start in turns."""
    on_change: Callable[["ManagedUpstream"], None]
    """Called whenever what an upstream offers may differ."""
    on_elicited: Callable[[str, str], None]
    """Called with the name of an upstream and the id of an elicitation at a URL that is done there."""
    on_asked: OnAsked
    watch: SessionWatch
    """Told of sessions and questions."""
    listener_for: Callable[[str, UpstreamConfig], InvalidationListener]


class ManagedUpstream:
    """One configured MCP server, whether it runs or not."""

    def __init__(
        self, name: str, config: UpstreamConfig, parts: UpstreamParts, last_known: Snapshot | None, journal: Journal
    ) -> None:
        self.name = name
        self.config = config
        self.availability = Availability(name, config, journal, parts.secrets)
        self.listener = listener = parts.listener_for(name, config)
        """Told of everything that may make cached resources stale."""
        self._on_change = on_change = partial(parts.on_change, self)
        self.offered = Offered(last_known, empty_snapshot(name, is_local(config)), on_change, listener)
        self.wanted_sign_in = False
        """True once a person had to sign in before anybody could know what it offers."""
        self.lists = ListRefresh(config)
        history = self.availability.history
        self._mask = history.mask
        visits = FinishedElicitations(partial(parts.on_elicited, name))
        self.budget = QuestionBudget(name, config, parts.on_asked)
        self._watch = parts.watch
        self.events = EventSink(
            *(name, history, self.lists, listener, visits, self.budget),
            asked=self._asked,
            answered=self.answered,
            ended=self.main_lost,
        )
        self.values = ReferenceValues(name, config, parts.read_references, history.mask)
        """The values of references in its configuration."""
        session_parts = SessionParts(
            *(self.events, parts.memory, parts.run_session, parts.gate, listener, self.values),
            *(parts.credentials, parts.watch),
        )
        self.pool = Pool(name, config, parts.memory, lambda: self.host_subscriptions.move_all())
        self.opener = SessionOpener(self.pool, session_parts)
        if last_known is not None:  # by a hubd that remembered nothing else of its start, too
            parts.gate.was_connected(config)
        self.legacy_sessions = LegacySessions(name, config, session_parts, self.pool.on_moved)
        self.pools = self.pool, self.legacy_sessions.pool
        """The pools with all sessions."""
        self.selector = SessionSelector(self.availability, self.opener, self.legacy_sessions)
        self.host_subscriptions = HostSubscriptions(name, self.selector)
        self.calls = Calls(name, config, self.availability)
        self.adjusted = DirtyFlag()
        """Set when the idle stop may come earlier or later: settings changed, or what it offers is known."""
        self.successor: ManagedUpstream | None = None
        self.predecessor: ManagedUpstream | None = None
        """The upstream that this one replaced, while it is being stopped."""
        self._needed_at = trio.current_time()
        """Time at which a main session that has ended was used last."""
        self.retry_if_due, self.mark_stale = self.availability.retry_if_due, self.lists.mark_stale

    @property
    def state(self) -> State:
        return self.availability.state

    @property
    def in_flight(self) -> int:
        return self.calls.in_flight

    @property
    def snapshot(self) -> Snapshot:
        """The lists and server information that the upstream offers, or offered last while it is away."""
        return self.offered.snapshot

    def admit(self, questions: Iterable[Question], asked: int = 0) -> None:
        found = [*questions]
        try:
            self.budget.admit(found, trio.current_time(), asked)
        except QuestionRefusal as refused:
            for question in found:
                self.answered(question.method, refused.failure)
            raise

    def answered(self, method: str, reply: Reply) -> None:
        self._watch.answered(self.name, method, outcome_of_question(method, reply))

    def judge(self, questions: Iterable[Question]) -> None:
        self.budget.judge(questions)

    @property
    def elicitations(self) -> FinishedElicitations:
        """Elicitations at URLs that are done."""
        return self.events.elicitations

    # --- the seam -----------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, exchange: Exchange) -> Reply:
        """Carry out an operation. Waits for an upstream that is being started. Raises UpstreamUnavailable: it is not
        available within `timeouts.start`; nothing was sent; HubError: as `Session.call`. Cancellation: passes to the
        upstream, which is told."""
        if operation.session and (named := self._find_session(operation.session)):
            subscriber, pooled = named
            with suppress(UpstreamUnavailable):  # nothing was sent; if that session is over, the next one may have it
                return await subscriber.calls.call_over(pooled, operation, exchange)
        try:
            return await self._call_here(operation, exchange)
        except HubError as error:
            if not self._passes_on(error):
                raise
        assert self.successor is not None
        reply = await self.successor.call(operation, exchange)
        self.offered.replace_snapshot(self.successor.snapshot)  # by its version the reply is read
        return reply

    def begin(self, operation: Operation, exchange: Exchange, done: Done) -> RunningCall | None:
        """Send an operation over an open session. None: one has to be found, chosen or opened first, or it has to be
        told the log level; nothing was sent. Raises HubError: as `call`."""
        if operation.session or self.successor is not None:
            return None
        caller, legacy = exchange.caller, self.legacy_sessions
        pool = legacy.pool if legacy.active and legacy.serve(caller) else self.pool
        try:  # without a context manager, since every call comes by
            pooled = pool.find(caller)
            return None if pooled is None else self.calls.begin_over(pooled, operation, exchange, done)
        except UpstreamUnavailable:  # nothing was sent; another session may have it
            return None

    async def _call_here(self, operation: Operation, exchange: Exchange) -> Reply:
        caller = exchange.caller
        pooled = self.legacy_sessions.serve(caller) and await self.legacy_sessions.find(exchange)
        pooled = pooled or self.pool.find(caller) or await self.selector.wait(exchange)
        try:
            return await self.calls.call_over(pooled, operation, exchange)
        except UpstreamUnavailable:  # if that session is over, the next one may have it
            if pooled in (self.pool.find(caller), self.legacy_sessions.pool.find(caller)):
                raise
        return await self.calls.call_over(await self.selector.wait(exchange), operation, exchange)

    def _passes_on(self, error: HubError) -> bool:
        """True if the successor carries on, since nothing was sent; else the error is masked for the host."""
        if isinstance(error, UpstreamUnavailable) and self.successor is not None:
            return True
        self._mask.error(error)
        return False

    def session_for(self, caller: Caller) -> PooledSession | None:
        """The open session that a call of `caller` would use now; None: there is none yet, or never will be."""
        pooled = self.selector.peek(caller)
        if pooled is None and self.availability.retired and self.successor is not None:
            return self.successor.session_for(caller)
        return pooled

    def version_for(self, caller: Caller) -> str:
        """The revision that calls of `caller` are likely made in; "" while nothing is known."""
        return self.legacy_sessions.version() if self.legacy_sessions.serve(caller) else self.snapshot.version

    # --- what it offers -----------------------------------------------------------------------------------------------

    def ttl_ms(self, kind: Kind) -> int:
        """Milliseconds for which hosts may use a list without asking again."""
        return self.offered.ttl_ms(kind, self._heard_since(kind))

    def refresh_if_expired(self, kind: Kind) -> Reading | None:
        """Have a list read again that may have changed; the reading to wait for, None: there is none.

        Nobody waits for an upstream that is away, nor for one that has not listed what it offers.
        """
        if self.state is not State.CONNECTED or not self.offered.listed:
            return None
        return self.lists.request(kind) if self.offered.has_expired(kind, self._heard_since(kind)) else None

    def _heard_since(self, kind: Kind) -> float:
        """Since when changes of a list are sure to be heard; `inf`: they are not."""
        if (main := self.pool.main) is None:
            return inf
        if main.session.era is Era.MODERN:
            return main.coverage.lists_since.get(kind, inf)
        return main.coverage.since if declares_changes(self.snapshot, kind) else inf

    async def refresh(self, kind: Kind) -> None:
        """Have a list read from now on, and wait for that within reason, if the upstream is connected or being tried.
        Raises UpstreamUnavailable: it is disabled."""
        self.availability.refuse_if_disabled()
        is_on_its_way = self.state in (State.CONNECTED, State.CONNECTING, State.RECONNECTING)
        if is_on_its_way and (reading := self.lists.request(kind, anew=True)):
            await reading.wait()

    @property
    def wants_sign_in(self) -> bool:
        """True if nobody knows what it offers until a person has signed in."""
        return self.wanted_sign_in and not self.is_anything_known

    @property
    def is_anything_known(self) -> bool:
        """True if it is known what it offers, in this run of the hub or from an earlier one."""
        return self.offered.known or any(self.snapshot.lists.values())

    async def wait_ready(self, exchange: Exchange) -> None:
        """Wait until there is a session for calls of `exchange`, and nobody has to sign in for its lists. Raises
        HubError: as `call`."""
        upstream = self.newest
        try:
            if upstream.pool.find(exchange.caller, claims=False) is None:
                await upstream.selector.wait(exchange)
            if upstream.lists.want_sign_in:
                raise UpstreamUnauthorized(f"{self.name} does not say what it offers", upstream=self.name)
        except HubError as error:
            upstream._mask.error(error)
            raise

    # --- subscriptions ------------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str, subscriber: ResourceSubscriber) -> Failure | None:
        """Subscribe `subscriber` to a resource; None once the upstream agreed, else its refusal. Raises HubError: the
        upstream is not available in time, or could not be asked. Cancellation: there is no subscription."""
        try:
            refusal = await self.host_subscriptions.subscribe(uri, subscriber)
            return None if refusal is None else self._mask.failure(refusal)
        except HubError as error:
            if not self._passes_on(error):
                raise
        assert self.successor is not None
        return await self.successor.subscribe(uri, subscriber)

    def is_subscribed(self, uri: str, subscriber: ResourceSubscriber) -> bool:
        """True if `subscription` succeeded, and `unsubscribe` did not follow."""
        return self.newest.host_subscriptions.is_held(uri, subscriber)

    def unsubscribe(self, uri: str, subscriber: ResourceSubscriber) -> None:
        self.newest.host_subscriptions.unsubscribe(uri, subscriber)

    # --- what hosts do ------------------------------------------------------------------------------------------------

    def host_left(self, tenant: Tenant) -> None:
        """A host has left; the session it had for itself is closed when its calls are over."""
        for pool in self.pools:
            pool.host_left(tenant)

    def forget_keys(self, principal: str) -> None:
        """Let no more calls use sessions that were opened with secrets of a principal, which are others now."""
        if self.values.are_own:
            for pool in self.pools:
                for pooled in [each for each in pool.open_sessions() if each is not pool.main]:
                    if pooled.account == principal:
                        pool.let_go(pooled)

    def roots_changed(self, tenant: Tenant) -> None:
        for pool in self.pools:
            pool.roots_changed(tenant)

    def set_log_level(self, level: str | None) -> None:
        """The least severe level any host wants to hear, None for none.

        Calls of hosts that want any wait until a legacy upstream was told.
        """
        for pool in self.pools:
            pool.want_level(level)

    def expect(self, session: str, caller: Caller, for_s: float) -> None:
        """Keep `session` open for `for_s` seconds, because a task lives in it; "": the session of `caller`."""
        named = self._find_session(session)
        if pooled := (named and named[1]) if session else self.pool.find(caller):
            pooled.keep_for(for_s)

    def has_lost(self, session: str) -> bool:
        """True if `session` was a process that has ended, and with it everything that was begun in it."""
        return self.config.command is not None and self._find_session(session) is None

    def _find_session(self, session: str) -> "tuple[ManagedUpstream, PooledSession] | None":
        """The open session with this id, and its upstream: this one, or its predecessor. "" names none."""
        if not session:
            return None
        for pooled in (pooled for pool in self.pools for pooled in pool.open_sessions()):
            if pooled.id == session:
                return self, pooled
        return self.predecessor._find_session(session) if self.predecessor is not None else None

    # --- what the runner does -----------------------------------------------------------------------------------------

    def main_opened(self, main: PooledSession) -> None:
        """The main session is ready."""
        session = main.session
        self.pool.main_opened(main)
        self.legacy_sessions.activate(session.era, session.transport)
        self.offered.connected(session.facts)
        self.availability.opened(f"{session.facts.version} over {session.transport}", session.pid)

    def main_lost(self) -> None:
        """The main session carries no more calls."""
        if self.pool.main is not None:
            self._needed_at = max(self._needed_at, self.pool.main.idle_since)
            self.pool.main_lost()
            self.availability.move(Event.LOST)

    def fail(self, error: HubError | None) -> float | None:
        self.main_lost()
        if isinstance(error, UpstreamLoop):
            self.offered.withdraw()  # all of it is our own, under longer names
        pause_s = self.availability.fail(error)
        if isinstance(error, UpstreamUnauthorized) and error.asks_person:
            self._want_sign_in()
        return pause_s

    def restarted(self) -> None:
        self.main_lost()
        self.availability.restarted()

    def signed_in(self) -> None:
        """A person has signed in at the upstream: it is tried at once, if it was given up for that."""
        if self.state in (State.UNAUTHORIZED, State.FAILED):
            self.availability.backoff.reset()
            self.availability.want()
        self.lists.signed_in()
        self.availability.news.ring()

    def rest(self) -> None:
        """No host needs the upstream: its main session is closed, and the next call starts it."""
        self.pool.main_lost()
        self.legacy_sessions.deactivate()
        self.availability.rests(self.config.idle_stop_s)

    def listed_some(self) -> None:
        """Lists have been read, or could not be."""
        if self.lists.is_complete and not self.offered.known:
            self.offered.complete()
            self.adjusted.set()
        elif self.lists.want_sign_in:
            self._want_sign_in()

    def _want_sign_in(self) -> None:
        if not self.wanted_sign_in and self.config.signs_in_by_person and not self.is_anything_known:
            self.wanted_sign_in = True
            self._on_change()

    def _asked(self, method: str) -> None:
        (self.legacy_sessions.pool if era_of(self.snapshot.version) is Era.MODERN else self.pool).asked(method)

    @property
    def needed_until(self) -> float:
        """Time at which the upstream was last needed, or is sure to be: now, while there is a call, a subscription or a
        session of one host. Reading its lists and pinging it do not count."""
        main = self.pool.main
        is_main_used = main is not None and main.users
        is_waited_for = self.selector.waiting or self.host_subscriptions
        if self.in_flight or is_main_used or is_waited_for or any(pool.extra_sessions for pool in self.pools):
            return trio.current_time()
        needed_at = max(self._needed_at, self.selector.needed_at)
        return needed_at if main is None else max(needed_at, main.idle_since, main.needed_until)

    @property
    def whole_name(self) -> str:
        """Its name with that of the account, where there are several."""
        return whole_name(self.name, self.config)

    @property
    def is_further_account(self) -> bool:
        """True if it is another account at a server, whose lists are those of the first."""
        return ACCOUNT_MARK in self.name

    def resemble(self, first: "ManagedUpstream") -> None:
        """Take what another account at the server offers for what this one does, until it is connected."""
        self.offered.replace_snapshot(structs.replace(first.snapshot, upstream=self.name))

    @property
    def is_dormant(self) -> bool:
        """True if the upstream waits for its first call: it is lazy, and what it offers is known."""
        is_known = self.offered.known or self.is_further_account
        return self.state is State.IDLE and self.config.start == "lazy" and is_known

    # --- another configuration ----------------------------------------------------------------------------------------

    def adjust(self, config: UpstreamConfig) -> None:
        """Take over settings that need no other session (`reload="live"` in `config.settings`)."""
        if config.checked_schemas != self.config.checked_schemas:
            self.lists.mark_stale((Kind.TOOL,))  # some may be left out
        self.config = config
        self.calls.adjust(config)
        self.lists.adjust(config)
        self.budget.adjust(config)
        self.availability.adjust(config)
        self.adjusted.set()
        self.pool.config = config
        self.legacy_sessions.adjust(config)
        self.offered.relocate(local=is_local(config))

    def follow(self, old: "ManagedUpstream") -> None:
        """Replace `old`, which takes no more calls from now on: those that wait there come here. What `old` offered
        stays listed until this upstream has listed what it offers; its subscriptions move here."""
        if not (self.offered.listed or self.offered.remembered or self.state is State.DISABLED):
            self.offered.follow(old.offered, local=is_local(self.config))
        self.events.follow(old.events)
        self.predecessor = old
        self.availability.waits_for = "Its configuration has changed, and its predecessor still has calls to finish"
        self.host_subscriptions.take_over(old.host_subscriptions)
        old.successor = self
        old.retire()

    def retire(self) -> None:
        """Take no more calls. Running calls go on until `drained`, or until the runner is stopped."""
        self.availability.retired = True
        self.legacy_sessions.deactivate()
        for pool in self.pools:
            pool.retire()
        self.availability.news.ring()

    async def drained(self) -> None:
        """Wait until no call runs, and no task that was begun in one of its sessions can be asked for."""
        while True:
            pooled_sessions = [pooled for pool in self.pools for pooled in pool.open_sessions()]
            needed_until = max((pooled.needed_until for pooled in pooled_sessions), default=-inf)
            if self.in_flight:
                needed_until = inf
            if needed_until <= trio.current_time():
                return
            with trio.move_on_at(needed_until):
                await self.availability.news.wait()

    def gone(self) -> None:
        """Release the successor: this upstream is stopped."""
        if self.successor is not None:
            self.successor.predecessor = None
            self.successor.availability.waits_for = ""

    @property
    def newest(self) -> "ManagedUpstream":
        """The upstream itself, or the last of those that have replaced it: where calls go now."""
        return self if self.successor is None else self.successor.newest

    # --- for status ---------------------------------------------------------------------------------------------------

    @property
    def last_error(self) -> str | None:
        """The last error, with the last words of the process."""
        return self.availability.history.last_error

    @property
    def has_reported(self) -> bool:
        """True once its offer is known, or its failure."""
        offered = self.offered
        is_over = self.last_error is not None or self.state is State.DISABLED or self.is_further_account
        return offered.listed or offered.remembered or is_over

    @property
    def knows_tools(self) -> bool:
        """True if its tools are known: they were listed in this run of the hub, whether it is away now or not, or are
        remembered of one that is started by its first call only."""
        was_listed = self.offered.begun_at[Kind.TOOL] > -inf or (self.offered.known and self.config.start == "lazy")
        return was_listed and bool(self.snapshot.version) and self.state is not State.DISABLED

    @property
    def settling(self) -> bool:
        """True if its lists may soon differ from `snapshot`."""
        if self.state is State.CONNECTED:
            return not self.offered.listed
        if self.is_dormant or (self.state is State.IDLE and self.offered.known):
            return False
        return self.state not in (State.DISABLED, State.UNAUTHORIZED, State.UNRESOLVED)

    def status(self) -> UpstreamStatus:
        session = self.pool.main.session if self.pool.main else None
        silent_s = session.silent_s if session else None
        health = None  # informational, nothing is ever stopped for it
        if session and (session.pid is not None or session.is_pinged or silent_s is not None):
            health = "ok" if silent_s is None else "silent"
        transport = "sse" if self.config.transport == "sse" else "http"  # the server may turn out to speak another
        transport = "ws" if self.config.speaks_websocket else transport
        if session or self.config.command is not None:
            transport = session.transport if session else "stdio"
        trouble = self.availability.history.trouble(self.state, trio.current_time())
        start = self.opener.main_start
        shown = self.pool.sharing
        if shown is Sharing.SHARED and self.config.is_each:
            shown = Sharing.PER_PERSON
        installing_s = start.installing_s(trio.current_time()) if start else None
        return UpstreamStatus(
            name=self.name,
            label=self.whole_name,
            state=self.state.value,
            installing=installing_s is not None,
            installing_s=None if installing_s is None else round(installing_s, 1),
            queued=start is not None and start.is_queued,
            era=session.era.value if session else None,
            version=self.snapshot.version or None,
            transport=transport,
            pid=session.pid if session else None,
            counts=Counts(*(len(self.snapshot.lists.get(kind, ())) for kind in Kind)),
            **structs.asdict(trouble),
            failures=self.availability.backoff.failures,
            health=health,
            silent_s=silent_s,
            in_flight=self.in_flight,
            degraded=self.snapshot.degraded,
            sessions=sum(map(len, self.pools)),
            mode=shown.value if shown else None,
            unattributed=self.events.unattributed_count,
            beyond_budget=self.budget.refused,
            withheld_roots=self.events.withheld_roots,
            sandbox=self.events.sandbox,
            settling=self.settling,
        )
