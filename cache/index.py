"""What a change of a resource concerns: the resource, what it is a part of, and its parts (N-11). Pure.

Whatever belongs to a resource of an upstream can be put in; to find what a change concerns takes time by the depth of
its URI and by what is found, not by all there is.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from hub.link.interface import Tenant
from hub.wire.uri_parents import MAX_DEPTH, level_count, normalized, parents

Item = TypeVar("Item", bound=Hashable)


def is_trackable(uri: str) -> bool:
    """Whether all that `uri` is a part of is known, so that no change that concerns it can be overlooked."""
    return _plain(uri) is not None


def _plain(uri: str) -> str | None:
    """As `normalized`; None: one that is not followed."""
    plain = normalized(uri)
    return None if plain is None or level_count(plain) > MAX_DEPTH else plain


class _Shelf(Generic[Item]):
    """All of one upstream. Sets that keep their order: dicts."""

    def __init__(self) -> None:
        self.items: dict[Item, None] = {}
        self.own: dict[str, dict[Item, None]] = {}
        self.parts: dict[int, dict[Item, None]] = {}
        """By the hash of a whole: the text of all of them would be long, and one too many does no harm."""
        self.tenants: dict[Tenant, dict[Item, None]] = {}


class ResourceIndex(Generic[Item]):
    """Items by upstream, URI and tenant. Each is put in once. A URI stands for all of its spellings."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf[Item]] = {}

    def __repr__(self) -> str:
        return f"<ResourceIndex of {sum(len(shelf.items) for shelf in self._shelves.values())}>"

    def add(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Put `item` in. `uri` must be one that `is_trackable`."""
        shelf = self._shelves.setdefault(upstream, _Shelf())
        shelf.items[item] = None
        plain = _plain(uri) or ""
        shelf.own.setdefault(plain, {})[item] = None
        for whole in parents(plain):
            shelf.parts.setdefault(hash(whole), {})[item] = None
        if tenant is not None:
            shelf.tenants.setdefault(tenant, {})[item] = None

    def discard(self, upstream: str, uri: str, tenant: Tenant | None, item: Item) -> None:
        """Take `item` out, if it is in."""
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
        """All of an upstream."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.items)

    def of_tenant(self, upstream: str, tenant: Tenant) -> list[Item]:
        """All of one host."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.tenants.get(tenant, ()))

    def of_resource(self, upstream: str, uri: str) -> list[Item]:
        """What belongs to this very resource."""
        shelf = self._shelves.get(upstream)
        return [] if shelf is None else list(shelf.own.get(_plain(uri) or "", ()))

    def affected_by(self, upstream: str, uri: str) -> list[Item]:
        """What a change of `uri` concerns; all of the upstream, if it cannot be told."""
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
