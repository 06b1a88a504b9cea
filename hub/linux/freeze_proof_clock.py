"""Clock for trio that stands still while the process is frozen, so that no deadline passes meanwhile."""

import time
from collections.abc import Callable
from math import inf
from typing import Final

from trio.abc import Clock

LATE_S: Final = 2.0
STEP_S: Final = 1.0


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
