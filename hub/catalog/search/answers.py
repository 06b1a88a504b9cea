"""Answers of the tool that finds tools: what it is asked, and the one text that it gives. Pure.

An answer has the definitions of the best few tools, one a line, then names of further ones, then how to go on. Sizes
are bounded here, whatever servers say of their tools and whatever is asked.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw, Struct

from hub.catalog.search.index import FoundTool, SearchIndex, near_names, text_of
from hub.catalog.search.meta_tools import FIND_TOOLS, one_line, server_counts
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import encode, peek_array, peek_object, peek_str, raw

MAX_DEFINITIONS: Final = 5
MAX_FURTHER: Final = 10
"""Names beside the definitions."""
MAX_FURTHER_CHARS: Final = 100
"""Characters of the description of one of these."""
MAX_ANSWER_BYTES: Final = 16_000
MAX_DEFINITION_BYTES: Final = 8_000
"""Bytes of a definition that is part of an answer without being asked for by name."""
MAX_NAMED: Final = 10
"""Names in one request."""
MAX_NAMED_BYTES: Final = 64_000
"""Bytes of an answer to exact names."""
MAX_QUOTED: Final = 100
"""Characters of what was asked that are repeated."""
_MEMBERS: Final = ("description", "inputSchema", "annotations")
_ROOM_FOR_MORE: Final = 4_000
"""Bytes of an answer that are for further names and the rest."""
_ROOM_FOR_HINTS: Final = 500
_ROOM_WITHOUT_DEFINITIONS: Final = 5_000
"""Bytes of an answer to exact names that are for a short line about each."""


_ONE_LINE: Final = re.compile(r"[\r\n]")
"""Line breaks, which in JSON are only between values."""


class Answer(Struct, frozen=True):
    """The text of an answer; `is_error`: it says what to ask otherwise."""

    text: str
    is_error: bool = False


def find(index: SearchIndex, servers: Mapping[str, int], arguments: Raw | None) -> Answer:
    """The answer to a call with `arguments`, out of `index`; `servers`: how many tools each has."""
    members = peek_object(arguments)
    names = [name for each in peek_array(members.get("names")) if (name := peek_str(each)) is not None]
    query = (peek_str(members.get("query")) or "").strip()
    server = peek_str(members.get("server"))
    if names:
        return _definitions_of(index, names)
    if server is not None and server not in servers:
        return _no_server(servers, server)
    if not query and server is None:
        return Answer('Say in "query" what you want to do, in a few words, or give exact names as "names".', True)
    found = (
        index.search(query, MAX_DEFINITIONS + MAX_FURTHER, server)
        if query
        else [tool for tool in index.tools if tool.server == server][: MAX_DEFINITIONS + MAX_FURTHER]
    )
    return Answer(_text_of(found)) if found else _nothing(servers, query, server)


def definition(tool: FoundTool) -> str:
    """A tool's definition as one line of JSON."""
    fields: dict[str, Raw] = {"name": raw(tool.name)}
    fields |= {member: tool.fields[member] for member in _MEMBERS if member in tool.fields}
    line = encode(fields)
    with suppress(*READ_ERRORS):  # too deep: as it came
        line = msgspec.json.format(line, indent=-1)
    return _ONE_LINE.sub(" ", line.decode(errors="replace"))


def unknown_tool(name: str, near: Sequence[str] = ()) -> str:
    """The text for a model that named a tool which is not there; `near`: names that are like it."""
    return f"there is no tool {quote(name)}{_ask_whether(near, '; did') or '.'} Or search with {FIND_TOOLS}."


def _ask_whether(near: Sequence[str], start: str) -> str:
    """A question after one of the names `near`, which servers choose; "": there are none."""
    names = " or ".join(one_line(name, 2 * MAX_QUOTED) for name in near)
    return f"{start} you mean {names}?" if near else ""


def quote(text: str) -> str:
    """Something that was asked, fit to be repeated."""
    return one_line(text, MAX_QUOTED)


def _definitions_of(index: SearchIndex, names: Sequence[str]) -> Answer:
    lines: list[str] = []
    left = MAX_NAMED_BYTES - _ROOM_WITHOUT_DEFINITIONS
    found = 0
    for name in dict.fromkeys(names[:MAX_NAMED]):
        tool = index.exact(name)
        if tool is None:
            line, short = unknown_tool(name, index.near(name)), unknown_tool(name)
        else:
            line = definition(tool) if _size(tool) <= left else ""
            short = f"{quote(tool.name)}: its definition is too long to be shown here."
        if line and (size := len(line.encode())) <= left:
            left -= size
            found += tool is not None
            lines.append(line)
        else:
            lines.append(short)
    if len(names) > MAX_NAMED:
        lines.append(f"Only the first {MAX_NAMED} of {len(names)} names were looked up.")
    return Answer("\n".join(lines), is_error=not found)


def _text_of(found: Sequence[FoundTool]) -> str:
    shown: list[str] = []
    further: list[FoundTool] = []
    left = MAX_ANSWER_BYTES - _ROOM_FOR_MORE
    for tool in found:
        line = definition(tool) if len(shown) < MAX_DEFINITIONS and _size(tool) <= 2 * MAX_DEFINITION_BYTES else ""
        size = len(line.encode())
        if line and size <= min(left, MAX_DEFINITION_BYTES):
            shown.append(line)
            left -= size
        else:
            further.append(tool)
    lines = shown
    if further:
        lines = [*shown, "", "Further tools, without their definitions:"]
        left += _ROOM_FOR_MORE - _ROOM_FOR_HINTS
        for tool in further[:MAX_FURTHER]:
            line = _line_of(tool)
            left -= len(line.encode()) + 1
            if left < 0:
                break
            lines.append(line)
    names = 'Definitions of further ones: give "names". ' if further else ""
    return "\n".join((*lines, "", f"Not what you need? {names}Search again in other words."))


def _line_of(tool: FoundTool) -> str:
    name = one_line(tool.name, 2 * MAX_QUOTED)
    text = text_of(tool.fields.get("description"))
    return f"{name}: {one_line(text, MAX_FURTHER_CHARS)}" if text else name


def _nothing(servers: Mapping[str, int], query: str, server: str | None) -> Answer:
    where = f" of {server}" if server is not None else ""
    counts = server_counts(servers, _ROOM_FOR_MORE)
    text = f"No tool{where} has to do with {quote(query)!r}. Search in other words" + (
        f", for what a tool does rather than for what it is for. Servers and their tools: {counts}." if counts else "."
    )
    return Answer(text)


def _no_server(servers: Mapping[str, int], server: str) -> Answer:
    hint = _ask_whether(near_names(server, servers), " Did")
    counts = server_counts(servers, _ROOM_FOR_MORE)
    return Answer(f"There is no server {quote(server)!r}.{hint} Servers and their tools: {counts}.", is_error=True)


def _size(tool: FoundTool) -> int:
    return sum(memoryview(tool.fields[member]).nbytes for member in _MEMBERS if member in tool.fields)
