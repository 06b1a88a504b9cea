"""Atomic writes: files are replaced as a whole, whatever happens meanwhile, the old file or the new one is there.

`replace_private` is for what hubd alone writes: memories, keys; `remove_private` removes it. `replace_file` is for
files that others read and edit, too, those of other programs and `hubd.toml` alike. What is to be written is the
caller's business; here it is made sure that nothing is lost: the file must still be what the caller read, a copy of it
goes to the backups (0600, since such files hold secrets), and the new one takes its place in one rename, with the same
mode and owner, behind whatever links lead there.

What is new is written to the draft `NAME.HEX.new`, which is renamed. A hub or command that is killed in between leaves
it behind, under a name that nobody uses again: in a crash loop drafts would fill the disk. `remove_drafts` and
`remove_drafts_of` remove them.
"""

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from config.diagnostics import EditError, Problem
from config.private_directories import make_dirs, refuse_foreign_dir, refuse_foreign_place
from config.safe_reading import MAX_BYTES, is_foreign, read_plain, refuse_foreign
from hub.linux.file_locks import hold_lock

KEPT: Final = 10
"""Backups of one file: the oldest, which is the file as it was before hubd, and the latest ones."""
STAMP: Final = "%Y%m%dT%H%M%S.%f"
OLD_S: Final = 60
"""A younger draft may be one that another process of hubd is just writing."""
MOST_LOOKED_AT: Final = 10_000
"""Entries of one directory: a start of the hub is not to take long, and the next one goes on."""
PLACES: Final = ("", "catalogue", "backups")
"""Directories below the state directory where drafts are written."""
DRAFT: Final = re.compile(r"[^/]+\.[0-9a-f]{8}\.new")


@contextmanager
def lock_edits(directory: Path) -> Iterator[None]:
    """Keep other commands of hubd from editing files meanwhile; waits for them. `directory`: the state directory.
    Raises: EditError, if the lock cannot be made."""
    with hold_lock(open_lock(directory / "edits.lock")):
        yield


def open_lock(path: Path) -> int:
    """The descriptor of a file to lock, which is made if need be. Raises: EditError, if it cannot be made."""
    try:
        make_dirs(str(path.parent))
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EditError(f"{path}: cannot be made: {error.strerror}; nothing was changed") from None


def read_file(path: Path, *, trusted: bool = False) -> bytes | None:
    """The content of a file; None if there is none. `trusted`: commands to run are taken from it.
    Raises: EditError, if it cannot be read, is no plain file, is far too large for one, or belongs to another user; if
    it is to be trusted also: somebody else could have written it."""
    try:
        data, found = read_plain(path, MAX_BYTES + 1)
        if trusted:
            refuse_foreign(path, found)
    except FileNotFoundError:
        if path.is_symlink():
            raise EditError(f"{path}: is a link to nothing; remove it, or make the file it leads to") from None
        return None
    except OSError as error:
        raise EditError(f"{path}: cannot be read: {error.strerror}") from None
    except Problem as problem:
        raise EditError(f"{path}: {problem}") from None
    if is_foreign(found):
        raise EditError(f"{path}: belongs to another user (uid {found.st_uid}); run this as that user")
    if len(data) > MAX_BYTES:
        raise EditError(f"{path}: is larger than {MAX_BYTES >> 20} MB; is it the right file?")
    return data


def refuse_place(path: Path) -> None:
    """Raise EditError, if a file at `path`, which is not there, would lie in a directory of another user."""
    try:
        refuse_foreign_place(str(path))
    except OSError as error:
        raise EditError(f"{path}: cannot be made: {error.strerror}") from None


