"""Client of tasks: requests to an upstream about a task that runs there, and what a legacy one asks meanwhile.

Every request goes the way of the call that began the task, and reports no progress, since it is no operation of a host.
A legacy task is known only in the session it was begun in, so requests about it name that session.

A legacy upstream asks by requests of its own, but only while a `tasks/result` is open. So for a modern host that polls
the hub holds one open, collects what comes, shows it with the next look at the task, and gives the upstream what
`tasks/update` brings. A key is never used twice, whatever becomes of the request behind it.
"""

import logging
import secrets
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Raw, Struct

from hub.bridge.input_rounds import MAX_OPEN, PendingQuestion, input_request
from hub.bridge.tasks.translate_tasks import Task, read_task
from hub.link.call_interface import Call, Caller, Exchange, Operation, Upstream
from hub.link.hub_errors import HubError
from hub.wire import mcp
from hub.wire.jsonrpc import Failure, Reply, peek_object, raw
from hub.wire.mcp import Era, era_of
from hub.wire.questions.askable_questions import Question, QuestionRefusal, reply_without_answer

log = logging.getLogger(__name__)

TTL_S: Final = 3600.0
"""Longest time that a session is kept for a task; also used if the upstream names none."""
FIRST_S: Final = 0.5
"""Time that a look at a task waits for the first question, once the upstream wants input."""


class TaskGone(HubError):
    """The upstream has forgotten the task; the outcome of the call is unknown."""

    kind = "task_lost"


class TaskCancelled(HubError):
    """The task was cancelled, though not by the host."""

    kind = "task_cancelled"


class SilentExchange:
    """The host's end of a request about a task. Satisfies `Exchange`.

    `exchange` None: there is no request of the host to log to.
    """

    wants_progress = False

    def __init__(self, caller: Caller, exchange: Exchange | None = None) -> None:
        self.caller = caller
        self._exchange = exchange

    def progress(self, params: dict[str, Raw]) -> None:
        """Drop progress: it is not that of the host's request."""

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on to the host's request, if there is one."""
        if self._exchange is not None:
            self._exchange.log(params)

    def note_sent(self) -> None:
        """Nobody wants to know: the call that began the task was sent."""

    async def ask(self, question: Question) -> Reply:
        """Refuse the question: such a request cannot ask."""
        return Failure(mcp.METHOD_NOT_FOUND, f"This request does not answer {question.method}")


class TaskClient(Struct, frozen=True):
    """One task of `upstream`, called `id` there, which was begun under the revision `version`, and a legacy one in
    `session`. Requests about it are sent by `call`, and go by `exchange`.

    Every method raises `HubError` as `Upstream.call` does. Cancellation: of the request, never of the task.
    """

    upstream: Upstream
    id: str
    version: str
    exchange: Exchange
    call: Call
    session: str = ""

    @property
    def era(self) -> Era:
        """Era of the task."""
        return era_of(self.version)

    async def poll(self) -> Task | Failure:
        """Get the task. An upstream may refuse; `is_unknown` tells whether for good. Raises UpstreamProtocolError: it
        answers with something else."""
        if isinstance(reply := await self.request(mcp.TASKS_GET), Failure):
            return reply
        task = read_task(peek_object(reply.value), self.version, self.upstream.name)
        self.keep_session(task)
        return task

    def keep_session(self, task: Task) -> None:
        """Keep the session of the task for as long as the task may last."""
        self.upstream.expect(self.session, self.exchange.caller, min(task.ttl_s or TTL_S, TTL_S))

    async def request(self, method: str, exchange: Exchange | None = None, **params: Raw) -> Reply:
        """Ask for something about the task: to cancel it, to take answers (`inputResponses`), for the result of a
        legacy one. Questions of the upstream meanwhile go to `exchange`."""
        operation = Operation(method, {"taskId": raw(self.id), **params}, session=self.session)
        return await self.call(operation, exchange or self.exchange)


def is_unknown(failure: Failure) -> bool:
    """True if an upstream says that there is no such task."""
    return failure.code == mcp.INVALID_PARAMS


class TaskQuestions(SilentExchange):
    """The questions of one task, and the exchange for the request that brings them.

    `caller` is that of the latest look, `ttl_s` how long each question waits.
    """

    def __init__(self, caller: Caller, ttl_s: float) -> None:
        super().__init__(caller)
        self.over = False
        """The request that brought them is over, and so are they."""
        self._ttl_s = ttl_s
        self._open: dict[str, PendingQuestion] = {}
        self._news = trio.Event()

    async def run(self, client: TaskClient) -> None:
        """Hold the request open until the upstream ends it. Cancellation: the questions are void."""
        try:
            await client.request(mcp.TASKS_RESULT, self)
        except HubError as error:
            log.info("%s asks no more about a task: %s", client.upstream.name, error)
        finally:
            self.over = True
            self._news.set()

    async def ask(self, question: Question) -> Reply:
        """Open a question, and wait until the host answers it with a look at the task."""
        try:
            asked = PendingQuestion(question, input_request(question, self.caller.version, self.caller.capabilities))
            if len(self._open) >= MAX_OPEN:
                raise QuestionRefusal("This task has asked too many questions")
        except QuestionRefusal as refused:
            return refused.failure
        key = f"q-{secrets.token_urlsafe(6)}"
        self._open[key] = asked
        self._news.set()
        try:
            with trio.move_on_after(self._ttl_s):
                return await asked.reply.wait()
            return reply_without_answer(question, "Nobody answered")
        finally:
            self._open.pop(key, None)

    async def requests(self) -> dict[str, Raw]:
        """Open questions for the host, by key; waits a moment for the first."""
        if not self._open and not self.over:
            self._news = trio.Event()
            with trio.move_on_after(FIRST_S):
                await self._news.wait()
        return {key: each.request for key, each in self._open.items() if not each.reply.is_fulfilled}

    def update(self, answers: Mapping[str, Raw]) -> None:
        """Give the upstream its answers. Answers to no open question are ignored. Raises RemoteProtocolError: one is
        none to its question. Nothing has changed."""
        waiting = {key: asked for key, asked in self._open.items() if not asked.reply.is_fulfilled}  # the first counts
        replies = {key: waiting[key].read(answers[key], self.caller.version) for key in answers.keys() & waiting.keys()}
        for key, reply in replies.items():
            waiting[key].reply.fulfil(reply)
