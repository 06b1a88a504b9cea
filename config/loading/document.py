"""Parsing of TOML, JSON and YAML to a tree, with the line of each key. Pure.

JSON may have comments and trailing commas, as hosts' files do (`json_scanner`). What is too deep or too large is
refused before anything is made of it (`text_limits`). Lines are looked for when the first one is asked for: a sound
file is read without ever knowing them.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from config.diagnostics import Keys, Problem
from config.loading import json_scanner
from config.loading.text_limits import refuse_deep, refuse_toml, refuse_yaml, too_deep

JSON_SUFFIXES: Final = (".json", ".jsonc")
YAML_SUFFIXES: Final = (".yaml", ".yml")
_UNREADABLE_YAML: Final = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError)
"""Exceptions that PyYAML raises, beside its own, for values that do not match their tags."""
SUFFIXES: Final = (".toml", *JSON_SUFFIXES, *YAML_SUFFIXES)


class Document:
    """The content of a file. In keys, entries of lists are numbered from "0"."""

    def __init__(self, tree: Any, find: Callable[[], Iterator[tuple[Keys, int]]]) -> None:
        self.tree = tree
        self._find = find
        self._lines: dict[Keys, int] | None = None

    def line(self, keys: Keys) -> int | None:
        """The line (from 1) of the last of `keys` that the file spells out; None if it spells out none."""
        if self._lines is None:
            self._lines = {}
            for path, line in self._find():
                self._lines.setdefault(path, line)
        known = (keys[:length] for length in range(len(keys), 0, -1) if keys[:length] in self._lines)
        return self._lines.get(next(known, ()))


def parse(text: str, path: Path) -> Document:
    """The document in `text`; the suffix of `path` says in which form, and is TOML if it says nothing else.
    Raises: Problem, if it is none, with the line."""
    if path.suffix in JSON_SUFFIXES:
        return Document(json_scanner.read(text), lambda: json_scanner.lines(text))
    return _yaml(text) if path.suffix in YAML_SUFFIXES else _toml(text)


# --- TOML -------------------------------------------------------------------------------------------------------------

_KEY: Final = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)"""
_PATH: Final = rf"(?P<path>{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*)[ \t]*"
_HEADER = re.compile(rf"[ \t]*\[{{1,2}}[ \t]*{_PATH}\]{{1,2}}[ \t]*(?:#.*)?\r?$")
_ASSIGNMENT = re.compile(rf"[ \t]*{_PATH}=")
_PART = re.compile(_KEY)


def _toml(text: str) -> Document:
    refuse_toml(text)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        reason = re.sub(r"\s*\(at .*\)$", "", str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        raise Problem((), f"is not TOML at {f'column {at[2]}' if at else 'its end'}: {reason}", line=line) from None
    except ValueError as error:  # an integer of thousands of digits
        raise Problem((), f"is not TOML: {error}") from None
    refuse_deep(tree)
    return Document(tree, lambda: _lines_of_toml(text))


def _lines_of_toml(text: str) -> Iterator[tuple[Keys, int]]:
    """The lines of keys: first those written out, then those of tables that only longer keys imply."""
    implied: list[tuple[Keys, int]] = []
    for path, number, _ in statements_of_toml(text):
        yield path, number
        implied += [(path[:length], number) for length in range(1, len(path))]
    yield from implied


def statements_of_toml(text: str) -> Iterator[tuple[Keys, int, bool]]:
    """The keys of each header and assignment that begins on a line of its own, its line, and whether it is a header."""
    header: Keys = ()
    rows: dict[Keys, int] = {}  # tables so far in each list of tables
    within: str | None = None  # the quotes of a string of several lines
    for number, line in enumerate(text.split("\n"), 1):
        if within is not None:
            within = None if within in line else within
            continue
        if match := _HEADER.match(line):
            path = header = _number(_parts(match["path"]), rows, is_row=line.lstrip().startswith("[["))
        elif assignment := _ASSIGNMENT.match(line):
            path = header + _parts(assignment["path"])
        else:
            continue
        within = next((quotes for quotes in ('"""', "'''") if line.count(quotes) % 2), None)
        yield path, number, match is not None


def _number(path: Keys, rows: dict[Keys, int], *, is_row: bool) -> Keys:
    """The keys of a header with the number of each list's table; `is_row`: it begins another table of a list."""
    found: Keys = ()
    for at, part in enumerate(path, 1):
        found = (*found, part)
        if is_row and at == len(path):
            rows[found] = rows.get(found, -1) + 1
        if found in rows:
            found = (*found, str(rows[found]))
    return found


def _parts(path: str) -> Keys:
    return tuple(_unquote(part) if part[0] in "\"'" else part for part in _PART.findall(path))


def _unquote(part: str) -> str:
    return str(tomllib.loads(f"key = {part}")["key"]) if part[0] == '"' and "\\" in part else part[1:-1]


# --- YAML -------------------------------------------------------------------------------------------------------------


def _yaml(text: str) -> Document:
    import yaml

    try:
        refuse_yaml(text)
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        tree = yaml.SafeLoader("").construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = None if mark is None else mark.line + 1
        if "nesting depth" in str(error.problem):  # its reader looks ahead, and may give up before we have counted
            raise too_deep(at) from None
        column = "" if mark is None else f" at column {mark.column + 1}"
        raise Problem((), f"is not YAML{column}: {error.problem}", line=at) from None
    except (yaml.YAMLError, *_UNREADABLE_YAML) as error:
        raise Problem((), f"is not YAML: {next(iter(str(error).splitlines()), type(error).__name__)}") from None
    return Document(_with_text_keys(tree), lambda: _lines_of_yaml(node))


def _with_text_keys(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {str(key): _with_text_keys(value) for key, value in tree.items()}
    return [_with_text_keys(value) for value in tree] if isinstance(tree, list) else tree


def _lines_of_yaml(node: Any, path: Keys = ()) -> Iterator[tuple[Keys, int]]:
    if not isinstance(getattr(node, "value", None), list):
        return
    for at, item in enumerate(node.value):
        key, value = item if isinstance(item, tuple) else (None, item)
        below = (*path, str(at) if key is None else str(key.value))
        yield below, (key or value).start_mark.line + 1
        yield from _lines_of_yaml(value, below)
