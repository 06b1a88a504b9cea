"""YAML edited as text: whole lines are put in and cut out, where the parser's marks say. Pure.

What is written in block style can be edited; flow style (`{a: 1}`) only if it is empty. `serverfile` checks every
change by reading the result.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from config.diagnostics import Problem
from config.editing.text.change import Edit, EditRefused, line_end, line_start, newline, refusal
from config.loading.document import parse

_YAML = Path("any.yaml")


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their key, as people write them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def read(text: str) -> Any:
    """The document as a value; an empty one is an empty mapping.
    Raises: EditRefused, if it is not one YAML document, or no mapping."""
    try:
        document = parse(text, _YAML).tree
    except Problem as problem:
        raise refusal(problem) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise EditRefused("is not a YAML mapping")
    return document


def insert(text: str, path: Sequence[str], key: str, value: dict[str, Any], *, listed: bool) -> Edit:
    """Put `value` at the end of what stands below the one key in `path`: a mapping, or a list of items with a `name`.
    Raises: EditRefused, if it cannot be read, or something else is in the way."""
    root = _compose(text)
    (name,) = path
    found = None if root is None else _member(root, name)
    if found is None:
        return _new_root(text, root, name, _lines(key, value, listed=listed))
    holder, node = found
    if isinstance(node, yaml.MappingNode | yaml.SequenceNode) and node.value:
        if isinstance(node, yaml.SequenceNode) is not listed:
            raise EditRefused(f'"{name}" is not a {"list" if listed else "mapping"}')
        if node.flow_style:
            raise EditRefused(f'"{name}" is written in one line, with brackets')
        indent = _column(text, node.start_mark.index)
        lines = _indent(_lines(key, value, listed=listed), indent)
        end = line_end(text, _end(text, holder, node))
        return Edit(end, "", newline(text) + newline(text).join(lines))
    if isinstance(node, yaml.ScalarNode) and node.value not in ("", "~", "null"):
        raise EditRefused(f'"{name}" is not a {"list" if listed else "mapping"}')
    colon = text.index(":", holder.end_mark.index) + 1
    end = line_end(text, max(colon, node.end_mark.index))
    rest = text[max(colon, node.end_mark.index) : end].rstrip()
    lines = _indent(_lines(key, value, listed=listed), _column(text, holder.start_mark.index) + "  ")
    return Edit(colon, text[colon:end], rest + newline(text) + newline(text).join(lines))


def remove(text: str, path: Sequence[str], key: str) -> Edit:
    """Cut out the lines of the member, or of the item of that name.
    Raises: EditRefused, if it is not there, or is not on lines of its own."""
    holder, node, start, end = _locate(text, path, key)
    first = line_start(text, start)
    if text[first:start].strip(" \ufeff"):
        raise EditRefused(f'"{key}" is not on lines of its own')
    last = line_end(text, end)
    if len(node.value) == 1:
        empty = " []" if isinstance(node, yaml.SequenceNode) else " {}"
        colon = text.index(":", holder.end_mark.index) + 1
        return Edit(colon, text[colon:last], empty + text[colon:first].rstrip())
    if last < len(text):
        last = text.index("\n", last) + 1
    elif first:
        first = line_end(text, first - 1) if text[first - 2 : first] != "\r\n" else first - 2
    return Edit(first, text[first:last], "")


def assign(text: str, path: Sequence[str], key: str, value: Any) -> Edit:
    """Let `key` of the mapping at `path` (its last name may be that of an item) be the scalar `value`.
    Raises: EditRefused, if the mapping is not there, or not in block style."""
    _, node, _, _ = _locate(text, path[:-1], path[-1])
    entry = _entry(node, path[-1])
    if not isinstance(entry, yaml.MappingNode) or entry.flow_style:
        raise EditRefused(f'"{path[-1]}" is not a mapping on lines of its own')
    new = yaml.safe_dump(value).splitlines()[0]
    found = _member(entry, key)
    if found is not None:
        start, end = found[1].start_mark.index, found[1].end_mark.index
        if not isinstance(found[1], yaml.ScalarNode) or start == end:
            raise EditRefused(f'"{key}" is not a plain value')
        return Edit(start, text[start:end], new)
    first = entry.value[0][0].start_mark.index
    indent = " " * (first - line_start(text, first))
    return Edit(first, "", f"{key}: {new}{newline(text)}{indent}")


def render(path: Sequence[str], key: str, value: dict[str, Any], *, listed: bool) -> str:
    """The text that `insert` would put into an empty file."""
    return "\n".join([f"{path[0]}:", *_indent(_lines(key, value, listed=listed), "  ")])


# --- where things are -------------------------------------------------------------------------------------------------


def _compose(text: str) -> yaml.MappingNode | None:
    read(text)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:  # the loader of `read` is another one
        raise EditRefused(f"is not YAML: {getattr(error, 'problem', None) or error}") from None
    return node if isinstance(node, yaml.MappingNode) else None


def _member(node: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    found = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == name]
    if len(found) > 1:
        raise EditRefused(f'"{name}" stands there twice')
    return found[0] if found else None


def _locate(text: str, path: Sequence[str], key: str) -> tuple[yaml.Node, Any, int, int]:
    """The container's key, the container, and where the member `key` of it starts and ends."""
    root = _compose(text)
    (name,) = path
    found = None if root is None else _member(root, name)
    if found is None or not isinstance(found[1], yaml.MappingNode | yaml.SequenceNode):
        raise EditRefused(f'there is no "{name}"')
    holder, node = found[0], cast(Any, found[1])
    if (entry := _entry(node, key)) is None:
        raise EditRefused(f'there is no "{key}"')
    if node.flow_style:
        raise EditRefused(f'"{name}" is written in one line, with brackets')
    if isinstance(node, yaml.MappingNode):
        name_node = next(each for each, value in node.value if value is entry)
        return holder, node, name_node.start_mark.index, _end(text, name_node, entry)
    return holder, node, text.rindex("-", 0, entry.start_mark.index + 1), _end(text, entry, entry)


