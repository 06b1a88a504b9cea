"""This machine: clocks that run on while it sleeps, the name of this run of it, its users and file systems.

trio's own clock stands still while a laptop sleeps: what was good for ten minutes would be good the next morning.
"""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import trio

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Runs on during sleep, which `CLOCK_MONOTONIC` does not; None: the system has no such clock."""
WHOLE_RANGE: Final = ["0", "0", "4294967295"]
_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


def current_time() -> float:
    """Seconds on trio's clock plus the time the machine has slept. To be called within a run of trio."""
    return trio.current_time() + slept_s()


def slept_s() -> int:
    """Time that the machine has slept since this module was loaded; whole seconds, since two clocks are read in
    turn."""
    return int(_ahead_s() - _BEFORE + 0.5)


def _ahead_s() -> float:
    return 0.0 if _CLOCK is None else time.clock_gettime(_CLOCK) - time.clock_gettime(time.CLOCK_MONOTONIC)


_BEFORE: Final = _ahead_s()


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


def has_all_users(proc: Path = Path("/proc")) -> bool:
    """True if this process is in no user namespace: there all strangers are one user, or have other numbers."""
    try:
        return (proc / "self" / "uid_map").read_text("ascii").split() == WHOLE_RANGE
    except (OSError, UnicodeDecodeError):
        return False


def kind_of_mount(mountinfo: str, device: int) -> str:
    """The type of the file system with the number `device`, by `/proc/self/mountinfo`; "": it is not there."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == number and after:
            return after.split()[0]
    return ""
