"""Records about files of hosts, by path, in one small file, which is private (0600) since entries may hold secrets."""

from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from config.atomic_writes import read_file, replace_file

FORMAT: Final = 1
T = TypeVar("T")


class _File(Struct, Generic[T], frozen=True):
    format: int
    files: dict[str, T]


class RecordsByFile(Generic[T]):
    """One such file. Callers hold the lock (`config.atomic_writes.lock_edits`)."""

    kind: ClassVar[Any]
    """The type of a record."""

    def __init__(self, path: Path) -> None:
        """Raises: EditError, if it cannot be read."""
        self._path = path
        self._records: dict[str, T] = {}
        data = read_file(path)
        if data is not None:
            try:
                self._records = msgspec.json.decode(data, type=_File[self.kind]).files  # type: ignore[name-defined]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._refuse_or_forget(path)

    def _refuse_or_forget(self, path: Path) -> None:
        """Forget a damaged file, since entries still show what they are. A subclass that must not raises EditError."""

    def get(self, path: Path) -> T | None:
        """The record of the file at `path`, or None."""
        return self._records.get(str(path))

    def all(self) -> dict[Path, T]:
        """The records of all files."""
        return {Path(path): record for path, record in self._records.items()}

    def put(self, path: Path, record: T | None) -> None:
        """Keep a record from now on, on disk; None removes it. Raises: EditError, if the file cannot be written."""
        was = read_file(self._path)
        if record is None:
            self._records.pop(str(path), None)
        else:
            self._records[str(path)] = record
        data = msgspec.json.format(msgspec.json.encode(_File(FORMAT, self._records)), indent=1)
        if data != was and (was is not None or self._records):
            replace_file(self._path, data, was=was)
