"""Locks of files, between processes. The kernel frees one once its holder has closed the file, however that ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def hold_lock(descriptor: int) -> Iterator[None]:
    """Hold the lock of an open file, which is waited for, and close the file afterwards. On a file system that has no
    locks nobody is kept out."""
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file, unless somebody else has; True: it is locked. Raises OSError: its file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
