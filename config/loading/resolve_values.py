"""Values of one configuration file, with the variables in them replaced and paths made absolute. Nothing here raises:
what is wrong is among the file's findings."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from config.diagnostics import Keys
from config.loading.read_source import Source
from config.loading.translate_host_file import FieldTable
from config.loading.variables import NO_NUL, Missing, Unresolved
from config.secret_references import NUL, blank_references, map_leaves, references_in
from config.setting_declarations import Declaration, declarations
from config.settings import HubConfig, UpstreamConfig


def resolve_table(source: Source, table: FieldTable, *, is_disabled: bool) -> dict[str, Any]:
    """The values of a table with variables replaced, files of variables read, and paths made absolute.

    What cannot be resolved is among the findings. A disabled upstream needs no variables, so none are looked up.
    """
    values = dict(table.values)
    if not is_disabled:

        def change(declared: Declaration, value: Any, keys: Keys) -> Any:
            return _expand(value, keys, source, table) if declared.setting.expanded else value

        values = _change_settings(values, UpstreamConfig, change)
        _add_variables(values, source, table)
    _make_absolute(values, source.path.parent)
    return values


def resolve_settings(source: Source) -> dict[str, Any]:
    """The hub's own settings, likewise. What cannot be resolved is left out, too: there is nothing to judge."""
    settings: dict[str, Any] = _change_settings(source.settings, HubConfig, partial(_resolve_setting, source))
    return settings


Change = Callable[[Declaration, Any, Keys], Any]


def _change_settings(values: Any, type: type[Struct], change: Change, above: Keys = ()) -> Any:
    """`values` of a struct with `change` made to each setting, also in tables and rows; UNSET leaves one out. What is
    no table is left for the conversion to refuse."""
    if not isinstance(values, dict):
        return values
    found = dict(values)
    for name, declared in declarations(type).items():
        if name not in values:
            continue
        value, keys = values[name], (*above, name)
        if declared.table is not None:
            found[name] = _change_settings(value, declared.table, change, keys)
        elif declared.rows is not None and isinstance(value, list):
            rows = enumerate(value)
            found[name] = [_change_settings(row, declared.rows, change, (*keys, str(at))) for at, row in rows]
        elif declared.named is not None and isinstance(value, dict):
            tables = value.items()
            found[name] = {key: _change_settings(each, declared.named, change, (*keys, key)) for key, each in tables}
        elif (changed := change(declared, value, keys)) is UNSET:
            del found[name]
        else:
            found[name] = changed
    return found


def _resolve_setting(source: Source, declared: Declaration, value: Any, keys: Keys) -> Any:
    """The value of a setting of the hub with variables replaced and its path made absolute; UNSET: it cannot be."""
    if not declared.setting.expanded:
        return value
    if declared.holds_secrets and isinstance(value, dict):
        resolved = {}
        for key, text in value.items():
            with suppress(Unresolved):  # told of each server that it is meant for
                resolved[key] = source.variables.expand_for_server(text) if isinstance(text, str) else text
        return resolved
    if isinstance(value, dict):
        return dict(_resolve_deeply(value, keys, source))
    if not isinstance(value, str):
        return value
    try:
        text = source.variables.expand(value)
    except Unresolved as error:
        source.findings.wrong(keys, str(error))
        return UNSET
    return str(source.path.parent / os.path.expanduser(text)) if declared.setting.path and text else text


def _resolve_deeply(values: Mapping[str, Any], keys: Keys, source: Source) -> Iterator[tuple[str, Any]]:
    """`values` with variables replaced in all texts; without those of which one cannot be resolved. One that leads to
    what is not there costs its own entry only (`Source.unread`)."""
    given: list[str] = []
    unread: dict[str, str] = {}

    def expand(value: Any) -> Any:
        return source.variables.expand_fixed(value, given) if isinstance(value, str) else value

    for name, value in values.items():
        try:
            yield name, map_leaves(value, expand)
        except Missing as error:
            unread[name] = str(error)
        except Unresolved as error:
            source.findings.wrong((*keys, name), str(error))
    if given:
        source.given[keys] = given
    if unread:
        source.unread[keys] = unread


def _expand(value: Any, path: Keys, source: Source, table: FieldTable) -> Any:
    """`value` with variables replaced in its strings; anything else is left for the conversion to refuse."""
    if isinstance(value, dict):
        return {name: _expand(item, (*path, name), source, table) for name, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, path, source, table) for item in value]
    if not isinstance(value, str):
        return value
    try:
        text = source.variables.expand_for_server(value)
    except Unresolved as error:
        unresolved = _upstream_of(error, table)
        source.findings.wrong(table.place(path), str(error), unresolved=unresolved, remedy=error.remedy)
        return value
    for each in references_in(text):
        if each.kind == "secret" and not each.version:
            todo = f"the server starts once `hubd secret set {each.text}` has kept it"
            source.findings.warn(table.place(path), f"there is no secret {each.text} yet: {todo}")
    return text


def _upstream_of(error: Unresolved, table: FieldTable) -> str:
    """The upstream that can be left out until the reference leads somewhere; "" if a file has to be mended."""
    return table.name if isinstance(error, Missing) else ""


def _add_variables(values: dict[str, Any], source: Source, table: FieldTable) -> None:
    """Add variables that a host takes from a file and from its own environment; the entry's own `env` wins."""
    env = values.get("env", {})
    if not isinstance(env, dict) or not (table.env_file or table.env_vars):
        return
    environ = source.variables.environ
    added = {name: environ[name] for name in table.env_vars if name in environ}
    if table.env_file:
        try:
            added |= source.variables.env_file(table.env_file)
        except Unresolved as error:
            source.findings.wrong(table.place(("env",)), str(error), unresolved=_upstream_of(error, table))
    if any(NUL in value for value in added.values()):
        source.findings.wrong(table.place(("env",)), NO_NUL)
        added = {}
    values["env"] = {**added, **env}


def _make_absolute(values: dict[str, Any], directory: Path) -> None:
    """Paths mean the same wherever the daemon was started: relative ones are relative to the file.

    So does a child's own idea of where it is: without `cwd` it runs in the directory of the file that has `command`.
    """
    if isinstance(box := values.get("sandbox"), dict):
        values["sandbox"] = {key: _below(directory, paths) for key, paths in box.items()}
    command, cwd = values.get("command"), values.get("cwd")
    if (isinstance(cwd, str) and not cwd.startswith(NUL)) or (isinstance(command, str) and cwd is None):
        values["cwd"] = cwd = str(directory / os.path.expanduser(cwd or ""))
    if not isinstance(command, str) or not isinstance(cwd, str) or command.startswith(NUL):
        return
    if "/" in blank_references(command):
        values["command"] = str(Path(cwd) / os.path.expanduser(command))


def _below(directory: Path, value: Any) -> Any:
    """The paths of a list, relative to `directory`; another value as it is."""
    if not isinstance(value, list):
        return value
    return [str(directory / os.path.expanduser(each)) if isinstance(each, str) else each for each in value]
