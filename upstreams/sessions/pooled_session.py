"""Pooled session: one session with an upstream, from the attempt to open it to its end.

    made -> run: waits for its turn -> opens the session -> serves calls, which hold it -> closed, or ended by itself

There is one for every session: the main one, which the runner keeps, and those that `session_opener` opens for some
hosts.
"""

import logging
import secrets
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf

import trio
from msgspec import Raw

from config.settings import UpstreamConfig
from hub.link.call_interface import Caller, Exchange, Tenant
from hub.link.hub_errors import HubError, UpstreamProtocolError, UpstreamUnavailable, without_frames
from hub.wire.capabilities import covers, detach_all
from hub.wire.jsonrpc import Reply, Result, peek_object, raw
from hub.wire.mcp import HUB_SESSION, Era
from upstreams.cold_start.start_gate import StartGate
from upstreams.cold_start.start_timeouts import Start
from upstreams.questions.attribution import SUSPECT_S
from upstreams.session_contract import NO_WATCH, Session, SessionTerms, SessionWatch, UpstreamEvents
from upstreams.sessions.log_level import LogLevel
from upstreams.sessions.sharing import terms_of
from upstreams.subscriptions.legacy import LegacySubscriptions
from upstreams.subscriptions.modern import ModernSubscriptions
from upstreams.subscriptions.resource_subscription import Coverage, InvalidationListener
from upstreams.subscriptions.session_subscriptions import SessionSubscriptions

