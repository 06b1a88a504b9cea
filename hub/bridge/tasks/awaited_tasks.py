"""Tasks that the hub waits for on behalf of a host, which sees one long request.

    the extension    the hub polls the task as often as its upstream wants. A legacy host is asked its questions
                     meanwhile; the request of a modern host ends with the questions, and the retry goes on from there
                     by its state
    2025-11-25       `tasks/result` is open all the time: it brings questions of the upstream, and the outcome at once.
                     The hub polls the task as well, since that request may never be answered

The task is cancelled when the wait ends early, for whatever reason. The total time stands still while the host
is asked; the idle time of each request is that of any call.
"""

import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final

import trio
from msgspec import Raw

from hub.bridge.questions_in_results import MAX_ROUNDS, admit, ask_all, capabilities_offered, judge, read_questions
from hub.bridge.tasks import translate_tasks
from hub.bridge.tasks.client import TaskCancelled, TaskClient, TaskGone, is_unknown
from hub.bridge.tasks.translate_tasks import NEEDS_INPUT, TERMINAL, Task, nonsense
from hub.link.call_interface import Caller, Exchange, Interim
from hub.link.hub_errors import DeadlineExceeded, HubError, without_frames
from hub.wire.jsonrpc import Failure, Reply, Result, raw
from hub.wire.mcp import METHOD_NOT_FOUND, TASKS_RESULT, TASKS_UPDATE, Era
from hub.wire.questions.askable_questions import Question

MAX_MISSES: Final = 5
"""Failures in a row of an upstream to describe a task."""
GRACE_S: Final = 1.0
"""Time to wait for the outcome of a task that the upstream has forgotten."""
RESULT_S: Final = 15.0
"""Time to wait for the outcome of an ended task before it is requested again."""
JITTER: Final = 1.1
"""At most so much later than it wants an upstream is asked again, so that not all tasks are looked after at once."""

Show = Callable[[Mapping[str, Question], list[str], int], Interim]
"""Makes the result that asks a modern host. Beside the questions: which keys were answered before, and which round it
is."""


