"""TOML edited as text: a table goes to the end of the file, and tables and settings come and go by lines. Pure.

`serverfile` checks every change by reading the result; a table that is written in another way than under a header
of its own is refused.
"""

import json
import re
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

from config.diagnostics import Keys, Problem, escape
from config.editing.text.change import Edit, EditRefused, newline, refusal
from config.loading.document import parse, statements_of_toml

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Controls, what changes the direction of text, what takes no room, and halves of characters."""
_TOML = Path("any.toml")
LONG_LIST: Final = 6
"""Texts of a list that may be written on several lines, if one would have more than `LINE_CHARS`."""
LINE_CHARS: Final = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> Any:
    """The document as a value. Raises: EditRefused, if it is not TOML."""
    try:
        return parse(text.removeprefix("\ufeff"), _TOML).tree
    except Problem as problem:
        raise refusal(problem) from None


def insert(text: str, path: Sequence[str], key: str, value: dict[str, Any]) -> Edit:
    """A table `[path.key]` at the end of the file. Raises: EditRefused, if it is there already."""
    if key in _table(read(text), path):
        raise EditRefused(f'"{key}" is there already')
    line = newline(text)
    body = render(path, key, value).replace("\n", line)
    if not text.strip("\ufeff \t\r\n"):
        return Edit(len(text), "", body + line)
    return Edit(len(text), "", line + body + line if text.endswith("\n") else line + line + body)


def remove(text: str, path: Sequence[str], key: str) -> Edit:
    """Cut the table out, from its header to its last line; the comments before it and after it stay.
    Raises: EditRefused, if it is not there under a header of its own."""
    wanted = (*path, key)
    read(text)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    headers = [(number - 1, found) for found, number, is_header in statements_of_toml(text) if is_header]
    ours = [at for at, (_, found) in enumerate(headers) if found[: len(wanted)] == wanted]
    if not ours or ours != list(range(ours[0], ours[-1] + 1)):
        raise EditRefused(f"there is no [{'.'.join(wanted)}] with all that belongs to it in one place")
    first = headers[ours[0]][0]
    end = headers[ours[-1] + 1][0] if ours[-1] + 1 < len(headers) else len(lines)
    while end > first + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    if first and not lines[first - 1].strip():  # the blank line before it
        first -= 1
    return Edit(sum(map(len, lines[:first])), "".join(lines[first:end]), "")


def assign(text: str, path: Sequence[str], key: str, value: Any) -> Edit:
    """Let `key` of the table at `path` be `value`.
    Raises: EditRefused, if there is no such table, or it cannot be done without changing more of the text."""
    edit = _below_header(text, path, key, value)
    if edit is not None and _meant(text, edit, path, key, value):
        return edit
    try:
        document = tomlkit.parse(text)
        table: Any = reduce(getitem, path, document)
        if document.as_string() != text:
            raise EditRefused("it would not stay as it is elsewhere")
        table[key] = tomlkit.parse(_setting(key, value))[key] if _is_long(key, value) else value
        return Edit(0, text, document.as_string())
    except (TOMLKitError, KeyError, TypeError) as error:
        raise EditRefused(f'there is no table "{".".join(path)}" to change: {error}') from None


def drop(text: str, path: Sequence[str], key: str, value: Any) -> Edit:
    """Cut out the line that says that `key` of the table at `path` is `value`.
    Raises: EditRefused, if no line says just that."""
    lines = text.split("\n")
    number = _line_of(text, (*path, key))
    line = f"{_key(key)} = {_inline(value)}"
    if number is not None and number < len(lines) and lines[number - 1].strip() == line:
        edit = Edit(_start_of(lines, number), f"{lines[number - 1]}\n", "")
        if _meant(text, edit, path, key, None):
            return edit
    raise EditRefused(f"there is no line `{line}`")


def _below_header(text: str, path: Sequence[str], key: str, value: Any) -> Edit | None:
    """A new line below the header of the table, where tomlkit would move blank lines about; None: it has none."""
    lines = text.split("\n")
    number = _line_of(text, tuple(path))
    if number is None:
        return None
    header = lines[number - 1]
    indent = header[: len(header) - len(header.lstrip())]
    line = newline(text)
    new = f"{indent}{_setting(key, value)}{line}" if line == "\n" else f"{indent}{_key(key)} = {_inline(value)}{line}"
    at = _start_of(lines, number + 1)
    return Edit(at, "", new) if at <= len(text) else Edit(len(text), "", newline(text) + new)


def _line_of(text: str, keys: Keys) -> int | None:
    try:
        return parse(text, _TOML).line(keys)
    except Problem:
        return None


def _start_of(lines: Sequence[str], number: int) -> int:
    """The position of line `number`, from 1, in the text that was split into `lines`."""
    return sum(len(line) + 1 for line in lines[: number - 1])


def _meant(text: str, edit: Edit, path: Sequence[str], key: str, value: Any) -> bool:
    """True if the edit adds that `key` is `value`, or with None takes it away, and changes nothing else."""
    meant: Any = read(text)
    try:
        table = reduce(getitem, path, meant)
        if (key in table) is (value is not None):
            return False
        if value is None:
            del table[key]
        else:
            table[key] = value
        return bool(read(edit.apply(text)) == meant)
    except (EditRefused, KeyError, TypeError):
        return False


def render(path: Sequence[str], key: str, value: dict[str, Any]) -> str:
    """The table's lines; what is nested in it is written inline."""
    header = ".".join(_key(name) for name in (*path, key))
    return "\n".join([f"[{header}]", *(_setting(name, each) for name, each in value.items())])


def _setting(key: str, value: Any) -> str:
    """The lines of a setting; a list of many texts has a line for each."""
    if not _is_long(key, value):
        return f"{_key(key)} = {_inline(value)}"
    return "\n".join([f"{_key(key)} = [", *(f"    {text_of(each)}," for each in value), "]"])


def _is_long(key: str, value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) < LONG_LIST:
        return False
    return all(isinstance(each, str) for each in value) and len(_key(key)) + len(_inline(value)) > LINE_CHARS


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else text_of(name)


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        members = [f"{_key(name)} = {_inline(each)}" for name, each in value.items()]
        return "{ " + ", ".join(members) + " }" if members else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(each) for each in value) + "]"
    return text_of(value) if isinstance(value, str) else json.dumps(value)


def text_of(value: str) -> str:
    """A basic string of TOML: as in JSON, but what cannot be seen is escaped, and other characters are not."""
    return _escape_unseen(json.dumps(value, ensure_ascii=False))


def comment_of(text: str) -> str:
    """A comment of one line: what would end it, and what cannot be seen, is escaped."""
    return f"# {_escape_unseen(text)}"


def _escape_unseen(text: str) -> str:
    return _UNSEEN.sub(lambda found: escape(found[0]), text)


def _table(document: Any, path: Sequence[str]) -> Any:
    for name in path:
        document = document.get(name, {})
        if not isinstance(document, dict):
            raise EditRefused(f'"{".".join(path)}" is not a table')
    return document
