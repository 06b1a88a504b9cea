"""Precedence among entries of one name: which of them count, and the place that each value comes from.

Layers, the first one that names an upstream wins: the project of a host (`.hubd.toml`, `.mcp.json`; see `projects`),
the user's own files (`hubd.toml`, `upstreams.d/`, `include`), what was imported from hosts (`imported/`).

An entry with `command` or `url` replaces the one below it. One without adds its settings to it, tables key by key, so
that `[upstreams.NAME] disabled = true` is enough to turn off what was imported. Within one layer a name stands once;
only the main file may add to an entry of its own layer. Below all of them are the `[defaults]` of the main file.
"""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from config.diagnostics import Keys
from config.loading.read_source import Layer, Source
from config.loading.translate_host_entry import names_said
from config.loading.translate_host_file import FieldTable
from config.setting_declarations import declarations
from config.settings import ServerSettings


class Origin(Struct, frozen=True):
    """The place that a value comes from."""

    file: Path
    line: int | None
    layer: Layer

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line else str(self.file)


class TableInFile(Struct, frozen=True):
    """One table and the file it stands in."""

    source: Source
    table: FieldTable

    def defines(self) -> bool:
        """True if it replaces what is below it."""
        return "command" in self.table.values or "url" in self.table.values

    def origin(self, path: Keys) -> Origin:
        """The place of one of its settings."""
        return Origin(self.source.path, self.source.findings.line(self.table.place(path)), self.source.layer)


class Stack(Struct, frozen=True):
    """All entries of one name, the one that wins first."""

    used: tuple[TableInFile, ...]
    """The first that defines the upstream, and before it those that add to that."""
    shadowed: tuple[TableInFile, ...]
    defaults: TableInFile | None = None
    """The settings of all servers that make sense for this one."""

    @property
    def saying(self) -> tuple[TableInFile, ...]:
        """The tables that say what holds, the one that wins first."""
        return self.used if self.defaults is None else (*self.used, self.defaults)

    def defines(self) -> bool:
        """True if any entry has `command` or `url`."""
        return self.used[-1].defines()

    def value(self, setting: str) -> Any:
        """The value of a setting as the files have it; None if they have none."""
        return next((entry.table.values[setting] for entry in self.saying if setting in entry.table.values), None)

    def holder(self, path: Keys) -> TableInFile:
        """The entry that says what holds at `path`, or else the one that defines the upstream."""
        for length in range(len(path), 0, -1):
            for entry in self.saying:
                if _is_there(entry.table.values, path[:length]):
                    return entry
        return self.used[-1]

    def is_unresolved(self, path: Keys) -> bool:
        """True if a setting holds a reference to what is not there."""
        entry = self.holder(path)
        keys = entry.table.place(path)
        return any(problem.unresolved and problem.keys == keys for problem in entry.source.findings.problems)

    def wrong(self, path: Keys, text: str, *, unresolved: str = "") -> None:
        """Add a problem of a setting to the findings of the file that has it; `unresolved` as in `Diagnostic`."""
        entry = self.holder(path)
        entry.source.findings.wrong(entry.table.place(path), text, unresolved=unresolved)

    def warn(self, path: Keys, text: str) -> None:
        """Add a warning about a setting to the findings of the file that has it."""
        entry = self.holder(path)
        entry.source.findings.warn(entry.table.place(path), text)


def _is_there(values: Any, path: Keys) -> bool:
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True


def stacks(sources: Iterable[Source], below: Collection[str] = ()) -> dict[str, Stack]:
    """The entries of all files by name, in the order in which names first appear; `below`: names of upstreams of layers
    that were read before.

    Names that stand twice in a layer are among the findings of the later file.
    """
    sources = list(sources)
    found: dict[str, list[TableInFile]] = {}
    main: Source | None = None
    said = names_said(source.tables for source in sources)
    for source in sources:
        main = source if source.is_main else main
        for table in (each.settle(said, below) for each in source.tables):
            found.setdefault(table.name, []).append(TableInFile(source, table))
    return {name: _stack(name, entries, main) for name, entries in found.items()}


def _stack(name: str, entries: list[TableInFile], main: Source | None) -> Stack:
    ordered = [entry for layer in Layer for entry in _of_layer(name, layer, entries)]
    defining = next((at for at, entry in enumerate(ordered) if entry.defines()), len(ordered) - 1)
    used = tuple(ordered[: defining + 1])
    return Stack(used, tuple(ordered[defining + 1 :]), _defaults(name, used, main))


def _defaults(name: str, used: tuple[TableInFile, ...], main: Source | None) -> TableInFile | None:
    """The `[defaults]` of the main file for one server; None: there are none for it."""
    values = None if main is None else main.settings.get("defaults")
    if main is None or not isinstance(values, dict):
        return None
    is_url = "command" not in used[-1].table.values
    fitting = {key: _rest(key, value, used) for key, value in values.items() if makes_sense(key, value, is_url=is_url)}
    return TableInFile(main, FieldTable(name, ("defaults",), fitting)) if fitting else None


def _rest(setting: str, value: Any, used: tuple[TableInFile, ...]) -> Any:
    """A default without what the server says itself, which may hold references that lead nowhere."""
    if not isinstance(value, dict):
        return value
    own = [table for entry in used if isinstance(table := entry.table.values.get(setting), dict)]
    return {key: each for key, each in value.items() if not any(key in table for table in own)}


def makes_sense(setting: str, value: Any, *, is_url: bool) -> bool:
    """True if a default is meant for servers of this kind."""
    if setting == "transport":
        return value in (("http", "sse") if is_url else ("stdio",))
    declared = declarations(ServerSettings).get(setting)
    return declared is not None and declared.setting.needs in (None, "url" if is_url else "command")


def _of_layer(name: str, layer: Layer, entries: list[TableInFile]) -> Iterator[TableInFile]:
    """At most one entry of a layer, or two of which the first adds to the second. A project's files have an order."""
    here = [entry for entry in entries if entry.source.layer is layer]
    adds = len(here) == 2 and here[0].source.is_main and not here[0].defines() and here[1].defines()
    if adds or layer is Layer.PROJECT:
        yield from here
        return
    yield from here[:1]
    for entry in here[1:]:
        text = f'"{name}" is also in {here[0].origin(())}; keep one of them'
        entry.source.findings.wrong(entry.table.place(()), text)
