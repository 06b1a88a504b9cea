"""Changes of hubd's own configuration: which file a change belongs into, and whether everything would still be sound.

A `Draft` holds the texts that files would have. Nothing is written until `save`, and what would be wrong then is found
by loading the whole configuration with the drafts in the place of the files. How a text is changed so that everything
around it stays byte for byte is the business of `text.serverfile`, how a file is replaced that of `atomic_writes`.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from config.atomic_writes import read_file, replace_file
from config.diagnostics import ConfigError, Diagnostic, EditError
from config.editing.imported_file import without
from config.editing.text import serverfile, toml
from config.editing.text.change import Edit, EditRefused
from config.editing.text.file_shape import Shape
from config.hub_paths import config_file
from config.loading.assemble import load_all
from config.loading.document import JSON_SUFFIXES, YAML_SUFFIXES
from config.loading.gather import gather
from config.loading.precedence import Stack, TableInFile, stacks
from config.loading.read_source import Layer, Source
from config.server_names import RULE, is_reserved, is_usable, suggest_id

OWN: Final = Shape("toml", ("upstreams",))
PROFILES: Final = Shape("toml", ("profiles",))
SCHEMA_FILE: Final = "hubd.schema.json"
UNUSABLE: Final = "that would be no configuration a hub can use; nothing was changed"
"""Said of a draft with problems."""
NEW_FILE: Final = f"""\
#:schema ./{SCHEMA_FILE}
# The configuration of hubd. `hubd add` and `hubd edit` change it, and so may you: a hub that runs takes it up at once.
# The first line lets editors complete and check it.
"""


class FileChange(Struct, frozen=True):
    """The change of one file."""

    path: Path
    before: str | None
    """None: the file is new."""
    after: str


class Draft:
    """The configuration as it would be. Changes raise ConfigError where a file that they need cannot be read at all."""

    def __init__(self, named: Path | None, environ: Mapping[str, str]) -> None:
        self.main = Path(os.path.abspath((named or config_file()).expanduser()))
        self._environ = environ
        gathered = gather(self.main if os.path.lexists(self.main) else None, environ)
        self._main_source = gathered.main
        self.upstreams = stacks(gathered.sources)
        unread = (each.findings.problems for each in gathered.sources if not (each.tables or each.settings))
        self._unread = [problem for problems in unread for problem in problems if not problem.keys]
        """The problems of files of which nothing could be read."""
        self._was: dict[Path, bytes | None] = {}
        self._texts: dict[Path, str] = {}

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, name: str, values: dict[str, Any]) -> None:
        """A new upstream, in the main file.
        Raises: EditError, if the name cannot be one or is taken, or the file cannot be edited for certain."""
        if not is_usable(name):
            raise EditError(f'"{name}" cannot name a server: use {RULE}, for instance "{suggest_id(name)}"')
        if is_reserved(name):
            raise EditError(f'"{name}" is the name of the hub itself; give the server another one')
        if name in self.upstreams:
            raise EditError(f'there is a server "{name}" already, in {self.upstreams[name].used[-1].origin(())}')
        self._edit(self._own_main(), lambda text: serverfile.insert(OWN, text, name, values), name)

    def remove(self, name: str) -> TableInFile | None:
        """Everything that makes up an upstream, wherever it stands; what comes to light beneath it.
        Raises: EditError, if there is none, or a file cannot be edited for certain."""
        stack = self._stack(name)
        for entry in reversed(stack.used):  # what remains in between is refused by a hub that watches, not misread
            is_imported = entry.source.layer is Layer.IMPORTED
            self._edit(entry.source.path, partial(_remove, *_shape(entry), is_imported=is_imported), name)
        return stack.shadowed[0] if stack.shadowed else None

    def switch(self, name: str, *, disabled: bool) -> bool:
        """Turn an upstream off or on; whether it was not so already.

        In the file that says so, or that defines it; for one that is a host's or was imported, in the main file.
        Raises: EditError, if there is none, or a file cannot be edited for certain."""
        stack = self._stack(name)
        if (stack.value("disabled") is True) == disabled:
            return False
        entry = _entry_to_change(stack, "disabled")
        if entry is not None and not disabled and (undone := self._enable(entry, stack)) is not None:
            self._edit(entry.source.path, lambda text: undone, name)
        else:
            self._write_setting(entry, name, "disabled", disabled)
        return True

    def settings_of(self, name: str) -> dict[str, Any]:
        """The settings of an upstream as files have them, variables unreplaced; of a setting that several files say,
        the one that counts.
        Raises: EditError, if there is none."""
        found: dict[str, Any] = {}
        for entry in reversed(self._stack(name).used):
            found |= entry.table.values
        return found

    def assign(self, name: str, setting: str, value: Any) -> None:
        """Give a setting of an upstream another value: in the file that has it, or for an imported entry in the main
        file.
        Raises: EditError, if there is none, it stands in the file of a host, or a file cannot be edited for certain."""
        stack = self._stack(name)
        holder = stack.holder((setting,)).source
        if holder.layer is Layer.USER and not _is_ours(holder):
            raise EditError(f"{holder.path} is the file of a host and has {setting} of {name}: change it there")
        entry = _entry_to_change(stack, setting)
        if entry is None or not self._assign_within(entry, setting, value):
            self._write_setting(entry, name, setting, value)

    def _write_setting(self, entry: TableInFile | None, name: str, setting: str, value: Any) -> None:
        """Let `entry` say the value; None: a new table of the main file does."""
        if entry is None:
            self._edit(self._own_main(), lambda text: serverfile.insert(OWN, text, name, {setting: value}), name)
        else:
            change = partial(serverfile.assign, OWN, key=_shape(entry)[1], setting=setting, value=value)
            self._edit(entry.source.path, change, name)

    def put_profile(self, name: str, settings: Mapping[str, Any]) -> None:
        """A profile with these settings, in the main file; what else it has stays.
        Raises: EditError, if the file cannot be edited for certain."""
        main = self._own_main()
        try:
            there = serverfile.entries(PROFILES, self._begin(main)).get(name)
        except EditRefused as error:
            raise EditError(f"{main}: {error}") from None
        if there is None:
            self._edit(main, lambda text: serverfile.insert(PROFILES, text, name, dict(settings)), name)
            return
        for setting, value in settings.items():
            if not isinstance(there, dict) or there.get(setting) != value:
                self._edit(main, partial(serverfile.assign, PROFILES, key=name, setting=setting, value=value), name)

    def remove_profile(self, name: str) -> None:
        """Take a profile out of the main file, with all that stands below it.
        Raises: EditError, if it is not there, or the file cannot be edited for certain."""
        self._edit(self._own_main(), lambda text: serverfile.remove(PROFILES, text, name), name)

    def _assign_within(self, entry: TableInFile, setting: str, value: Any) -> bool:
        """Change a table key by key, so that all else in it stays; false: it would lose a key, or cannot be edited."""
        before = entry.table.values.get(setting)
        if not isinstance(value, dict) or not isinstance(before, dict) or before.keys() - value.keys():
            return False
        path, (_, key) = entry.source.path, _shape(entry)
        text = self._begin(path)
        try:
            for each, wanted in value.items():
                if before.get(each) != wanted:
                    text = serverfile.assign(OWN, text, key, each, wanted, table=setting).apply(text)
        except EditRefused:
            return False
        self._texts[path] = text
        return True

    def _enable(self, entry: TableInFile, stack: Stack) -> Edit | None:
        """The edit that takes back what `hubd disable` wrote, if the file has just that and it is enough."""
        below = stack.used[stack.used.index(entry) + 1 :]
        if any("disabled" in each.table.values for each in below):
            return None
        text = self._begin(entry.source.path)
        with suppress(EditRefused):
            if entry.table.values == {"disabled": True}:
                return serverfile.remove(OWN, text, _shape(entry)[1])
        with suppress(EditRefused):
            return toml.drop(text, entry.table.place(()), "disabled", True)
        return None

    def replace(self, text: str) -> None:
        """A whole new text of the main file."""
        self._begin(self.main)
        self._texts[self.main] = text

    def text(self) -> str:
        """The text of the main file, or the beginning of a new one."""
        return self._begin(self.main)

    # --- and what becomes of them -------------------------------------------------------------------------------------

    def problems(self) -> list[Diagnostic]:
        """Problems that the draft would add, with the lines of the draft."""
        known = {(each.file, each.keys, each.text) for each in self._load({})}
        return [each for each in self._load(self._texts) if (each.file, each.keys, each.text) not in known]

    def problems_of_main(self) -> list[Diagnostic]:
        """Problems that the main file would have; if none, those of `problems`."""
        return [each for each in self._load(self._texts) if each.file == self.main] or self.problems()

    def warnings(self, name: str) -> list[Diagnostic]:
        """Warnings about this upstream."""
        return [each for each in self._doubts() if name in each.keys]

    def warnings_of_main(self) -> list[Diagnostic]:
        """Warnings about the main file."""
        return [each for each in self._doubts() if each.file == self.main]

    def _doubts(self) -> Sequence[Diagnostic]:
        with suppress(ConfigError):
            return load_all(self.main, self._environ, texts=self._texts).warnings
        return ()

    def changes(self) -> list[FileChange]:
        """The changes that `save` would make, in its order."""
        found = []
        for path, text in self._texts.items():
            was = self._was[path]
            if text.encode() != was:
                found.append(FileChange(path, None if was is None else was.decode(), text))
        return found

    def save(self, now: datetime, backups: Path) -> dict[Path, Path | None]:
        """Put the changed files in place: the backup of each, None: the file is new.
        Raises: EditError, if one was changed meanwhile or cannot be written; those before it stay changed."""
        saved = {}
        for each in self.changes():
            data, was = each.after.encode(), self._was[each.path]
            saved[each.path] = replace_file(each.path, data, was=was, now=now, backups=backups)
        if f"#:schema ./{SCHEMA_FILE}\n" in self._texts.get(self.main, ""):
            publish_schema(self.main.with_name(SCHEMA_FILE))
        return saved

    # ------------------------------------------------------------------------------------------------------------------

    def _stack(self, name: str) -> Stack:
        if name in self.upstreams:
            return self.upstreams[name]
        if self._unread:
            raise ConfigError.of(self._unread)
        hint = "the configuration names none. Without one a hub serves the demo, which goes with the first `hubd add`"
        if self.upstreams:
            near = get_close_matches(name, self.upstreams, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are: {', '.join(self.upstreams)}"
        raise EditError(f'there is no server "{name}"; {hint}')

    def _own_main(self) -> Path:
        """The main file, which must be ours to be written. Raises EditError: it is a host's; ConfigError: it cannot be
        read."""
        problems = [each for each in self._unread if each.file == self.main]
        if problems and (read_file(self.main) or b"").strip():
            raise ConfigError.of(problems)
        if self._main_source is not None and not _is_ours(self._main_source):
            raise EditError(f"{self.main} is the file of a host and not a hubd.toml: change it there, or by hand")
        return self.main

    def _begin(self, path: Path) -> str:
        """The draft of a file, which starts as what it holds."""
        if path not in self._texts:
            self._was[path] = was = read_file(path)
            try:
                self._texts[path] = NEW_FILE if was is None else was.decode()
            except UnicodeDecodeError:
                raise EditError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
        return self._texts[path]

    def _edit(self, path: Path, change: Callable[[str], Edit], name: str) -> None:
        text = self._begin(path)
        try:
            self._texts[path] = change(text).apply(text)
        except EditRefused as error:
            raise EditError(f"{path}: {name}: {error}; change it by hand: `hubd edit`, or any editor") from None
        if not self._texts[path].strip():  # an empty file counts as truncated
            self._texts[path] = NEW_FILE if path == self.main else "# No servers are left here.\n"

    def _load(self, texts: Mapping[Path, str]) -> list[Diagnostic]:
        if empty := [path for path, text in texts.items() if not text.strip()]:
            return [Diagnostic(path, None, (), "is empty, which no hub takes for a configuration") for path in empty]
        try:
            load_all(self.main, self._environ, texts=texts)
        except ConfigError as error:
            return list(error.diagnostics) or [Diagnostic(self.main, None, (), str(error))]
        return []


def publish_schema(path: Path) -> None:
    """Let editors know what a hubd.toml may hold; a file that cannot be written only costs them that."""
    from config.show.json_schema import schema

    with suppress(OSError):
        text = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
            path.write_text(text, encoding="utf-8")


def _is_ours(source: Source) -> bool:
    """True if it is a file of upstreams in our own form."""
    return source.path.suffix not in (*JSON_SUFFIXES, *YAML_SUFFIXES) and not source.is_dialect


def _entry_to_change(stack: Stack, setting: str) -> TableInFile | None:
    """The entry of ours that says a setting, or that of the main file where a host's or an imported one does."""
    holder = stack.holder((setting,))
    if holder.source.layer is Layer.USER and _is_ours(holder.source):
        return holder
    return next((each for each in stack.used if each.source.is_main and _is_ours(each.source)), None)


def _shape(entry: TableInFile) -> tuple[Shape, str]:
    """The shape of the file, and its name for this server."""
    *root, key = entry.table.place(())
    suffix = entry.source.path.suffix
    return Shape("json" if suffix in JSON_SUFFIXES else "yaml" if suffix in YAML_SUFFIXES else "toml", tuple(root)), key


def _remove(shape: Shape, key: str, text: str, *, is_imported: bool) -> Edit:
    if is_imported:
        with suppress(EditRefused):
            return without(text, key)
    return serverfile.remove(shape, text, key)
