"""A parked call: one call of a modern host to a legacy upstream, which may outlive its request (`phases`, `parking`).

It has two ends. The upstream sees an `Exchange` that lasts as long as the call, whichever request is attached. The
requests of the host, one after the other, wait for the outcome or for a round of questions.
"""

from typing import Protocol

import trio
from msgspec import Raw

from hub.bridge.known_roots import KnownRoots
from hub.bridge.parking.phases import ParkedState
from hub.bridge.request_state import Binding
from hub.link.budget import Account
from hub.link.interface import Caller, Exchange
from hub.link.peer import UPSTREAM_CANCEL_S, last_words
from hub.wire.jsonrpc import Failure, Reply, Request
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.questions.question import Question, QuestionRefusal


class Keeper(Protocol):
    """The part of `ParkedCalls` that a call needs."""

    def open(self, call: "ParkedCall", question: Question) -> str | Reply:
        """Let `call` ask: the key of the question, or the reply where that is known already.

        Raises:
            QuestionRefusal: it may not, or its host cannot be asked that.
        """
        ...

    def withdraw(self, call: "ParkedCall", key: str) -> None:
        """Withdraw the question `key`: the upstream waits for it no longer."""
        ...

    def abandon(self, call: "ParkedCall") -> None:
        """Cancel the call: its attached request was cancelled."""
        ...


class _Waiting:
    """A question and its reply, once there is one."""

    __slots__ = ("question", "reply", "settled")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.settled = trio.Event()
        self.reply: Reply | None = None


class ParkedCall:
    """A running call. Satisfies `hub.link.interface.Exchange`."""

    __slots__ = (
        "_answered",
        "_exchange",
        "_keeper",
        "_outcome",
        "_over",
        "_waiting",
        "account",
        "binding",
        "clock",
        "id",
        "patience",
        "request",
        "roots",
        "scope",
        "state",
        "upstream",
    )

    def __init__(self, keeper: Keeper, exchange: Exchange, request: Request, upstream: str, state: ParkedState) -> None:
        self._keeper = keeper
        self._waiting: dict[str, _Waiting] = {}
        self._over = trio.Event()
        self.account: Account | None = None
        """Account of the memory held while the call waits; None before its first question."""
        self.state = state
        self.request = request
        self.upstream = upstream
        self.id = ""
        """Id in its request states; "" before its first question."""
        self.binding: Binding | None = None
        """Binding of its request states; None before its first question."""
        self.roots: KnownRoots | None = None
        """Roots that its host told during the call; None: none, or roots known beyond the call."""
        self.scope = trio.CancelScope()
        """Cancels its task."""
        self.clock: trio.CancelScope | None = None
        """Cancels its clock, which runs from the first question until a retry is attached; None: no clock."""
        self.patience: trio.CancelScope | None = None
        """Ends a park: at its deadline, or by being cancelled."""
        self.attach(exchange)

    def __repr__(self) -> str:
        return f"<ParkedCall {self.request.method} of {self.upstream}: {self.state!r}>"

    # --- the host's end -----------------------------------------------------------------------------------------------

    def attach(self, exchange: Exchange) -> None:
        """Let a request wait for what comes next."""
        self._exchange: Exchange | None = exchange
        self._answered = trio.Event()
        self._outcome: Reply | Exception | None = None

    def tell(self, outcome: Reply | Exception) -> None:
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
        """Return, or raise, what `tell` was given."""
        outcome = self._outcome
        assert outcome is not None, "nobody looks before there is an outcome"
        if isinstance(outcome, Exception):
            self._outcome = None
            try:
                raise outcome
            finally:
                del outcome  # or it and this frame would hold each other
        return outcome

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
            key = self._keeper.open(self, question)
        except QuestionRefusal as refused:
            return refused.failure
        if not isinstance(key, str):
            return key
        waiting = self._waiting[key] = _Waiting(question)
        try:
            await waiting.settled.wait()
        finally:
            del self._waiting[key]
            self._keeper.withdraw(self, key)
        assert waiting.reply is not None, "nobody is woken without a reply"
        return waiting.reply

    def settle(self, replies: dict[str, Reply]) -> dict[str, Question]:
        """Give the upstream the replies to its questions; the questions answered, by key."""
        found = {key: self._waiting[key] for key in replies if key in self._waiting}
        for key, waiting in found.items():
            waiting.reply = replies[key]
            waiting.settled.set()
        return {key: waiting.question for key, waiting in found.items()}

    def close(self) -> None:
        """Fail all open questions: the task of the call is over."""
        over = Failure(INVALID_PARAMS, "The call that this question belongs to is over")
        self.settle({key: over for key, waiting in self._waiting.items() if waiting.reply is None})
        self._over.set()
