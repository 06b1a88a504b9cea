"""Patience: the time that one process has for its handshake."""

from collections.abc import Callable
from math import inf
from typing import Final

import trio

from upstreams.cold_start.busy import BusyWatch, look_at_session

LOOK_S: Final = 1.0
"""Interval of looks at a package runner."""


class Patience:
    """The time of one process: `start_s`, and more for a package runner that is at work.

    `at_work` is called whenever it is, and says until when it may go on; None: it is no package runner.
    """

    def __init__(self, start_s: float, at_work: Callable[[], float] | None) -> None:
        self._start_s = start_s
        self._at_work = at_work
        self._begun_at = trio.current_time()
        self._due = self._begun_at + start_s
        self.scope = trio.CancelScope(deadline=self._due if at_work is None else inf)
        """Cancelled when the time is over."""
        self.note_work()

    def __repr__(self) -> str:
        return f"<Patience for {self.given_s:g} s>"

    @property
    def given_s(self) -> float:
        """Seconds that the process has in all, as far as is known now."""
        given_s = self._due - self._begun_at
        return given_s if given_s <= self._start_s else round(given_s)

    @property
    def spent_s(self) -> float:
        """Seconds that it has taken so far."""
        return trio.current_time() - self._begun_at

    def note_work(self) -> None:
        """A package runner is at work just now."""
        if self._at_work is not None:
            self._due = max(self._due, self._at_work())

    def end(self) -> None:
        """The handshake is over, one way or the other."""
        self._at_work = None

    async def watch(self, session: int) -> None:
        """Look at the processes of a package runner now and then, and give it up when its time is over; until `end`.

        It is looked at once more before, so that a machine that stood still for a while ends no install.
        """
        watch = BusyWatch()
        while self._at_work is not None and not self.scope.cancel_called:
            found = await trio.to_thread.run_sync(look_at_session, session)
            if watch.look(found, trio.current_time()):
                self.note_work()
            if trio.current_time() >= self._due:
                self.scope.cancel()
            await trio.sleep(max(0.0, min(LOOK_S, self._due - trio.current_time())))
