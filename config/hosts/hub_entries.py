"""Our entries in a file of a host: making them, recognizing them, what is remembered of how they came, and the text
with or without them. Nothing is written here.

There is the hub's one entry (`KEY`), or, after `hubd install --each`, one for each server, under the server's own
name.

A host that the desktop started knows nothing of what a shell has set. So whatever leads this shell's hub elsewhere
than to the usual directories has to stand in the entry (`variables_to_carry`): `HUBD_RUNTIME_DIR`, where the sockets
are, also in place of an `XDG_RUNTIME_DIR` that is not the usual one, which means more to more programs;
`XDG_CONFIG_HOME` and `XDG_STATE_HOME`, since the first host starts the hub, which is to be the same one that this
shell would start. These are names of directories. No other variable is carried: secrets belong in `hubd.env`.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from config import base_directories
from config.editing.text import jsonc, serverfile
from config.editing.text.change import Edit, EditRefused
from config.hosts.known_hosts import KnownHost, Place
from config.hosts.records_by_file import RecordsByFile
from config.loading.translate_host_file import command_of, hubd_command

KEY: Final = "hub"
"""The name of our entry in every host."""


def stdio_entry(
    host: KnownHost,
    hubd: str,
    variables: Mapping[str, str] = {},
    *,
    upstream: str = "",
    profile: str = "",
    key: str = KEY,
) -> dict[str, Any]:
    """The entry that starts `hubd connect` for `host`, with these variables set for it. `upstream`: for that server
    alone, under its own tool names; `profile`: for what that shows; `key` is the name of the entry."""
    chosen = ["--upstream", upstream] if upstream else ["--profile", profile] if profile else []
    values = {"command": hubd, "args": ["connect", *chosen, "--host", host.id], "name": key}
    entry: dict[str, Any] = _fill(host.stdio, values)
    return entry | {host.environment: dict(variables)} if variables else entry


def http_entry(
    host: KnownHost, url: str, token: str | None, *, upstream: str = "", key: str = KEY
) -> dict[str, Any] | None:
    """The entry that reaches the hub at `url`; None: the host takes no URLs. Without a token there is no header.
    `upstream`, `key`: as for `stdio_entry`."""
    if host.http is None:
        return None
    url = f"{url}/{upstream}" if upstream else url
    values = {"url": url, "authorization": None if token is None else f"Bearer {token}", "name": key}
    return {**_fill(host.http, values)}


def variables_of(host: KnownHost, entry: Any) -> dict[str, str]:
    """The variables that an entry sets for what it starts."""
    found = entry.get(host.environment) if isinstance(entry, dict) else None
    if isinstance(entry, dict) and isinstance(entry.get("command"), dict):  # older Zed
        found = entry["command"].get("env")
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def url_of(entry: Any) -> str | None:
    """The URL that an entry reaches."""
    found = [entry.get(key) for key in ("url", "serverUrl", "httpUrl", "uri")] if isinstance(entry, dict) else []
    return next((url for url in found if isinstance(url, str)), None)


def starts_connect(entry: Any) -> bool:
    """True if an entry is one of ours: it starts `hubd connect`."""
    return hubd_command(entry) == "connect"


def upstream_of(entry: Any) -> str:
    """The server that one of our entries is for; "": all, or it is none of ours."""
    words = command_of(entry) if starts_connect(entry) else []
    return next((after for word, after in pairwise(words) if word == "--upstream"), "")


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        filled = {key: _fill(each, values) for key, each in template.items()}
        return {key: each for key, each in filled.items() if each not in (None, {}) or template[key] == {}}
    if isinstance(template, list):
        parts = [_fill(each, values) for each in template]
        return [word for part in parts for word in (part if isinstance(part, list) else [part])]
    return values[template[1:-1]] if isinstance(template, str) and template.startswith("{") else template


_DIRECTORIES: Final = {"XDG_CONFIG_HOME": ".config", "XDG_STATE_HOME": ".local/state", "XDG_DATA_HOME": ".local/share"}


def variables_to_carry(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables that lead a program which has no others to the same hub as `environ` does."""
    found = {}
    known = dict(environ)
    runtime = base_directories.runtime_dir(known)
    if runtime not in (base_directories.runtime_dir({}), f"/run/user/{os.getuid()}/hubd"):
        found["HUBD_RUNTIME_DIR"] = runtime
    for variable, usual in _DIRECTORIES.items():
        value = base_directories.absolute(variable, known)
        if value not in (None, f"{home}/{usual}"):
            found[variable] = str(value)
    return found


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


