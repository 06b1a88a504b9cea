"""The index by resource holds no more than what was added, and takes no resource whose parents are unknown."""

from cache.resource_index import ResourceIndex, is_trackable
from hub.link.call_interface import Identity, Tenant

DESK = Tenant(Identity("alice", "desk"), 7)


def test_a_resource_too_deep_or_too_long_is_not_tracked():
    assert not is_trackable("a:" + "/b" * 65)
    assert not is_trackable("a:" + "b" * 2048)


def test_an_empty_index_holds_nothing():
    index: ResourceIndex[int] = ResourceIndex()
    index.add("files", "note://a/b", DESK, 1)
    index.add("files", "note://a", None, 2)
    index.discard("files", "note://a/b", DESK, 1)
    index.discard("files", "note://a/b", DESK, 1)
    fresh: ResourceIndex[int] = ResourceIndex()
    fresh.add("files", "note://a", None, 2)
    assert vars(index) == vars(fresh)
    index.discard("files", "note://a", None, 2)
    assert vars(index) == vars(ResourceIndex())
