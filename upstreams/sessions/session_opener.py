"""Session opener: opens the sessions of a pool and keeps them until they end.

    opened      by the first operation of a host that `Pool.find` has no session for; its other calls wait meanwhile
    welcomed    by the same operation, if the server may ask something as soon as it is connected
    closed      when no call has used the session for `timeouts.session_idle`, or it belongs to nobody any more

`pool` decides who gets which session; here are the tasks. The main session is made here, too, but run by the runner.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio
from msgspec import Struct, structs

from config.loading.split_accounts import whole_name
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.call_interface import OWNER, Caller, Exchange, Tenant
from hub.link.hub_errors import HubError, UpstreamDenied, UpstreamUnauthorized, UpstreamUnavailable, UpstreamUnresolved
from hub.link.log_context import SUBJECT, UpstreamSubject
from upstreams.cold_start.mend_npx_cache import BrokenNpxCache, forget_mending, mend
from upstreams.cold_start.start_gate import StartGate
from upstreams.cold_start.start_timeouts import GUARD_S, Start
from upstreams.read_secret_references import ReferenceValues
from upstreams.session_contract import (
    CredentialSource,
    Session,
    SessionEvents,
    SessionTerms,
    SessionWatch,
    UpstreamEvents,
)
from upstreams.sessions.pool import Pool
from upstreams.sessions.pooled_session import PooledSession
from upstreams.sessions.reopening_pace import Pacing
from upstreams.sessions.sharing import is_welcoming, terms_of
from upstreams.subscriptions.resource_subscription import InvalidationListener

log = logging.getLogger(__name__)


RunSession = Callable[
    [UpstreamConfig, str, SessionEvents, Memory, SessionTerms, Callable[[Session], None]], Awaitable[None]
]
"""Opens and serves a session of the upstream of that name; calls the last argument when it is open. It is
`upstreams.transports.choose_transport.run_session`, or a test's own."""


class SessionParts(Struct, frozen=True):
    """The parts that all sessions of one upstream are made with."""

    events: UpstreamEvents
    memory: Memory
    run_session: RunSession
    gate: StartGate
    """Lets sessions of all upstreams start in turns."""
    listener: InvalidationListener
    values: ReferenceValues
    """The values of references in the configuration."""
    credentials: CredentialSource
    watch: SessionWatch


class _Events:
    """Events of one pooled session: its end and its subscriptions concern this session, all else the upstream."""

    def __init__(self, upstream: UpstreamEvents, pooled: PooledSession, on_ended: Callable[[], None]) -> None:
        self._pooled = pooled
        self.ended = on_ended
        self.forgotten, self.hears = pooled.forgotten, pooled.hears
        self.updated = pooled.subscriptions.updated
        self.changed = upstream.changed
        self.log = upstream.log
        self.said = upstream.said
        self.exited = upstream.exited
        self.note = upstream.note
        self.asked = upstream.asked
        self.admit, self.answered, self.sandboxed = upstream.admit, upstream.answered, upstream.sandboxed
        self.roots_withheld = upstream.roots_withheld
        self.unattributed = upstream.unattributed
        self.elicited = upstream.elicited

    def at_work(self) -> float:
        return self._pooled.start.at_work(trio.current_time())


