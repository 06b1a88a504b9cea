"""Progress tokens of legacy tasks: the token of the call that began a task is valid until the task is over.

The call itself has long been answered. So progress under its token belongs to whoever waits for the outcome of the
task: the running `tasks/result`, if there is one.
"""

from typing import Final

from hub.link.interface import Operation
from hub.link.recent import Recent
from hub.wire.jsonrpc import Reply, Result, peek_object, peek_str
from hub.wire.mcp import TASKS_RESULT
from upstreams.questions.running_operation import Running

MAX_TASKS: Final = 1_024


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
