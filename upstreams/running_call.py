"""A running operation: what waits for its answer, its deadline, and its end."""

import logging
from math import inf

import trio

from hub.link.call_interface import Done, Exchange, Operation
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import Reply
from upstreams.deadline_watch import deadline_watch
from upstreams.session_contract import CallTimeouts

log = logging.getLogger(__name__)


class Running:
    """One operation, from when it is sent to when it ends: then `done` is called, unless it was cancelled.

    Both times, idle and total, stand still while a question of the operation is open, since people take their time.
    """

    __slots__ = (
        *("_done", "_idle_s", "_paused_at", "_until"),
        *("asked_count", "deadline", "exchange", "id", "operation", "questions"),
    )

    def __init__(
        self, id: int, operation: Operation, exchange: Exchange, timeouts: CallTimeouts, now: float, done: Done | None
    ) -> None:
        self.id = id
        self.operation = operation
        self.exchange = exchange
        self.questions: dict[trio.CancelScope, None] | None = None
        """Open questions, by the scopes that they are answered in; None as well, if there never was one."""
        self.asked_count = 0
        """Forms and visits that were asked for."""
        self._done = done
        self._idle_s = timeouts.idle_s
        self._until = now + timeouts.total_s
        self.deadline = min(now + timeouts.idle_s, self._until)
        """Time at which it ends without an answer; to be changed by `put_off` only."""

    def touch(self) -> None:
        """A message for the operation came: the idle time starts anew."""
        if not self.questions:
            self.put_off(min(trio.current_time() + self._idle_s, self._until))

    def count_asked(self) -> None:
        """One more form or visit was asked for."""
        self.asked_count += 1

    def asked(self, question: trio.CancelScope) -> None:
        """The upstream waits for the answer to `question`."""
        if self.questions is None:
            self.questions = {}
        if not self.questions:
            self._paused_at = trio.current_time()
            self.put_off(inf)
        self.questions[question] = None

    def settled(self, question: trio.CancelScope) -> None:
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
            question.cancel()

    def put_off(self, deadline: float) -> None:
        """Let it have until then."""
        self.deadline = deadline
        deadline_watch().look_at(deadline)

    def end(self, outcome: Reply | HubError) -> None:
        """Pass on the outcome. An error of who hears it is logged, and ends nothing else."""
        done, self._done = self._done, None  # it may know this object, which would be a cycle
        if done is not None:
            try:
                done(outcome)
            except Exception:
                log.exception("the outcome of %s could not be passed on", self.operation.method)

    def cancel(self) -> None:
        """End it without an outcome: the upstream is told. Idempotent."""
        if self._done is not None:
            self._done = None
            self.on_cancel()

    def on_cancel(self) -> None:
        """Forget it, and tell the upstream."""
        raise NotImplementedError

    def on_time_up(self) -> None:
        """Forget it, tell the upstream, and `end`."""
        raise NotImplementedError
