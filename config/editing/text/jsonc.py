"""JSON with comments and trailing commas, edited as text: what is not ours keeps every byte.

`insert`, `remove` and `assign` say which characters to change, by the places that `config.loading.json_scanner` finds.
They write as the text around them is written: its indentation, its line breaks, one line or many, a comma after the
last member or none. Pure; `serverfile` checks every change by reading the result.

A comment goes with the member it belongs to: one that has its lines for itself owns the comments behind it, and those
directly above it. It does not own

- a comment with an empty line below it,
- one on the line of what comes before: that is the neighbour's, or of the object as a whole,
- a member that is commented out,
- the heading of a group: where others have comments above them, too, one at the beginning of the object or below an
  empty line, if the next member has none.
"""

import json
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final

from config.diagnostics import Problem
from config.editing.text.change import Edit, EditRefused, line_start, newline, refusal
from config.loading.json_scanner import BOM, Member, Node, scan, skip

_BEHIND = re.compile(r"(?:[ \t]++|/\*(?:[^*\n]|\*(?!/))*+\*/)*+(?://[^\r\n]*+)?")
"""Blanks and comments, up to the end of the line."""
_COMMENT = re.compile(r"//[^\r\n]*+|/\*.*?\*/", re.S)
_CODE: Final = re.compile(r'[\s/*]*(?:"[^"]*"\s*:|[{}\[\],]+\s*(?:\*/)?\s*$)')
"""The text of a comment that is a member, or a part of one, that was commented out."""


def own_text(text: str, node: Node, member: Member) -> tuple[int, int]:
    """The text of a member with its own comments; its comma is in it if there is one behind it on the same line."""
    at = node.members.index(member)
    before = _end_of_previous(text, node, at)
    end = _end_with_comments(text, member)
    if end is None or "\n" not in text[before : member.start]:
        return member.start, member.end
    return _start_with_comments(text, node, at, before), end


def _end_of_previous(text: str, node: Node, at: int) -> int:
    """The position behind the comma before a member, or behind the bracket that opens the object."""
    return node.start + 1 if at == 0 else skip(text, node.members[at - 1].end) + 1


def _end_with_comments(text: str, member: Member) -> int | None:
    """The end of a member, its comma, and the comments behind it; None: something else is on its last line."""
    comma = _behind(text, member.end)
    end = _behind(text, comma + 1) if text[comma : comma + 1] == "," else comma
    if text[end : end + 1] not in ("\n", "\r"):
        return None
    return member.end + len(text[member.end : end].rstrip(" \t"))


def _behind(text: str, at: int) -> int:
    found = _BEHIND.match(text, at)
    return found.end() if found else at


def _start_with_comments(text: str, node: Node, at: int, before: int) -> int:
    member = node.members[at]
    start = member.start
    comments = [found.span() for found in _COMMENT.finditer(text, before, member.start)]
    for first, last in reversed(comments):
        if "\n" not in text[before:first] or text.count("\n", last, start) > 1 or _CODE.match(text, first, last):
            break
        start = first
    return member.start if start != member.start and _is_heading(text, node, at, before, start) else start


def _is_heading(text: str, node: Node, at: int, before: int, start: int) -> bool:
    """True if the comments at `start` are rather about the members below them than about the first of these."""
    starts = (_end_of_previous(text, node, number) for number in range(len(node.members)))
    above = [text[before : each.start].partition("\n")[2] for before, each in zip(starts, node.members, strict=True)]
    has_groups = any(number != at and _COMMENT.search(gap) for number, gap in enumerate(above))
    is_below_empty = text[before:start].rstrip(" \t").replace("\r", "").endswith("\n\n")
    if not has_groups or at + 1 == len(node.members) or not (at == 0 or is_below_empty):
        return False
    following = node.members[at + 1]
    behind = text[following.end : _end_with_comments(text, following) or following.end]
    return not (_COMMENT.search(above[at + 1]) or _COMMENT.search(behind) or "\n" in above[at + 1])


KEPT: Final = 3
"""Texts of which the nodes are kept: those before and after a change, and what it is compared with."""
_SAME_LINE = re.compile(r"(?:[ \t]++|/\*(?:[^*\n]|\*(?!/))*+\*/)*+(?://[^\r\n]*)?(?=[ \t]*+\r?\n)")
"""Comments behind something, up to the end of its line."""
_INDENT = re.compile(r"[ \t]*")
_dump = partial(json.dumps, ensure_ascii=False)


