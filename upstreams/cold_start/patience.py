"""Patience: the time that one process has for its handshake, which lasts as long as a package runner is at work.

Its processes are at work if, within some seconds, they used processor time, waited for it or for a disk, or one of them
was started. Only `look_at_session` reads anything (proc_pid_stat(5)).
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple

import trio

from hub.linux.processes import find_stat, pids

LOOK_S: Final = 1.0
"""Interval of looks at a package runner."""
TICKS: Final = 3
WITHIN_S: Final = 15.0
"""Ticks of processor time, usually of 10 ms, that are work within so long; fewer are a timer of one who waits."""


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


class Use(NamedTuple):
    """The use that one process has made of the machine."""

    ticks: int
    """Of processor time, its children that ended included."""
    is_runnable: bool = False
    """It runs at this moment, or would if the machine had time for it."""


def look_at_session(session: int) -> dict[int, Use]:
    """The use that each process of a session has made of the machine so far.

    Blocks for some milliseconds. Empty where there is no /proc.
    """
    processes = (find_stat(pid) for pid in pids())
    return {
        each.pid: Use(each.ticks, each.state in ("R", "D"))
        for each in processes
        if each is not None and each.session == session
    }


class BusyWatch:
    """Tells, from looks at a session one after the other, whether it is at work."""

    def __init__(self) -> None:
        self._seen: Mapping[int, Use] = {}
        self._ticks = 0
        self._since = -inf

    def __repr__(self) -> str:
        return f"<BusyWatch of {len(self._seen)} processes, {self._ticks} ticks>"

    def look(self, found: Mapping[int, Use], now: float) -> bool:
        """Note what the session has used by now; True if it was at work since this was True last."""
        if now - self._since > WITHIN_S:
            self._ticks, self._since = 0, now
        self._ticks += sum(max(0, use.ticks - self._seen.get(pid, use).ticks) for pid, use in found.items())
        is_new = bool(found.keys() - self._seen.keys())
        is_at_work = is_new or self._ticks >= TICKS or any(use.is_runnable for use in found.values())
        self._seen = found
        if is_at_work:
            self._ticks, self._since = 0, now
        return is_at_work
