"""Client of tasks: requests to an upstream about a task that runs there.

Every request goes the way of the call that began the task, and reports no progress, since it is no operation of a host.
A legacy task is known only in the session it was begun in, so requests about it name that session.
"""

from typing import Final

from msgspec import Raw, Struct

from hub.bridge.tasks.translate_tasks import Task, read_task
from hub.link.call_interface import Call, Caller, Exchange, Operation, Upstream
from hub.link.hub_errors import HubError
from hub.wire import mcp
from hub.wire.jsonrpc import Failure, Reply, peek_object, raw
from hub.wire.mcp import Era, era_of
from hub.wire.questions.askable_questions import Question

TTL_S: Final = 3600.0
"""Longest time that a session is kept for a task; also used if the upstream names none."""


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