@dataclass(eq=False, repr=False)
class TaskWait:
    """The hub's wait for one task, for the host of `exchange`.

    `task` is what it was at last; None: that is to be found out. `show` puts questions to a modern host by ending its
    request; None: `exchange` can be asked. `answered` are the keys that were, and `round` how often anything was asked.
    """

    client: TaskClient
    task: Task | None
    exchange: Exchange
    show: Show | None
    answered: list[str] = field(default_factory=list)
    round: int = 0
    over: bool = False
    """The upstream has ended the task, or the host knows how to go on: there is nothing to cancel."""

    def __post_init__(self) -> None:
        self._name = self.client.upstream.name
        self._host = _Host(self.exchange, self.client.upstream.config.timeouts.call_total)

    async def wait(self, answers: Mapping[str, Raw] | None = None) -> Reply:
        """Wait for the outcome of the call; or, for a modern host, for questions of the upstream.

        `answers`, to what it wanted to know before, are passed on first. Raises TaskGone, TaskCancelled: as their names
        say; DeadlineExceeded: the total time is over; InputRefused: the host did not give what the upstream cannot go
        on without; UpstreamProtocolError: the upstream answers nonsense; HubError: as `Upstream.call`. Cancellation:
        leaves the task as it is; see `over`."""
        with self._host.scope:
            if answers:
                await self._update(answers)
            return await (self._follow() if self.client.era is Era.MODERN else self._await_result())
        text = f"{self._name} did not end its task in time, and was told to cancel it"
        raise DeadlineExceeded(text, upstream=self._name)

    async def _follow(self) -> Reply:
        if self.task is not None and self.task.status == translate_tasks.WORKING:
            await self._pause()
        while True:
            if (task := await self._look()).status in TERMINAL:
                self._refuse_cancelled(task)
                return translate_tasks.outcome(task, self._name)
            reply = await self._ask(task) if task.status == NEEDS_INPUT else None
            if reply is not None:
                return reply
            await self._pause()

    async def _ask(self, task: Task) -> Reply | None:
        """Have new questions of `task` answered, each key once; not None: the modern host's request ends with this."""
        name = self._name
        found = read_questions(task.members, name, self.client.version)
        questions = {key: question for key, question in found.items() if key not in self.answered}
        if not questions:
            return None
        judge(questions, capabilities_offered(self.client.upstream.config, self.exchange.caller.capabilities), name)
        admit(self.client.upstream, questions)
        self.round += 1
        if self.round > MAX_ROUNDS:
            raise nonsense(name, "a task that asks without end")
        if self.show is not None:
            shown = self.show(questions, self.answered, self.round)
            self.over = True
            return shown
        with self._host.time_stopped():
            answers = await ask_all(questions, self.exchange, self.client.upstream)
        await self._update(answers)
        return None

    async def _update(self, answers: Mapping[str, Raw]) -> None:
        reply = await self.client.request(TASKS_UPDATE, inputResponses=raw(answers))
        if isinstance(reply, Failure):
            unsound = nonsense(self._name, f"an error to answers: {reply.message}")
            raise self._give_up() if is_unknown(reply) else unsound
        self.answered += answers

    async def _await_result(self) -> Reply:
        found: list[Reply | HubError] = []

        async def run(work: Callable[[], Awaitable[Reply]]) -> None:
            try:
                found.append(await work())
            except HubError as error:
                found.append(without_frames(error))
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, self._keep_an_eye)
            nursery.start_soon(run, self._result)
        if isinstance(found[0], HubError):
            raise without_frames(found[0])
        return found[0]

    async def _result(self) -> Reply:
        """Request the outcome, which comes when the task ends. Some servers say at once that there is none."""
        while True:
            try:
                reply = await self.client.request(TASKS_RESULT, self._host)
            except DeadlineExceeded:  # nothing was said for long: whether that is in order `_keep_an_eye` knows
                continue
            if isinstance(reply, Result):
                return await self._conclude(reply)
            if reply.code == METHOD_NOT_FOUND:
                raise nonsense(self._name, "a task without tasks/result")
            if (task := await self._look()).status in TERMINAL:
                self._refuse_cancelled(task)
                return reply
            await self._pause()

    async def _keep_an_eye(self) -> Reply:
        """Poll the task until it ends. Its outcome comes then, or has to be requested again."""
        while True:
            await self._pause()
            try:
                task = await self._look()
            except TaskGone:
                await trio.sleep(GRACE_S)
                raise
            if task.status in TERMINAL:
                await trio.sleep(RESULT_S)
                self._refuse_cancelled(task)
                reply = await self.client.request(TASKS_RESULT)
                return reply if isinstance(reply, Failure) else await self._conclude(reply)

    async def _conclude(self, reply: Result) -> Reply:
        """`reply`, or, if it says nothing because the tool raised, what its task says."""
        self.over = True
        if translate_tasks.has_content(reply):
            return reply
        found = await self.client.poll()
        return (
            translate_tasks.message_result(found)
            if isinstance(found, Task) and found.status == translate_tasks.FAILED
            else reply
        )

    async def _look(self) -> Task:
        """Poll the task, and report its progress to the host. Raises HubError."""
        misses = 0
        while True:
            try:
                found = await self.client.poll()
            except HubError as error:
                misses += 1
                if not error.retryable or misses > MAX_MISSES:
                    raise
            else:
                if isinstance(found, Task):
                    break
                misses += 1
                if is_unknown(found):
                    raise self._give_up()
                if misses > MAX_MISSES:
                    raise nonsense(self._name, f"an error to tasks/get: {found.message}")
            await self._pause()
        self.task = found
        self.over = found.status in TERMINAL
        self._host.report(found.message)
        return found

    async def _pause(self) -> None:
        least = self.task.poll_s if self.task is not None else 0.0
        await trio.sleep(least * random.uniform(1.0, JITTER))

    def _give_up(self) -> TaskGone:
        self.over = True
        name = self._name
        text = f"{name} knows nothing any more of the task that this call began: it has expired"
        return TaskGone(f"{text}, or {name} was restarted. Whether it acted is unknown.", upstream=name)

    def _refuse_cancelled(self, task: Task) -> None:
        if task.status == translate_tasks.CANCELLED:
            why = f": {task.message}" if task.message else ""
            raise TaskCancelled(f"The task of this call was cancelled at {self._name}{why}", upstream=self._name)


class _Host:
    """The host of an absorbed task. Satisfies `Exchange`; keeps the total time, and makes progress of what a task says.

    Progress that the upstream reports itself is better: once there is any, there is no other.
    """

    def __init__(self, exchange: Exchange, total_s: float) -> None:
        self.scope = trio.CancelScope(deadline=trio.current_time() + total_s)
        self._exchange = exchange
        self._open = 0
        self._left_s = 0.0
        self._said: str | None = None
        self._steps = 0
        self._hears_itself = False

    @property
    def caller(self) -> Caller:
        return self._exchange.caller

    @property
    def wants_progress(self) -> bool:
        return self._exchange.wants_progress

    def progress(self, params: dict[str, Raw]) -> None:
        """Pass progress on. Once the upstream reports its own, messages of the task are not reported."""
        self._hears_itself = True
        self._exchange.progress(params)

    def note_sent(self) -> None:
        self._exchange.note_sent()

    def log(self, params: dict[str, Raw]) -> None:
        """Pass a log message on."""
        self._exchange.log(params)

    async def ask(self, question: Question) -> Reply:
        """Ask the host; meanwhile the total time stands still."""
        with self.time_stopped():
            return await self._exchange.ask(question)

    @contextmanager
    def time_stopped(self) -> Iterator[None]:
        """Stop the total time while a person thinks."""
        self._open += 1
        if self._open == 1:
            self._left_s = self.scope.deadline - trio.current_time()
            self.scope.deadline = inf
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self.scope.deadline = trio.current_time() + self._left_s

    def report(self, message: str | None) -> None:
        """Report the message of a task as progress."""
        if message and message != self._said and self.wants_progress and not self._hears_itself:
            self._said = message
            self._steps += 1
            self._exchange.progress({"progress": raw(self._steps), "message": raw(message)})
