"""This machine: clocks that run on while it sleeps, the name of this run of it, its users and file systems.

trio's clock stands still while a laptop sleeps, and with `AwakeClock` while the hub is frozen: what was good for ten
minutes would be good the next morning.
"""

import hashlib
import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

import trio
from trio.abc import Clock

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Runs on during sleep, which `CLOCK_MONOTONIC` does not; None: the system has no such clock."""
LATE_S: Final = 2.0
STEP_S: Final = 1.0
_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")
MOUNTS: Final = Path("/proc/self/mountinfo")
MACHINE_ID: Final = Path("/etc/machine-id")


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
        return now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        now = self.current_time()
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


def boot_clock() -> BootClock:
    """The clock of this machine, as Linux has it; elsewhere one without `id`."""
    try:
        id = read_boot_id()
    except OSError:
        id = ""
    if _CLOCK is None or not id:
        return BootClock("", lambda: 0.0)
    return BootClock(hashlib.sha256(id.encode()).hexdigest()[:8], lambda: time.clock_gettime(_CLOCK))


def read_boot_id() -> str:
    """The name of this run of the machine.

    Raises:
        OSError: the system has none.
    """
    return _ID_PATH.read_text("ascii", "replace").strip()


def file_system_of(path: Path) -> str:
    """The type of the file system that `path` is on; "": nobody can say."""
    try:
        device = os.stat(path).st_dev
        mounts = MOUNTS.read_text(errors="replace")
    except OSError:
        return ""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == number and after:
            return after.split()[0]
    return ""


def name_of_machine() -> str:
    """The text that this machine alone has, which is not to be shown (machine-id(5)); else its host name."""
    try:
        id = MACHINE_ID.read_text(errors="replace").strip()
    except OSError:
        id = ""
    return id or os.uname().nodename
