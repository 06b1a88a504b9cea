"""Index of items by resource: which items a change affects, in the resource, its parts and its parents. Pure.

The time to find them depends on the depth of the URI and on the number found, not on the number of items.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from hub.link.interface import Tenant
from hub.wire.uri_parents import MAX_DEPTH, level_count, normalize, parents

Item = TypeVar("Item", bound=Hashable)


def is_trackable(uri: str) -> bool:
    """True if all parents of `uri` are known, so that no change that affects it can be missed."""
    return _plain(uri) is not None


def _plain(uri: str) -> str | None:
    """The normalized URI; None: one whose parents are not all known."""
    plain = normalize(uri)
    return None if plain is None or level_count(plain) > MAX_DEPTH else plain


class _UpstreamItems(Generic[Item]):
    """The items of one upstream. Dicts serve as sets that keep their order."""

    def __init__(self) -> None:
        self.items: dict[Item, None] = {}
        self.own: dict[str, dict[Item, None]] = {}
        self.parts: dict[int, dict[Item, None]] = {}
        """By the hash of each parent: the texts would be long, and a collision affects only an item too many."""
        self.tenants: dict[Tenant, dict[Item, None]] = {}


class ResourceIndex(Generic[Item]):
    """Items by upstream, URI and tenant; each is added once. A URI stands for all its spellings."""

    def __init__(self) -> None:
        self._shelves: dict[str, _UpstreamItems[Item]] = {}

    def __repr__(self) -> str:
        return f"<ResourceIndex of {sum(len(shelf.items) for shelf in self._shelves.values())}>"

    def add(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Add `item`. `uri` must be one that `is_trackable`."""
        shelf = self._shelves.setdefault(upstream, _UpstreamItems())
        shelf.items[item] = None
        plain = _plain(uri) or ""
        shelf.own.setdefault(plain, {})[item] = None
        for whole in parents(plain):
            shelf.parts.setdefault(hash(whole), {})[item] = None
        if tenant is not None:
            shelf.tenants.setdefault(tenant, {})[item] = None

    def discard(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Remove `item`, if present."""
        shelf = self._shelves.get(upstream)
        if shelf is None or item not in shelf.items:
            return
        del shelf.items[item]
        if not shelf.items:
            del self._shelves[upstream]
            return
        plain = _plain(uri) or ""
        _take(shelf.own, plain, item)
        for whole in parents(plain):
            _take(shelf.parts, hash(whole), item)
        if tenant is not None:
            _take(shelf.tenants, tenant, item)

    def of(self, upstream: str) -> list[Item]:
        """All items of an upstream."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.items)

    def of_tenant(self, upstream: str, tenant: Tenant) -> list[Item]:
        """All items of one host."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.tenants.get(tenant, ()))

    def of_resource(self, upstream: str, uri: str) -> list[Item]:
        """Items of exactly this resource."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.own.get(_plain(uri) or "", ()))

    def items_below(self, upstream: str, uri: str) -> list[Item]:
        """Items that a change of `uri` affects; all of the upstream, if the parents of `uri` are unknown."""
        shelf = self._shelves.get(upstream)
        if shelf is None:
            return []
        plain = _plain(uri)
        if plain is None:
            return list(shelf.items)
        found = {**shelf.own.get(plain, {}), **shelf.parts.get(hash(plain), {})}
        for whole in parents(plain):
            found |= shelf.own.get(whole, {})
        return list(found)


Group = TypeVar("Group", bound=Hashable)


def _take(sets: dict[Group, dict[Item, None]], group: Group, item: Item) -> None:
    found = sets.get(group)
    if found is None:
        return
    found.pop(item, None)
    if not found:
        del sets[group]
