"""Safe reading of a configuration file, and of files that hubd keeps for itself.

A configuration file decides which commands this user runs, so one that others can change is refused.
"""

import errno
import logging
import os
import shlex
import stat
from collections.abc import Container
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from config.diagnostics import Problem

PROJECT_FILES: Final = (".hubd.toml", ".mcp.json")
"""The names of the files of a project. The first wins."""
MAX_PROJECT_BYTES: Final = 64 << 10
"""Limit of a project's file, which may have come with a checkout."""
MAX_OWN_BYTES: Final = 1 << 20
"""Limit of a file that is written for hubd, or by it."""
MAX_BYTES: Final = 16 << 20
"""Limit of a host's file: some keep their history there."""
_HOSTS_SUFFIXES: Final = (".json", ".jsonc", ".yaml", ".yml")
_PIECE: Final = 1 << 20
ROOT: Final = 0
"""The user who may change all files anyway."""

log = logging.getLogger("hubd.config")
T = TypeVar("T")


class Content(NamedTuple):
    """The content of a file, at most one byte more than may be; and its owner and mode."""

    data: bytes
    found: os.stat_result


def limit_of(path: Path) -> int:
    """The bytes that a configuration file of this name may have. JSON and YAML are what hosts write."""
    if path.name in PROJECT_FILES:
        return MAX_PROJECT_BYTES
    return MAX_BYTES if path.suffix in _HOSTS_SUFFIXES else MAX_OWN_BYTES


def read(path: Path) -> str:
    """The text of a configuration file. Raises: as `fetch` and `decode_content`."""
    return decode_content(path, fetch(path))


def fetch(path: Path) -> Content:
    """The content of a configuration file, not decoded.
    Raises: Problem, if it cannot be read, or is not a plain file."""
    try:
        return Content(*read_plain(path, limit_of(path) + 1))
    except OSError as error:
        raise Problem((), f"cannot be read: {error.strerror}") from None


def decode_content(path: Path, content: Content) -> str:
    """The text of a configuration file, which was fetched.
    Raises: Problem, if it is too large or empty or no text, or someone else could have written it."""
    data = content.data
    refuse_foreign(path, content.found)
    refuse_large(path, len(data))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Problem((), "is not UTF-8 text; save it as UTF-8", line=line) from None
    if not text.strip():  # a truncated file must not mean "no upstreams"
        raise Problem((), "is empty; write at least one [upstreams.NAME], or remove the file")
    return text


def refuse_large(path: Path, size: int) -> None:
    """Raise Problem, if a configuration file of this name may not have so many bytes."""
    if size > (limit := limit_of(path)):
        shown = f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit >> 10} KB"
        raise Problem((), f"is larger than {shown}; is it the right file?")


def refuse_foreign(path: Path, found: os.stat_result | None = None) -> None:
    """Raise, if someone else could have written `path`, or could replace it; `found` is what was read, if it was.
    Raises: Problem, if someone else could, or it cannot be told."""
    try:
        places = [(path, found or path.stat())]
        places += [(place, place.stat()) for place in dict.fromkeys((path.parent, path.resolve().parent))]
    except OSError as error:
        raise Problem((), f"cannot be read: {error.strerror}") from None
    for place, owned in places:
        what = "" if place == path else f"its directory {place} "
        if is_foreign(owned):
            text = f"{what}belongs to another user (uid {owned.st_uid}); it decides which commands hubd runs"
            raise Problem((), text)
        if owned.st_mode & stat.S_ISVTX:  # as in /tmp: others cannot replace our file
            continue
        # Distributions that give each user a group of the same number make files group-writable by default.
        group = owned.st_mode & stat.S_IWGRP and owned.st_gid != owned.st_uid
        if group or owned.st_mode & stat.S_IWOTH:
            text = f"others may write {what.strip() or 'it'}, and it decides which commands hubd runs"
            remedy = f"run `chmod go-w {shlex.quote(str(place))}`"
            raise Problem((), f"{text}; {remedy}", remedy=remedy)


def read_plain(path: Path, limit: int, flags: int = 0) -> tuple[bytes, os.stat_result]:
    """At most `limit` bytes of a plain file, and its owner and mode; never waits, even for a pipe. `flags`: of `open`.
    Raises: OSError, if it cannot be read, or is a directory, pipe or device; `strerror` says it for people."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except ValueError:  # a NUL in it, or half a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file")
        data = bytearray()
        while len(data) < limit and (more := os.read(descriptor, min(_PIECE, limit - len(data)))):
            data += more
        return bytes(data), found
    finally:
        os.close(descriptor)


def read_private(path: Path, limit: int) -> Content:
    """The content of a file of the hub's own, to which no link may lead.
    Raises: FileNotFoundError, if there is none; OSError, if it cannot be read, is no plain file, or is larger than
    `limit`; `strerror` says it for people."""
    try:
        content = Content(*read_plain(path, limit + 1, os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link, and hubd makes none") from None
        raise
    if len(content.data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than the {limit} bytes it may have")
    return content


def read_state(path: Path, limit: int, type: type[T], otherwise: str, raised: Container[int | None] = ()) -> T | None:
    """The content of a file of JSON in the state directory; None: there is none, or it cannot be used, which is logged
    with what happens `otherwise`. Raises: OSError, if its number is among `raised`."""
    try:
        return msgspec.json.decode(read_private(path, limit).data, type=type)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in raised:
            raise
        log.warning("cannot read %s: %s; %s", path, error.strerror, otherwise)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        log.warning("%s is damaged; %s", path, otherwise)
    return None


def is_foreign(found: os.stat_result) -> bool:
    """True if a file or directory belongs to another user than this one or root."""
    return found.st_uid not in (ROOT, os.geteuid())