def _entry(node: Any, key: str) -> yaml.Node | None:
    """The member or item of that name."""
    if isinstance(node, yaml.MappingNode):
        found = _member(node, key)
        return None if found is None else found[1]
    for item in node.value:
        if isinstance(item, yaml.MappingNode):
            named = _member(item, "name")
            if named is not None and isinstance(named[1], yaml.ScalarNode) and named[1].value == key:
                return item
    return None


def _end(text: str, holder: yaml.Node, node: yaml.Node) -> int:
    """The position at which the last thing in `node` ends; marks of block collections lead to whatever follows them."""
    if node.start_mark.index < holder.start_mark.index:  # an alias: the marks are those of its anchor
        return int(line_end(text, holder.end_mark.index))
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _end(text, *node.value[-1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        if node.value[-1].start_mark.index < node.start_mark.index:
            raise EditRefused("its last item is an alias")
        return _end(text, node.value[-1], node.value[-1])
    start, end = node.start_mark.index, node.end_mark.index
    return max(start + len(text[start:end].rstrip()), holder.end_mark.index)


def _column(text: str, at: int) -> str:
    """The blanks up to `at`."""
    return " " * (at - line_start(text, at) - (1 if text.startswith("\ufeff") and line_start(text, at) == 0 else 0))


# --- what is written --------------------------------------------------------------------------------------------------


def _lines(key: str, value: dict[str, Any], *, listed: bool) -> list[str]:
    document: Any = [value] if listed else {key: value}
    dumped: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)
    return dumped.splitlines()


def _indent(lines: list[str], indent: str) -> list[str]:
    return [indent + line for line in lines]


def _new_root(text: str, root: yaml.MappingNode | None, name: str, lines: list[str]) -> Edit:
    """A new key at the end of the file."""
    if root is not None and root.flow_style:
        raise EditRefused("it is written in one line, with brackets")
    indent = "" if root is None else _column(text, root.start_mark.index)
    line = newline(text)
    body = line.join(_indent([f"{name}:", *_indent(lines, "  ")], indent))
    return Edit(len(text), "", line + body if text and not text.endswith("\n") else body + line)
