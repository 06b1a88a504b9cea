"""Files of the audit log of one hub, in a directory of the state directory (0700, files 0600).

    audit.jsonl     the present file; when it is large or old, it becomes
    audit.jsonl.1   and that one audit.jsonl.2, ...; those beyond what is to be kept are removed

A hub holds a lock for as long as it writes. Another hub of the same state directory finds that taken, and has a log of
its own beside it: `audit-2.jsonl`, with a chain of its own. So whoever gets a lock knows that whoever had it is gone.

A crash may leave a line without its end; the next hub cuts it off, and says in its first record how many bytes that
were. Calls that had begun then get their `end`, `interrupted`. If the last line is no record, somebody else has written
there: the file is put aside as it is, so that `hubd audit verify` finds it, and the chain goes on with what that line
says its hash is.

What is written is written as a whole: if there is no room for it, the part that was written is cut off again.

Records that somebody else removes are missed: the last number and hash stand beside the directory, too, in `audit.head`
of the state directory, as they were after the first write, every 1 000 records, after a second of silence and at the
end. The next record is an `open` that says `lost`. What the hub itself removes, it says before it does: `pruned` is the
first number that is left.
"""

import logging
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from config.atomic_writes import replace_private
from config.private_directories import make_dirs, refuse_foreign_dir
from config.safe_reading import MAX_OWN_BYTES, read_state
from config.settings import AuditConfig
from hub.linux.file_locks import try_lock
from hub.rules.audit.lines import Draft, Stamps, draft, write_lines
from hub.rules.audit.reading import find_open_calls, read_end
from hub.wire.mcp import HUBD_VERSION

log = logging.getLogger("hubd.audit")
MAX_BYTES: Final = 16 << 20
HEAD_EVERY: Final = 1_000
"""Records after which the head is said in the hub's log, and kept beside the files."""
MAX_FILES: Final = 10_000
"""More than there are names for."""
MAX_SEATS: Final = 64
"""Hubs that may write in one directory."""
TAIL_BYTES: Final = 256 << 10
"""More than the longest line has."""
DAY_S: Final = 86_400
LEAP_S: Final = 30 * DAY_S
"""A clock that is so far ahead of the last record may be wrong: no file is removed for its age then."""
SOON_DAYS: Final = 7
"""Files that have to go before may hold what somebody wants gone."""
_SEAT: Final = re.compile(r"(audit(?:-([2-9]|[1-9][0-9]))?\.jsonl)(?:\.([1-9][0-9]{0,3}))?")
_HASH_AT_END: Final = re.compile(rb'"h":"([0-9a-f]{64})"\}\n$')
_TIME: Final = re.compile(r'\{"t":"([^"]*)"')
_NUMBER: Final = re.compile(rb'\{"t":"[^"]*","n":([0-9]{1,18}),')


class Head(Struct, frozen=True):
    """The last record of a log, as it is kept beside it."""

    n: int = 0
    h: str = ""


def read_head(directory: Path, name: str) -> Head:
    """The last record that the log `name` of a directory is known to have had. Blocks; never raises."""
    path = directory.with_name(name).with_suffix(".head")
    try:
        return read_state(path, MAX_OWN_BYTES, Head, "nobody misses records of the audit log") or Head()
    except OSError:
        return Head()


def read_heads(directory: Path) -> dict[str, Head]:
    """The last record that each log of a directory is known to have had, by the name of the log, which may be gone.
    Blocks; never raises."""
    names: list[str] = []
    with suppress(OSError):
        names = [
            f"{each.removesuffix('.head')}.jsonl" for each in os.listdir(directory.parent) if each.endswith(".head")
        ]
    return {name: head for name in names if _SEAT.fullmatch(name) and (head := read_head(directory, name)).n}


