"""Records about files of hosts, by path, in one small file, which is private (0600) since entries may hold secrets; and
the servers that each host had itself when they were imported (`HadBefore`): an import that takes them out of the host
does not lose what the host had.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from config.atomic_writes import read_file, replace_file
from config.hosts.host_servers import Server

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


class Had(Struct, frozen=True):
    """The servers of one host in one of its files."""

    host: str
    tools: dict[str, tuple[str, ...]]
    """By name in the hub, the choice of tools as the setting `tools` says it; `("*",)`: all."""


class HadBefore(RecordsByFile[list[Had]]):
    """The servers that every host had, by its file. Damaged records are forgotten: they only help to suggest."""

    kind = list[Had]

    def add(self, servers: Iterable[tuple[str, Server]]) -> None:
        """Keep these servers, by their names in the hub; what a file had earlier stays.
        Raises: EditError, if the record cannot be written."""
        found: dict[Path, dict[str, dict[str, tuple[str, ...]]]] = {}
        for name, server in servers:
            path, host = server.place.path, server.place.host.id
            if path not in found:
                found[path] = {each.host: dict(each.tools) for each in self.get(path) or ()}
            found[path].setdefault(host, {})[name] = server.tools
        for path, hosts in found.items():
            had = [Had(host, tools) for host, tools in hosts.items()]
            if had != self.get(path):
                self.put(path, had)