def read(text: str, path: Sequence[str] = ()) -> Any:
    """The document as a value, not to be changed; an empty one is an empty object. `path`: to what is changed next.
    Raises: EditRefused, if it cannot be read, or is no object."""
    node = _scan(text, tuple(path))
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        raise EditRefused("is not a JSON object")
    return node.value


def insert(text: str, path: Sequence[str], key: str, value: Any) -> Edit:
    """Put `key` at the end of the object that `path` leads to; objects that are missing on the way are made.
    Raises: EditRefused, if it cannot be read, or something else than an object is in the way."""
    node = _scan(text, tuple(path))
    if node is None:
        return Edit(len(text), "", render(nest(path, key, value), "  ", newline(text)) + newline(text))
    unit = _unit(text, node)
    for number, name in enumerate(path):
        _require_object(node, path[:number])
        member = _member(node, name)
        if member is None:
            return _append(text, node, name, nest(path[number + 1 :], key, value), unit)
        if member.node.value is None:
            return _fill(text, member, nest(path[number + 1 :], key, value), unit)
        node = member.node
    _require_object(node, path)
    if _member(node, key) is not None:
        raise EditRefused(f'"{key}" is there already')
    return _append(text, node, key, value, unit)


def remove(text: str, path: Sequence[str], key: str, *, comments: bool = True) -> Edit:
    """Take the member `key` out of the object that `path` leads to, and one comma with it; with `comments` also those
    that belong to it.
    Raises: EditRefused, if it is not there, or the text cannot be read."""
    node = _object_at(text, path)
    member = _member(node, key)
    if member is None:
        raise EditRefused(f'there is no "{key}"')
    at = node.members.index(member)
    own, end = own_text(text, node, member) if comments else (member.start, member.end)
    start = _with_line(text, own)
    comma = skip(text, member.end)
    followed = text[comma : comma + 1] == ","
    if len(node.members) == 1:
        inner = text[node.start + 1 : start] + text[max(end, comma + 1 if followed else end) : node.end - 1]
        if not inner.strip():
            return Edit(node.start + 1, text[node.start + 1 : node.end - 1], "")
    if followed and comma < end:
        return Edit(start, text[start:end], "")
    if followed:
        if at + 1 < len(node.members) and "\n" not in text[comma : node.members[at + 1].start]:  # on the same line
            after = _INDENT.match(text, comma + 1)
            return _cut(text, member.start, end, comma, after.end() if after else comma + 1)
        return _cut(text, start, end, comma, comma + 1)
    if at == 0:
        return Edit(start, text[start:end], "")
    before = skip(text, node.members[at - 1].end)
    return _cut(text, before, before + 1, start, end)


def assign(text: str, path: Sequence[str], key: str, value: Any) -> Edit:
    """Let the member `key` of the object at `path` be `value`, whether it is there or not.
    Raises: EditRefused, if the object is not there, or the text cannot be read."""
    node = _object_at(text, path)
    member = _member(node, key)
    if member is None:
        return _append(text, node, key, value, _unit(text, _scan(text, tuple(path)) or node))
    return Edit(member.node.start, text[member.node.start : member.end], _dump(value))


def render(value: Any, unit: str | None, line: str = "\n", indent: str = "") -> str:
    """`value` as JSON: members on lines of their own, lists in one line. `unit` None: all in one line."""
    if not isinstance(value, dict) or not value:
        return _dump(value)
    members = [f"{_dump(key)}: {render(each, unit, line, indent + (unit or ''))}" for key, each in value.items()]
    if unit is None:
        return "{" + ", ".join(members) + "}"
    inner = f",{line}{indent}{unit}".join(members)
    return f"{{{line}{indent}{unit}{inner}{line}{indent}}}"


@lru_cache(maxsize=KEPT)
def _scan(text: str, path: tuple[str, ...]) -> Node | None:
    """The document. Each step of a change asks for the text before it, or after it."""
    try:
        return scan(text, path)
    except Problem as problem:
        raise refusal(problem) from None


