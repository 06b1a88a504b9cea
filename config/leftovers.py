"""Drafts of hubs and commands that were killed while they replaced a file, and their removal: from the state directory,
and from beside files of hosts.

`config.files` writes what is new to `NAME.HEX.new`, and renames that. Who is killed in between leaves it behind, under
a name that nobody uses again: in a crash loop they would fill the disk.
"""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

OLD_S: Final = 60
"""A younger draft may be one that another process of hubd is just writing."""
MOST_LOOKED_AT: Final = 10_000
"""Entries of one directory: a start of the hub is not to take long, and the next one goes on."""
PLACES: Final = ("", "catalogue", "backups")
"""Directories below the state directory where drafts are written."""

DRAFT: Final = re.compile(r"[^/]+\.[0-9a-f]{8}\.new")


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
    with suppress(OSError):
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with os.scandir(directory) as entries:
                drafts = [each.name for each in islice(entries, MOST_LOOKED_AT) if draft.fullmatch(each.name)]
            for name in drafts:
                removed += _removed(name, directory, before)
        finally:
            os.close(directory)
    return removed


def _removed(name: str, directory: int, before: float) -> bool:
    """True if it was a plain file of this user, last written `before`, and is gone."""
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mtime >= before:
            return False
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True
