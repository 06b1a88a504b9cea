"""A parked call: one call of a modern host to a legacy upstream, which may outlive its request (`phases`, `parking`).

It has two ends. The upstream sees an `Exchange` that lasts as long as the call, whichever request is attached. The
requests of the host, one after the other, wait for the outcome or for a round of questions.
"""

import secrets
from typing import Protocol

import trio
from msgspec import Raw

from hub.bridge.parking.phases import ParkedState
from hub.bridge.request_state import Binding, bind
from hub.link.budget import Account, Budget
from hub.link.interface import Caller, Exchange
from hub.link.peer import UPSTREAM_CANCEL_S, last_words
from hub.link.waiting import Promise
from hub.wire.jsonrpc import Failure, Reply, Request, Result
from hub.wire.mcp import INVALID_PARAMS, LIST_ROOTS
from hub.wire.questions.question import Missing, Question, QuestionRefusal, with_missing


class Keeper(Protocol):
    """The part of `ParkedCalls` that a call needs."""

    def open_question(self, call: "ParkedCall", question: Question) -> str | Reply:
        """Let `call` ask: the key of the question, or the reply where that is known already.

        Raises:
            QuestionRefusal: it may not, or its host cannot be asked that.
        """
        ...

    def withdraw_question(self, call: "ParkedCall", key: str) -> None:
        """Withdraw the question `key`: the upstream waits for it no longer."""
        ...

    def remember_roots(self, call: "ParkedCall", roots: Raw) -> None:
        """Keep the roots that the host of `call` told."""
        ...

    def abandon(self, call: "ParkedCall") -> None:
        """Cancel the call: its attached request was cancelled."""
        ...


class ParkedCall:
    """A running call. Satisfies `hub.link.interface.Exchange`."""

    __slots__ = (
        "_account",
        "_answered",
        "_clock",
        "_exchange",
        "_keeper",
        "_outcome",
        "_over",
        "_patience",
        "_pending",
        "binding",
        "id",
        "lacking",
        "request",
        "scope",
        "state",
        "upstream",
    )

    def __init__(self, keeper: Keeper, exchange: Exchange, request: Request, upstream: str, state: ParkedState) -> None:
        self._keeper = keeper
        self._pending: dict[str, Promise[Reply]] = {}
        """Replies to open questions, by key."""
        self._over = trio.Event()
        self._account: Account | None = None
        """Account of the memory held while the call waits; None before its first question."""
        self._clock: trio.CancelScope | None = None
        """Cancels its clock, which runs from the first question until a retry is attached; None: no clock."""
        self._patience: trio.CancelScope | None = None
        """Ends a park: at its deadline, or by being cancelled."""
        self.state = state
        self.request = request
        self.upstream = upstream
        self.id = ""
        """Id in its request states; "" before its first question."""
        self.binding: Binding | None = None
        """Binding of its request states; None before its first question."""
        self.lacking: Missing | None = None
        """Capabilities that questions needed, and that the host did not declare; None: there were none."""
        self.scope = trio.CancelScope()
        """Cancels its task."""
        self.attach(exchange)

    def __repr__(self) -> str:
        return f"<ParkedCall {self.request.method} of {self.upstream}: {self.state!r}>"

    # --- the host's end -----------------------------------------------------------------------------------------------

    def attach(self, exchange: Exchange) -> None:
        """Let a request wait for what comes next."""
        self._exchange: Exchange | None = exchange
        self._answered = trio.Event()
        self._outcome: Reply | Exception | None = None

    def end_request(self, outcome: Reply | Exception) -> None:
        """End the attached request with this outcome; or keep the outcome for a retry."""
        self._exchange = None
        self._outcome = outcome
        self._answered.set()

    async def wait(self) -> Reply:
        """Wait for the outcome of the attached request.

        Raises:
            Exception: whatever the call raised.
        Cancellation: ends the call, since the host has heard of nothing that it could come back with. The request
        does not end before the call does, so that nothing of a host runs after it is gone.
        """
        try:
            await self._answered.wait()
        except trio.Cancelled:
            self._keeper.abandon(self)
            with last_words(UPSTREAM_CANCEL_S):
                await self._over.wait()
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

    # --- the wait for a retry -----------------------------------------------------------------------------------------

    def identify(self) -> None:
        """Give the call an id and a binding for its request states; no effect if it has them."""
        if self.binding is None:
            self.id = secrets.token_hex(16)
            self.binding = bind(self.upstream, self.caller.identity.principal, self.request)

    def hold_memory(self, question: Question, budget: Budget, now: float) -> bool:
        """Count the memory held while the call waits for an answer; False: no room."""
        size = sum(map(len, question.params.values()))
        if self._account is None:
            size += sum(map(len, self.request.params.values()))
            self._account = budget.account(self.caller.identity.principal)
        return self._account.take(size, now)

    def release_memory(self) -> None:
        """Give back what `hold_memory` has counted, for good."""
        if self._account is not None:
            self._account.close()

    def start_clock(self) -> trio.CancelScope:
        """A scope for the task that is the clock of the call, until `stop_clock` cancels it."""
        self._clock = trio.CancelScope()
        return self._clock

    def stop_clock(self) -> None:
        """Cancel the clock, if one runs."""
        if self._clock is not None:
            self._clock.cancel()
        self._clock = self._patience = None

    async def wait_for_retry(self) -> None:
        """Wait until the deadline of the round, which `extend_wait` moves, or until `stop_waiting`."""
        with trio.CancelScope(deadline=self.state.deadline) as self._patience:
            await trio.sleep_forever()

    def extend_wait(self) -> None:
        """Wait until the deadline of a new round."""
        assert self._patience is not None, "a parked call has a clock"
        self._patience.deadline = self.state.deadline

    def stop_waiting(self) -> None:
        """Give up waiting for a retry, if anything waits."""
        if self._patience is not None:
            self._patience.cancel()

    # --- the upstream's end: Exchange ---------------------------------------------------------------------------------

    @property
    def caller(self) -> Caller:
        """The caller of the latest attempt."""
        return self.state.caller

    @property
    def wants_progress(self) -> bool:
        return self._exchange is not None and self._exchange.wants_progress

    def progress(self, params: dict[str, Raw]) -> None:
        """Pass progress on; dropped while no request is attached."""
        if self._exchange is not None:
            self._exchange.progress(params)

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on; dropped while no request is attached."""
        if self._exchange is not None:
            self._exchange.log(params)

    async def ask(self, question: Question) -> Reply:
        """Put a question to the host: the request ends with it, and a retry brings the answer."""
        try:
            key = self._keeper.open_question(self, question)
        except QuestionRefusal as refused:
            self.lacking = with_missing(self.lacking, question, self.caller.capabilities)
            return refused.failure
        if not isinstance(key, str):
            return key
        pending = self._pending[key] = Promise()
        try:
            reply = await pending.wait()
        finally:
            del self._pending[key]
            self._keeper.withdraw_question(self, key)
        if question.method == LIST_ROOTS and isinstance(reply, Result):
            self._keeper.remember_roots(self, reply.value)
        return reply

    def answer_questions(self, replies: dict[str, Reply]) -> None:
        """Give the upstream the replies to its questions, by key; those of questions that it withdrew are dropped."""
        for key, reply in replies.items():
            if key in self._pending:
                self._pending[key].fulfil(reply)

    def close(self) -> None:
        """Fail all open questions: the task of the call is over."""
        over = Failure(INVALID_PARAMS, "The call that this question belongs to is over")
        self.answer_questions(dict.fromkeys(self._pending, over))
        self._over.set()
