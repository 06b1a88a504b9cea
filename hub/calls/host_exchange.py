"""The host's end of an operation: progress and logs find their way back to exactly the request that caused them.

A `HostExchange` is made by the carrier that received the request (HTTP endpoint, line connection) and handed down.
It knows how to address its host; it does not know by which transport: `send` is given.

Questions from upstreams (sampling, elicitation, roots) come here too, and go to the `AskableHost` of the request, if
its host can be asked while it waits; else they are refused, so that upstreams go on without.
"""

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from time import perf_counter
from typing import Any, Final, Protocol

import trio
from msgspec import Raw, structs

from hub.calls.count_dropped_messages import DROPPED
from hub.catalog.endpoint_views import EVERYTHING, View
from hub.link.call_interface import Caller, HearQuestion, RunningCall
from hub.link.rate_limits import TokenBucket
from hub.net.http_request import Ends
from hub.wire import mcp
from hub.wire.jsonrpc import Failure, Reply, encode_notification, peek_object, peek_str, raw
from hub.wire.mcp import Era
from hub.wire.modern_metadata import read_number, slightly_above
from hub.wire.questions.askable_questions import Missing, Question, with_missing

PROGRESS_PER_S: Final = 10.0
"""Progress messages per request and second; as many at once after a pause."""
RELEASE_S: Final = 0.5
"""Seconds for which progress may be held back."""
STILL_RUNNING: Final = Raw(b'"the call is still running, says hubd"')
MAX_UNTOLD: Final = 2_048
"""Notifications that may wait for one host or stream: twice the number of resources that it may watch."""


class Send(Protocol):
    """Sends a whole encoded message on the stream that answers a request. Never blocks and never raises."""

    def __call__(self, message: bytes, *, vital: bool = False) -> bool | None:
        """`vital`: not to be dropped, however slowly the host reads; else it may be. False: it was."""


def tell_nobody(message: bytes, *, vital: bool = False) -> None:
    """A `Send` for work of the hub's own, of which no host hears."""


def refuse_none(question: Question) -> Failure | None:
    """All answers may go to the upstream."""
    return None


class HostSession(Protocol):
    """A host that can be sent notifications of no request: `hub.downstream.host_conversations.Host` is one."""

    def tell(self, subject: str, message: bytes) -> None:
        """Send a notification. Never blocks; an undelivered one of `subject` is replaced."""

    def log(self, params: dict[str, Raw]) -> None:
        """Pass on a log message that belongs to none of its requests, if it wants that level now. Never blocks."""

    def watches(self, uri: str, *, on: bool) -> None:
        """Note that it has subscribed to a resource, or unsubscribed."""

    async def ask(self, question: Question, send: Send) -> Reply:
        """Put a question to the host on the stream of `send`; the answer, written for the upstream."""


class AskableHost(Protocol):
    """A host that can be asked things during a request: one of a legacy session."""

    @property
    def session(self) -> HostSession:
        """The session."""

    async def ask(self, question: Question, send: Send) -> Reply:
        """Put `question` on the stream of `send`; the answer, checked and written for the upstream.

        Cancellation: withdraws it.
        """

    def withdraw(self, send: Send) -> None:
        """The request of `send` is over: withdraw questions that are still open on it."""


class RunnablePassage(RunningCall, Protocol):
    """An operation that waits for a task: `hub.routing.run_chain.Passage` is one."""

    async def run(self) -> Reply:
        """Carry it out. Raises HubError: there is no answer."""


