"""Tools of the hub itself, as a catalogue lists them beside those of upstreams. Pure."""

from collections.abc import Sequence
from typing import Final

from hub.catalog.entries import VisibleEntry
from hub.catalog.token_cost import tool_bytes
from hub.wire.jsonrpc import encode
from hub.wire.mcp import Kind, ListEntry
from hub.wire.translate.definitions import entry_for_host

HUB: Final = "hub"
"""Name of the hub beside those of upstreams; no upstream has it."""


class HubTools:
    """Entries of tools that no upstream has."""

    name: Final = HUB

    def __init__(self, tools: Sequence[ListEntry]) -> None:
        self.shown = tuple(VisibleEntry(tool.key, tool.key, tool.fields) for tool in tools)

    def __repr__(self) -> str:
        return f"<HubTools {', '.join(each.visible for each in self.shown)}>"

    def encode(self, kind: Kind, host_version: str, shown: VisibleEntry, *, ui: bool = False) -> bytes:
        """One entry as JSON."""
        return encode(entry_for_host(kind, shown.fields, host_version))

    def chunk(self, kind: Kind, host_version: str) -> bytes:
        """All entries as JSON, separated by commas."""
        return b",".join([self.encode(kind, host_version, each) for each in self.shown])

    def tool_bytes(self) -> dict[str, int]:
        """By name, the size of each tool, for its cost in tokens."""
        return {each.visible: tool_bytes(each.visible, each.fields) for each in self.shown}
