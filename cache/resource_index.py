"""The index of entries, and of reads under way, by resource: tells which of them a change affects, in the resource, its
parts and its parents.

The time to find them depends on the depth of the URI and on the number found, not on the number of entries.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from hub.link.call_interface import Tenant
from hub.wire.normalize_uri import normalize
from hub.wire.uri_hierarchy import MAX_DEPTH, level_count, parents

Item = TypeVar("Item", bound=Hashable)


def is_trackable(uri: str) -> bool:
    """True if all parents of `uri` are known, so that no change that affects it can be missed."""
    return _plain(uri) is not None


def _plain(uri: str) -> str | None:
    """The normalized URI; None: one whose parents are not all known."""
    plain = normalize(uri)
    return None if plain is None or level_count(plain) > MAX_DEPTH else plain


def _groups(upstream: str, uri: str, tenant: Tenant | None) -> Iterator[int]:
    """The groups that an item belongs to, as hashes: texts would be long, and a collision affects only an item too
    many."""
    plain = _plain(uri) or ""
    yield hash((upstream,))
    yield hash((upstream, "own", plain))
    yield from (hash((upstream, "part", whole)) for whole in parents(plain))
    if tenant is not None:
        yield hash((upstream, "tenant", tenant))


class ResourceIndex(Generic[Item]):
    """Items by upstream, URI and tenant; each is added once. A URI stands for all its spellings. Dicts serve as
    sets that keep their order."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[Item, None]] = {}

    def add(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Add `item`. `uri` must be one that `is_trackable`."""
        for group in _groups(upstream, uri, tenant):
            self._groups.setdefault(group, {})[item] = None

    def discard(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Remove `item`, if present."""
        for group in _groups(upstream, uri, tenant):
            if (found := self._groups.get(group)) is not None:
                found.pop(item, None)
                if not found:
                    del self._groups[group]

    def _of(self, *group: Hashable) -> dict[Item, None]:
        return self._groups.get(hash(group), {})

    def of(self, upstream: str) -> list[Item]:
        return list(self._groups.get(hash((upstream,)), ()))  # without a call, since each call of a tool asks

    def of_tenant(self, upstream: str, tenant: Tenant) -> list[Item]:
        """All items of one host."""
        return list(self._of(upstream, "tenant", tenant))

    def of_resource(self, upstream: str, uri: str) -> list[Item]:
        """Items of exactly this resource."""
        return list(self._of(upstream, "own", _plain(uri) or ""))

    def items_below(self, upstream: str, uri: str | None) -> list[Item]:
        """Items that a change of `uri` affects; all of the upstream, if it is None, or its parents are unknown."""
        if uri is None or (plain := _plain(uri)) is None:
            return self.of(upstream)
        found = self._of(upstream, "own", plain) | self._of(upstream, "part", plain)
        for whole in parents(plain):
            found |= self._of(upstream, "own", whole)
        return list(found)
