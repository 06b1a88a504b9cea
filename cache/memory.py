"""Entries in the memory of this process, bounded by bytes and count; the least recently used make room.

Every operation takes constant time. An expired entry leaves when it is looked up, or as the least recently used. Forms
in which an entry was shown to hosts are kept with it, and count.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from cachetools import LRUCache
from msgspec import structs

from cache.cache_entry import CacheKey, Entry
from cache.resource_index import ResourceIndex
from hub.wire.uri_hierarchy import level_count

OVERHEAD: Final = 1_200
"""Bytes that an entry takes in addition to value and key: objects and tables."""
PER_LEVEL: Final = 400
"""Additional bytes for each level of the URI."""
MAX_FORMS: Final = 8
"""Forms of one entry."""
FORM_OVERHEAD: Final = 400


@dataclass(eq=False, repr=False, slots=True)
class CachedEntry:
    """An entry in memory, with the forms that were made of it."""

    key: CacheKey
    entry: Entry
    at: float
    """Time at which it was read or, if another hub read it, found."""
    size: int
    shareable: bool
    """True if hubs may share it, so that another hub may report a change."""
    forms: dict[object, object] = field(default_factory=dict)


class MemoryStore:
    """Entries by key. `clock` gives the time in seconds."""

    def __init__(self, max_bytes: int, max_entries: int, clock: Callable[[], float]) -> None:
        self.max_entries = max_entries
        self.evicted = 0
        """Entries that made room for others."""
        self._clock = clock
        self._recent: LRUCache[CacheKey, CachedEntry] = LRUCache(max_bytes, getsizeof=attrgetter("size"))
        self.index: ResourceIndex[CacheKey] = ResourceIndex()
        """The keys of all entries."""

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def bytes(self) -> int:
        return int(self._recent.currsize)

    @property
    def max_bytes(self) -> int:
        """The bound on `bytes`."""
        return int(self._recent.maxsize)

    def resize(self, max_bytes: int, max_entries: int) -> None:
        """Set new bounds; the most recently used entries stay."""
        old, self.max_entries = self._recent, max_entries
        self._recent = LRUCache(max_bytes, getsizeof=attrgetter("size"))
        self.index = ResourceIndex()
        for key in list(old):  # oldest first
            self.evicted += not self._put(old.pop(key))

    def find(self, key: CacheKey, *, at: float | None = None) -> CachedEntry | None:
        """The entry of `key`, fresh or stale; None: none that was usable at the time `at` (default: now)."""
        if (cached := self._recent.get(key)) is None:
            return None
        now = self._clock() if at is None else at
        if now < cached.entry.fresh_until or now < cached.entry.stale_until:
            return cached
        if at is None:
            self.discard(key)
        return None

    def put(self, key: CacheKey, entry: Entry, *, shareable: bool = False) -> bool:
        """Keep `entry`; False: it does not fit. The URI must be one that `cache.resource_index.is_trackable`."""
        return self._put(CachedEntry(key, entry, self._clock(), size_of(key, entry), shareable))

    def _put(self, cached: CachedEntry) -> bool:
        key = cached.key
        self.discard(key)
        if cached.size > self._recent.maxsize or self.max_entries < 1:
            return False
        self._insert(cached)
        self.index.add(key.upstream, key.uri, key.tenant, key)
        return True

    def _insert(self, cached: CachedEntry) -> None:
        """Make room, and insert `cached` as the most recently used."""
        recent = self._recent
        while len(recent) >= self.max_entries or recent.currsize + cached.size > recent.maxsize:
            key, _ = recent.popitem()
            self.evicted += 1
            self.index.discard(key.upstream, key.uri, key.tenant, key)
        recent[cached.key] = cached

    def keep_form(self, cached: CachedEntry, form_key: object, form: object, size: int) -> None:
        """Keep a form in which `cached` was shown; `size` in bytes, 0 if the form shares the bytes of the value."""
        is_one_too_many = form_key not in cached.forms and len(cached.forms) >= MAX_FORMS
        grown = cached.size + size + FORM_OVERHEAD
        if self._recent.get(cached.key) is cached and not is_one_too_many and grown <= self._recent.maxsize // 2:
            cached.forms[form_key] = form
            self._resize(cached, grown)

    def drop_forms(self, cached: CachedEntry) -> None:
        if cached.forms and self._recent.get(cached.key) is cached:
            cached.forms.clear()
            self._resize(cached, size_of(cached.key, cached.entry))

    def _resize(self, cached: CachedEntry, size: int) -> None:
        del self._recent[cached.key]
        cached.size = size
        self._insert(cached)

    def expire(self, key: CacheKey, stale_until: float) -> bool:
        """Expire the entry of `key`, which may stand in for a failed read until then; whether it was fresh."""
        if (cached := self._recent.get(key)) is None:
            return False
        entry, now = cached.entry, self._clock()
        until = min(entry.stale_until, stale_until)
        was_fresh = now < entry.fresh_until
        if entry.observed or until <= now:
            self.discard(key)
            return was_fresh
        cached.entry = structs.replace(entry, fresh_until=min(entry.fresh_until, now), stale_until=until)
        return was_fresh

    def discard(self, key: CacheKey) -> bool:
        """Drop the entry of `key`; whether there was one."""
        if (found := self._recent.pop(key, None)) is not None:
            self.index.discard(key.upstream, key.uri, key.tenant, key)
        return found is not None

    def all(self) -> list[CachedEntry]:
        """All entries. Does not count as use."""
        return list(self._recent.values())


def size_of(key: CacheKey, entry: Entry) -> int:
    """The estimated size of an entry in bytes."""
    texts = len(key.uri) + len(key.upstream) + len(key.source) + len(key.owner) + len(key.abilities)
    return entry.size + texts + OVERHEAD + PER_LEVEL * level_count(key.uri)
