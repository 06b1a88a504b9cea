"""Running operation of a session: its host, its deadlines, and its open questions."""

from math import inf
from typing import Protocol

import trio

from hub.link.interface import Exchange, Operation
from upstreams.session import CallTimeouts


class Asked(Protocol):
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
        self.questions: dict[Asked, None] | None = None
        """Open questions; None as well, if there never was one."""
        self._idle_s = timeouts.idle_s
        self._until = now + timeouts.total_s
        self.scope = trio.CancelScope(deadline=min(now + timeouts.idle_s, self._until))

    def touch(self) -> None:
        """A message for the operation came: the idle time starts anew."""
        if not self.questions:
            self.scope.deadline = min(trio.current_time() + self._idle_s, self._until)

    def asked(self, question: Asked) -> None:
        """The upstream waits for the answer to `question`."""
        if self.questions is None:
            self.questions = {}
        if not self.questions:
            self._paused_at = trio.current_time()
            self.scope.deadline = inf
        self.questions[question] = None

    def settled(self, question: Asked) -> None:
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
