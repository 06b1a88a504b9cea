"""Limits: what a child may take of the machine, the descriptors that none is started with, the hub's own hardening, and
the memory that the C library keeps for large blocks, or returns to the system (glibc: mallopt(3), malloc_trim(3)).

The hub makes files for its user only, writes no core file, and keeps children out of its memory (prctl(2)).
"""

import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hub.linux.processes import children, pids

MOST_DESCRIPTORS: Final = 1 << 16
"""That a child may open. Some systems allow a thousand million, and some programs close them all when they start."""
GIVEN_DESCRIPTORS: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""That this process could open when it began. The hub takes more, a child gets no more: some can use no others."""
KEPT_DESCRIPTORS: Final = 64
"""That no child is started with, since they are for hosts, logs and files; or an eighth, if that is less."""
DESCRIPTORS_OF_CHILD: Final = 12
"""Descriptors that starting a child takes for a moment."""
OOM_SCORE: Final = 200
"""The score by which a child is likelier to be killed than the hub when memory runs out."""
UMASK: Final = 0o077
PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
OPEN_TO_DEBUGGERS: Final = "HUBD_DUMPABLE"
"""Environment variable; 1 lets debuggers and profilers of the same user attach to the hub."""


def limit_child(pid: int) -> None:
    """Keep what a child may do to the machine within bounds. Its memory has none: see the README.

    Done from outside and after its start, since code between fork and exec costs the hub's whole memory map.
    """
    with suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        soft, hard = (
            MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else min(limit, MOST_DESCRIPTORS)
            for limit in resource.prlimit(pid, resource.RLIMIT_NOFILE)
        )
        given = soft if GIVEN_DESCRIPTORS == resource.RLIM_INFINITY else min(soft, GIVEN_DESCRIPTORS)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (given, hard))
    with suppress(OSError, ValueError):
        score = min(1000, int(Path("/proc/self/oom_score_adj").read_text()) + OOM_SCORE)
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def limit_family(pid: int) -> None:
    """The same for a child that has begun to start others, which wait: one that it starts later has its limits."""
    limit_child(pid)
    with suppress(OSError):
        for each in children(pid):
            limit_family(each)


def signal_followers(leader: int, number: signal.Signals) -> None:
    """Signal the processes of a group, but not the one that leads it."""
    for pid in pids():
        with suppress(OSError):
            if pid != leader and os.getpgid(pid) == leader:
                os.kill(pid, number)


def refuse_last_descriptors() -> None:
    """Leave the last ones to others. Raises OSError: there are no more but those."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return
    lowest = os.open("/", os.O_RDONLY | os.O_CLOEXEC)  # all below it are in use
    os.close(lowest)
    if lowest + DESCRIPTORS_OF_CHILD > limit - min(KEPT_DESCRIPTORS, limit // 8):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


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


def die_with_parent() -> Callable[[], None]:
    """The function that a child is to call before it starts its program: it gets SIGTERM when this process ends."""
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def die() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return die


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
