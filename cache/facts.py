"""What is to be seen of the cache: `hubd cache`, `hubd status` and metrics show this, and decide nothing. Pure."""

from msgspec import Struct


class Counts(Struct, kw_only=True):
    """What happened since the hub started, of all upstreams or of one."""

    hits: int = 0
    """Reads that were answered from what was kept, stale answers not among them."""
    misses: int = 0
    """Reads that began a read of the upstream, or found it in the store that hubs share."""
    found: int = 0
    """Those that found it there."""
    coalesced: int = 0
    """Reads that were answered by a read of the upstream that another one had begun."""
    stale: int = 0
    """Reads that failed and were answered, marked, with what was kept."""
    stored: int = 0
    """Results that were kept."""
    refused: int = 0
    """Results that might have been kept, but were too large."""


class UpstreamCacheFacts(Struct, frozen=True, kw_only=True):
    """What is kept of one upstream."""

    name: str
    entries: int
    bytes: int
    counts: Counts


class StoreFacts(Struct, frozen=True, kw_only=True):
    """How it stands with the store that hubs have in common."""

    state: str
    """`connected`, `away`, `slow`, or it takes nothing new: `full`, `read-only`."""
    since_s: float
    """How long it has been so."""
    reason: str = ""
    """Why it is not connected."""
    dropped: int = 0
    """What could not be written there."""
    altered: int = 0
    """Values found there that no hub of this key has written."""
    late: int = 0
    """Answers that did not come within 50 ms."""
    bypasses: int = 0
    """How often it was left alone for a while, being slow."""
    hubs: int = 0
    """How many hubs use it, this one included."""


class CacheFacts(Struct, frozen=True, kw_only=True):
    """Everything `hubd cache` shows."""

    enabled: bool
    entries: int
    bytes: int
    max_entries: int
    max_bytes: int
    counts: Counts
    evicted: int
    """Entries that had to make room for others."""
    invalidations: dict[str, int]
    """How many entries were dropped, by `cache.entry.Cause.value`."""
    oldest_s: float | None
    """The age of the oldest entry; None: there is none."""
    newest_s: float | None
    flights: int
    """Reads of upstreams that are running now."""
    upstreams: tuple[UpstreamCacheFacts, ...]
    """Those of which something is kept or was counted, by name."""
    store: StoreFacts | None = None
    """None: nothing is shared with other hubs."""
