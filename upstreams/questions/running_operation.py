"""Running operation of a session: its host, its deadlines, its open questions; and the progress tokens of legacy tasks.

The token of a call that began a task is valid until the task is over, though the call has long been answered. So
progress under it belongs to whoever waits for the outcome of the task: the running `tasks/result`, if there is one.
"""

from math import inf
from typing import Final, Protocol

import trio

from hub.link.interface import Exchange, Operation
from hub.link.recent import Recent
from hub.wire.jsonrpc import Reply, Result, peek_object, peek_str
from hub.wire.mcp import TASKS_RESULT
from upstreams.session import CallTimeouts

MAX_TASKS: Final = 1_024


class AnsweringScope(Protocol):
    """An open question."""

    scope: trio.CancelScope
    """The scope of its answering: cancelled when nobody wants the answer any more."""


class Running:
    """One operation, from when it is sent to when it ends. `with running.scope:` is its deadline.

    Both times, idle and total, stand still while a question of the operation is open, since people take their time.
    """

    __slots__ = ("_idle_s", "_paused_at", "_until", "exchange", "operation", "questions", "scope")

    def __init__(
        self, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, now: float | None = None
    ) -> None:
        now = trio.current_time() if now is None else now
        self.operation = operation
        self.exchange = exchange
        self.questions: dict[AnsweringScope, None] | None = None
        """Open questions; None as well, if there never was one."""
        self._idle_s = timeouts.idle_s
        self._until = now + timeouts.total_s
        self.scope = trio.CancelScope(deadline=min(now + timeouts.idle_s, self._until))

    def touch(self) -> None:
        """A message for the operation came: the idle time starts anew."""
        if not self.questions:
            self.scope.deadline = min(trio.current_time() + self._idle_s, self._until)

    def asked(self, question: AnsweringScope) -> None:
        """The upstream waits for the answer to `question`."""
        if self.questions is None:
            self.questions = {}
        if not self.questions:
            self._paused_at = trio.current_time()
            self.scope.deadline = inf
        self.questions[question] = None

    def settled(self, question: AnsweringScope) -> None:
        """The upstream waits for that answer no more."""
        if self.questions is None or question not in self.questions:
            return
        del self.questions[question]
        if not self.questions:
            self._until += trio.current_time() - self._paused_at
            self.touch()

    def withdraw(self) -> None:
        """Withdraw the open questions: the operation is over."""
        for question in self.questions or ():
            question.scope.cancel()


class TaskTokens:
    """Task tokens of one session; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tokens: Recent[str, int] = Recent(MAX_TASKS)
        """By the upstream's id of the task."""
        self._waiting: dict[int, Running] = {}

    def __repr__(self) -> str:
        return f"<TaskTokens [{len(self._tokens)} known, {len(self._waiting)} waiting]>"

    def began(self, reply: Reply, token: int) -> None:
        """A call that was to begin a task, and had `token`, was answered."""
        task = peek_object(reply.value).get("task") if isinstance(reply, Result) else None
        id = peek_str(peek_object(task).get("taskId"))
        if id is not None:
            self._tokens.put(id, token)

    def wait(self, running: Running) -> None:
        """`running` waits for the outcome of a task, until `leave`."""
        token = self._tokens.get(_task_of(running.operation))
        if token is not None:
            self._waiting[token] = running

    def leave(self, running: Running) -> None:
        """`running` waits no more."""
        self._waiting = {token: each for token, each in self._waiting.items() if each is not running}

    def find(self, token: int | None) -> Running | None:
        """The operation that progress under `token` belongs to."""
        return None if token is None else self._waiting.get(token)


def _task_of(operation: Operation) -> str:
    return (peek_str(operation.params.get("taskId")) or "") if operation.method == TASKS_RESULT else ""
