"""Calls of an upstream, each over the session that serves it: timeouts, and what the end of one means."""

import trio

from config.settings import UpstreamConfig
from hub.link import hub_errors
from hub.link.call_interface import Done, Exchange, Operation, RunningCall
from hub.link.hub_errors import HubError, UpstreamUnavailable
from hub.link.sync_primitives import Wakeup
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str
from hub.wire.mcp import TOOLS_CALL
from upstreams.availability import Availability
from upstreams.redact import MAX_ERROR_BYTES, TELLS_ERROR
from upstreams.session_contract import CallTimeouts
from upstreams.sessions.pooled_session import PooledSession


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
        exchange.note_sent()
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
                value = self._availability.history.mask.result(reply.value)
                reply = reply if value is reply.value else Result(value, says_error=reply.says_error)
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
