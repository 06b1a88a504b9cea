"""Calls: which session of an upstream serves a call of a host, or its subscriptions; then the call over it, its
timeouts, and what its end means.

`pool` knows which session belongs to whom. The selector knows what to do while a host has none: wait for the main
session as long as there is hope, then have a session of its own opened.

With a server of both eras the hub speaks the modern one: it needs no sessions. But tools written for the handshake era
ask in the middle of a call, which a modern request cannot carry, and the same server would ask a legacy host that came
to it directly. So a legacy host that can be asked gets a legacy session, if the server offers one; whether it does is
found out once and remembered. Legacy sessions are shared as `session_mode` says.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio
from msgspec import structs

from config.diff import config_key
from config.settings import UpstreamConfig
from hub.link import hub_errors
from hub.link.call_interface import Caller, Done, Exchange, Operation, RunningCall
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.sync_primitives import Wakeup
from hub.wire.declarations import can_be_asked
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str
from hub.wire.mcp import L4, TOOLS_CALL, Era
from upstreams.availability import Availability
from upstreams.redact import MAX_ERROR_BYTES, TELLS_ERROR
from upstreams.session_contract import CallTimeouts, StatusError
from upstreams.sessions.open_pool_sessions import SessionOpener, SessionParts
from upstreams.sessions.pool import Pool
from upstreams.sessions.pooled_session import PooledSession

log = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""Time that a call waits to see whether there is a handshake; a server that speaks has answered by then."""
ONE_ERA: Final = "one-era"
"""The section of the memory that lists servers without a legacy handshake."""


class LegacySessions:
    """The legacy sessions of one upstream. They serve no host before `activate`, nor if the server has no handshake."""

    def __init__(self, name: str, config: UpstreamConfig, parts: SessionParts, on_moved: Callable[[], None]) -> None:
        self._name = name
        self._config = config
        self._key = config_key(config)
        self._memory = parts.memory
        self.active = False
        """Hosts that can be asked are served."""
        self.pool = Pool(name, structs.replace(config, era="legacy"), parts.memory, on_moved)
        self.opener = SessionOpener(self.pool, parts, severity=logging.INFO)  # there is always the modern side

    def activate(self, era: Era, transport: str) -> None:
        """Serve hosts, if the server may have a legacy handshake: the upstream is connected."""
        wanted = era is Era.MODERN and self._config.era == "auto" and self._config.client_features == "auto"
        self.active = wanted and self._memory.get(ONE_ERA, self._key) is not True
        self.pool.decide_sharing(Era.LEGACY, transport)

    def deactivate(self) -> None:
        """Serve no host until `activate`: the upstream is stopped."""
        self.active = False

    def serve(self, caller: Caller) -> bool:
        """True if `caller` is to have a legacy session."""
        return self.active and caller.era is Era.LEGACY and can_be_asked(caller.capabilities)

    async def find(self, exchange: Exchange) -> PooledSession | None:
        """The session for the host of `exchange`, opened if need be; None: the modern session has to do.

        Raises:
            UpstreamUnavailable, Overloaded: as `SessionOpener.open_for`, if the server is known to have this era.
        """
        if (pooled := self.pool.find(exchange.caller)) is not None:
            return pooled
        try:
            with trio.move_on_after(PATIENCE_S):
                return await self.opener.open_for(exchange)
        except UpstreamUnavailable:
            error = self.opener.refused_with
            knows_no_handshake = isinstance(error, hub_errors.UpstreamVersionError | hub_errors.UpstreamProtocolError)
            if isinstance(error, StatusError):
                knows_no_handshake = 400 <= error.status < 500 and error.status not in (408, 429)
            if not knows_no_handshake:
                return None
        self.forget(one_era=True)
        log.info("%s has no legacy handshake; all hosts use its 2026-07-28 endpoint", self._name)
        return None

    def forget(self, *, one_era: bool = False) -> None:
        """Find out again whether the server has a legacy handshake; `one_era`: it has none."""
        self._memory.put(ONE_ERA, self._key, True if one_era else None)
        self.active = self.active and not one_era
        self.pool.forget_interactive()

    def adjust(self, config: UpstreamConfig) -> None:
        self._config = config
        self.pool.config = structs.replace(config, era="legacy")

    def version(self) -> str:
        """The legacy revision in use, as far as it is known."""
        pooled_sessions = self.pool.open_sessions()
        return pooled_sessions[0].session.facts.version if pooled_sessions else L4


