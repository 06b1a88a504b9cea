"""Time that a start of a server may take: the attempt as a whole (`Start`), and each of its processes (`Patience`).

    made -> queued at the gate -> begun, when it is its turn -> at work, seen now and then
         -> over: the server is ready, or the attempt failed

A server gets `timeouts.start`. A package runner gets as long as it is at work, `allowance_s` at most: it may be in the
midst of an install, which would have to begin anew, or would leave a broken one behind. It is at work if, within some
seconds, its processes used processor time, waited for it or for a disk, or one of them was started. Only
`look_at_session` reads anything (proc_pid_stat(5)).
"""

import os
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

import trio
from msgspec import Struct

from hub.linux.processes import ProcessStat, find_stat, pids
from upstreams.cold_start.recognise_runner import PackageRun

SLOT_S: Final = 5.0
"""Time for which a server that is starting keeps others from it: one that hangs delays nobody for longer."""
GUARD_S: Final = 0.5
RUNNER_GUARD_S: Final = 5.0
"""Seconds beyond all limits: a session that knows more than that it took too long says so itself. That of a package
runner looks at it once more before."""


class StartLimits(Struct, frozen=True):
    """Limits of starts."""

    allowance_s: float = 600.0
    """Most that a package runner gets."""
    quiet_s: float = 15.0
    """Without a sign of work for so long, a package runner is not at work any more."""
    at_once: int = 8
    """Starts of all servers together that begin at the same time."""
    cold_at_once: int = max(2, os.cpu_count() or 1)
    """Package runners that may be installing at the same time."""


class Start:
    """One attempt. `cold`: nothing says that what the package runner runs has been installed before."""

    def __init__(self, run: PackageRun | None, limits: StartLimits, start_s: float, *, cold: bool) -> None:
        self.run = run
        self.cold = cold and run is not None
        self._limits = limits
        self._start_s = start_s
        self._is_at_gate = False
        self.is_hurried = False
        """A host waits for it."""
        self._is_over = False
        self._begun_at: float | None = None
        self._busy_at = -inf

    def queue(self) -> None:
        self._is_at_gate = True

    def hurry(self) -> None:
        self.is_hurried = True

    def end(self) -> None:
        self._is_over = True

    def begin(self, now: float) -> None:
        """It is its turn."""
        self._begun_at = self._busy_at = now

    def at_work(self, now: float) -> float:
        """The package runner was at work just now; the time until which it may go on."""
        self._busy_at = now
        return self.gives_up_at - RUNNER_GUARD_S

    # --- how long -----------------------------------------------------------------------------------------------------

    @property
    def slot_until(self) -> float:
        """Until when it keeps others from starting."""
        return self._patience_until if self.cold else self.begun_at + SLOT_S

    @property
    def package_until(self) -> float:
        """Until when it keeps others from installing the same."""
        return self.gives_up_at if self.cold else -inf

    @property
    def gives_up_at(self) -> float:
        """The time at which the attempt has failed, if the server is not ready."""
        until = self.begun_at + self._start_s
        if self.run is None:
            return until + GUARD_S
        return max(until, self._patience_until) + RUNNER_GUARD_S

    @property
    def begun_at(self) -> float:
        """The time at which it was its turn."""
        assert self._begun_at is not None
        return self._begun_at

    @property
    def _patience_until(self) -> float:
        return min(self.begun_at + self._limits.allowance_s, self._busy_at + self._limits.quiet_s)

    def spent_s(self, now: float) -> float:
        """Seconds that an attempt had that has failed now, as one tells them."""
        spent_s = now - self.begun_at
        return self._start_s if spent_s <= self._start_s + 1 else round(spent_s)

    # --- for status ---------------------------------------------------------------------------------------------------

    def installing_s(self, now: float) -> float | None:
        """Seconds for which the package runner has been at work on something new; None: it is not."""
        if self.run is None or self._begun_at is None or self._is_over:
            return None
        is_new = self.cold or now > self._begun_at + self._start_s
        return now - self._begun_at if is_new and now <= self._patience_until else None

    @property
    def is_queued(self) -> bool:
        """True if others are being installed first."""
        return self.cold and self._is_at_gate and self._begun_at is None and not self._is_over

    def progress(self, now: float) -> str:
        """A clause for those who wait for an install; "": there is none."""
        if (installing_s := self.installing_s(now)) is not None and self.run is not None:
            return f"its package is being installed by {self.run.runner}, for {installing_s:.0f} s so far"
        return "other servers are being installed first" if self.is_queued else ""


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


def look_at_session(session: int) -> dict[int, ProcessStat]:
    """The facts of each process of a session. Blocks for some milliseconds. Empty where there is no /proc."""
    processes = (find_stat(pid) for pid in pids())
    return {each.pid: each for each in processes if each is not None and each.session == session}


class BusyWatch(Struct, eq=False):
    """Tells, from looks at a session one after the other, whether it is at work."""

    _seen: Mapping[int, ProcessStat] = {}
    _ticks: int = 0
    _since: float = -inf

    def look(self, found: Mapping[int, ProcessStat], now: float) -> bool:
        """Note what the session has used by now; True if it was at work since this was True last."""
        if now - self._since > WITHIN_S:
            self._ticks, self._since = 0, now
        self._ticks += sum(max(0, each.ticks - self._seen.get(pid, each).ticks) for pid, each in found.items())
        is_new = bool(found.keys() - self._seen.keys())
        is_runnable = any(each.state in ("R", "D") for each in found.values())  # or waits for the machine
        is_at_work = is_new or is_runnable or self._ticks >= TICKS
        self._seen = found
        if is_at_work:
            self._ticks, self._since = 0, now
        return is_at_work