log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class PooledSession:
    """A session, unopened, open or over, and its owner."""

    name: str
    terms: SessionTerms
    start: Start
    """The attempt to open it."""
    level_s: float
    """Seconds that the upstream has to take a log level."""
    run_session: Callable[["PooledSession", Callable[[Session], None]], Awaitable[None]]
    """Opens it and serves its calls until it ends; calls what it is given when it is open."""
    listener: InvalidationListener
    watch: SessionWatch = NO_WATCH
    not_before: float = -inf
    """Time at which it may be opened."""
    tenant: Tenant | None = None
    """The host that has it alone, from the beginning (`terms.exclusive`) or by now; None: hosts share it."""
    principal: str | None = None
    """The account whose hosts use it; None: no account so far, or all."""
    host_capabilities: dict[str, Raw] = field(default_factory=dict)
    """The capabilities of the host that `terms` were made for."""
    session: Session = field(init=False)
    """Set once it `is_open`."""
    account: str | None = None
    """The principal whose sign-in it shows to its server, now or as soon as there is one; None: it shows none."""
    last_tenant: Tenant | None = None
    """The host that used it last, if it is shared."""
    last_account: str | None = None
    """The account that used it last, if it is shared."""
    many_accounts: bool = False
    """The session served more than one account: nothing it asks on its own can be attributed."""
    hosts_overlap: bool = False
    """Calls of more than one host may be running."""
    _others_until: float = -inf
    """Until when the upstream may speak of hosts that used the session before `last_tenant`."""
    opened: trio.Event = field(default_factory=trio.Event)
    """Set when the session is open, or never will be."""
    _welcomed: trio.Event | None = None
    """Set when its host has been welcomed; None: that has not begun."""
    error: HubError | None = None
    """The reason why it ended, or could not be opened."""
    _is_idle: bool = False
    opened_at: float = -inf
    is_open: bool = False
    over: bool = False
    """No call finds it any more."""
    retired: bool = False
    """To be closed as soon as no call holds it."""
    users: int = 0
    """Calls that use it, or wait for it."""
    clock: trio.abc.Clock = field(default_factory=trio.lowlevel.current_clock)
    idle_since: float = field(default_factory=trio.current_time)
    needed_until: float = -inf
    """Until when tasks live in the session, though no call may use it."""
    id: str = field(default_factory=partial(secrets.token_hex, 8))
    """Unique in this run of the hub and all others."""
    coverage: Coverage = field(default_factory=Coverage)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)

    def __post_init__(self) -> None:
        self.level = LogLevel(self.name, self.level_s)
        self.subscriptions = SessionSubscriptions(self.name, self.listener, self.coverage, self.may_mean_others)
        """The subscriptions of hosts and the hub over this session."""
        self._covered: Mapping[str, Raw] = self.host_capabilities
        """The capabilities of a host that `terms` were last found to cover."""

    # --- its owner ----------------------------------------------------------------------------------------------------

    def serves(self, principal: str, *, claims: bool) -> bool:
        """True if an account may use the session; `claims`: it is the only one from now on, if there was none."""
        if self.principal is None and claims:
            self.principal = principal
        return self.principal in (None, principal)

    def give_to(self, tenant: Tenant | None) -> None:
        """Make `tenant` the only user of a session that others used before; None: hosts share it again."""
        self.missed()
        self.tenant = tenant

    def tenant_left(self, tenant: Tenant) -> None:
        """A host has left; other hosts may use the session, unless it was opened for that one."""
        if self.last_tenant == tenant:
            self.last_tenant = None
        if self.tenant == tenant and not self.terms.exclusive:
            self.give_to(None)

    def covers(self, caller: Caller, config: UpstreamConfig) -> bool:
        """True if the session declares all capabilities that one for `caller` would, as configured now."""
        if caller.capabilities is self._covered or caller.capabilities == self._covered:
            return True
        if not covers(self.terms.capabilities, terms_of(config, caller.capabilities).capabilities):
            return False
        self._covered = caller.capabilities if caller.lasting else detach_all(caller.capabilities)
        return True

    # --- for calls ----------------------------------------------------------------------------------------------------

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Stay open for a call that waits for the session, and takes it over when the block ends."""
        self.users += 1
        try:
            yield
        except BaseException:
            self.release()
            raise
        self.users -= 1

    def sign(self, reply: Reply) -> Reply:
        """`reply`; if it begins a legacy task, with the id of the session that knows the task."""
        members = peek_object(reply.value) if isinstance(reply, Result) else {}
        if "task" not in members:
            return reply
        return Result(raw({**members, "_meta": {**peek_object(members.get("_meta")), HUB_SESSION: self.id}}))

    def acquire(self, caller: Caller) -> None:
        """A call of `caller` uses it from now on, until `release`."""
        last, conversation = self.last_tenant, caller.conversation
        is_known = last is not None and last.conversation == conversation and last.identity == caller.identity
        if not (is_known or self.terms.exclusive) and (tenant := caller.tenant) != last:
            if self.users:
                self.hosts_overlap = True
            elif self.last_account is not None:  # the upstream may go on with what the host before wanted
                self._others_until = self.idle_since + SUSPECT_S
            account = tenant.identity.principal
            self.many_accounts = self.many_accounts or self.last_account not in (None, account)
            self.last_tenant, self.last_account = tenant, account
        self.users += 1

    def release(self) -> None:
        """The opposite of `acquire`."""
        self.users -= 1
        if not self.users:
            self.idle_since = self.clock.current_time()
            if self.hosts_overlap:
                self.hosts_overlap, self._others_until = False, self.idle_since + SUSPECT_S
            if self.retired and self.needed_until <= self.idle_since:
                self.scope.cancel()

    def may_mean_others(self, tenant: Hashable) -> bool:
        """True if the upstream may speak of another host than `tenant`: one that uses the session, or did lately."""
        if self.terms.exclusive:
            return False
        now = trio.current_time()
        is_last_one_meant = self.last_account is not None and (self.users or now < self.idle_since + SUSPECT_S)
        if tenant != self.last_tenant and is_last_one_meant:
            return True
        return self.hosts_overlap or now < self._others_until

    def keep_for(self, for_s: float) -> None:
        """Do not close the session for so many seconds: a task lives in it."""
        self.needed_until = max(self.needed_until, trio.current_time() + for_s)

    def touch(self) -> None:
        self.idle_since = trio.current_time()

    async def welcome(self, exchange: Exchange, limit_s: float, on_welcomed: Callable[[], None]) -> None:
        """Let the host of the first call answer what a server asks as soon as it is connected.

        Other calls wait for that, at most `limit_s` seconds. `on_welcomed` is called once, when it is over.
        """
        if self._welcomed is not None:
            with trio.move_on_after(limit_s):
                await self._welcomed.wait()
            return
        self._welcomed = trio.Event()
        try:
            await self.session.welcome(exchange)
        finally:
            self._welcomed.set()
            on_welcomed()

    def fail(self, error: HubError) -> None:
        """End the session for the reason `error`."""
        self.error = error
        self.scope.cancel()

    def retire(self, *, is_idle: bool = False) -> None:
        """Close the session as soon as no call uses it, and no task lives in it. `is_idle`: nobody has needed it for
        long."""
        self.retired, self._is_idle = True, is_idle
        if not self.users and self.needed_until <= trio.current_time():
            self.scope.cancel()  # else `release` does, or whoever waits for it to be idle

    def rest(self) -> None:
        """Close the session: nobody has needed it for long."""
        self._is_idle = True
        self.scope.cancel()

    def want_level(self, level: str | None) -> None:
        """Have a legacy upstream told `level`; calls of hosts that want log messages wait for it."""
        if self.is_open and not self.over:
            session = self.session
            is_told = session.era is Era.LEGACY and "logging" in session.facts.capabilities  # else each call says it
            self.level.want(level if is_told else None)

    # --- invalidation -------------------------------------------------------------------------------------------------

    def missed(self) -> None:
        """Changes may not have been heard, or will not be."""
        if self.is_open:
            self.listener.gap(self.tenant)

    def hears(self, on: bool) -> None:
        """Note whether the upstream can say anything unasked now."""
        if self.coverage.turn(trio.current_time(), on=on):
            self.missed()
            if on:
                self.subscriptions.heard_again()

    def forgotten(self) -> None:
        """Subscribe to everything again: the upstream may have forgotten it."""
        self.subscriptions.reset()
        self.missed()

    async def keep_subscribed(self, events: UpstreamEvents) -> None:
        """Keep the upstream subscribed to what is wanted over the open session, in the way of its era, for ever."""
        if self.session.era is Era.LEGACY:
            await LegacySubscriptions(self.session, self.subscriptions).run()
        else:
            await ModernSubscriptions(self.session, self.subscriptions, events, self.missed).run()

    # --- its life -----------------------------------------------------------------------------------------------------

    async def run(
        self, gate: StartGate, on_open: Callable[[trio.Nursery], None], on_end: Callable[[], None]
    ) -> HubError | None:
        """Open the session and keep it until it ends; why it ended, None: it was closed.

        `on_open` may start what the session needs in the nursery it is given, `on_end` is called before that is
        cancelled. A wall: a bug in any of it ends this session only.

        Cancellation: closes it in order.
        """
        self._on_open, self._on_end = on_open, on_end
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    await self._open(nursery, gate)
        except* Exception as group:
            log.exception("the hub failed over %s", self.name)
            found: BaseException = group
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            text = f"The hub failed over {self.name} ({type(found).__name__}); its log says more"
            if isinstance(found, ImportError):  # what is needed first now was there when the hub started
                text = f"hubd was replaced while it ran, and cannot reach {self.name}; end it with `hubd stop`"
            self.error = UpstreamProtocolError(text, upstream=self.name)
            del found  # or it and this frame would hold each other
        finally:
            self._end()
            self._settle()
            if self.is_open:
                self.watch.ended(self.name, self._network, self._cause, trio.current_time() - self.opened_at)
        return self.error

    @property
    def _network(self) -> str:
        """The transport, by the conventions' name for it."""
        return "pipe" if self.session.transport == "stdio" else "tcp"

    @property
    def _cause(self) -> str:
        """The cause of its end, as `SessionWatch.ended` has it."""
        if self.error is None:
            return "idle" if self._is_idle else "stopped"
        return "lost" if self.session.pid is None else "exit"

    async def _open(self, nursery: trio.Nursery, gate: StartGate) -> None:
        await trio.sleep_until(self.not_before)
        start = self.start
        start.queue()
        async with gate.package(start):
            async with gate.turn(start):
                start.begin(trio.current_time())
                nursery.start_soon(self._serve, nursery)
                await self._opened_by(lambda: start.slot_until)
            await self._opened_by(lambda: start.package_until)
        await self._opened_by(lambda: start.gives_up_at)
        if not self.opened.is_set():
            text = f"{self.name} did not become ready within {start.spent_s(trio.current_time()):g} seconds"
            self.error = UpstreamUnavailable(text, upstream=self.name)
            nursery.cancel_scope.cancel()

    async def _opened_by(self, until: Callable[[], float]) -> None:
        """Wait until the session is open, or that time has come, which may be put off meanwhile."""
        while not self.opened.is_set() and (at := until()) > trio.current_time():
            with trio.move_on_at(at):
                await self.opened.wait()

    async def _serve(self, nursery: trio.Nursery) -> None:
        def started(session: Session) -> None:
            self.session, self.is_open = session, True
            self.opened_at = self.idle_since = trio.current_time()
            self.watch.opened(self.name, self._network)
            self._on_open(nursery)
            nursery.start_soon(self.level.keep, session)
            self._settle()

        try:
            await self.run_session(self, started)
        except HubError as error:
            self.error = without_frames(error)
        finally:
            self._end()
            nursery.cancel_scope.cancel()

    def _settle(self) -> None:
        """Wake whoever waits for it to be opened: it is, or never will be."""
        if self.error is not None and not (self.is_open or self.opened.is_set()):
            self.watch.not_opened(self.name)
        self.start.end()
        self.opened.set()

    def _end(self) -> None:
        if not self.over:
            self.over = True
            self.missed()
            self._on_end()
            self.subscriptions.end()
            self.level.told.set()
