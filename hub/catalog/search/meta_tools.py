"""Meta tools: the tools of the hub by which a model finds the others, and calls them; what a call of one means, and the
one text that finding answers. Pure.

A host in search mode is shown these in place of the tools that they lead to. There are two for calling, so that a
person can allow reading for good without allowing everything: the second takes only tools that say that they change
nothing, of servers that the user trusts to say so.

An answer has the definitions of the best few tools, one a line, then names of further ones, then how to go on. Sizes
are bounded here, whatever servers say of their tools and whatever is asked.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
from msgspec import Raw, Struct

from hub.catalog.search.index import FoundTool, SearchIndex, near_names, text_of
from hub.catalog.token_cost import tool_bytes
from hub.catalog.upstream_entries import VisibleEntry
from hub.wire import byte_checks
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import encode, peek_array, peek_object, peek_str, raw, read_object
from hub.wire.mcp import HUB_TOOLS, Kind
from hub.wire.results_for_hosts import entry_for_host
from hub.wire.total_item_limit import TooManyItems, refuse_too_many_items
from hub.wire.upstream_snapshot import ListEntry

FIND_TOOLS: Final = HUB_TOOLS + "find_tools"
CALL_TOOL: Final = HUB_TOOLS + "call_tool"
CALL_READ_ONLY_TOOL: Final = HUB_TOOLS + "call_read_only_tool"
READ_RESULT: Final = HUB_TOOLS + "read_result"
LIST_RESOURCES: Final = HUB_TOOLS + "list_resources"
READ_RESOURCE: Final = HUB_TOOLS + "read_resource"
CALLS: Final = frozenset({CALL_TOOL, CALL_READ_ONLY_TOOL})
META_TOOLS: Final = frozenset({FIND_TOOLS, *CALLS})
MAX_SERVER_BYTES: Final = 500
"""Bytes of the servers' names in the description of `FIND_TOOLS`."""

_CALL_SCHEMA: Final = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "description": "As its inputSchema says"},
        "arguments_json": {"type": "string", "description": "The same as JSON text, if an object cannot be given"},
    },
}
_TRUE: Final = raw(True)


def meta_tools(servers: Mapping[str, int], *, reads: bool) -> tuple[ListEntry, ...]:
    """The meta tools of a view that has so many tools of each of these servers; `reads`: some only read."""
    text = f"Call a tool by the name and definition {FIND_TOOLS} gave."
    hints = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
    calls = [_entry(CALL_TOOL, "Call a tool", text, _CALL_SCHEMA, hints)]
    if reads:
        text = f"Call a tool that only reads, by the name and definition {FIND_TOOLS} gave; others are refused."
        hints = {"readOnlyHint": True, "openWorldHint": True}
        calls.append(_entry(CALL_READ_ONLY_TOOL, "Call a tool that only reads", text, _CALL_SCHEMA, hints))
    return (_find_tools(servers), *calls)


def only_reads(fields: Mapping[str, Raw]) -> bool:
    """True if a tool with these members says that it changes nothing."""
    return peek_object(fields.get("annotations")).get("readOnlyHint") == _TRUE


def server_counts(servers: Mapping[str, int], most_bytes: int) -> str:
    """Servers and how many tools each has, in at most about so many bytes."""
    parts: list[str] = []
    for at, (name, count) in enumerate(servers.items()):
        part = f"{name} ({count})"
        most_bytes -= len(part) + 2
        if most_bytes < 0:
            return ", ".join(parts) + f" and {len(servers) - at} more"
        parts.append(part)
    return ", ".join(parts)