class SessionSelector:
    """Selects sessions of one upstream for calls and subscriptions."""

    def __init__(self, availability: Availability, opener: SessionOpener, legacy_sessions: LegacySessions) -> None:
        self.waiting = 0
        """Calls that wait for the main session."""
        self.needed_at = trio.current_time()
        """Time at which anybody waited for it last."""
        self._name = opener.pool.name
        self._availability = availability
        self._opener = opener
        self._pool = opener.pool
        self._legacy_sessions = legacy_sessions

    async def wait(self, exchange: Exchange) -> PooledSession:
        """The session for a call that finds none at once.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it is not there in time, or not to be had.
            Overloaded: as `SessionOpener.open_for`.
        """
        caller = exchange.caller
        pooled = self._pool.find(caller)
        if pooled is None and self._pool.main is None:
            try:
                pooled = await self._wait_for_main(caller)
            except hub_errors.UpstreamUnauthorized:  # the owner has not signed in, which is no matter to others
                if not self._pool.has_own_account(caller):
                    raise
            if self._legacy_sessions.serve(caller):  # which was not known before
                pooled = await self._legacy_sessions.find(exchange) or pooled
        return pooled or await self._opener.open_for(exchange)

    async def _wait_for_main(self, caller: Caller) -> PooledSession | None:
        """Wait for a main session, or that of `caller`; the latter."""
        self.waiting += 1
        start_s = self._pool.config.timeouts.start
        try:
            with trio.move_on_after(start_s):
                while (pooled := self._pool.find(caller)) is None and self._pool.main is None:
                    self._availability.refuse_if_hopeless()
                    self._opener.hurry_main()
                    await self._availability.news.wait()
                return pooled
        finally:
            self.waiting -= 1
            self.needed_at = trio.current_time()
        start = self._opener.main_start
        progress = start.progress(trio.current_time()) if start else ""
        text = f"{self._name} did not become ready within {start_s:g} seconds"
        raise self._availability.unavailable(text, progress=progress)

    def peek(self, caller: Caller) -> PooledSession | None:
        """The open session that a call of `caller` would use at once, without claiming it. Raises nothing."""
        pool = self._legacy_sessions.pool if self._legacy_sessions.serve(caller) else self._pool
        pooled = pool.find(caller, claims=False)
        return None if pooled is None or pooled.over else pooled

    # --- for what hosts subscribe to ----------------------------------------------------------------------------------

    def for_subscriptions(self, caller: Caller) -> PooledSession | None:
        """The open session for the subscriptions of `caller`'s host; None: there is none now.

        A host that `legacy_sessions` serve has its subscriptions there from its first call on.

        Raises:
            UpstreamUnavailable: there never will be one.
        """
        legacy = self._legacy_sessions
        found = legacy.pool.for_subscriptions(caller) if legacy.serve(caller) else None
        return found or self._pool.for_subscriptions(caller) or self._pool.lend_main(caller)

    async def wait_for_subscriptions(self, exchange: Exchange) -> PooledSession:
        """The session for the subscriptions of the host of `exchange`, waited for or opened if there is none.

        Raises:
            HubError: it cannot be had.
        """
        caller = exchange.caller
        pooled = self.for_subscriptions(caller)
        if pooled is None and self._pool.main is None:
            await self._wait_for_main(caller)
            pooled = self.for_subscriptions(caller)
        if pooled is not None:
            return pooled
        if self._pool.needs_call_first(caller):
            text = f"{self._name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self._name)
        return await self._opener.open_for(exchange)

    async def reopen_for_subscriptions(self, exchange: Exchange) -> None:
        """Open the session for the subscriptions of the host of `exchange`, if nothing else is missing.

        Raises:
            HubError: it cannot be had.
        """
        pool, caller = self._pool, exchange.caller
        if pool.main is not None and self.for_subscriptions(caller) is None and not pool.needs_call_first(caller):
            await self._opener.open_for(exchange)


