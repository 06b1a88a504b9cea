"""Recent calls: programs that an upstream may still speak of, though no call of theirs runs. Pure.

Servers go on in the background with calls that were answered, cancelled or too slow: they log, ask, tell of changes. On
a stream that many hosts share such messages name no call. So a program may still be meant for a while after its last
operation, however that ended, and whether it is still there or not; and for as long as a task of it lives.

Only one question is ever asked: may anybody be meant but this one program? For that the program whose operation ended
last is remembered, and until when any other may be meant. That is exact, and no table can grow.
"""

from math import inf
from typing import Final

from hub.link.interface import Identity, Program

SUSPECT_S: Final = 60.0
"""Seconds that an upstream may go on with an operation that is over here."""
SEVERAL: Final = Program(Identity("", ""))
"""No program: any or several programs may be meant."""
MAX_TASKS: Final = 1_024
MAX_TASK_CHARS: Final = 512
_MORE: Final = ""
"""Stands for all tasks beyond the limits."""


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

    def __repr__(self) -> str:
        return f"<RecentCalls of {self._latest.identity.host or 'nobody'}, {len(self._tasks)} tasks>"

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
        """Forget the tasks that live no more."""
        self._tasks = {task: found for task, found in self._tasks.items() if now < found[1] + SUSPECT_S}