def one_line(text: str, most: int) -> str:
    """The first characters of a text, on one line."""
    start = "".join(char if char.isprintable() else " " for char in text[: 4 * most])
    line = " ".join(start.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _find_tools(servers: Mapping[str, int]) -> ListEntry:
    count, names = sum(servers.values()), server_counts(servers, MAX_SERVER_BYTES) or "none now"
    text = f"Search the {count} tools of this hub and get their definitions. Servers: {names}."
    properties = {
        "query": {"type": "string", "description": "What you want to do, in a few words"},
        "names": {"type": "array", "items": {"type": "string"}, "description": "Exact names, for their definitions"},
        "server": {"type": "string", "description": "Only tools of this server"},
    }
    schema = {"type": "object", "properties": properties}
    return _entry(FIND_TOOLS, "Find tools", text, schema, {"readOnlyHint": True, "openWorldHint": False})


def _entry(name: str, title: str, text: str, schema: object, annotations: object) -> ListEntry:
    fields = {"name": name, "title": title, "description": text, "inputSchema": schema, "annotations": annotations}
    return ListEntry(name, {member: raw(value) for member, value in fields.items()})


HUB: Final = "hub"
"""Name of the hub beside those of upstreams; no upstream has it."""


class HubTools:
    """Entries of tools that no upstream has."""

    name: Final = HUB

    def __init__(self, tools: Sequence[ListEntry]) -> None:
        self.shown = tuple(VisibleEntry(tool.key, tool.key, tool.fields) for tool in tools)

    def encode(self, kind: Kind, host_version: str, shown: VisibleEntry, *, ui: bool = False) -> bytes:
        """One entry as JSON."""
        return encode(entry_for_host(kind, shown.fields, host_version))

    def chunk(self, kind: Kind, host_version: str) -> bytes:
        """All entries as JSON on one line, separated by commas."""
        return byte_checks.one_line(b",".join([self.encode(kind, host_version, each) for each in self.shown]))

    def tool_bytes(self) -> dict[str, int]:
        """By name, the size of each tool, for its cost in tokens."""
        return {each.visible: tool_bytes(each.visible, each.fields) for each in self.shown}


_OBJECT: Final = ord("{")


class MetaCall(Struct, frozen=True):
    """The call that a meta call asks for."""

    name: str
    """The tool, as hosts call it."""
    arguments: Raw


class BadMetaCall(Exception):
    """A meta call that says too little, or too much; the text tells a model how to mend it."""


def read_meta_call(given: Raw | None) -> MetaCall:
    """The call that a meta call with the arguments `given` is. Raises: BadMetaCall."""
    members = peek_object(given)
    name = peek_str(members.get("name"))
    if not name:
        raise BadMetaCall(f'say which tool to call: "name", as {FIND_TOOLS} gave it.')
    if name in META_TOOLS:
        raise BadMetaCall(f"{name} is called directly.")
    arguments, text = members.get("arguments"), members.get("arguments_json")
    if (arguments is None) == (text is None):
        which = "not both" if text is not None else "{} if it takes none"
        raise BadMetaCall(f'give its arguments either as "arguments" or, as JSON text, as "arguments_json", {which}.')
    if text is not None:
        return MetaCall(name, _read_json(text))
    if arguments is None or memoryview(arguments)[0] != _OBJECT:
        raise BadMetaCall('"arguments" is an object; JSON text goes into "arguments_json".')
    return MetaCall(name, arguments)


def _read_json(given: Raw) -> Raw:
    """The arguments in a text, in no other form than if they had been sent as they are."""
    text = peek_str(given)
    if text is None:
        raise BadMetaCall('"arguments_json" is a text: the arguments as JSON.')
    try:
        refuse_too_many_items(Raw(text.encode()), '"arguments_json"')
        return read_object(text)
    except (TooManyItems, *READ_ERRORS) as error:
        raise BadMetaCall(f'"arguments_json" is no JSON object: {one_line(str(error), 200)}.') from None


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
    most = MAX_DEFINITIONS + MAX_FURTHER
    all_of_server = (tool for tool in index.tools if tool.server == server)
    found = index.search(query, most, server) if query else list(islice(all_of_server, most))
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
    how = f", for what a tool does rather than for what it is for. Servers and their tools: {counts}" if counts else ""
    return Answer(f"No tool{where} has to do with {quote(query)!r}. Search in other words{how}.")


def _no_server(servers: Mapping[str, int], server: str) -> Answer:
    hint = _ask_whether(near_names(server, servers), " Did")
    counts = server_counts(servers, _ROOM_FOR_MORE)
    return Answer(f"There is no server {quote(server)!r}.{hint} Servers and their tools: {counts}.", is_error=True)


def _size(tool: FoundTool) -> int:
    return sum(memoryview(tool.fields[member]).nbytes for member in _MEMBERS if member in tool.fields)