class _PooledCall:
    """An operation that was sent over a pooled session; it is called with the outcome, once."""

    __slots__ = ("_calls", "_done", "_operation", "_pooled", "running")

    running: RunningCall | None
    """What carries it out; None: it is over."""

    def __init__(self, calls: "Calls", pooled: PooledSession, operation: Operation, done: Done) -> None:
        self._calls = calls
        self._pooled = pooled
        self._operation = operation
        self._done = done

    def __call__(self, outcome: Reply | Exception) -> None:
        calls, self.running = self._calls, None
        calls.leave(self._pooled)
        try:
            if isinstance(outcome, HubError):
                outcome = calls.judge_error(outcome)
            elif not isinstance(outcome, Exception):
                outcome = calls.judge(outcome, self._pooled, self._operation)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and nobody else
            outcome = error
        self._done(outcome)

    def cancel(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.cancel()
            self._calls.leave(self._pooled)


class Calls:
    """Calls of one upstream, over any of its sessions."""

    def __init__(self, name: str, config: UpstreamConfig, availability: Availability) -> None:
        self.in_flight = 0
        self._stopped = False
        """The upstream is retired, and its remaining calls end now."""
        self._name = name
        self._availability = availability
        self.adjust(config)

    def adjust(self, config: UpstreamConfig) -> None:
        self._timeouts = CallTimeouts(config.timeouts.call, config.timeouts.call_total)
        self._tool_timeouts = config.tool_timeouts

    def stop(self) -> None:
        """The calls that are left end now, because the configuration changed."""
        self._stopped = True

    async def call_over(self, pooled: PooledSession, operation: Operation, exchange: Exchange) -> Reply:
        """Carry out an operation over a session.

        Raises:
            UpstreamUnavailable: nothing was sent.
            Draining: the upstream was stopped meanwhile.
            HubError: as `Session.call`.
        Cancellation: passes to the upstream, which is told.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        outcome: Wakeup[Reply] = Wakeup()
        if (call := self.begin_over(pooled, operation, exchange, outcome)) is not None:
            return await outcome.wait(call.cancel)
        self.in_flight += 1
        pooled.acquire(exchange.caller)
        try:
            if exchange.caller.log_level is not None and not pooled.level.told.is_set():
                await self._wait_for_level(pooled)
            reply = await pooled.session.call(operation, exchange, self._timeouts_of(operation))
            return self.judge(reply, pooled, operation)
        except HubError as error:
            raise self.judge_error(error) from None
        finally:
            self.leave(pooled)

    def begin_over(
        self, pooled: PooledSession, operation: Operation, exchange: Exchange, done: Done
    ) -> RunningCall | None:
        """Send an operation over a session now, as `Upstream.begin`.

        Raises:
            HubError: as `call_over`.
        """
        caller = exchange.caller
        if caller.log_level is not None and not pooled.level.told.is_set():
            return None
        call = _PooledCall(self, pooled, operation, done)
        timeouts = self._timeouts_of(operation) if self._tool_timeouts or operation.waited_s else self._timeouts
        try:
            running = pooled.session.begin(operation, exchange, timeouts, call)
        except HubError as error:
            raise self.judge_error(error) from None
        if running is None:
            return None
        call.running = running
        self.in_flight += 1
        pooled.acquire(caller)
        return call

    def leave(self, pooled: PooledSession) -> None:
        """A call uses the session no more."""
        self.in_flight -= 1
        pooled.release()
        if self._availability.retired:
            self._availability.news.ring()

    def judge(self, reply: Reply, pooled: PooledSession, operation: Operation) -> Reply:
        """`reply` as hosts may see it."""
        if isinstance(reply, Failure):
            return self._availability.history.mask.failure(reply)
        if memoryview(reply.value).nbytes <= MAX_ERROR_BYTES:
            body = bytes(reply.value)
            if (body.find(b'rror"') >= 0 or body.find(b'statusMessage"') >= 0) and TELLS_ERROR(body):
                reply = Result(self._availability.history.mask.result(reply.value))
        return reply if "task" not in operation.params else pooled.sign(reply)

    def judge_error(self, error: HubError) -> HubError:
        """The failure of a call as hosts may hear it."""
        if isinstance(error, hub_errors.UpstreamLost) and self._stopped:
            text = f"{self._name} was stopped by a change of the hub's configuration while the call was with it;"
            return hub_errors.Draining(f"{text} whether it acted is unknown", upstream=self._name)
        self._availability.history.mask.error(error)
        return error

    async def _wait_for_level(self, pooled: PooledSession) -> None:
        """Wait until the upstream knows the log level that hosts want.

        Raises:
            UpstreamUnavailable: it has been `retired` meanwhile.
        """
        retired = self._availability.retired
        await pooled.level.told.wait()
        if self._availability.retired and not retired:
            text = f"The configuration of {self._name} has changed, and the call was not sent; try it again"
            raise UpstreamUnavailable(text, upstream=self._name)

    def _timeouts_of(self, operation: Operation) -> CallTimeouts:
        idle_s, total_s = self._timeouts.idle_s, self._timeouts.total_s
        if operation.method == TOOLS_CALL:
            idle_s = self._tool_timeouts.get(peek_str(operation.params.get("name")) or "", idle_s)
        return CallTimeouts(idle_s, max(total_s - operation.waited_s, 0.0))
