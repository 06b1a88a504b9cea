"""Calls: one call over one session, its timeouts, and what its end means."""

from config.settings import UpstreamConfig
from hub.link.hub_errors import Draining, HubError, UpstreamLost, UpstreamUnavailable
from hub.link.interface import Exchange, Operation
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str
from hub.wire.mcp import TOOLS_CALL
from upstreams.availability import Availability
from upstreams.journal.redact import MAX_ERROR_BYTES, TELLS_ERROR
from upstreams.session import CallTimeouts
from upstreams.sessions.pooled_session import PooledSession


class Calls:
    """Calls of one upstream, over any of its sessions."""

    def __init__(self, name: str, config: UpstreamConfig, availability: Availability) -> None:
        self.in_flight = 0
        self._stopped = False
        """The upstream is retired, and its remaining calls end now."""
        self._name = name
        self._availability = availability
        self.adjust(config)

    def __repr__(self) -> str:
        return f"<Calls of {self._name} [{self.in_flight} in flight]>"

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
                reply = self._masked(reply)
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

    def _masked(self, reply: Result) -> Result:
        """A short result without the secrets, if it tells of the server's work."""
        body = bytes(reply.value)
        if (body.find(b'rror"') >= 0 or body.find(b'statusMessage"') >= 0) and TELLS_ERROR(body):
            return Result(self._availability.history.mask.result(reply.value))
        return reply

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
