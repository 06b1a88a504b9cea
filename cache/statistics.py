"""Statistics of the cache, as `hubd cache`, `hubd status` and metrics show them. Pure; decides nothing.

Every member of these structs has a default: `hubd status` also reads them from hubs of other versions.
"""

from collections import Counter
from collections.abc import KeysView

from msgspec import Struct, field

from cache.entry import DropCause


class CacheCounts(Struct, kw_only=True):
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


class UpstreamCacheStatistics(Struct, frozen=True, kw_only=True):
    """What is kept of one upstream."""

    name: str = ""
    entries: int = 0
    bytes: int = 0
    counts: CacheCounts = field(default_factory=CacheCounts)


class StoreStatistics(Struct, frozen=True, kw_only=True):
    """How it stands with the store that hubs have in common."""

    state: str = ""
    """`connected`, `away`, `slow`, or it takes nothing new: `full`, `read-only`."""
    since_s: float = 0.0
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


class CacheStatistics(Struct, frozen=True, kw_only=True):
    """Everything `hubd cache` shows."""

    enabled: bool = True
    entries: int = 0
    bytes: int = 0
    max_entries: int = 0
    max_bytes: int = 0
    counts: CacheCounts = field(default_factory=CacheCounts)
    evicted: int = 0
    """Entries that had to make room for others."""
    invalidations: dict[str, int] = {}
    """How many entries were dropped, by `cache.entry.DropCause.value`."""
    oldest_s: float | None = None
    """The age of the oldest entry; None: there is none."""
    newest_s: float | None = None
    flights: int = 0
    """Reads of upstreams that are running now."""
    upstreams: tuple[UpstreamCacheStatistics, ...] = ()
    """Those of which something is kept or was counted, by name."""
    store: StoreStatistics | None = None
    """None: nothing is shared with other hubs."""


class CacheCounters:
    """Since the hub started."""

    def __init__(self) -> None:
        self._counts: dict[str, CacheCounts] = {}
        self._gone = CacheCounts()
        """Of upstreams that are no more."""
        self._dropped: Counter[DropCause] = Counter()

    def __repr__(self) -> str:
        return f"<CacheCounters of {', '.join(self._counts) or 'nothing'}>"

    def of(self, name: str) -> CacheCounts:
        """The counts of an upstream, to be changed."""
        found = self._counts.get(name)
        if found is None:
            found = self._counts[name] = CacheCounts()
        return found

    @property
    def names(self) -> KeysView[str]:
        """The upstreams of which something was counted."""
        return self._counts.keys()

    def forget_upstream(self, name: str) -> None:
        """There is no such upstream any more. What happened has happened."""
        counts = self._counts.pop(name, None)
        if counts is not None:
            self._gone = _sum([self._gone, counts])

    def dropped(self, cause: DropCause, entries: int) -> None:
        """So many were dropped."""
        self._dropped[cause] += entries

    @property
    def total(self) -> CacheCounts:
        """Of all upstreams, those that are no more among them."""
        return _sum([self._gone, *self._counts.values()])

    @property
    def invalidations(self) -> dict[str, int]:
        """How many entries were dropped, by `DropCause.value`."""
        return {cause.value: self._dropped[cause] for cause in DropCause}


def _sum(all_counts: list[CacheCounts]) -> CacheCounts:
    total = CacheCounts()
    for counts in all_counts:
        for name in CacheCounts.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(counts, name))
    return total
