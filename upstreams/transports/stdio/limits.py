"""Limits of children: what one may take of the machine, and the descriptors that none is started with."""

import contextlib
import errno
import os
import resource
from pathlib import Path
from typing import Final

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


def limit_child(pid: int) -> None:
    """Keep what a child may do to the machine within bounds. Its memory has none: see the README.

    Done from outside and after its start, since code between fork and exec costs the hub's whole memory map.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        soft, hard = (
            MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else min(limit, MOST_DESCRIPTORS)
            for limit in resource.prlimit(pid, resource.RLIMIT_NOFILE)
        )
        given = soft if GIVEN_DESCRIPTORS == resource.RLIM_INFINITY else min(soft, GIVEN_DESCRIPTORS)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (given, hard))
    with contextlib.suppress(OSError, ValueError):
        score = min(1000, int(Path("/proc/self/oom_score_adj").read_text()) + OOM_SCORE)
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(score))


def refuse_last_descriptors() -> None:
    """Leave the last ones to others.

    Raises:
        OSError: there are no more but those.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return
    lowest = os.open("/", os.O_RDONLY | os.O_CLOEXEC)  # all below it are in use
    os.close(lowest)
    if lowest + DESCRIPTORS_OF_CHILD > limit - min(KEPT_DESCRIPTORS, limit // 8):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
