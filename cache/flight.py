"""One read of an upstream that several hosts may wait for (D-14).

It has two ends. The upstream sees an `Exchange` that lasts as long as anybody waits. The hosts wait, each with its own
exchange, and any of them may leave; when the last one has, the read is cancelled.

    open ---------> landed            everybody has the reply
      |-----------> private           the upstream asks, or wants, something of the one who began it: everybody else is
      |                               released, to read for themselves
      `-----------> cancelled         nobody waits any more
"""

import copy

import trio
from msgspec import Raw

from cache.entry import CacheKey
from cache.shared_store import Ticket
from cache.upstream_interface import PooledSession, Upstream
from hub.link.interface import Caller, Exchange, Operation, Question, UpstreamUnavailable
from hub.link.peer import UPSTREAM_CANCEL_S, last_words
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.mcp import INVALID_PARAMS


class Released(Exception):
    """The reply is for another host alone."""


class Waiter:
    """One host that waits."""

    __slots__ = ("exchange", "outcome", "woken")

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.woken = trio.Event()
        self.outcome: Reply | Exception | None = None

    def wake(self, outcome: Reply | Exception) -> None:
        """End the waiting with this, unless it has ended."""
        if self.outcome is None:
            self.outcome = outcome
            self.woken.set()


class Flight:
    """A read that is running. Satisfies `hub.link.interface.Exchange` towards the upstream.

    `pooled` is the session that will serve it; None: nobody knows yet.
    """

    def __init__(
        self, upstream: Upstream, key: CacheKey, operation: Operation, caller: Caller, pooled: PooledSession | None
    ) -> None:
        self.upstream = upstream
        self.key = key
        self.operation = operation
        self.pooled = pooled
        self.caller = caller
        """Who began it."""
        self.is_reading = False
        """The upstream is, or may be, at it: what is said from now on may be about the answer."""
        self.is_disturbed = False
        """Something was invalidated that it concerns: before it `is_reading`, what was looked up is of no use; then,
        the answer may not be kept."""
        self.is_observed = False
        """The place was told of changes before the read began."""
        self.is_private = False
        self.ticket: Ticket | None = None
        self.scope = trio.CancelScope()
        """Of its task."""
        self.over = trio.Event()
        """Its task is over."""
        self._leader: Waiter | None = None
        self._waiters: dict[Waiter, None] = {}

    def __repr__(self) -> str:
        doing = "private" if self.is_private else "reading" if self.is_reading else "looking"
        return f"<Flight to {self.key.uri} of {self.key.upstream}, {doing}, {len(self._waiters)} waiting>"

    # --- the hosts' end -----------------------------------------------------------------------------------------------

    async def wait(self, exchange: Exchange) -> Reply:
        """The reply, for the host of `exchange`. The first one to wait is the one that began it.

        Raises:
            Released: read for yourself.
            Exception: whatever the read raised.
        Cancellation: the others go on waiting. If there are none, the upstream is told, and that is waited for.
        """
        waiter = Waiter(exchange)
        if self._leader is None:
            self._leader = waiter
        self._waiters[waiter] = None
        try:
            await waiter.woken.wait()
        except trio.Cancelled:
            self._waiters.pop(waiter, None)
            if not self._waiters:
                self.scope.cancel()
                with last_words(UPSTREAM_CANCEL_S):
                    await self.over.wait()
            raise
        assert waiter.outcome is not None, "nobody is woken without an outcome"
        if isinstance(waiter.outcome, Exception):
            raise copy.copy(waiter.outcome)  # one exception raised in many tasks would collect all their tracebacks
        return waiter.outcome

    def land(self, outcome: Reply | Exception) -> None:
        """Give everybody who waits the outcome."""
        for waiter in self._waiters:
            waiter.wake(outcome)
        self._waiters.clear()

    def claim(self) -> bool:
        """Make it the affair of the one who began it; whether that one still waits. Others are released."""
        self.is_private = True
        followers = [waiter for waiter in self._waiters if waiter is not self._leader]
        for waiter in followers:
            del self._waiters[waiter]
            waiter.wake(Released())
        if not self._waiters:
            self.scope.cancel()
        return bool(self._waiters)

    def end(self) -> None:
        """Its task is over. Nobody is left waiting."""
        self.over.set()
        text = f"The hub stopped reading from {self.key.upstream}; try it again"
        self.land(UpstreamUnavailable(text, upstream=self.key.upstream))

    # --- the upstream's end: Exchange ---------------------------------------------------------------------------------

    @property
    def wants_progress(self) -> bool:
        return any(waiter.exchange.wants_progress for waiter in self._waiters)

    def progress(self, params: dict[str, Raw]) -> None:
        """As `Exchange.progress`, of all that wait."""
        for waiter in list(self._waiters):
            waiter.exchange.progress(params)

    def log(self, params: dict[str, Raw]) -> None:
        """As `Exchange.log`, of the one who began it: it may be about another call of that host."""
        if self._leader in self._waiters:
            self._leader.exchange.log(params)

    async def ask(self, question: Question) -> Reply:
        """As `Exchange.ask`: the one who began it is asked."""
        if not self.claim() or self._leader is None:
            text = f"Whoever began this read does not wait for it any more ({question.method})"
            return Failure(INVALID_PARAMS, text)
        return await self._leader.exchange.ask(question)