class HostExchange:
    """One running request of one host. Satisfies `hub.link.call_interface.Exchange`.

    `send` is the stream that answers this request, `host` whom to ask on it; None: a modern one, which is asked by
    results, or nobody. `view` is what the host is shown when its turn comes, `named` the profile that its endpoint
    names, if it names one. `headers`: those of HTTP; `find_ends` finds the ends of the connection.
    """

    __slots__ = (
        "_allowed",
        "_has_asked",
        "_held",
        "_last_progress",
        "_refuse_answer",
        "_session",
        "_token",
        "answered_at",
        "caller",
        "find_ends",
        "headers",
        "hear_question",
        "host",
        "is_cached",
        "is_operation",
        "lacking",
        "named",
        "passage",
        "place",
        "ref",
        "reported_at",
        "send",
        "sent_at",
        "view",
        "wants_progress",
    )
    is_step = False

    def __init__(
        self,
        caller: Caller,
        send: Send,
        progress_token: Raw | None = None,
        view: View = EVERYTHING,
        host: AskableHost | None = None,
        named: str = "",
        headers: Mapping[str, str] = {},
        find_ends: Callable[[], Ends | None] = lambda: None,
    ) -> None:
        self.caller = caller
        self.headers = headers
        self.find_ends = find_ends
        self.named = named
        self.view = view
        self.send = send
        self.host = host
        self.passage: RunnablePassage | None = None
        """The way of its operation, as far as it has come without a task."""
        self.is_cached = False
        """It was answered from memory."""
        self.ref = ""
        """Its operation, as people and records write its number, once more than a plain answer may be needed."""
        self.sent_at = self.answered_at = 0.0
        """The times at which its first message went to an upstream, and at which that first said something about it, by
        `time.perf_counter`; 0: not yet."""
        self.place: Any = None
        """Where its operation is counted, as `hub.telemetry.tally` has it; None: it has none."""
        self.is_operation = False
        """It asks for something that there is, and passes stages, one of which makes a record of it."""
        self.lacking: Missing | None = None
        """Capabilities that questions needed, and that a modern host did not declare; None: there were none."""
        self._refuse_answer: Callable[[Question], Failure | None] = refuse_none
        self._token = progress_token
        self.wants_progress = progress_token is not None
        """The host asked for it."""
        self._last_progress = float("-inf")
        self._held: dict[str, Raw] | None = None
        self._allowed = TokenBucket(PROGRESS_PER_S, PROGRESS_PER_S) if progress_token is not None else None
        self.reported_at = 0.0
        self._has_asked = False
        self.hear_question: HearQuestion | None = None
        self._session: HostSession | None = None
        """Session of the host, once the request is over."""

    @property
    def profile(self) -> str:
        """The profile of its host; "": none."""
        return self.view.profile

    @property
    def is_inserted(self) -> bool:
        """True if its result is not for its host, but for what another call of it sends."""
        return False

    def wait_for_tasks(self) -> None:
        """Have the host wait for a result that comes later, though it knows tasks."""
        extensions = peek_object(self.caller.capabilities.get("extensions"))
        if extensions.pop(mcp.TASKS_EXTENSION, None) is not None:
            capabilities = {**self.caller.capabilities, "extensions": raw(extensions)}
            self.caller = structs.replace(self.caller, capabilities=capabilities)

    def judge_answers(self, refuse_answer: Callable[[Question], Failure | None]) -> None:
        """Let the upstream have those answers of the host only that `refuse_answer` gives no refusal for."""
        self._refuse_answer = refuse_answer

    def progress(self, params: dict[str, Raw]) -> None:
        """Pass progress on under the host's own token, if it rises.

        Beyond `PROGRESS_PER_S` only the newest is kept: it goes out when its time has come, or with `send_held`.
        """
        if self._allowed is None:
            return
        value = read_number(params.get("progress"))
        if value is None or value <= self._last_progress:
            return
        self._last_progress = value
        self._held = params
        self.answered_at = self.answered_at or perf_counter()
        if self._allowed.take(trio.current_time()):
            self.send_held()

    def send_held(self) -> None:
        """Let go of held progress: its time has come, or the operation is about to be answered."""
        if self._held is not None and self._token is not None:
            told = self.send(encode_notification(mcp.PROGRESS, {mcp.PROGRESS_TOKEN: self._token, **self._held}))
            if told is False:
                DROPPED["progress"] += 1
            self.reported_at = trio.current_time()
        self.drop_held()

    def drop_held(self) -> None:
        """Drop held progress: nothing may follow an answer or a cancellation."""
        self._held = None

    def defer(self, passage: RunnablePassage | None) -> None:
        """Keep the way of the operation for the task that goes on with it, or no more. `close` cancels it."""
        self.passage = passage

    def note_sent(self) -> None:
        if not self.answered_at:
            self.sent_at = perf_counter()

    def note_cached(self) -> None:
        """The request is answered from memory."""
        self.is_cached = True

    def note_ref(self, ref: str) -> None:
        """The request is carried out as this operation; a failure tells it to the host."""
        self.ref = ref

    def note_unrecorded(self) -> None:
        """None of the stages that the request passed makes a record of it."""
        self.is_operation = False

    def follow_questions(self, hear: HearQuestion | None) -> None:
        """Tell `hear` of questions that its host was asked; None: nobody."""
        self.hear_question = hear

    def close(self) -> None:
        """The request is about to be answered, or was cancelled: nothing can be asked on its stream any more."""
        if (passage := self.passage) is not None:  # cancelled before its turn came
            self.passage = None
            passage.cancel()
        if self.host is not None:
            if self._has_asked:
                self.host.withdraw(self._say)
            self._session = self.host.session
            self.host = None

    def report_running(self, latest: float) -> None:
        """Report that the request is still running, unless there was progress after the time `latest`.

        The value hardly rises, so that what the upstream reports later still does.
        """
        if self._held is None and self.reported_at <= latest:
            self.progress({"progress": raw(slightly_above(self._last_progress)), "message": STILL_RUNNING})

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on, if the host wants its level; when the request is over, as one that belongs to none."""
        if self._session is not None:
            self._session.log(params)
        elif not wants_log(self.caller.log_level, peek_str(params.get("level"))):
            return
        elif self.send(encode_notification(mcp.MESSAGE, params)) is False:
            DROPPED["log"] += 1

    async def ask(self, question: Question) -> Reply:
        """Put a question to the host, if it can be asked; when the request is over, for its roots only."""
        if (host := self.host) is not None:
            self._has_asked = True
            return await self.pass_on(question, lambda asked: host.ask(asked, self._say))
        if self._session is None:
            if self.caller.era is Era.MODERN:
                self.lacking = with_missing(self.lacking, question, self.caller.capabilities)
            text = f"The tool asked a question, and this caller cannot answer ({question.method})"
            return Failure(mcp.METHOD_NOT_FOUND, text)
        if question.method != mcp.LIST_ROOTS:  # for those it may be asked at any time
            return Failure(mcp.INVALID_PARAMS, f"The call that this {question.method} belongs to is over")
        return await self._session.ask(question, self._tell)

    async def pass_on(self, question: Question, ask: Callable[[Question], Awaitable[Reply]]) -> Reply:
        """Put a question by `ask`, as far as answers may go to the upstream; whoever follows questions is told."""
        began, reply = perf_counter(), None
        self.answered_at = self.answered_at or began
        try:
            reply = self._refuse_answer(question) or await ask(question)
            reply = self._refuse_answer(question) or reply
            return reply
        finally:
            if self.hear_question is not None:
                self.hear_question(question, perf_counter() - began, reply)

    def _say(self, message: bytes, *, vital: bool = False) -> bool | None:
        """A `send` unique to this request, so that questions can be withdrawn by it."""
        return self.send(message, vital=vital)

    def _tell(self, message: bytes, *, vital: bool = False) -> None:
        """Send a message that belongs to no request any more. Each is its own subject: nothing replaces it."""
        if self._session is not None:
            self._session.tell(message.decode(), message)


def keep_untold(untold: dict[str, bytes], subject: str, message: bytes) -> None:
    """Keep a notification that could not be sent yet, in place of one of the same subject.

    The oldest of too many is dropped, but none that says that a list changed.
    """
    untold[subject] = message
    if len(untold) > MAX_UNTOLD:
        del untold[next(each for each in untold if each not in mcp.LIST_CHANGED)]


class ProgressUpkeep:
    """Progress of all running requests of a hub whose hosts asked for it. Its tasks sleep while there are none.

    A host hears that its request is still running when there was no progress for `remind_s` seconds; 0: never.
    """

    def __init__(self, remind_s: float) -> None:
        self._remind_s = remind_s
        self._running: set[HostExchange] = set()
        self._any = trio.Event()
        self._pause = trio.CancelScope()

    def __len__(self) -> int:
        return len(self._running)

    def adjust(self, remind_s: float) -> None:
        """Take over another setting."""
        if remind_s != self._remind_s:
            self._remind_s = remind_s
            self._pause.cancel()

    def add(self, exchange: HostExchange) -> None:
        """A request is running whose host wants progress. `remove` must follow."""
        exchange.reported_at = trio.current_time()  # silence counts from now on
        self._running.add(exchange)
        self._any.set()

    def remove(self, exchange: HostExchange, *, is_answered: bool = False) -> None:
        """A request has ended. `is_answered`: by a reply, which held progress precedes."""
        exchange.send_held() if is_answered else exchange.drop_held()
        self._running.discard(exchange)
        if not self._running:
            self._any = trio.Event()

    async def send_held(self) -> None:
        """Send held progress once its time has come, for ever; one task for all requests."""
        while True:
            await self._any.wait()
            await trio.sleep(RELEASE_S)
            for exchange in list(self._running):
                exchange.send_held()

    async def report_running(self) -> None:
        """Tell hosts of silent requests that these are still running, for ever; one task for all requests."""
        while True:
            await self._any.wait()
            with trio.CancelScope() as self._pause:
                await trio.sleep(self._remind_s / 10 or inf)
                latest = trio.current_time() - self._remind_s
                for exchange in list(self._running):
                    exchange.report_running(latest)


def wants_log(wanted: str | None, level: str | None) -> bool:
    """True if a message of `level` passes a host's minimum; a host without one gets none."""
    if wanted not in mcp.LOG_LEVELS or level not in mcp.LOG_LEVELS:
        return False
    return mcp.LOG_LEVELS.index(level) >= mcp.LOG_LEVELS.index(wanted)
