"""Statistics of the cache, as `hubd cache`, `hubd status` and metrics show them. Pure; decides nothing.

Every member of these structs has a default: `hubd status` also reads them from hubs of other versions.
"""

from collections import Counter, defaultdict

from msgspec import Struct, field

from cache.cache_entry import DropCause


class CacheCounts(Struct, kw_only=True):
    """Counts since the hub started, for all upstreams or for one."""

    hits: int = 0
    """Reads answered from memory, without stale answers."""
    misses: int = 0
    """Reads that were not in memory: they read the upstream, or found an entry in the shared store."""
    found: int = 0
    """Misses that found an entry in the shared store."""
    coalesced: int = 0
    """Reads that joined a read of the upstream that was under way."""
    stale: int = 0
    """Failed reads that an expired entry answered, marked."""
    stored: int = 0
    """Results that were kept."""
    refused: int = 0
    """Results that were too large to be kept."""


class UpstreamCacheStatistics(Struct, frozen=True, kw_only=True):
    """Entries and counts of one upstream."""

    name: str = ""
    entries: int = 0
    bytes: int = 0
    counts: CacheCounts = field(default_factory=CacheCounts)


class StoreStatistics(Struct, frozen=True, kw_only=True):
    """Health of the shared store."""

    state: str = ""
    """`connected`, `away`, `slow`; or it refuses writes: `full`, `read-only`."""
    since_s: float = 0.0
    """Seconds in this state."""
    reason: str = ""
    """The reason why the state is not `connected`."""
    dropped: int = 0
    """Entries that could not be written."""
    altered: int = 0
    """Values that no hub of this key wrote."""
    late: int = 0
    """Answers that took longer than 50 ms."""
    bypasses: int = 0
    """Number of times that the hub stopped asking it for a while, since it was slow."""
    hubs: int = 0
    """Hubs that use it, including this one."""


class CacheStatistics(Struct, frozen=True, kw_only=True):
    """Everything that `hubd cache` shows."""

    enabled: bool = True
    entries: int = 0
    bytes: int = 0
    max_entries: int = 0
    max_bytes: int = 0
    counts: CacheCounts = field(default_factory=CacheCounts)
    evicted: int = 0
    """Entries that made room for others."""
    invalidations: dict[str, int] = {}
    """Dropped entries by cause, `cache.cache_entry.DropCause.value`."""
    oldest_s: float | None = None
    """Age of the oldest entry; None: there is none."""
    newest_s: float | None = None
    flights: int = 0
    """Reads of upstreams under way."""
    upstreams: tuple[UpstreamCacheStatistics, ...] = ()
    """Upstreams with entries or counts, by name."""
    store: StoreStatistics | None = None
    """None: there is no shared store."""


class CacheCounters:
    """Counters since the hub started."""

    def __init__(self) -> None:
        self.of: defaultdict[str, CacheCounts] = defaultdict(CacheCounts)
        """The counts of each upstream, for the caller to increment."""
        self._gone = CacheCounts()
        """Of upstreams that were removed."""
        self.dropped: Counter[DropCause] = Counter()
        """Dropped entries, for the caller to increment."""

    def forget_upstream(self, name: str) -> None:
        """An upstream was removed. Its counts stay in the total."""
        if (counts := self.of.pop(name, None)) is not None:
            self._gone = _sum([self._gone, counts])

    @property
    def total(self) -> CacheCounts:
        """The counts of all upstreams, including removed ones."""
        return _sum([self._gone, *self.of.values()])

    @property
    def invalidations(self) -> dict[str, int]:
        """Dropped entries by `DropCause.value`."""
        return {cause.value: self.dropped[cause] for cause in DropCause}


def _sum(all_counts: list[CacheCounts]) -> CacheCounts:
    names = CacheCounts.__struct_fields__
    return CacheCounts(**{name: sum(getattr(counts, name) for counts in all_counts) for name in names})
