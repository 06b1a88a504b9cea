"""The hub's own process, hardened, and given all the descriptors and memory that it may have.

It makes files for its user only, writes no core file, and keeps children out of its memory (prctl(2)). Memory: what the
C library keeps for large blocks, or returns to the system (glibc: mallopt(3), malloc_trim(3)).
"""

import ctypes
import os
import resource
import sys
from contextlib import suppress
from typing import Final

from hub.linux.child_limits import MOST_DESCRIPTORS

UMASK: Final = 0o077
PR_SET_DUMPABLE: Final = 4
OPEN_TO_DEBUGGERS: Final = "HUBD_DUMPABLE"
"""Environment variable; 1 lets debuggers and profilers of the same user attach to the hub."""


def harden() -> None:
    """Make files for this user only, write no core file, and keep children out of the hub's memory and environment.

    As far as the system allows.
    """
    os.umask(UMASK)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.environ.get(OPEN_TO_DEBUGGERS) != "1":
        prctl(PR_SET_DUMPABLE, 0)


def raise_fd_limit() -> None:
    """Raise the limit of open files as far as the system allows: each upstream takes four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def prctl(option: int, value: int) -> bool:
    """Change what the kernel does with this process (prctl(2)); False: it knows no such thing."""
    return sys.platform == "linux" and bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)


MALLOPT: Final = ((-3, 32 << 20), (-1, 64 << 20), (-2, 4 << 20))
"""Parameters of glibc and their values: `M_MMAP_THRESHOLD` (the most that 64 bits allow), `M_TRIM_THRESHOLD`,
`M_TOP_PAD`. See mallopt(3)."""


def keep_large_blocks() -> None:
    """Have the C library use the memory of large messages again; without `mallopt` do nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for parameter, value in MALLOPT:
            mallopt(parameter, value)


def trimmer() -> "ctypes._NamedFuncPointer | None":
    """The C library's `malloc_trim`; None: it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
