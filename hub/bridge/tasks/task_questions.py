"""Questions of a legacy upstream during a task that a modern host polls.

The upstream asks by requests of its own, but only while a `tasks/result` is open. So the hub holds one open, collects
what comes, shows it with the next look at the task, and gives the upstream what `tasks/update` brings. A key is never
used twice, whatever becomes of the request behind it.
"""

import logging
import secrets
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Raw, Struct, field

from hub.bridge.input_requests import input_request
from hub.bridge.tasks.client import TaskClient
from hub.link.hub_errors import HubError
from hub.link.interface import Caller
from hub.link.waiting import Promise
from hub.wire.jsonrpc import Failure, Reply, Result
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.questions.question import Question, QuestionRefusal, answer_for_upstream, reply_without_answer

log = logging.getLogger(__name__)

FIRST_S: Final = 0.5
"""Time that a look at a task waits for the first question, once the upstream wants input."""
MAX_OPEN: Final = 32
"""Questions of one task that wait for answers."""


class _Open(Struct, frozen=True):
    """An open question, and how it is put to the host."""

    question: Question
    request: Raw
    reply: Promise[Reply] = field(default_factory=Promise)


class TaskQuestions:
    """The questions of one task. Satisfies `Exchange`, for the request that brings them.

    `caller` is that of the latest look, `ttl_s` how long each question waits.
    """

    wants_progress = False

    def __init__(self, caller: Caller, ttl_s: float) -> None:
        self.caller = caller
        self.over = False
        """The request that brought them is over, and so are they."""
        self._ttl_s = ttl_s
        self._open: dict[str, _Open] = {}
        self._news = trio.Event()

    def __repr__(self) -> str:
        return f"<TaskQuestions{', over' if self.over else ''} [{len(self._open)} open]>"

    async def run(self, client: TaskClient) -> None:
        """Hold the request open until the upstream ends it. Cancellation: the questions are void."""
        try:
            await client.result(self)
        except HubError as error:
            log.info("%s asks no more about a task: %s", client.upstream.name, error)
        finally:
            self.over = True
            self._news.set()

    # --- the upstream's end: Exchange ---------------------------------------------------------------------------------

    def progress(self, params: dict[str, Raw]) -> None:
        """Drop progress: tasks have none."""

    def log(self, params: dict[str, Raw]) -> None:
        """Drop the message: tasks have no log."""

    async def ask(self, question: Question) -> Reply:
        """Open a question, and wait until the host answers it with a look at the task."""
        try:
            asked = _Open(question, input_request(question, self.caller.version, self.caller.capabilities))
            if len(self._open) >= MAX_OPEN:
                raise QuestionRefusal(INVALID_PARAMS, "This task has asked too many questions")
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

    # --- the host's end -----------------------------------------------------------------------------------------------

    async def requests(self) -> dict[str, Raw]:
        """Open questions, by key; waits a moment for the first."""
        if not self._open and not self.over:
            self._news = trio.Event()
            with trio.move_on_after(FIRST_S):
                await self._news.wait()
        return {key: each.request for key, each in self._open.items() if not each.reply.is_fulfilled}

    def update(self, answers: Mapping[str, Raw]) -> None:
        """Give the upstream its answers. Answers to no open question are ignored.

        Raises:
            RemoteProtocolError: one is none to its question. Nothing has changed.
        """
        waiting = {key for key, asked in self._open.items() if not asked.reply.is_fulfilled}  # the first answer counts
        replies = {key: self._reply(self._open[key], answers[key]) for key in answers.keys() & waiting}
        for key, reply in replies.items():
            self._open[key].reply.fulfil(reply)

    def _reply(self, asked: _Open, answer: Raw) -> Reply:
        try:
            return Result(answer_for_upstream(asked.question, answer, self.caller.version))
        except QuestionRefusal as refused:
            return Failure(refused.failure.code, refused.failure.message)
