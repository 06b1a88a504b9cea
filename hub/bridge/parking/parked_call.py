"""A parked call: one call of a modern host to a legacy upstream, which may outlive its request (`parked_call_phases`,
`parking`).

It has two ends. The upstream sees an `Exchange` that lasts as long as the call, whichever request is attached. The
requests of the host, one after the other, wait for the outcome or for a round of questions.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

import trio
from msgspec import Raw

from hub.bridge.parking.parked_call_phases import ParkedState
from hub.bridge.sealed_request_state import NO_ROUND, Binding, FirstRound
from hub.link.call_interface import Caller, HearQuestion, HostEnd
from hub.link.memory_budget import Account
from hub.link.peer import UPSTREAM_CANCEL_S, last_words
from hub.wire.jsonrpc import Reply, Request
from hub.wire.questions.askable_questions import Missing, Question, QuestionRefusal, with_missing


@dataclass(eq=False, repr=False)
class ParkedCall:
    """A running call. Satisfies `hub.link.call_interface.Exchange`. `_ask` and `_abandon`: those of `ParkedCalls`."""

    _ask: "Callable[[ParkedCall, Question], Awaitable[Reply]]"
    _abandon: "Callable[[ParkedCall], None]"
    _exchange: HostEnd | None
    """That of the request that is attached, if one is."""
    request: Request
    upstream: str
    state: ParkedState
    first: FirstRound = NO_ROUND
    """The first of the requests by which it is carried out."""
    over: trio.Event = field(default_factory=trio.Event)
    """Set when its task is over."""
    account: Account | None = None
    """Account of the memory held while the call waits; None before its first question."""
    clock: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Cancels its clock, which runs from the first question until a retry is attached."""
    patience: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Ends a park: at its deadline, or by being cancelled."""
    id: str = ""
    """Id in its request states; "" before its first question."""
    binding: Binding | None = None
    """Binding of its request states; None before its first question."""
    lacking: Missing | None = None
    """Capabilities that questions needed, and that the host did not declare; None: there were none."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """Cancels its task."""
    _answered: trio.Event = field(default_factory=trio.Event)
    _outcome: Reply | Exception | None = None

    @property
    def is_step(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<ParkedCall {self.request.method} of {self.upstream}: {self.state!r}>"

    def attach(self, exchange: HostEnd) -> None:
        """Let a request wait for what comes next."""
        self._exchange, self._answered, self._outcome = exchange, trio.Event(), None

    def end_request(self, outcome: Reply | Exception) -> None:
        """End the attached request with this outcome; or keep the outcome for a retry."""
        self._exchange = None
        self._outcome = outcome
        self._answered.set()

    async def wait(self) -> Reply:
        """Wait for the outcome of the attached request. Raises Exception: whatever the call raised. Cancellation: ends
        the call, since the host has heard of nothing that it could come back with. The request does not end before the
        call does, so that nothing of a host runs after it is gone."""
        try:
            await self._answered.wait()
        except trio.Cancelled:
            self._abandon(self)
            with last_words(UPSTREAM_CANCEL_S):
                await self.over.wait()
            raise
        return self.outcome()

    def outcome(self) -> Reply:
        """Return, or raise, what `end_request` was given."""
        outcome = self._outcome
        assert outcome is not None, "nobody looks before there is an outcome"
        if isinstance(outcome, Exception):
            self._outcome = None
            try:
                raise outcome
            finally:
                del outcome  # or it and this frame would hold each other
        return outcome

    @property
    def caller(self) -> Caller:
        """The caller of the latest attempt."""
        return self.state.caller

    @property
    def hear_question(self) -> HearQuestion | None:
        return None if self._exchange is None else self._exchange.hear_question

    @property
    def wants_progress(self) -> bool:
        return self._exchange is not None and self._exchange.wants_progress

    def progress(self, params: dict[str, Raw]) -> None:
        """Pass progress on; dropped while no request is attached."""
        if self._exchange is not None:
            self._exchange.progress(params)

    def note_sent(self) -> None:
        if self._exchange is not None:
            self._exchange.note_sent()

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on; dropped while no request is attached."""
        if self._exchange is not None:
            self._exchange.log(params)

    async def ask(self, question: Question) -> Reply:
        """Put a question to the host: the request ends with it, and a retry brings the answer."""
        hear, began, reply = self.hear_question, perf_counter(), None
        try:
            reply = await self._ask(self, question)
        except QuestionRefusal as refused:
            self.lacking = with_missing(self.lacking, question, self.caller.capabilities)
            reply = refused.failure
        finally:
            if hear is not None:
                hear(question, perf_counter() - began, reply)
        return reply
