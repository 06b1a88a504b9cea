"""Scanner of JSON with comments and trailing commas (JSONC), as hosts' files are written. Pure.

`scan` reads a text into nodes that know where they stand, `read` into a value only, and `lines` tells the line of each
key. Changes of such files are worked out from the same nodes (`config.editing.text.jsonc`), which are made on the way
to what is changed alone: hosts keep their history beside it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from config.diagnostics import Keys, Problem
from config.loading.text_limits import refuse_json

BOM: Final = "\ufeff"
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null|NaN|-?Infinity")
"""Python's reader knows the last two."""
_DECODER = json.JSONDecoder()


class Node(Struct):
    """A value, and the text `[start, end)` that is it."""

    value: Any
    start: int
    end: int
    members: "tuple[Member, ...]" = ()
    """Of an object, if it is on the way."""
    items: "tuple[Node, ...]" = ()
    """Of a list, in the same way."""


class Member(Struct):
    """A member of an object; `start` is where its name starts."""

    key: str
    start: int
    node: Node

    @property
    def end(self) -> int:
        return self.node.end


def scan(text: str, path: Sequence[str] | None = None) -> Node | None:
    """The document; None: there is nothing but blanks and comments. All objects have members; with `path`, in a text
    without comments, only the one to which it leads, and those on the way.
    Raises: Problem, if it is not JSON, comments and trailing commas allowed."""
    refuse_json(text)
    start = skip(text, 1 if text.startswith(BOM) else 0)
    if start == len(text):
        return None
    node = _value(text, start, path if path is not None and _is_plain(text) else None)
    end = skip(text, node.end)
    if end < len(text):
        raise _unreadable(text, end, "expected the end of the file")
    return node


def _is_plain(text: str) -> bool:
    """True if it is JSON as the standard has it: the fast reader takes every part of it."""
    with suppress(ValueError):
        json.loads(text.removeprefix(BOM))
        return True
    return False


def read(text: str) -> Any:
    """The value of the document, without its places: text without comments is read fast.
    Raises: Problem, as `scan`, or there is none."""
    refuse_json(text)
    try:
        return json.loads(text)
    except ValueError:
        node = scan(text)
    if node is None:
        raise _unreadable(text, len(text), "expected a value")
    return node.value


def lines(text: str) -> Iterator[tuple[Keys, int]]:
    """The line, from 1, of each member and item of a document that `read` has read."""
    line, before = 1, 0
    for keys, at in _places(scan(text), ()):
        line += text.count("\n", before, at)
        before = at
        yield keys, line


def _places(node: Node | None, path: Keys) -> Iterator[tuple[Keys, int]]:
    if node is None:
        return
    below = [(member.key, member.start, member.node) for member in node.members]
    below += [(str(number), item.start, item) for number, item in enumerate(node.items)]
    for key, start, value in below:
        keys = (*path, key)
        yield keys, start
        yield from _places(value, keys)


def _unreadable(text: str, at: int, why: str) -> Problem:
    column = at - text.rfind("\n", 0, at)
    return Problem((), f"is not JSON at column {column}: {why}", line=text.count("\n", 0, at) + 1)


def skip(text: str, at: int) -> int:
    """The position behind blanks and comments."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, path: Sequence[str] | None) -> Node:
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, path)
    if first == "[":
        return _array(text, at, path)
    if first == '"':
        value, end = _string(text, at)
        return Node(value, at, end)
    found = _ATOM.match(text, at)
    if found is None:
        raise _unreadable(text, at, "expected a value")
    try:
        return Node(json.loads(found[0]), at, found.end())
    except ValueError:
        raise _unreadable(text, at, "a number of that many digits") from None


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise _unreadable(text, error.pos, "a string that is not closed, or holds what none may") from None
    return str(value), end


def _beside(text: str, at: int, path: Sequence[str] | None) -> Node:
    """A value that `path` does not lead to: without members or items, unless all have them."""
    if path is None:
        return _value(text, at, None)
    value, end = _DECODER.raw_decode(text, at)
    return Node(value, at, end)


def _array(text: str, start: int, path: Sequence[str] | None) -> Node:
    items = []
    at = skip(text, start + 1)
    while text[at : at + 1] != "]":
        node = _beside(text, at, path)
        items.append(node)
        at = _next(text, node.end, "]")
    return Node([node.value for node in items], start, at + 1, items=tuple(items))


def _object(text: str, start: int, path: Sequence[str] | None) -> Node:
    members = []
    at = skip(text, start + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            raise _unreadable(text, at, 'expected a name in quotes, or "}"')
        key, end = _string(text, at)
        colon = skip(text, end)
        if text[colon : colon + 1] != ":":
            raise _unreadable(text, colon, 'expected ":"')
        value = skip(text, colon + 1)
        node = _value(text, value, path[1:]) if path and key == path[0] else _beside(text, value, path)
        members.append(Member(key, at, node))
        at = _next(text, node.end, "}")
    return Node({member.key: member.node.value for member in members}, start, at + 1, tuple(members))


def _next(text: str, end: int, closing: str) -> int:
    """The position of the next member, or of the closing bracket."""
    at = skip(text, end)
    if text[at : at + 1] == ",":
        return skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise _unreadable(text, at, f'expected "," or "{closing}"')
    return at