def _member(node: Node, key: str) -> Member | None:
    """The member of that name. Raises EditRefused: there are two."""
    found = [member for member in node.members if member.key == key]
    if len(found) > 1:
        raise EditRefused(f'"{key}" stands there twice, and programs differ in which one counts')
    return found[0] if found else None


def nest(path: Sequence[str], key: str, value: Any) -> dict[str, Any]:
    """The objects on the way to a member, with nothing but that."""
    nested = {key: value}
    for name in reversed(path):
        nested = {name: nested}
    return nested


def _object_at(text: str, path: Sequence[str]) -> Node:
    node = _scan(text, tuple(path))
    for number, name in enumerate(path):
        member = None if node is None else _member(node, name)
        if member is None:
            raise EditRefused(f'there is no "{".".join(path[: number + 1])}"')
        node = member.node
    if node is None:
        raise EditRefused("it is empty")
    _require_object(node, path)
    return node


def _require_object(node: Node, path: Sequence[str]) -> None:
    if not isinstance(node.value, dict):
        raise EditRefused(f'"{".".join(path)}" is not an object' if path else "is not a JSON object")


def _cut(text: str, start: int, end: int, start_2: int, end_2: int) -> Edit:
    """Two pieces taken out, as one change."""
    return Edit(start, text[start:end_2], text[end:start_2])


def _with_line(text: str, start: int) -> int:
    """The position to cut before `start`: before the line break if it is the first on its line, else before
    the blanks."""
    blank = _before_blanks(text, start)
    if blank > 0 and text[blank - 1] == "\n":
        return blank - 2 if text[blank - 2 : blank] == "\r\n" else blank - 1
    return blank


def _before_blanks(text: str, at: int) -> int:
    """The position at which the blanks before `at` start."""
    while at > 0 and text[at - 1] in " \t":
        at -= 1
    return at


def _indent_of(text: str, at: int) -> str:
    """The blanks that start the line of `at`."""
    found = _INDENT.match(text, line_start(text, at))
    indent = found[0] if found else ""
    return indent.removeprefix(BOM)


def _own_line(text: str, member: Member) -> bool:
    at = _before_blanks(text, member.start)
    return at == 0 or text[at - 1] in ("\n", BOM)


def _unit(text: str, root: Node) -> str:
    """One step of indentation."""
    for member in root.members:
        step = _indent_of(text, member.start).removeprefix(_indent_of(text, root.start))
        if step and _own_line(text, member):
            return step
    return "  "


def _append(text: str, node: Node, key: str, value: Any, unit: str) -> Edit:
    """A new last member."""
    name = _dump(key)
    if not node.members:
        return _fill_object(text, node, name, value, unit)
    line, last = newline(text), node.members[-1]
    spread = _own_line(text, last)
    if spread:
        indent = _indent_of(text, last.start)
        member = f"{line}{indent}{name}: {render(value, unit, line, indent)}"
    else:
        member = f" {name}: {render(value, None)}"
    comma = skip(text, last.end)
    trailing = text[comma : comma + 1] == ","
    start = comma + 1 if trailing else last.end
    beside = _SAME_LINE.match(text, start) if spread else None
    old = beside[0] if beside else ""
    return Edit(start, old, f"{old}{member}," if trailing else f",{old}{member}")


def _fill_object(text: str, node: Node, name: str, value: Any, unit: str) -> Edit:
    """The first member of an object that has none."""
    inner = text[node.start + 1 : node.end - 1]
    line, base = newline(text), _indent_of(text, node.start)
    blank = inner[len(inner.rstrip(" \t\r\n")) :]
    comments = inner[: len(inner) - len(blank)]
    start = node.start + 1 + len(comments)
    if "\n" in blank:
        end = blank[blank.rfind("\n") + 1 :]
    elif comments or "\n" in text.strip() or text.strip(BOM + " \t\r\n") == text[node.start : node.end]:
        end = base
    else:  # all of the file is in one line
        return Edit(start, blank, f"{name}: {render(value, None)}")
    return Edit(start, blank, f"{line}{end}{unit}{name}: {render(value, unit, line, end + unit)}{line}{end}")


def _fill(text: str, member: Member, value: Any, unit: str) -> Edit:
    """An object in place of null."""
    indent = _indent_of(text, member.start)
    new = render(value, unit, newline(text), indent) if _own_line(text, member) else render(value, None)
    return Edit(member.node.start, text[member.node.start : member.end], new)
