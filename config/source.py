"""A configuration file as it lies on disk: reading it safely, and finding the line of a key in its text.

A file that others can change decides which commands this user runs, so it is refused (SEC-50, F-C-10).
"""

import errno
import os
import re
import stat
from pathlib import Path
from typing import Final

from config.schema import ConfigError

MAX_BYTES: Final = 16 << 20

Keys = tuple[str, ...]


class Problem(Exception):
    """What is wrong, and the keys that lead to it. `load` adds the file, and the line if it is not given."""

    def __init__(self, keys: Keys, text: str, *, line: int | None = None) -> None:
        super().__init__(text)
        self.keys = keys
        self.line = line


def read(path: Path) -> str:
    """The text of a configuration file, from one descriptor.

    Raises:
        ConfigError: it cannot be read, is not a plain file, is empty, or could have been written by someone else.
    """
    try:
        data, found = read_plain(path, MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    directory = path.resolve().parent
    for place, owned in ((path, found), (directory, directory.stat())):
        _refuse_foreign(place, owned)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES >> 20} MB; is it the right file?")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: is not UTF-8 text; save it as UTF-8") from None
    if not text.strip():  # a truncated file must not mean "no upstreams" (F-C-03)
        raise ConfigError(f"{path}: is empty; write at least one [upstreams.NAME], or remove the file")
    return text


def read_plain(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    """At most `limit` bytes of a plain file, and whose it is; never waits, whatever `path` is.

    Raises:
        OSError: it cannot be read, or is a directory, pipe or device; `strerror` says it for people.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        data = b""
        while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
            data += more
        return data, found
    finally:
        os.close(descriptor)


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{path}: belongs to another user (uid {found.st_uid}); it decides which commands hubd runs")
    if found.st_mode & stat.S_ISVTX:  # as in /tmp: others cannot replace our file
        return
    # Distributions that give each user a group of the same number make files group-writable by default.
    group = found.st_mode & stat.S_IWGRP and found.st_gid != found.st_uid
    if group or found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path}: others may write it, and it decides which commands hubd runs; run `chmod go-w {path}`"
        )


# --- lines ------------------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"\s*\[{1,2}(?P<path>[^\[\]]+)\]{1,2}\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"""\s*(?P<path>(?:"[^"]*"|'[^']*'|[A-Za-z0-9_.\- ])+?)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")


def line_of_toml(text: str, keys: Keys) -> int | None:
    """The line (from 1) that says most about `keys`; None, if none says anything."""
    header: Keys = ()
    best, best_line = 0, None
    for number, line in enumerate(text.splitlines(), 1):
        if match := _HEADER.fullmatch(line):
            path = header = _parts(match["path"])
        elif match := _ASSIGNMENT.match(line):
            path = header + _parts(match["path"])
        else:
            continue
        shared = _shared(path, keys)
        if shared > best and (shared == len(path) or shared == len(keys)):
            best, best_line = shared, number
    return best_line


def line_of_json(text: str, keys: Keys) -> int | None:
    """The line of the last of `keys` that is found, each looked for behind the one before."""
    at, line = 0, None
    for key in keys:
        match = re.compile(re.escape(f'"{key}"') + r"\s*:").search(text, at)
        if match is None:
            break
        at, line = match.end(), text.count("\n", 0, match.start()) + 1
    return line


def _shared(one: Keys, other: Keys) -> int:
    """How many keys both start with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _parts(path: str) -> Keys:
    return tuple(next(part for part in parts if part or part == parts[-1]) for parts in _PART.findall(path))
