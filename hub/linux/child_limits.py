"""Limits of children: what one may take of the machine, the descriptors that none is started with, and their end."""

import ctypes
import errno
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hub.linux.processes import pids

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
PR_SET_PDEATHSIG: Final = 1


def limit_child(pid: int) -> None:
    """Keep what a child may do to the machine within bounds. Its memory has none: see the README.

    Done from outside and after its start, since code between fork and exec costs the hub's whole memory map.
    """
    with suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _descriptors())
    with suppress(OSError, ValueError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_oom_score()))


def limits_in_shell() -> str:
    """The same as commands of a shell, for one whose program starts others at once: they would not have what is set
    from outside while they begin."""
    soft, hard = _descriptors()
    limits = f"ulimit -c 0; ulimit -Sn {soft}; ulimit -Hn {hard}"
    with suppress(OSError, ValueError):
        limits += f"; echo {_oom_score()} >/proc/self/oom_score_adj"
    return limits


def _descriptors() -> tuple[int, int]:
    """Descriptors that a child may open, soft and hard."""
    soft, hard = (
        MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else min(limit, MOST_DESCRIPTORS)
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    return (soft if GIVEN_DESCRIPTORS == resource.RLIM_INFINITY else min(soft, GIVEN_DESCRIPTORS)), hard


def _oom_score() -> int:
    return min(1000, int(Path("/proc/self/oom_score_adj").read_text()) + OOM_SCORE)


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


def die_with_parent() -> Callable[[], None]:
    """The function that a child is to call before it starts its program: it gets SIGTERM when this process ends."""
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def die() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return die
