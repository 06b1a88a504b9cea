"""A clock for what is good for some time: trio's, and the time that the machine has slept since the hub started.

trio's own clock stands still while a laptop sleeps: what was good for ten minutes would be good the next morning.
"""

import time
from typing import Final

import trio

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Runs on during sleep, which `CLOCK_MONOTONIC` does not; None: the system has no such clock."""


def current_time() -> float:
    """Seconds, of a clock that goes on while the machine sleeps. To be called within a run of trio."""
    return trio.current_time() + slept_s()


def slept_s() -> int:
    """How long the machine has slept since this module was loaded, in whole seconds: no two clocks are read at once."""
    return int(_ahead_s() - _BEFORE + 0.5)


def _ahead_s() -> float:
    return 0.0 if _CLOCK is None else time.clock_gettime(_CLOCK) - time.clock_gettime(time.CLOCK_MONOTONIC)


_BEFORE: Final = _ahead_s()
