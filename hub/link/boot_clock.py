"""A clock that nobody sets, and that runs on while the machine sleeps; from the start of the machine to its end."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")


class BootClock(NamedTuple):
    """`id` is short for the run of the machine: times of another one cannot be compared. "": it is not known."""

    id: str
    now: Callable[[], float]
    """In seconds."""


def boot_clock() -> BootClock:
    """That of this machine, as Linux has it; one without `id` elsewhere."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        id = _ID_PATH.read_bytes()
    except OSError:
        id = b""
    if clock is None or not id:
        return BootClock("", lambda: 0.0)
    return BootClock(hashlib.sha256(id.strip()).hexdigest()[:8], lambda: time.clock_gettime(clock))
