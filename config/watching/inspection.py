"""Inspection of watched files, in a thread: a digest of their contents, and the directories to watch for changes.

Directories are watched, never files, for the watch of a file dies with the first editor that replaces it: those of
every path and of what it leads to, of every link on the way (Kubernetes swaps one), and their parents, since a
directory can be replaced as well. Files are compared by content, so that other events there mean nothing.
"""

import hashlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from config.loading.document import SUFFIXES
from config.loading.safe_reading import limit_of, read_plain

MAX_LINKS: Final = 40

Lookouts = dict[str, tuple[int, int]]
"""Directories to watch, and which they are."""


def inspect(files: Iterable[Path], directories: Iterable[Path]) -> tuple[bytes, Lookouts]:
    """A digest of all there is to read, and where to watch for changes of it."""
    digest = hashlib.sha256()
    found: set[str] = set()
    for path in dict.fromkeys([*files, *(entry for directory in directories for entry in _entries(directory))]):
        digest.update(os.fsencode(path) + b"\0" + _content(path))
        _look_out(path, found)
    for directory in directories:
        digest.update(b"\0".join(_below(directory)))
        _look_out(directory / "any", found)
    return digest.digest(), {path: key for path in sorted(found) if (key := _key(path)) is not None}


def _entries(directory: Path) -> list[Path]:
    try:
        return [directory / name for name in sorted(os.listdir(directory)) if name.endswith(SUFFIXES)]
    except OSError:
        return []


def _below(directory: Path) -> list[bytes]:
    """A directory, if it is one, and those in it: with a new one a pattern may lead to more files."""
    try:
        with os.scandir(os.fsencode(directory)) as entries:
            found = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(b".")]
        return [b".", *sorted(found)]
    except OSError:
        return []


def _content(path: Path) -> bytes:
    """A digest of a file, or the reason why it cannot be read."""
    try:
        data, _ = read_plain(path, limit_of(path) + 1)
    except OSError as error:
        return b"error %d" % (error.errno or 0)
    return b"file " + hashlib.sha256(data).digest()


def _look_out(path: Path, found: set[str]) -> None:
    """Add the directories in which something happens when `path` becomes another file."""
    directory, rest = "/", os.path.abspath(path).split("/")[:0:-1]
    links = 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            directory = os.path.dirname(directory)
            continue
        step = os.path.join(directory, name)
        try:
            is_link = stat.S_ISLNK(os.lstat(step).st_mode)
            target = os.readlink(step) if is_link and links < MAX_LINKS else ""
        except OSError:
            break  # it would have to be made here
        if target:
            links += 1
            found.add(directory)
            rest += target.split("/")[::-1]
            directory = "/" if target.startswith("/") else directory
        elif rest:
            directory = step
    found |= {directory, os.path.dirname(directory)}


def _key(directory: str) -> tuple[int, int] | None:
    """Device and inode of a directory; None if it cannot be watched."""
    try:
        facts = os.stat(directory)
    except OSError:
        return None
    watchable = stat.S_ISDIR(facts.st_mode) and os.access(directory, os.R_OK | os.X_OK)
    return (facts.st_dev, facts.st_ino) if watchable else None