class Records(RecordsByFile[Record]):
    """The records of all files. `get` finds that of the hub's own entry."""

    kind = Record

    def of(self, path: Path, key: str) -> Record | None:
        """The record of one entry, or None."""
        return self.get(_slot(path, key))

    def keep(self, path: Path, key: str, record: Record | None) -> None:
        """Keep the record of one entry from now on, on disk; None removes it.
        Raises: EditError, if the file cannot be written."""
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
    reach one server each; None: there is none. Raises: EditRefused, if `text` cannot be read."""
    entries = serverfile.entries(place.kept, text)
    if KEY in entries:
        return entries[KEY]
    if records is None:
        return next((entry for key, entry in entries.items() if upstream_of(entry) == key), None)
    return next((entries[key] for key in our_entries(place, entries, records)), None)


def facts_of_first(place: Place, text: str, *, is_new: bool) -> Record:
    """Facts about what our first entry in a file makes necessary beside itself: the file, its root, directories."""
    document = serverfile.read(place.kept, text)
    for name in place.kept.root:
        document = document.get(name) if isinstance(document, dict) else None
    missing = tuple(str(parent) for parent in reversed(place.path.parents) if not parent.exists())
    return Record(place.host.id, {}, made_file=is_new, made_root=document is None, made_directories=missing)


def with_facts(record: Record | None, made: Record) -> Record | None:
    """The record with what our entries made necessary, which goes when the last of them goes."""
    if record is None:
        return None
    facts = {"made_file": made.made_file, "made_root": made.made_root, "made_directories": made.made_directories}
    return structs.replace(record, **facts)


def with_entries(
    place: Place, text: str, ins: Mapping[str, dict[str, Any]], made: Record
) -> tuple[str, dict[str, Record | None]]:
    """`text` with these entries, and what is to be remembered of each.
    Raises: EditRefused, if that cannot be done for certain."""
    records: dict[str, Record | None] = {}
    for key, entry in ins.items():
        edit = serverfile.insert(place.kept, text, key, entry)
        text = edit.apply(text)
        records[key] = structs.replace(made, host=place.host.id, entry=entry, old=edit.old, new=edit.new)
    return text, records


def without_entries(
    place: Place, text: str, outs: Mapping[str, Record | None], all: Iterable[Record | None]
) -> tuple[str, Record]:
    """`text` without these entries, the last one first; and what all of ours had made necessary.
    Raises: EditRefused, if that cannot be done for certain."""
    known = [record for record in all if record is not None]
    made = Record(
        place.host.id,
        {},
        made_file=any(record.made_file for record in known),
        made_root=any(record.made_root for record in known),
        made_directories=max((record.made_directories for record in known), key=len, default=()),
    )
    for key, record in reversed(list(outs.items())):
        text = _undone(place, text, key, record, made)
    return text, made


def _undone(place: Place, text: str, key: str, record: Record | None, made: Record) -> str:
    """`text` without one of our entries: verbatim as it came if that is still there, else the entry alone."""
    shape = place.kept
    meant = serverfile.without(shape, serverfile.read(shape, text), key)
    at = text.find(record.new) if record is not None and record.new else -1
    while record is not None and at >= 0:
        candidate = Edit(at, record.new, record.old).apply(text)
        with suppress(EditRefused):
            if serverfile.plain(shape, serverfile.read(shape, candidate)) == meant:
                return candidate
        at = text.find(record.new, at + 1)
    left = serverfile.remove(shape, text, key, comments=False).apply(text)  # we wrote none
    if made.made_root and shape.format == "json" and not serverfile.entries(shape, left):
        with suppress(EditRefused):
            without_root = jsonc.remove(left, shape.root[:-1], shape.root[-1]).apply(left)
            if serverfile.plain(shape, jsonc.read(without_root)) == meant:
                return without_root
    return left