class AuditFiles:
    """The files of one hub. Used by one thread at a time. `write` is that of `os`; `wall` the time of day."""

    def __init__(
        self, directory: Path, wall: Callable[[], float], *, write: Callable[[int, bytes], int] = os.write
    ) -> None:
        self.head, self.number = "", 0
        """The hash and the number of the last record."""
        self._directory = directory
        self._wall = wall
        self._write = write
        self._stamps = Stamps()
        self._config = AuditConfig()
        self._lock = self._file = -1
        self._path = directory / "audit.jsonl"
        self._size = 0
        self._has_rest = False
        """There may be more in the present file than that: what was written of records that had no room."""
        self._since = 0.0
        """The time of the first record of the present file."""
        self._owed: list[Draft] = []
        """Records of how an earlier hub has ended, or that records are lost, until they are written."""
        self._going: list[Path] = []
        """Files that are removed once it is written that they are."""
        self._saved = 0
        """The number of the record that is kept beside the files; 0: none of this run."""
        self.has_losses = False
        """Somebody else has removed records, as far as this hub knows."""
        self.is_short = False
        """This hub has removed some of a few days ago, since there were so many: whoever wants some gone makes more."""

    @property
    def is_open(self) -> bool:
        """True if there is a file that it writes."""
        return self._file >= 0

    @property
    def path(self) -> Path:
        """The present file, or where it will be."""
        return self._path

    @property
    def is_ahead(self) -> bool:
        """True if there are records behind the one that is kept beside the files."""
        return self._file >= 0 and self._saved != self.number

    def adjust(self, config: AuditConfig) -> None:
        """Keep files by other settings."""
        self._config = config

    def append(self, drafts: Sequence[Draft]) -> None:
        """Write records, all or none. Blocks. Raises OSError: they cannot be written; nothing has changed."""
        self._make_ready()
        data, number, head = self._lines(drafts)
        if self._size and (self._size + len(data) > MAX_BYTES or self._is_old()):
            self._rotate()
            data, number, head = self._lines(drafts)
        begins = not self._size
        try:
            if self._has_rest:
                os.ftruncate(self._file, self._size)
            self._has_rest = True
            self._write_all(data)
            if self._config.sync:
                os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
                self._has_rest = False
            raise
        self._has_rest, self._owed = False, []
        self._size += len(data)
        self.head, self.number = head, number
        if begins or not self._saved or number - self._saved >= HEAD_EVERY:
            self.save_head()
        self._remove_old()

    def save_head(self) -> None:
        """Keep the last record beside the files, of which nothing is lost then. Never raises."""
        with suppress(OSError):
            os.fdatasync(self._file)
            path = self._directory.with_name(self._path.name).with_suffix(".head")
            replace_private(path, msgspec.json.encode(Head(self.number, self.head)))
            self._saved = self.number

    def close(self) -> None:
        """Close the files and give the lock up."""
        if self.is_ahead:
            self.save_head()
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1
        self.number = self._saved = 0

    # --- one write ----------------------------------------------------------------------------------------------------

    def _lines(self, drafts: Sequence[Draft]) -> tuple[bytes, int, str]:
        """The lines of records, with the last number and hash. A file begins with one that says how the chain goes
        on."""
        first = [] if self._size else [self._opening(prev=self.head, **self._choose_old(self.number + 1))]
        return write_lines((*first, *self._owed, *drafts), self.number, self.head)

    def _opening(self, **more: object) -> Draft:
        members = {"k": "open", "version": HUBD_VERSION, "pid": os.getpid(), **more}
        return draft(self._stamps.at(self._wall()), members)

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._write(self._file, left) :]  # type: ignore[arg-type]

    def _is_old(self) -> bool:
        """True if the present file spans its part of the days that are kept."""
        days, files = self._config.keep_days, self._config.keep
        return bool(days) and self._wall() - self._since > days * DAY_S / max(files, 1)

    # --- files --------------------------------------------------------------------------------------------------------

    def _make_ready(self) -> None:
        """Open the present file, if it is not, or another one is in its place. Raises OSError."""
        if self._file >= 0:
            with suppress(OSError):
                own = os.fstat(self._file)
                if own.st_size >= self._size and os.path.samestat(own, os.stat(self._path, follow_symlinks=False)):
                    return
            os.close(self._file)
            self._file = -1
        if self.number:
            self._open_file()
            last = read_end(self._read_last()[0])
            if last is None or last[:2] != (self.number, self.head):
                self._owed.append(self._opening(lost=self._note_loss(self.number)))
            return
        if self._lock < 0:
            make_dirs(str(self._directory))
            refuse_foreign_dir(str(self._directory))
            self._take_seat()
        self._open_file()
        self._recover()

    def _take_seat(self) -> None:
        for number in range(1, MAX_SEATS + 1):
            name = "audit" if number == 1 else f"audit-{number}"
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(self._directory / f"{name}.lock", flags, 0o600)
            is_ours = False
            try:
                is_ours = try_lock(lock)
            finally:
                if not is_ours:
                    os.close(lock)
            if is_ours:
                self._lock, self._path = lock, self._directory / f"{name}.jsonl"
                return
        raise OSError(11, f"{MAX_SEATS} hubs write in it already", str(self._directory))

    def _open_file(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        found = os.fstat(self._file)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._file)
            self._file = -1
            raise OSError(22, "it is not a plain file", str(self._path))
        if found.st_mode & 0o077:
            os.fchmod(self._file, 0o600)
        self._size, self._since = found.st_size, self._wall()
        if first := _TIME.match(os.pread(self._file, 64, 0).decode(errors="replace")):
            with suppress(ValueError):  # it is damaged
                self._since = datetime.fromisoformat(first[1]).timestamp()

    def _recover(self) -> None:
        """Go on with what an earlier hub has left. Raises OSError."""
        last, torn = self._read_last()
        found = read_end(last) if last else (0, "", "close")
        is_damaged = found is None
        if found is None:
            named = _HASH_AT_END.search(last)
            found = 0, named[1].decode() if named else "", ""
        self.number, self.head, kind = found
        kept = read_head(self._directory, self._path.name)
        is_lost = not is_damaged and self._is_missing(kept) and self._note_loss(kept.n)
        if is_lost and not self.number:
            self.number, self.head = kept.n, kept.h
        if is_damaged and self._size:
            self._rotate()
        facts: dict[str, object] = {"torn": torn, "damaged": is_damaged, "lost": is_lost}
        facts = {name: value for name, value in facts.items() if value}
        if self._size:
            facts |= self._choose_old(self.number + 1, is_first=not kept.n)
        self._owed = [self._opening(**facts)] if self._size or facts else []
        if kind != "close":
            t, end = self._stamps.at(self._wall()), {"k": "end", "out": "interrupted"}
            self._owed += [draft(t, {**end, "ref": ref}) for ref in find_open_calls(self._last_lines())]

    def _is_missing(self, kept: Head) -> bool:
        """True if the record `kept` was there, and is no more."""
        if self.number <= kept.n:
            return (self.number, self.head) != (kept.n, kept.h)
        return bool(kept.n) and not any(kept.h.encode() in line for line in self._last_lines())

    def _note_loss(self, number: int) -> bool:
        """Tell people that somebody has removed records, of which this is the last number; True."""
        log.warning("records of the audit log up to number %d are missing: %s was removed, or cut", number, self._path)
        self.has_losses = True
        return True

    def _read_last(self) -> tuple[bytes, int]:
        """The last whole line of all files, and the bytes behind it, as `_read_tail`."""
        last, torn = self._read_tail()
        if not last and (old := self._path_of(1)).exists():  # it ended between two files
            last = _last_line(old.read_bytes())
        return last, torn

    def _read_tail(self) -> tuple[bytes, int]:
        """The last whole line; what is behind it is cut off, and counted."""
        data = os.pread(self._file, TAIL_BYTES, max(0, self._size - TAIL_BYTES))
        if b"\n" not in data and self._size > TAIL_BYTES:  # nothing that the hub writes is so long
            return data, 0
        torn = len(data) - (data.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(self._file, self._size - torn)
            self._size -= torn
        return _last_line(data), torn

    def _last_lines(self) -> Iterator[bytes]:
        """The lines of the present file and of the one before it."""
        for path in (self._path_of(1), self._path):
            with suppress(FileNotFoundError), path.open("rb") as file:
                yield from file

    def _path_of(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _rotate(self) -> None:
        """Put the present file aside and begin another one. Raises OSError."""
        there = next(number for number in count(1) if not self._path_of(number).exists())
        for number in range(there, 1, -1):
            os.replace(self._path_of(number - 1), self._path_of(number))
        os.replace(self._path, self._path_of(1))
        os.close(self._file)
        self._file = -1
        self._open_file()

    def _choose_old(self, next_number: int, *, is_first: bool = False) -> dict[str, object]:
        """Choose the files that are too many, or too old; and the member by which the next record, of this number, says
        what is left without them. `is_first`: it says so though none are. Never raises."""
        self._going = []
        with suppress(OSError):
            files, now = _files_of(self._directory, self._path.name), self._wall()
            times = {number: path.stat().st_mtime for path, number in files if number}
            limit = now - self._config.keep_days * DAY_S
            goes_by_age = self._config.keep_days and now - max(times.values(), default=now) < LEAP_S
            old = [at for at in times if at > self._config.keep or (goes_by_age and times[at] < limit)]
            end = min(old, default=MAX_FILES)
            days = min(SOON_DAYS, self._config.keep_days or SOON_DAYS)
            if not self.is_short and any(0 < self._config.keep < at and now - times[at] < days * DAY_S for at in old):
                self.is_short = True
                log.warning("records of the audit log of the last days are removed, so many have come: %s", self._path)
            self._going = [path for path, at in files if at >= end]
            left = (path for path, at in files if at < end)
            first = next((_NUMBER.match(_beginning(path)) for path in left), None)
            number = next_number if first is None else int(first[1])
            return {"pruned": number} if self._going or (is_first and number > 1) else {}
        return {}

    def _remove_old(self) -> None:
        """Remove the files that were chosen. Never raises."""
        for path in self._going:
            with suppress(OSError):
                path.unlink()
        self._going = []


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(128)


def _last_line(data: bytes) -> bytes:
    """The last whole line; b"": there is none."""
    end = data.rfind(b"\n")
    return data[data.rfind(b"\n", 0, end) + 1 : end + 1] if end >= 0 else b""


def _files_of(directory: Path, name: str) -> list[tuple[Path, int]]:
    """The files of the log whose present one has this name, the oldest first, each with its number; 0: the present."""
    names = [parts for each in os.listdir(directory) if (parts := _SEAT.fullmatch(each)) and parts[1] == name]
    return sorted(((directory / parts[0], int(parts[3] or 0)) for parts in names), key=lambda file: -file[1])


def logs_in(directory: Path) -> dict[str, list[Path]]:
    """The logs in a directory by name, each with its files, the oldest first."""
    try:
        names = {found[1]: int(found[2] or 1) for each in os.listdir(directory) if (found := _SEAT.fullmatch(each))}
    except FileNotFoundError:
        return {}
    return {name: [path for path, _ in _files_of(directory, name)] for name in sorted(names, key=names.__getitem__)}
