"""New files beside those whose place they take."""

import os
import stat
import sys
from contextlib import suppress


def write_new(new: str, data: bytes, directory: int, *, like: str | None = None, mode: int = 0o7777) -> None:
    """Make the file `new` in the open `directory`, with the owner of its neighbour `like`, and of its mode `mode`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(new, flags, 0o600, dir_fd=directory)
    with open(descriptor, "wb") as file:
        file.write(data)
        if like is not None:
            _be_like(descriptor, like, directory, mode)
        file.flush()
        os.fsync(descriptor)


def _be_like(descriptor: int, like: str, directory: int, mode: int) -> None:
    """Give an open file the owner, the mode and what else the file system keeps of the file `like`. Never by its path,
    where a link could lead to another file by now."""
    model = os.open(like, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        found, ours = os.fstat(model), os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (ours.st_uid, ours.st_gid):
            os.fchown(descriptor, found.st_uid, found.st_gid)
        if sys.platform == "linux":
            for name in _names_of_attributes(model):
                with suppress(OSError):  # not all may be set by everybody
                    os.setxattr(descriptor, name, os.getxattr(model, name))
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
    finally:
        os.close(model)


def _names_of_attributes(descriptor: int) -> list[str]:
    """Names of the extended attributes of an open file; none, where the file system has none."""
    try:
        return os.listxattr(descriptor)
    except OSError:
        return []
