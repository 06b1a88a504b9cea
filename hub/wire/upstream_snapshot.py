"""Snapshot of one upstream: what it lists and declares at one moment."""

from msgspec import Raw, Struct

from hub.wire.mcp import Kind


class ListEntry(Struct, frozen=True):
    """One tool, prompt, resource or template as its upstream listed it."""

    key: str
    """The upstream's own name, URI or URI template."""
    fields: dict[str, Raw]
    """All members of the entry, `key` included, in the upstream's order and bytes."""


class Freshness(Struct, frozen=True):
    """A modern upstream's caching hints for a list. `ttl_ms` None: there are none (legacy)."""

    ttl_ms: int | None = None
    public: bool = False


class Snapshot(Struct, frozen=True):
    """One upstream's lists and declarations at one moment. Never changed, only replaced by a new snapshot."""

    upstream: str
    version: str
    """Negotiated revision; "" while never connected."""
    capabilities: dict[str, Raw]
    server_info: dict[str, Raw]
    instructions: str
    lists: dict[Kind, tuple[ListEntry, ...]]
    freshness: dict[Kind, Freshness]
    local: bool
    """stdio or loopback: the upstream's `file` URIs mean this machine's files."""
    degraded: tuple[str, ...] = ()
    """Reasons why the lists are incomplete (too many entries, pages that go in circles); empty when they are
    complete."""

    def find(self, kind: Kind, key: str) -> ListEntry | None:
        """The first entry of a list by its own name or URI; None: it is not listed."""
        return next((entry for entry in self.lists.get(kind, ()) if entry.key == key), None)
