"""What is kept in this process: so many bytes and entries, those used last.

Every operation takes the same time however much is kept. What has expired leaves when it is looked for, or when it has
become what was used least lately. Forms that an entry was shown in are kept beside it, and counted.
"""

from collections.abc import Callable
from typing import Final

from cachetools import LRUCache

from cache.entry import Entry, Subject
from cache.index import Index
from hub.link.interface import Tenant
from hub.wire.uri_parents import level_count

OVERHEAD: Final = 1_200
"""Bytes that an entry takes beside its value and key: objects, and its place in tables."""
PER_LEVEL: Final = 400
"""And for each level of its URI."""
MAX_FORMS: Final = 8
"""Of one entry."""
FORM_OVERHEAD: Final = 400


class Kept:
    """One entry where it is kept."""

    __slots__ = ("at", "common", "entry", "forms", "size")

    def __init__(self, entry: Entry, at: float, size: int, *, common: bool) -> None:
        self.entry = entry
        self.at = at
        """When it was read or, if another hub did, found."""
        self.size = size
        self.common = common
        """Whether hubs may have it in common, so that another one may say that it changed."""
        self.forms: dict[object, object] = {}

    def __repr__(self) -> str:
        return f"<Kept {self.size} bytes, {len(self.forms)} forms>"


class _Recent(LRUCache[Subject, Kept]):
    """Says what it drops."""

    def __init__(self, max_bytes: int, on_evicted: Callable[[Subject], None]) -> None:
        super().__init__(max_bytes, getsizeof=lambda kept: kept.size)
        self._on_evicted = on_evicted

    def popitem(self) -> tuple[Subject, Kept]:
        subject, kept = super().popitem()
        self._on_evicted(subject)
        return subject, kept


class MemoryStore:
    """Entries by subject. `clock` gives the time in seconds."""

    def __init__(self, max_bytes: int, max_entries: int, clock: Callable[[], float]) -> None:
        self.max_entries = max_entries
        self.evicted = 0
        """How many had to make room."""
        self._clock = clock
        self._recent = _Recent(max_bytes, self._lost)
        self._index: Index[Subject] = Index()

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
        self._index = Index()
        for subject in list(old):  # oldest first
            kept = old.pop(subject)
            if not self._put(subject, kept):
                self.evicted += 1

    def find(self, subject: Subject, *, at: float | None = None) -> Kept | None:
        """What is kept of `subject`, fresh or not any more; None: nothing that was of use at the time `at`, now unless
        given."""
        kept = self._recent.get(subject)
        if kept is None:
            return None
        now = self._clock() if at is None else at
        if now < kept.entry.fresh_until or now < kept.entry.stale_until:
            return kept
        if at is None:
            self.discard(subject)
        return None

    def put(self, subject: Subject, entry: Entry, *, common: bool = False) -> bool:
        """Keep `entry`; whether it fits at all. The URI must be one that `cache.index.is_followed`."""
        return self._put(subject, Kept(entry, self._clock(), size_of(subject, entry), common=common))

    def _put(self, subject: Subject, kept: Kept) -> bool:
        self.discard(subject)
        if kept.size > self._recent.maxsize or self.max_entries < 1:
            return False
        while len(self._recent) >= self.max_entries:
            self._recent.popitem()
        self._recent[subject] = kept
        self._index.add(subject.upstream, subject.uri, subject.tenant, subject)
        return True

    def keep_form(self, subject: Subject, kept: Kept, key: object, form: object, size: int) -> None:
        """Keep beside `kept` how it was shown; `size` in bytes, 0 where it is the same as the value."""
        if self._recent.get(subject) is not kept:
            return
        if key not in kept.forms and len(kept.forms) >= MAX_FORMS:
            return
        grown = kept.size + size + FORM_OVERHEAD
        if grown > self._recent.maxsize // 2:
            return
        del self._recent[subject]
        kept.size = grown
        kept.forms[key] = form
        self._recent[subject] = kept

    def drop_forms(self, subject: Subject, kept: Kept) -> None:
        """Forget how it was shown: none of it is right any more."""
        if kept.forms and self._recent.get(subject) is kept:
            del self._recent[subject]
            kept.forms.clear()
            kept.size = size_of(subject, kept.entry)
            self._recent[subject] = kept

    def expire(self, subject: Subject, stale_until: float) -> bool:
        """Have `subject` read anew, but let it stand in until then where that fails; whether that ended its time."""
        kept = self._recent.get(subject)
        if kept is None:
            return False
        entry, now = kept.entry, self._clock()
        until = min(entry.stale_until, stale_until)
        was_fresh = now < entry.fresh_until
        if entry.observed or until <= now:
            self.discard(subject)
            return was_fresh
        kept.entry = Entry(
            value=entry.value,
            version=entry.version,
            public=entry.public,
            fresh_until=min(entry.fresh_until, now),
            stale_until=until,
            observed=False,
        )
        return was_fresh

    def discard(self, subject: Subject) -> bool:
        """Drop what is kept of `subject`; whether there was anything."""
        found = self._recent.pop(subject, None)
        if found is not None:
            self._index.discard(subject.upstream, subject.uri, subject.tenant, subject)
        return found is not None

    def _lost(self, subject: Subject) -> None:
        self.evicted += 1
        self._index.discard(subject.upstream, subject.uri, subject.tenant, subject)

    # --- what there is ------------------------------------------------------------------------------------------------

    def concerned(self, upstream: str, uri: str) -> list[Subject]:
        """As `Index.concerned`."""
        return self._index.concerned(upstream, uri)

    def exactly(self, upstream: str, uri: str) -> list[Subject]:
        """As `Index.exactly`."""
        return self._index.exactly(upstream, uri)

    def of(self, upstream: str) -> list[Subject]:
        """All of an upstream."""
        return self._index.of(upstream)

    def of_tenant(self, upstream: str, tenant: Tenant) -> list[Subject]:
        """All that one host has for itself."""
        return self._index.of_tenant(upstream, tenant)

    def all(self) -> list[tuple[Subject, Kept]]:
        """Everything, used or not. For whoever looks."""
        return list(self._recent.items())


def size_of(subject: Subject, entry: Entry) -> int:
    """What an entry takes, in bytes, as far as can be told."""
    key = len(subject.uri) + len(subject.upstream) + len(subject.source) + len(subject.owner) + len(subject.abilities)
    return entry.size + key + OVERHEAD + PER_LEVEL * level_count(subject.uri)