def replace_private(path: Path, data: bytes, *, sync_name: bool = False) -> None:
    """Let the private file `path` (0600) hold `data`, also if the power fails; blocks for one fsync.

    `sync_name`: it is this data, and no older one, that is there after the power has failed; blocks for one more.
    Raises: OSError, if it cannot be written; it is as it was."""
    make_dirs(str(path.parent))
    with _directory(path.parent) as directory, _draft(path.name, data, directory) as new:
        os.replace(new, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        if sync_name:
            os.fsync(directory)


def remove_private(path: Path) -> None:
    """Remove the private file `path`, if there is one, also if the power fails: for this no room is needed. Blocks for
    one fsync. Raises: OSError, if it cannot be removed."""
    with _directory(path.parent) as directory:
        with suppress(FileNotFoundError):
            os.unlink(path.name, dir_fd=directory)
        os.fsync(directory)


def replace_file(
    path: Path,
    data: bytes,
    *,
    was: bytes | None,
    now: datetime | None = None,
    backups: Path | None = None,
    mode: int = 0o7777,
) -> Path | None:
    """Let `path` hold `data`; blocks for some fsyncs. Where the backup is: in the directory `backups`, if one is named
    and there was a file; `now` is in its name.

    `was` is what the caller read from it, None for no file. A new file is made for this user alone (0600), its
    directories too; another keeps of its mode what is in `mode`.
    Raises: EditError, if it holds something else by now, or cannot be written; it was left as it is."""
    real = Path(os.path.realpath(path))
    try:
        if was is None:
            make_dirs(str(real.parent))
        like = None if was is None else real.name
        with _directory(real.parent) as directory, _draft(f".{real.name}", data, directory, like, mode) as new:
            with _back_up(path, was, now, backups) as backup:
                _refuse_changed(path, was)
                if was is None:  # a link never replaces: whoever made a file meanwhile keeps it
                    os.link(new, real.name, src_dir_fd=directory, dst_dir_fd=directory)
                else:
                    os.replace(new, real.name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)
            return backup
    except OSError as error:
        raise EditError(f"{path}: cannot be written: {error.strerror}; it was left as it is") from None


def remove_file(path: Path, *, was: bytes, now: datetime, backups: Path) -> Path | None:
    """Remove the file, or the link that leads to it; its backup.
    Raises: EditError, if it holds something else than `was` by now, or cannot be removed; it was left as it is."""
    try:
        with _directory(path.parent) as directory:
            with _back_up(path, was, now, backups) as backup:
                _refuse_changed(path, was)
                os.unlink(path.name, dir_fd=directory)
            os.fsync(directory)
    except OSError as error:
        raise EditError(f"{path}: cannot be removed: {error.strerror}; it was left as it is") from None
    return backup


def _refuse_changed(path: Path, was: bytes | None) -> None:
    if read_file(path) != was:
        raise EditError(f"{path}: was changed by another program meanwhile, and left as it is; run this again")


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    """The directory, open: what is done in it is done there, also if another one takes its place meanwhile. Raises
    OSError also if it belongs to another user, who could put anything into our files' places."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        refuse_foreign_dir(str(path), os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _back_up(path: Path, was: bytes | None, now: datetime | None, backups: Path | None) -> Iterator[Path | None]:
    """A copy of the file as `NAME.DATE` while the block changes the file; None: there is nothing to lose. If the block
    fails the copy goes, or vain tries would push out the good ones; if not, the superfluous older ones go."""
    if not was or backups is None:
        yield None
        return
    assert now is not None
    make_dirs(str(backups))
    name = str(path.absolute()).strip("/").replace("/", "%")[-150:]
    with _directory(backups) as directory:
        backup = _name_backup(name, now, directory)
        try:
            with _draft(name, was, directory) as new:  # it has its name only when all of it is on disk
                os.rename(new, backup, src_dir_fd=directory, dst_dir_fd=directory)
                os.fsync(directory)
            yield backups / backup
        except BaseException:
            with suppress(OSError):
                os.unlink(backup, dir_fd=directory)
            raise
        with suppress(OSError):  # the file is changed by now: one backup too many is no reason to call that a failure
            _prune(name, directory)


def _name_backup(name: str, now: datetime, directory: int) -> str:
    """The name of a new backup in the open `directory`."""
    backup = f"{name}.{now:{STAMP}}"
    if (latest := _backups_of(name, directory)[-1:]) and latest[0] >= backup:
        # Several at one time, or a clock set back: it must neither take another's place nor pass for the oldest.
        after = datetime.strptime(latest[0].removeprefix(f"{name}."), STAMP) + timedelta(microseconds=1)
        return f"{name}.{after:{STAMP}}"
    return backup


def _prune(name: str, directory: int) -> None:
    """Remove the backups of one file that are too many, and empty ones, which an earlier hubd left on a full disk."""
    kept = []
    for each in _backups_of(name, directory):
        if os.stat(each, dir_fd=directory, follow_symlinks=False).st_size:
            kept.append(each)
        else:
            os.unlink(each, dir_fd=directory)
    for old in kept[1 : 1 - KEPT]:
        os.unlink(old, dir_fd=directory)


def _backups_of(name: str, directory: int) -> list[str]:
    """The names of the backups of one file, the oldest first; those of `a.json.2` are none of `a.json`."""
    found = []
    for each in os.listdir(directory):
        with suppress(ValueError):
            if each == f"{name}.{datetime.strptime(each.removeprefix(f'{name}.'), STAMP):{STAMP}}":
                found.append(each)
    return sorted(found)


@contextmanager
def _draft(name: str, data: bytes, directory: int, like: str | None = None, mode: int = 0o7777) -> Iterator[str]:
    """The name of a file of `data` on disk, in the open `directory`, which is gone after the block unless that has
    renamed it. It has the owner of its neighbour `like`, and of its mode `mode`."""
    new = f"{name}.{secrets.token_hex(4)}.new"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(new, flags, 0o600, dir_fd=directory)
        with open(descriptor, "wb") as file:
            file.write(data)
            if like is not None:
                _be_like(descriptor, like, directory, mode)
            file.flush()
            os.fsync(descriptor)
        yield new
    finally:
        with suppress(OSError):
            os.unlink(new, dir_fd=directory)


def _be_like(descriptor: int, like: str, directory: int, mode: int) -> None:
    """Give an open file the owner, the mode and what else the file system keeps of the file `like`. Never by its path,
    where a link could lead to another file by now."""
    model = os.open(like, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        found, ours = os.fstat(model), os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (ours.st_uid, ours.st_gid):
            os.fchown(descriptor, found.st_uid, found.st_gid)
        if sys.platform == "linux":
            with suppress(OSError):  # the file system has none
                for name in os.listxattr(model):
                    with suppress(OSError):  # not all may be set by everybody
                        os.setxattr(descriptor, name, os.getxattr(model, name))
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & mode)
    finally:
        os.close(model)


def remove_drafts_of(files: Iterable[str], backups: str, now: float) -> int:
    """Remove the drafts of these files and in the directory of backups; how many there were. Needs the lock under which
    all commands write them to be held, so that nobody is just writing one; never raises for what cannot be removed."""
    names: dict[str, list[str]] = {}
    for path in map(os.path.realpath, files):
        names.setdefault(os.path.dirname(path), []).append(re.escape(os.path.basename(path)))
    drafts = {place: re.compile(rf"\.?(?:{'|'.join(found)})\.[0-9a-f]{{8}}\.new") for place, found in names.items()}
    return _remove_in(backups, now) + sum(_remove_in(place, now, draft) for place, draft in drafts.items())


def remove_drafts(state: str, now: float) -> int:
    """Remove the old drafts in the state directory `state`; how many there were. Blocks briefly; never raises for what
    cannot be removed. Needs the daemon's lock to be held, so that no two hubs do it at once."""
    return sum(_remove_in(os.path.join(state, place), now - OLD_S) for place in PLACES)


def _remove_in(path: str, before: float, draft: re.Pattern[str] = DRAFT) -> int:
    removed = 0
    with suppress(OSError), _directory(Path(path)) as directory, os.scandir(directory) as entries:
        for name in [each.name for each in islice(entries, MOST_LOOKED_AT) if draft.fullmatch(each.name)]:
            removed += _is_removed(name, directory, before)
    return removed


def _is_removed(name: str, directory: int, before: float) -> bool:
    """True if it was a plain file of this user, last written `before`, and is gone."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mtime >= before:
            return False
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
