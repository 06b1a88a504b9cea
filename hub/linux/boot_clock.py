"""Clock that runs on while the machine sleeps and while the process is frozen: for how long something stays valid."""

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import trio

from hub.linux.freeze_proof_clock import AwakeClock
from hub.linux.this_machine import read_boot_id

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Runs on during sleep, which `CLOCK_MONOTONIC` does not; None: the system has no such clock."""


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
