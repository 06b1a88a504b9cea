"""Temporary directory of a setup: private, locked as long as somebody uses it, and removed, if need be by the next one.

A setup that is killed removes nothing. Its lock ends with it and with the hub that it started, whatever became of them.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

PREFIX: Final = "hubd-setup-"
"""Beginning of its name."""
LONGEST_PLACE: Final = 60
"""Bytes in the name of a directory that leaves room for the names of sockets below it."""
MAX_REMOVED: Final = 100
"""Directories of others that one setup looks at."""
LOCK: Final = "lock"


@contextmanager
def temporary_directory() -> Iterator[tuple[Path, int]]:
    """A new directory, and the descriptor that keeps it locked, for a process that uses it, too. Those that killed
    setups have left are removed first.

    Raises:
        OSError: it cannot be made.
    """
    place = Path(_place())
    _remove_what_was_left(place)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    try:
        lock = _lock(directory)
        try:
            yield directory, lock
        finally:
            os.close(lock)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _place() -> str:
    """The directory to make it in: the usual one for temporary files, unless its name is long."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual)) <= LONGEST_PLACE else "/tmp"


def _lock(directory: Path) -> int:
    """The descriptor of a lock, which has its name only once it is held."""
    new = directory / f"{LOCK}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    new.rename(directory / LOCK)
    return descriptor


def _remove_what_was_left(place: Path) -> None:
    """Remove the directories of this user whose lock nobody holds. One without a lock is not known to be a setup's."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in islice((each for each in entries if each.name.startswith(PREFIX)), MAX_REMOVED):
            with suppress(OSError):
                if _is_left(Path(entry.path)):
                    shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(directory: Path) -> bool:
    """True if it is a directory for this user alone, with a lock that nobody holds.

    Raises:
        OSError: it has no lock, or somebody holds it.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
        return False
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)
    return True
