"""Hardening of the process at its start: private files, no core file, memory that children cannot read, and as many
descriptors as the system allows.
"""

import os
import resource
import sys
from contextlib import suppress
from typing import Final

from upstreams.transports.stdio.limits import MOST_DESCRIPTORS

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
    if sys.platform == "linux" and os.environ.get(OPEN_TO_DEBUGGERS) != "1":
        import ctypes  # trio has imported it, too

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def raise_fd_limit() -> None:
    """Raise the limit of open files as far as the system allows: each upstream takes four."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
