"""Calls: which session of an upstream serves a call of a host, or its subscriptions; then the call over it, its
timeouts, and what its end means.

`pool` and `dual_era_sessions` know which session belongs to whom. The selector knows what to do while a host has none:
wait for the main session as long as there is hope, then have a session of its own opened.
"""

import trio

from config.settings import UpstreamConfig
from hub.link.hub_errors import Draining, HubError, UpstreamLost, UpstreamUnauthorized, UpstreamUnavailable
from hub.link.interface import Caller, Exchange, Operation
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str
from hub.wire.mcp import TOOLS_CALL
from upstreams.availability import Availability
from upstreams.journal.redact import MAX_ERROR_BYTES, TELLS_ERROR
from upstreams.session import CallTimeouts
from upstreams.sessions.connector import SessionConnector
from upstreams.sessions.dual_era_sessions import LegacySessions
from upstreams.sessions.pooled_session import PooledSession


class SessionSelector:
    """Selects sessions of one upstream for calls and subscriptions."""

    def __init__(
        self,
        name: str,
        availability: Availability,
        connector: SessionConnector,
        legacy_sessions: LegacySessions,
        config: UpstreamConfig,
    ) -> None:
        self.waiting = 0
        """Calls that wait for the main session."""
        self.needed_at = trio.current_time()
        """Time at which anybody waited for it last."""
        self._name = name
        self._availability = availability
        self._connector = connector
        self._pool = connector.pool
        self._legacy_sessions = legacy_sessions
        self.adjust(config)

    def adjust(self, config: UpstreamConfig) -> None:
        """Go by the limits of `config`."""
        self._start_s = config.timeouts.start

    async def wait(self, exchange: Exchange) -> PooledSession:
        """The session for a call that finds none at once.

        Raises:
            UpstreamUnavailable, UpstreamUnauthorized: it is not there in time, or not to be had.
            Overloaded: as `SessionConnector.open_for`.
        """
        caller = exchange.caller
        pooled = self._pool.find(caller)
        if pooled is None and self._pool.main is None:
            try:
                pooled = await self._wait_for_main(caller)
            except UpstreamUnauthorized:  # the owner has not signed in, which is no matter to others
                if not self._pool.has_own_account(caller):
                    raise
            if self._legacy_sessions.serve(caller):  # which was not known before
                pooled = await self._legacy_sessions.find(exchange) or pooled
        return pooled or await self._connector.open_for(exchange)

    async def _wait_for_main(self, caller: Caller) -> PooledSession | None:
        """Wait for a main session, or that of `caller`; the latter."""
        self.waiting += 1
        try:
            with trio.move_on_after(self._start_s):
                while (pooled := self._pool.find(caller)) is None and self._pool.main is None:
                    self._availability.refuse_if_hopeless()
                    self._connector.hurry_main()
                    await self._availability.news()
                return pooled
        finally:
            self.waiting -= 1
            self.needed_at = trio.current_time()
        start = self._connector.main_start
        progress = start.progress(trio.current_time()) if start else ""
        text = f"{self._name} did not become ready within {self._start_s:g} seconds"
        raise self._availability.unavailable(text, progress=progress)

    def peek(self, caller: Caller) -> PooledSession | None:
        """The open session that a call of `caller` would use at once, without claiming it. Raises nothing."""
        pool = self._legacy_sessions.pool if self._legacy_sessions.serve(caller) else self._pool
        pooled = pool.find(caller, claims=False)
        return None if pooled is None or pooled.over else pooled

    # --- for what hosts subscribe to ----------------------------------------------------------------------------------

    def for_subscriptions(self, caller: Caller) -> PooledSession | None:
        """The open session for the subscriptions of `caller`'s host; None: there is none now.

        A host that `dual_era_sessions` serves has its subscriptions there from its first call on.

        Raises:
            UpstreamUnavailable: there never will be one.
        """
        legacy = self._legacy_sessions
        found = legacy.pool.for_subscriptions(caller) if legacy.serve(caller) else None
        return found or self._pool.for_subscriptions(caller) or self._pool.lend_main(caller)

    async def wait_for_subscriptions(self, exchange: Exchange) -> PooledSession:
        """The session for the subscriptions of the host of `exchange`, waited for or opened.

        Raises:
            HubError: it cannot be had.
        """
        if self._pool.main is None:
            await self._wait_for_main(exchange.caller)
        if pooled := self.for_subscriptions(exchange.caller):
            return pooled
        if self._pool.needs_call_first(exchange.caller):
            text = f"{self._name} has no session for this host before it is called; call a tool of it first"
            raise UpstreamUnavailable(text, upstream=self._name)
        return await self._connector.open_for(exchange)

    async def reopen_for_subscriptions(self, exchange: Exchange) -> None:
        """Open the session for the subscriptions of the host of `exchange`, if nothing else is missing.

        Raises:
            HubError: it cannot be had.
        """
        pool, caller = self._pool, exchange.caller
        if pool.main is not None and self.for_subscriptions(caller) is None and not pool.needs_call_first(caller):
            await self._connector.open_for(exchange)


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
        """Use these limits for calls that begin from now on."""
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
        self.in_flight += 1
        pooled.acquire(exchange.caller)
        try:
            if exchange.caller.log_level is not None and not pooled.level.told.is_set():
                await self._wait_for_level(pooled)
            reply = await pooled.session.call(operation, exchange, self._timeouts_of(operation))
            if isinstance(reply, Failure):
                return self._availability.history.mask.failure(reply)
            if memoryview(reply.value).nbytes <= MAX_ERROR_BYTES:
                body = bytes(reply.value)
                if (body.find(b'rror"') >= 0 or body.find(b'statusMessage"') >= 0) and TELLS_ERROR(body):
                    reply = Result(self._availability.history.mask.result(reply.value))
            return reply if "task" not in operation.params else pooled.sign(reply)
        except UpstreamLost:
            if self._stopped:
                text = f"{self._name} was stopped by a change of the hub's configuration while the call was with it;"
                raise Draining(f"{text} whether it acted is unknown", upstream=self._name) from None
            raise
        except HubError as error:
            self._availability.history.mask.error(error)
            raise
        finally:
            self.in_flight -= 1
            pooled.release()
            if self._availability.retired:
                self._availability.wake_waiters()

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
        if not self._tool_timeouts or operation.method != TOOLS_CALL:
            return self._timeouts
        idle_s = self._tool_timeouts.get(peek_str(operation.params.get("name")) or "")
        return self._timeouts if idle_s is None else CallTimeouts(idle_s, self._timeouts.total_s)
