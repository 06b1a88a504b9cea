"""Questions of a legacy task, for a modern host that polls.

A legacy upstream asks by requests of its own, but only while a `tasks/result` is open. So the hub holds one open,
collects what comes, shows it with the next look at the task, and gives the upstream what `tasks/update` brings. A key
is never used twice, whatever becomes of the request behind it.
"""

import logging
import secrets
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Raw

from hub.bridge.questions_in_results import MAX_OPEN, PendingQuestion, input_request
from hub.bridge.tasks.client import SilentExchange, TaskClient
from hub.link.call_interface import Caller
from hub.link.hub_errors import HubError
from hub.wire import mcp
from hub.wire.jsonrpc import Reply
from hub.wire.questions.askable_questions import Question, QuestionRefusal, reply_without_answer

log = logging.getLogger(__name__)


FIRST_S: Final = 0.5
"""Time that a look at a task waits for the first question, once the upstream wants input."""


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
