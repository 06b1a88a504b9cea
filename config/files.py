"""Replacing files as a whole: whatever happens meanwhile, there is the old one or the new one.

`replace_private` is for what hubd alone writes: memories, keys. `replace_file` is for files that others read and edit,
too, those of other programs and `hubd.toml` alike. What is to be written is the caller's business; here it is made sure
that nothing is lost: the file must still be what the caller read, a copy of it goes to the backups (0600, since such
files hold secrets), and the new one takes its place in one rename, with the same mode and owner, behind whatever links
lead there.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from config.errors import EditError
from config.source import read_plain

MAX_BYTES: Final = 16 << 20
KEPT: Final = 10
"""Backups of one file."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other commands of hubd from editing files meanwhile; waits for them. `directory`: the state directory.

    Raises:
        EditError: the lock cannot be made.
    """
    path = directory / "edits.lock"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EditError(f"{path}: cannot be made: {error.strerror}; nothing was changed") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_file(path: Path) -> bytes | None:
    """What the file holds now; None: there is none.

    Raises:
        EditError: it cannot be read, is no plain file, or is far too large for one.
    """
    try:
        data, _ = read_plain(path, MAX_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise EditError(f"{path}: is a link to nothing; remove it, or make the file it leads to") from None
        return None
    except OSError as error:
        raise EditError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise EditError(f"{path}: is larger than {MAX_BYTES >> 20} MB; is it the right file?")
    return data


def replace_private(path: Path, data: bytes) -> None:
    """Let the private file `path` (0600) hold `data`, also if the power fails; blocks for one fsync.

    Raises:
        OSError: it cannot be written; it is as it was.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        _write(new, data, like=None)
        new.replace(path)
    finally:
        with suppress(OSError):
            new.unlink()


def replace_file(
    path: Path, data: bytes, *, was: bytes | None, now: datetime | None = None, backups: Path | None = None
) -> Path | None:
    """Let `path` hold `data`; blocks for some fsyncs. Where the backup is: in the directory `backups`, if one is named
    and there was a file; `now` is in its name.

    `was` is what the caller read from it, None for no file. A new file is made for this user alone (0600), its
    directories too.

    Raises:
        EditError: it holds something else by now, or cannot be written; it was left as it is.
    """
    real = Path(os.path.realpath(path))
    new = real.with_name(f".{real.name}.{secrets.token_hex(4)}.new")
    try:
        if was is None:
            real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(new, data, like=None if was is None else real)
        backup = _backed_up(path, was, now, backups)
        _refuse_changed(path, was)
        if was is None:
            os.link(new, real)  # never replaces: whoever made one meanwhile keeps it
        else:
            new.replace(real)
        _sync_directory(real.parent)
    except OSError as error:
        raise EditError(f"{path}: cannot be written: {error.strerror}; it was left as it is") from None
    finally:
        with suppress(OSError):
            new.unlink()
    return backup


def remove_file(path: Path, *, was: bytes, now: datetime, backups: Path) -> Path | None:
    """Remove the file, or the link that leads to it; its backup.

    Raises:
        EditError: it holds something else than `was` by now, or cannot be removed; it was left as it is.
    """
    try:
        backup = _backed_up(path, was, now, backups)
        _refuse_changed(path, was)
        path.unlink()
        _sync_directory(path.parent)
    except OSError as error:
        raise EditError(f"{path}: cannot be removed: {error.strerror}; it was left as it is") from None
    return backup


def _refuse_changed(path: Path, was: bytes | None) -> None:
    if read_file(path) != was:
        raise EditError(f"{path}: was changed by another program meanwhile, and left as it is; run this again")


def _write(new: Path, data: bytes, *, like: Path | None) -> None:
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
        if like is not None:
            found = like.stat()
            ours = os.fstat(descriptor)
            if (found.st_uid, found.st_gid) != (ours.st_uid, ours.st_gid):
                os.fchown(descriptor, found.st_uid, found.st_gid)
            shutil.copystat(like, new)  # the mode, and what else the file system keeps of it
            os.utime(new)
        file.flush()
        os.fsync(descriptor)


def _backed_up(path: Path, was: bytes | None, now: datetime | None, backups: Path | None) -> Path | None:
    """A copy of the file as `NAME.DATE`, and the oldest copies gone."""
    if was is None or backups is None:
        return None
    assert now is not None
    backups.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = str(path.absolute()).strip("/").replace("/", "%")[-150:]
    backup = backups / f"{name}.{now:%Y%m%dT%H%M%S.%f}"
    descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(was)
        file.flush()
        os.fsync(descriptor)
    kept = sorted(each for each in backups.iterdir() if each.name.startswith(f"{name}.2"))
    for old in kept[:-KEPT]:
        with suppress(OSError):
            old.unlink()
    return backup


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
