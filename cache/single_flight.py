"""Flight: one read of an upstream that several hosts may wait for.

It has two ends. The upstream sees an `Exchange` that lasts as long as any host waits. Each host waits with its own
exchange and may leave; when the last host has left, the read is cancelled.

    open ---------> landed            all waiting hosts have the reply
      |-----------> private           the upstream asks the first host something: all other hosts are released, to read
      |                               for themselves
      `-----------> cancelled         no host waits any more
"""

import copy
from dataclasses import dataclass, field

import trio
from msgspec import Raw

from cache.cache_entry import CacheKey
from cache.shared_store import ReadTicket
from cache.upstream_interface import ReadablePooledSession, ReadableUpstream
from hub.link.call_interface import Call, Caller, Exchange, Operation
from hub.link.hub_errors import UpstreamUnavailable
from hub.link.peer import UPSTREAM_CANCEL_S, last_words
from hub.link.sync_primitives import Promise
from hub.wire.jsonrpc import Failure, Reply
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.questions.askable_questions import Question


class Released(Exception):
    """The reply belongs to another host alone."""


@dataclass(eq=False, repr=False)
class Flight:
    """A read under way. Satisfies `hub.link.call_interface.Exchange` towards the upstream."""

    upstream: ReadableUpstream
    key: CacheKey
    operation: Operation
    caller: Caller
    """The host that began it."""
    pooled: ReadablePooledSession | None
    """The session that will serve it; None: not known yet."""
    call: Call
    """Sends the read to the upstream."""
    is_reading: bool = False
    """True if the upstream may be working on it, so that a reported change may affect the answer."""
    is_disturbed: bool = False
    """True if an invalidation affects it: before `is_reading`, a looked-up entry is useless; after, the answer may
    not be kept."""
    is_observed: bool = False
    """True if the session was told of changes before the read began."""
    is_private: bool = False
    ticket: ReadTicket | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """The scope of its task."""
    over: trio.Event = field(default_factory=trio.Event)
    """Set when its task is over."""
    _leader: Exchange | None = None
    """The exchange of the host that began it."""
    _waiters: dict[Promise[Reply | Exception], Exchange] = field(default_factory=dict)
    """The exchanges of waiting hosts, by the outcome that each waits for."""

    # --- the hosts' end -----------------------------------------------------------------------------------------------

    async def wait(self, exchange: Exchange) -> Reply:
        """The reply, for the host of `exchange`. The first host to wait is the one that began the read.
        Raises: Released, if this host must read for itself; else whatever the read raised.
        Cancellation: other hosts go on waiting. Without others, the upstream is told, and that is waited for.
        """
        if self._leader is None:
            self._leader = exchange
        promise = Promise[Reply | Exception]()
        self._waiters[promise] = exchange
        try:
            outcome = await promise.wait()
        except trio.Cancelled:
            self._waiters.pop(promise, None)
            if not self._waiters:
                self.scope.cancel()
                with last_words(UPSTREAM_CANCEL_S):
                    await self.over.wait()
            raise
        if isinstance(outcome, Exception):
            raise copy.copy(outcome)  # one exception raised in many tasks would collect all their tracebacks
        return outcome

    def land(self, outcome: Reply | Exception) -> None:
        """Give the outcome to all waiting hosts."""
        for promise in self._waiters:
            promise.fulfil(outcome)
        self._waiters.clear()

    def make_private(self) -> bool:
        """Make the read private to the first host, and release all others; whether the first host still waits."""
        self.is_private = True
        followers = [promise for promise, exchange in self._waiters.items() if exchange is not self._leader]
        for promise in followers:
            del self._waiters[promise]
            promise.fulfil(Released())
        if not self._waiters:
            self.scope.cancel()
        return bool(self._waiters)

    def end(self) -> None:
        """End it with its task. Hosts that still wait get an error."""
        self.over.set()
        text = f"The hub stopped reading from {self.key.upstream}; try it again"
        self.land(UpstreamUnavailable(text, upstream=self.key.upstream))

    # --- the upstream's end: Exchange ---------------------------------------------------------------------------------

    @property
    def wants_progress(self) -> bool:
        return any(exchange.wants_progress for exchange in self._waiters.values())

    def progress(self, params: dict[str, Raw]) -> None:
        """See `Exchange.progress`: reported to all waiting hosts."""
        for exchange in list(self._waiters.values()):
            exchange.progress(params)

    def log(self, params: dict[str, Raw]) -> None:
        """See `Exchange.log`: told the first host, since it may be about another call of that host."""
        if self._leader is not None and self._leader in self._waiters.values():
            self._leader.log(params)

    def note_sent(self) -> None:
        """See `Exchange.note_sent`: for all waiting hosts."""
        for exchange in self._waiters.values():
            exchange.note_sent()

    async def ask(self, question: Question) -> Reply:
        """See `Exchange.ask`: the first host is asked, after the read as well: a session that it was opened for is that
        host's."""
        if self._leader is None or not (self.over.is_set() or self.make_private()):
            text = f"The host that began this read does not wait for it any more ({question.method})"
            return Failure(INVALID_PARAMS, text)
        return await self._leader.ask(question)
