"""Meta tools: the tools of the hub by which a model finds the others, and calls them; and what a call of one means.
Pure.

A host in search mode is shown these in place of the tools that they lead to. There are two for calling, so that a
person can allow reading for good without allowing everything: the second takes only tools that say that they change
nothing, of servers that the user trusts to say so.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from hub.catalog.entries import VisibleEntry
from hub.catalog.token_cost import tool_bytes
from hub.wire import byte_checks
from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import encode, peek_object, peek_str, raw, read_object
from hub.wire.mcp import HUB_TOOLS, Kind, ListEntry
from hub.wire.results_for_hosts import entry_for_host
from hub.wire.value_limits import TooManyItems, refuse_too_many_items

FIND_TOOLS: Final = HUB_TOOLS + "find_tools"
CALL_TOOL: Final = HUB_TOOLS + "call_tool"
CALL_READ_ONLY_TOOL: Final = HUB_TOOLS + "call_read_only_tool"
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
    text = (
        f"Search the {sum(servers.values())} tools of this hub and get their definitions."
        f" Servers: {server_counts(servers, MAX_SERVER_BYTES) or 'none now'}."
    )
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
