"""One configuration file, read: its upstream tables and settings of the hub, as they are written.

The steps: text (`safe_reading`), a tree with lines (`document`), upstream tables by name (here for our TOML,
`translate_host_file` for a host's file); `resolve_values` comes next. What follows needs all files and is the work of
`assemble`. Nothing here raises: what is wrong is among the file's findings.
"""

import os
from collections.abc import Mapping
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from config.diagnostics import Findings, Keys, Problem
from config.hub_paths import config_file
from config.loading.convert_to_structs import HUB
from config.loading.document import parse
from config.loading.translate_host_file import SUFFIXES, FieldTable, is_dialect, refuse_crowd, servers
from config.loading.variables import Variables
from config.safe_reading import Content, decode_content, fetch, refuse_large
from config.secret_references import map_leaves


class Layer(Enum):
    """The layers of files, in order of precedence."""

    PROJECT = "project"
    USER = "user"
    IMPORTED = "imported"


class Source:
    """One file that was read: its tables, its settings of the whole hub, and the findings about it."""

    def __init__(self, path: Path, layer: Layer, variables: Variables, *, is_main: bool = False) -> None:
        self.path = path
        self.layer = layer
        self.is_main = is_main
        """True if it is the file that settings of the hub may stand in."""
        self.is_dialect = False
        """True if it is a host's own file."""
        self.findings = Findings(path)
        self.variables = variables
        self.tables: list[FieldTable] = []
        self.settings: dict[str, Any] = {}
        self.given: dict[Keys, list[str]] = {}
        """Values that variables and files gave to settings of any form, by the keys of those."""
        self.unread: dict[Keys, dict[str, str]] = {}
        """The entries of such settings that have no value now, each with the reason and what to do."""
        self.text = ""
        self.data = b""
        """The content of the file; empty if another text was read in its place."""


def find_config(named: Path | None) -> Path | None:
    """The main file: the one that was named, else the user's own if there is one.

    A dangling link counts as a file: reading it will say that it cannot be read.
    """
    if named is not None:
        return named
    path = config_file()
    return path if os.path.lexists(path) else None


def read_source(
    path: Path,
    layer: Layer,
    environ: Mapping[str, str],
    *,
    is_main: bool = False,
    project: Path | None = None,
    text: str | None = None,
    content: Content | Problem | None = None,
) -> Source:
    """Read one file: TOML, or JSON or YAML if it is called so.

    `project`: the folder whose project file it is; `content`: what it was found to hold, or why that
    cannot be told; `text`: what is read in place of that.
    """
    source = Source(path, layer, Variables(environ, path.parent, project=project), is_main=is_main)
    findings = source.findings
    with findings.collect():
        if text is None:
            content = fetch(path) if content is None else content
            if isinstance(content, Problem):
                raise content
            source.data = content.data
            text = decode_content(path, content)
        else:
            refuse_large(path, len(text.encode(errors="replace")))
        source.text = text
        document = parse(source.text, path)
        findings.line = document.line
        tree = document.tree
        is_toml = isinstance(tree, dict) and path.suffix not in SUFFIXES
        source.is_dialect = not is_toml or is_dialect(tree, HUB)
        if source.is_dialect:
            source.tables = servers(tree, findings)
        else:
            source.tables, source.settings = _tables(tree, findings)
    if not is_main:
        _refuse_settings(source)
    return source


def _tables(tree: dict[str, Any], findings: Findings) -> tuple[list[FieldTable], dict[str, Any]]:
    """The upstreams of a hubd.toml, and its other settings."""
    settings = {key: map_leaves(value, _spell_day) for key, value in tree.items() if key != "$schema"}  # for editors
    tables = settings.pop("upstreams", {})
    if not isinstance(tables, dict):
        raise Problem(("upstreams",), "expected tables: write [upstreams.NAME]")
    refuse_crowd(tables, ("upstreams",))
    found = []
    for name, values in tables.items():
        keys = ("upstreams", name)
        if isinstance(values, dict):
            found.append(FieldTable(name, keys, values))
        else:
            findings.wrong(keys, "a server needs a name of its own: write [upstreams.NAME] above this")
    return found, settings


def _spell_day(value: Any) -> Any:
    """A day of TOML as text, the form that it has in JSON."""
    return value.isoformat() if isinstance(value, date) else value


def _refuse_settings(source: Source) -> None:
    for key in source.settings:
        if key in HUB:
            text = "is a setting of the whole hub, and this file may only name upstreams; move it to hubd.toml"
            source.findings.wrong((key,), text)
        else:
            source.findings.warn((key,), "ignored: this file may only hold [upstreams.NAME]")
    source.settings = {}
