"""Attribution: which call a question belongs to that came on a stream shared by all calls of a session.

A question belongs to an operation that was sent before it came and still runs. The operation is certain if the question
names its task, or if one host has the session alone: then any operation of that host will do, since the answer finds
the question anyway. Else nobody but one host may be meant: no operation of another host runs, whatever its kind, and
none of another program ended only lately (`RecentCalls`). Otherwise the question is refused and no
host sees any of it.

So two windows of one program are two hosts while calls of both run, and the window whose call runs is taken to be meant
once that of the other is over: the person is the same, and upstreams ask during a call. All requests of a modern
program over HTTP are one host.

What comes on the stream of one request, over HTTP, needs none of this: it belongs to that request.
"""

from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Final

from msgspec import Raw

from hub.link.bounded_dict import BoundedDict
from hub.link.call_interface import Identity, Operation, Program, Tenant
from hub.wire.jsonrpc import Reply, Result, peek_object, peek_str
from hub.wire.mcp import MAY_ASK, RELATED_TASK_KEY, TASKS_CANCEL, TASKS_RESULT
from hub.wire.modern_metadata import read_number
from upstreams.running_call import Running

SUSPECT_S: Final = 60.0
"""Seconds that an upstream may go on with an operation that is over here."""
SEVERAL: Final = Program(Identity("", ""))
"""No program: any or several programs may be meant."""
MAX_TASKS: Final = 1_024
MAX_TASK_CHARS: Final = 512
_MORE: Final = ""
"""Stands for all tasks beyond the limits."""


def owner(
    params: Mapping[str, Raw],
    running: Collection[Running],
    *,
    exclusive: bool = False,
    alone: bool = False,
    others: Callable[[Program], bool] = lambda program: False,
) -> Running | None:
    """The operation that a question with `params` belongs to; None: nobody can tell, or there is none.

    `running` in the order of sending. `exclusive`: all of them are one host's, and always were. `alone`: all operations
    there ever were belong to one principal, and what they ask comes on this stream. `others`: whether anybody but a
    program may be meant though nothing of theirs runs.
    """
    task = task_in(params)
    if task is not None and (named := [each for each in running if task_of(each.operation) == task]):
        return max(named[::-1], key=lambda each: each.operation.method in MAY_ASK)  # not a look at the task beside it
    able = [each for each in running if each.operation.method in MAY_ASK]
    if not able:
        return None
    if exclusive:
        return able[-1]
    if task is not None or not alone:
        return None
    hosts = {host_of(each) for each in running}
    return able[-1] if len(hosts) == 1 and not others(able[-1].exchange.caller.program) else None


def host_of(running: Running) -> tuple[Tenant, Program]:
    """The host of an operation, as far as messages that name no operation are concerned."""
    caller = running.exchange.caller
    return caller.tenant, caller.program


def may_ask(operation: Operation, params: Mapping[str, Raw]) -> bool:
    """True if a question with `params` may come on the stream of `operation`."""
    if operation.method in MAY_ASK:
        return True
    task = task_in(params)
    return task is not None and task_of(operation) == task


def task_in(params: Mapping[str, Raw]) -> str | None:
    """The task that a message says it belongs to (2025-11-25)."""
    related = peek_object(params.get("_meta")).get(RELATED_TASK_KEY)
    return peek_str(peek_object(related).get("taskId"))


def task_of(operation: Operation) -> str | None:
    """The upstream's id of the task that `operation` is about. Other params may be made up by a host."""
    if operation.method.startswith("tasks/"):
        return peek_str(operation.params.get("taskId"))
    return peek_str(peek_object(operation.meta.get(RELATED_TASK_KEY)).get("taskId"))


def task_begun(reply: Reply) -> tuple[str, float] | None:
    """The task that a legacy upstream answered a call with, and for how many seconds it is kept; None: none."""
    task = peek_object(peek_object(reply.value).get("task")) if isinstance(reply, Result) else {}
    id = peek_str(task.get("taskId"))
    ttl_ms = read_number(task.get("ttl"))
    return None if id is None else (id, inf if ttl_ms is None else ttl_ms / 1000)


def task_finished(operation: Operation, reply: Reply) -> str | None:
    """The task that a legacy upstream has done with, as its `reply` to `operation` says: its outcome was given, or it
    was cancelled."""
    if operation.method == TASKS_RESULT or (operation.method == TASKS_CANCEL and isinstance(reply, Result)):
        return task_of(operation)
    return None


class RecentCalls:
    """Recent calls of one session that hosts share."""

    __slots__ = ("_latest", "_others_until", "_tasks", "_until")

    def __init__(self) -> None:
        self._latest = SEVERAL
        """The program whose operation ended last."""
        self._until = -inf
        """Until when that program may be meant."""
        self._others_until = -inf
        """Until when any other program may be meant."""
        self._tasks: dict[str, tuple[Program, float]] = {}
        """Living tasks by the upstream's id: the program, and until when."""

    def ended(self, program: Program, now: float) -> None:
        """An operation of `program` is over, or the upstream was told something on its behalf."""
        if program != self._latest:
            self._latest, self._others_until = program, self._until
        self._until = now + SUSPECT_S

    def begun(self, task: str, program: Program, until: float, now: float) -> None:
        """A task of `program` lives with the upstream, at the longest till then."""
        if len(self._tasks) >= MAX_TASKS or len(task) > MAX_TASK_CHARS:
            self._forget(now)
            if len(self._tasks) >= MAX_TASKS or len(task) > MAX_TASK_CHARS:
                task, program, until = _MORE, SEVERAL, max(until, self._tasks.get(_MORE, (SEVERAL, until))[1])
        self._tasks[task] = program, until

    def finished(self, task: str | None, now: float) -> None:
        """The upstream has done with a task, if it is one that was `begun`."""
        if task and (found := self._tasks.pop(task, None)) is not None:
            self.ended(found[0], now)

    def others(self, program: Program, now: float) -> bool:
        """True if anybody but `program` may be meant by what the upstream says now."""
        if now < (self._others_until if program == self._latest else self._until):
            return True
        if not self._tasks:
            return False
        self._forget(now)
        return any(whose != program for whose, _ in self._tasks.values())

    def _forget(self, now: float) -> None:
        self._tasks = {task: found for task, found in self._tasks.items() if now < found[1] + SUSPECT_S}


MAX_TOKENS: Final = 1_024


class TaskTokens:
    """Task tokens of one session; the oldest are forgotten."""

    def __init__(self) -> None:
        self._tokens: BoundedDict[str, int] = BoundedDict(MAX_TOKENS)
        """By the upstream's id of the task."""
        self._waiting: dict[int, Running] = {}

    def began(self, reply: Reply, token: int) -> None:
        """A call that was to begin a task, and had `token`, was answered."""
        if begun := task_begun(reply):
            self._tokens.put(begun[0], token)

    def wait(self, running: Running) -> None:
        """`running` waits for the outcome of a task, until `leave`."""
        task = running.operation.params.get("taskId") if running.operation.method == TASKS_RESULT else None
        token = self._tokens.get(peek_str(task) or "")
        if token is not None:
            self._waiting[token] = running

    def leave(self, running: Running) -> None:
        """`running` waits no more."""
        self._waiting = {token: each for token, each in self._waiting.items() if each is not running}

    def find(self, token: int | None) -> Running | None:
        """The operation that progress under `token` belongs to."""
        return None if token is None else self._waiting.get(token)
