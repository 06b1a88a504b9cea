"""Clocks: one that runs on while the machine sleeps, and trio's, which stands still while the process is frozen.

`current_time` counts the time that the machine slept or the process was frozen; use it for how long something stays
valid. `AwakeClock` stands still while the process is frozen; trio uses it for deadlines.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

import trio
from trio.abc import Clock

from hub.linux.this_machine import read_boot_id

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Runs on during sleep, which `CLOCK_MONOTONIC` does not; None: the system has no such clock."""
LATE_S: Final = 2.0
STEP_S: Final = 1.0


def current_time() -> float:
    """Seconds on trio's clock plus the time it stood still. To be called within a run of trio."""
    return trio.current_time() + slept_s()


def slept_s() -> int:
    """Time that the machine has slept since this module was loaded, and that this run of trio was frozen; whole
    seconds, since two clocks are read in turn."""
    clock = trio.lowlevel.current_clock()
    frozen_s = clock.frozen_s if isinstance(clock, AwakeClock) else 0.0
    return int(_ahead_s() - _BEFORE + frozen_s + 0.5)


def _ahead_s() -> float:
    return 0.0 if _CLOCK is None else time.clock_gettime(_CLOCK) - time.clock_gettime(time.CLOCK_MONOTONIC)


_BEFORE: Final = _ahead_s()


class AwakeClock(Clock):
    """A clock for trio that stands still while the process is frozen: stopped, or in a paused container.

    So no limit passes that nobody could have kept: a server that is being started has half of the time it had left, or
    more. A sleep that lasts `LATE_S` longer than it was to shows that the process was frozen; it is to last half the
    time to the next deadline, since one that ends before shows nothing.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.frozen_s = 0.0
        """Time that the process was frozen, as far as it was noticed."""
        self._now = now
        self._wakes_at = inf

    def start_clock(self) -> None:
        """Called by trio."""

    def current_time(self) -> float:
        now = self._now() - self.frozen_s
        if now > self._wakes_at + LATE_S:  # the first call after a sleep
            self.frozen_s += now - self._wakes_at
            now = self._wakes_at
        self._wakes_at = inf
        if not self.frozen_s:  # nothing to add until the next sleep: trio asks ten times in each call of a tool
            vars(self)["current_time"] = self._now
        return now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        now = self.current_time()
        vars(self).pop("current_time", None)
        sleep_s = deadline - now
        sleep_s = min(sleep_s, max(STEP_S, sleep_s / 2))
        self._wakes_at = now + max(sleep_s, 0.0)
        return sleep_s


class BootClock(NamedTuple):
    """A clock that nobody sets, from the start of the machine to its end."""

    id: str
    """Names the run of the machine, since times of two runs cannot be compared. "": the system has no such clock."""
    now: Callable[[], float]
    """In seconds."""


NO_BOOT_CLOCK: Final = BootClock("", lambda: 0.0)


def boot_clock() -> BootClock:
    """The clock of this machine, as Linux has it; elsewhere one without `id`."""
    with suppress(OSError):
        if _CLOCK is not None and (id := read_boot_id()):
            return BootClock(hashlib.sha256(id.encode()).hexdigest()[:8], lambda: time.clock_gettime(_CLOCK))
    return NO_BOOT_CLOCK