class SessionOpener:
    """Opens and keeps the sessions of one pool. `severity`: the log level of a session that could not be opened."""

    def __init__(self, pool: Pool, parts: SessionParts, *, severity: int = logging.WARNING) -> None:
        self.pool = pool
        self.refused_with: HubError | None = None
        """The reason why the last session could not be opened."""
        self.main_start: Start | None = None
        """The latest attempt to open the main session."""
        self._name = pool.name
        self._parts = parts
        self._severity = severity
        self._pacing = Pacing(pool.name)
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Be ready to open sessions until cancelled, which closes them in order."""
        self._pacing.reset()
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def make_main(self) -> PooledSession:
        """The main session, unopened."""
        config, parts = self.pool.config, self._parts
        self.main_start = start = parts.gate.start_of(config)
        return PooledSession(
            self._name, terms_of(config), start, config.timeouts.list, self._run_session, parts.listener, parts.watch
        )

    def hurry_main(self) -> None:
        """A host waits for the main session."""
        if self.main_start is not None:
            self._parts.gate.hurry(self.main_start)

    # --- opening ------------------------------------------------------------------------------------------------------

    async def open_for(self, exchange: Exchange) -> PooledSession:
        """Open a session for a host that `Pool.find` has none for, and welcome the host on it.

        Several calls of one host that need a session open one.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: the session cannot be opened, or could not lately.
            Overloaded: there are too many sessions, and all are in use.
        Cancellation: leaves the session to the calls that come after.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        caller = exchange.caller
        owner = self.pool.owner(caller)
        pooled = self.pool.opening.get(owner) or self._start(owner, caller)
        start_s = self.pool.config.timeouts.start
        with pooled.reserve():
            with trio.move_on_after(start_s + 2 * GUARD_S):
                await pooled.opened.wait()
            if not pooled.is_open:
                raise self._failure(pooled.error, pooled.start.progress(trio.current_time()))
            if is_welcoming(pooled.terms):
                await pooled.welcome(exchange, start_s, partial(self.pool.session_ready, pooled))
            if self.pool.retired:  # meanwhile: the call goes to whoever is in its place
                raise self._failure(None)
        return pooled

    def _start(self, owner: Tenant | str, caller: Caller) -> PooledSession:
        config, nursery = self.pool.config, self._nursery
        if nursery is None:
            raise self._pacing.too_soon(1, "it is being stopped")
        not_before = self._pacing.not_before(owner, config.timeouts.start)
        self.pool.make_room()
        tenant, principal = (None, owner) if isinstance(owner, str) else (owner, None)
        known = None if tenant is None else self.pool.host_capabilities(tenant, caller)
        start = self._parts.gate.start_of(config)
        start.hurry()
        pooled = PooledSession(
            self._name,
            terms_of(config, known),
            start,
            config.timeouts.list,
            self._run_session,
            self._parts.listener,
            self._parts.watch,
            not_before=not_before,
            tenant=tenant,
            principal=principal,
            host_capabilities=known or {},
        )
        self.pool.extra_sessions[pooled] = None
        self.pool.opening[owner] = pooled
        nursery.start_soon(self._keep, pooled)
        return pooled

    async def _run_session(self, pooled: PooledSession, started: Callable[[Session], None]) -> None:
        parts, terms, configured = self._parts, pooled.terms, self.pool.config
        account = await self._account_of(pooled)
        values = parts.values if account is None else parts.values.of(account)
        await values.read_once()
        config = values.fill(configured)
        terms = structs.replace(terms, mask=values.mask, mask_data=values.mask.data)
        if values.renews_headers:
            terms = structs.replace(terms, renewed_headers=values.renew_headers)
        pooled.account = account if values.are_own else None
        if config.url is not None and account is not None:
            credential = await parts.credentials.credential(whole_name(self._name, config), config, account)
            terms = structs.replace(terms, credential=credential)
            pooled.account = pooled.account if credential is None else account
        is_main = pooled not in self.pool.extra_sessions
        on_ended = parts.events.ended if is_main else partial(self.pool.session_ended, pooled)
        events = _Events(parts.events, pooled, on_ended)

        def connected(session: Session) -> None:
            if pooled.start.run is not None:
                parts.gate.connected(configured)
                forget_mending(configured, parts.memory)
            started(session)

        try:
            await parts.run_session(config, self._name, events, parts.memory, terms, connected)
        except BrokenNpxCache as error:
            parts.gate.forget(configured)
            raise await mend(self._name, configured, error, parts.memory) from None

    async def _account_of(self, pooled: PooledSession) -> str | None:
        """The principal whose sign-in or secrets a session shows to its server; None: it shows no sign-in, since the
        one there is belongs to the hub's owner, who does not share it."""
        config = self.pool.config
        is_each = config.is_each
        principal = pooled.principal or (pooled.tenant.identity.principal if pooled.tenant else "")
        if is_each and not principal and config.across_principals and config.signs_in:
            return await self._parts.credentials.lister(whole_name(self._name, config))
        principal = principal or OWNER
        if is_each:
            return principal
        return OWNER if principal == OWNER or self.pool.shares_account else None

    def _failure(self, error: HubError | None, progress: str = "") -> HubError:
        """The error of a call whose session could not be opened; each call gets its own."""
        if error is None:
            how = f"yet: {progress}. Try again in a minute." if progress else "in time, or is being stopped; try again"
            text = f"{self._name} could not be connected for this host {how}"
            return UpstreamUnavailable(text, upstream=self._name)
        if isinstance(error, UpstreamUnresolved):
            return UpstreamUnavailable(f"{str(error).rstrip('.')}.", upstream=self._name)
        text = f"{self._name} could not be connected for this host: {str(error).rstrip('.')}."
        if self.pool.config.command is not None:
            text += ' If it can run only once, set session_mode = "singleton" in its configuration.'
        kind: type[HubError] = UpstreamUnavailable
        if isinstance(error, UpstreamUnauthorized):
            kind = UpstreamDenied if isinstance(error, UpstreamDenied) else UpstreamUnauthorized
        return kind(text, upstream=self._name, retry_after_ms=error.retry_after_ms)

    # --- the life of a session ----------------------------------------------------------------------------------------

    async def _keep(self, pooled: PooledSession) -> None:
        SUBJECT.set(UpstreamSubject(self._name))  # it outlives the call that it was opened for
        try:
            error = await pooled.run(
                self._parts.gate, partial(self._opened, pooled), partial(self.pool.session_ended, pooled)
            )
        finally:
            del self.pool.extra_sessions[pooled]
        if error is None:
            return
        self._parts.values.mask.error(error)
        if not pooled.is_open:
            wants_sign_in = isinstance(error, UpstreamUnauthorized) and error.asks_person
            wants_sign_in = wants_sign_in and self.pool.config.signs_in_by_person
            if not (wants_sign_in or isinstance(error, UpstreamUnresolved)):  # else nothing is asked of the server
                self._pacing.failed(str(error))
            self.refused_with = error
            self._note(self._severity, f"no further session could be opened: {error}")
        else:
            self._pacing.crashed(pooled.tenant if pooled.terms.exclusive else pooled.principal, str(error))
            self._note(logging.INFO, f"the session of one host ended: {error}")

    def _note(self, severity: int, text: str) -> None:
        log.log(severity, "%s: %s", self._name, text)
        self._parts.events.note(text)

    def _opened(self, pooled: PooledSession, nursery: trio.Nursery) -> None:
        self._pacing.opened()
        self.pool.session_opened(pooled)
        nursery.start_soon(self._expire, pooled)
        nursery.start_soon(pooled.keep_subscribed, self._parts.events)
        if not is_welcoming(pooled.terms):
            self.pool.session_ready(pooled)
        self._note(logging.INFO, f"one more session is open, {len(self.pool)} in all")

    async def _expire(self, pooled: PooledSession) -> None:
        """Close the session when no call has used it for `timeouts.session_idle`, and nothing is subscribed over it."""
        idle_s = self.pool.config.timeouts.session_idle
        due = trio.current_time() + idle_s
        while trio.current_time() < due:
            await trio.sleep_until(due)
            used = trio.current_time() if pooled.users or pooled.subscriptions.held else pooled.idle_since
            due = max(used + idle_s, pooled.needed_until)
        self.pool.let_go(pooled, is_idle=True)
