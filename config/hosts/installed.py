"""Our entries in a file of a host: which are ours, and what is remembered of how they came. Nothing is changed here.

There is the hub's one entry (`KEY`), or, after `hubd install --each`, one for each server, under the server's own name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from config.editing.text import serverfile
from config.hosts.entry import KEY, starts_connect, upstream_of, url_of
from config.hosts.facts import Place
from config.hosts.remembered import Remembered


class Record(Struct, frozen=True):
    """The change that installed one of our entries in one file."""

    host: str
    entry: dict[str, Any]
    old: str = ""
    new: str = ""
    """The text that took the place of `old`."""
    made_file: bool = False
    made_root: bool = False
    """There was no mapping of servers before."""
    made_directories: tuple[str, ...] = ()


class Records(Remembered[Record]):
    """The records of all files. `get` finds that of the hub's own entry."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Record)

    def of(self, path: Path, key: str) -> Record | None:
        """The record of one entry, or None."""
        return self.get(_slot(path, key))

    def keep(self, path: Path, key: str, record: Record | None) -> None:
        """Keep the record of one entry from now on, on disk; None removes it.

        Raises:
            EditError: the file cannot be written.
        """
        self.put(_slot(path, key), record)

    def keys(self, path: Path) -> list[str]:
        """The names of all entries that were installed in a file."""
        start = f"{path}\0"
        found = [KEY] if self.get(path) is not None else []
        return [*found, *(str(each).removeprefix(start) for each in self.all() if str(each).startswith(start))]


def _slot(path: Path, key: str) -> Path:
    """The path under which an entry is recorded. No file has a NUL in its name."""
    return path if key == KEY else Path(f"{path}\0{key}")


def is_ours(entry: Any, record: Record | None) -> bool:
    """True if an entry starts hubd, or is what we put there, or reaches what that reached."""
    if starts_connect(entry):
        return True
    if record is None:
        return False
    url = url_of(record.entry)
    return entry == record.entry or (url is not None and url_of(entry) == url)


def our_entries(place: Place, entries: Mapping[str, Any], records: Records) -> dict[str, Record | None]:
    """Our entries among those of a file, in their order, with what is remembered of each."""
    found = {}
    for key, entry in entries.items():
        record = records.of(place.path, key)
        if is_ours(entry, record) and (key == KEY or record is not None or upstream_of(entry) == key):
            found[key] = record
    return found


def hub_entry(place: Place, text: str, records: Records | None) -> Any:
    """The entry by which a host reaches the hub: the hub's own, or another one of that name, or the first of those that
    reach one server each; None: there is none.

    Raises:
        EditRefused: `text` cannot be read.
    """
    entries = serverfile.entries(place.kept, text)
    if KEY in entries:
        return entries[KEY]
    if records is None:
        return next((entry for key, entry in entries.items() if upstream_of(entry) == key), None)
    return next((entries[key] for key in our_entries(place, entries, records)), None)
