"""Which file descriptors this process has open, for tests that must leave none behind.

Fewer than before are no fault: what earlier tests left to the garbage collector may go at any time.
"""

import gc
import os


def open_descriptors() -> list[str]:
    """The open descriptors, without those that only a reference cycle of an earlier test still holds."""
    gc.collect()
    return os.listdir("/proc/self/fd")
