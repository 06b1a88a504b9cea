"""What is kept in this process: so many bytes and entries, those used last.

Every operation takes the same time however much is kept. What has expired leaves when it is looked for, or when it has
become what was used least lately. Forms that an entry was shown in are kept beside it, and counted.
"""

from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from cache.entry import CacheKey, Entry
from cache.index import ResourceIndex
from hub.link.interface import Tenant
from hub.wire.uri_parents import level_count

OVERHEAD: Final = 1_200
"""Bytes that an entry takes beside its value and key: objects, and its place in tables."""
PER_LEVEL: Final = 400
"""And for each level of its URI."""
MAX_FORMS: Final = 8
"""Of one entry."""
FORM_OVERHEAD: Final = 400


class CachedEntry:
    """One entry where it is kept."""

    __slots__ = ("at", "entry", "forms", "shareable", "size")

    def __init__(self, entry: Entry, at: float, size: int, *, shareable: bool) -> None:
        self.entry = entry
        self.at = at
        """When it was read or, if another hub did, found."""
        self.size = size
        self.shareable = shareable
        """Whether hubs may have it in common, so that another one may say that it changed."""
        self.forms: dict[object, object] = {}

    def __repr__(self) -> str:
        return f"<CachedEntry {self.size} bytes, {len(self.forms)} forms>"


class _Recent(LRUCache[CacheKey, CachedEntry]):
    """Says what it drops."""

    def __init__(self, max_bytes: int, on_evicted: Callable[[CacheKey], None]) -> None:
        super().__init__(max_bytes, getsizeof=lambda cached: cached.size)
        self._on_evicted = on_evicted

    def popitem(self) -> tuple[CacheKey, CachedEntry]:
        key, cached = super().popitem()
        self._on_evicted(key)
        return key, cached


class MemoryStore:
    """Entries by subject. `clock` gives the time in seconds."""

    def __init__(self, max_bytes: int, max_entries: int, clock: Callable[[], float]) -> None:
        self.max_entries = max_entries
        self.evicted = 0
        """How many had to make room."""
        self._clock = clock
        self._recent = _Recent(max_bytes, self._lost)
        self._index: ResourceIndex[CacheKey] = ResourceIndex()

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self)} entries, {self.bytes} of {self.max_bytes} bytes>"

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def bytes(self) -> int:
        """How much is kept."""
        return int(self._recent.currsize)

    @property
    def max_bytes(self) -> int:
        """How much may be."""
        return int(self._recent.maxsize)

    def resize(self, max_bytes: int, max_entries: int) -> None:
        """Other bounds from now on; what was used last stays."""
        old, self.max_entries = self._recent, max_entries
        self._recent = _Recent(max_bytes, self._lost)
        self._index = ResourceIndex()
        for key in list(old):  # oldest first
            cached = old.pop(key)
            if not self._put(key, cached):
                self.evicted += 1

    def find(self, key: CacheKey, *, at: float | None = None) -> CachedEntry | None:
        """What is kept of `key`, fresh or not any more; None: nothing that was of use at the time `at`, now unless
        given."""
        cached = self._recent.get(key)
        if cached is None:
            return None
        now = self._clock() if at is None else at
        if now < cached.entry.fresh_until or now < cached.entry.stale_until:
            return cached
        if at is None:
            self.discard(key)
        return None

    def put(self, key: CacheKey, entry: Entry, *, shareable: bool = False) -> bool:
        """Keep `entry`; whether it fits at all. The URI must be one that `cache.index.is_trackable`."""
        return self._put(key, CachedEntry(entry, self._clock(), size_of(key, entry), shareable=shareable))

    def _put(self, key: CacheKey, cached: CachedEntry) -> bool:
        self.discard(key)
        if cached.size > self._recent.maxsize or self.max_entries < 1:
            return False
        while len(self._recent) >= self.max_entries:
            self._recent.popitem()
        self._recent[key] = cached
        self._index.add(key.upstream, key.uri, key.tenant, key)
        return True

    def keep_form(self, key: CacheKey, cached: CachedEntry, form_key: object, form: object, size: int) -> None:
        """Keep beside `cached` how it was shown; `size` in bytes, 0 where it is the same as the value."""
        if self._recent.get(key) is not cached:
            return
        if form_key not in cached.forms and len(cached.forms) >= MAX_FORMS:
            return
        grown = cached.size + size + FORM_OVERHEAD
        if grown > self._recent.maxsize // 2:
            return
        del self._recent[key]
        cached.size = grown
        cached.forms[form_key] = form
        self._recent[key] = cached

    def drop_forms(self, key: CacheKey, cached: CachedEntry) -> None:
        """Forget how it was shown: none of it is right any more."""
        if cached.forms and self._recent.get(key) is cached:
            del self._recent[key]
            cached.forms.clear()
            cached.size = size_of(key, cached.entry)
            self._recent[key] = cached

    def expire(self, key: CacheKey, stale_until: float) -> bool:
        """Have `key` read anew, but let it stand in until then where that fails; whether that ended its time."""
        cached = self._recent.get(key)
        if cached is None:
            return False
        entry, now = cached.entry, self._clock()
        until = min(entry.stale_until, stale_until)
        was_fresh = now < entry.fresh_until
        if entry.observed or until <= now:
            self.discard(key)
            return was_fresh
        cached.entry = Entry(
            value=entry.value,
            version=entry.version,
            public=entry.public,
            fresh_until=min(entry.fresh_until, now),
            stale_until=until,
            observed=False,
        )
        return was_fresh

    def discard(self, key: CacheKey) -> bool:
        """Drop what is kept of `key`; whether there was anything."""
        found = self._recent.pop(key, None)
        if found is not None:
            self._index.discard(key.upstream, key.uri, key.tenant, key)
        return found is not None

    def _lost(self, key: CacheKey) -> None:
        self.evicted += 1
        self._index.discard(key.upstream, key.uri, key.tenant, key)

    # --- what there is ------------------------------------------------------------------------------------------------

    def affected_by(self, upstream: str, uri: str) -> list[CacheKey]:
        """As `ResourceIndex.affected_by`."""
        return self._index.affected_by(upstream, uri)

    def of_resource(self, upstream: str, uri: str) -> list[CacheKey]:
        """As `ResourceIndex.of_resource`."""
        return self._index.of_resource(upstream, uri)

    def of(self, upstream: str) -> list[CacheKey]:
        """All of an upstream."""
        return self._index.of(upstream)

    def of_tenant(self, upstream: str, tenant: Tenant) -> list[CacheKey]:
        """All that one host has for itself."""
        return self._index.of_tenant(upstream, tenant)

    def all(self) -> list[tuple[CacheKey, CachedEntry]]:
        """Everything, used or not. For whoever looks."""
        return list(self._recent.items())


def size_of(key: CacheKey, entry: Entry) -> int:
    """What an entry takes, in bytes, as far as can be told."""
    texts = len(key.uri) + len(key.upstream) + len(key.source) + len(key.owner) + len(key.abilities)
    return entry.size + texts + OVERHEAD + PER_LEVEL * level_count(key.uri)
