"""What is kept in memory: how much, how long, and what a change drops of it."""

from math import inf

import pytest
from msgspec import Raw

from cache.cache_entry import EVERYONE, CacheKey, Entry
from cache.memory import FORM_OVERHEAD, OVERHEAD, MemoryStore, size_of
from hub.link.call_interface import Identity, Tenant
from hub.wire.mcp import L4, MODERN

DESK = Tenant(Identity("alice", "desk"), 7)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def subject(uri="note://a", owner="alice", *, upstream="files", tenant=None):
    return CacheKey(upstream, "source", uri, owner, tenant)


def entry(size=10, *, fresh=inf, stale=None):
    observed = fresh == inf
    return Entry(
        Raw(b'"' + b"x" * (size - 2) + b'"'), MODERN, False, fresh, fresh if stale is None else stale, observed
    )


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryStore(100_000, 10, clock)


def test_what_is_kept_is_found_by_its_whole_subject(store):
    kept = entry()
    assert store.put(subject(), kept)
    assert store.find(subject()).entry is kept
    for other in (
        subject("note://b"),
        subject(owner="bob"),
        subject(owner=EVERYONE),
        subject(upstream="others"),
        subject(tenant=DESK),
    ):
        assert store.find(other) is None


def test_key_and_tables_are_counted(store):
    store.put(subject(), entry(10))
    assert store.bytes == size_of(subject(), entry(10)) > OVERHEAD + 10 + len("note://a")
    assert size_of(subject("note://a/b/c"), entry()) > size_of(subject("note://a-b-c"), entry())
    store.discard(subject())
    assert (len(store), store.bytes) == (0, 0)


def test_what_was_used_least_lately_makes_room(store, clock):
    for number in range(10):
        store.put(subject(f"note://{number}"), entry())
    assert store.find(subject("note://0"))
    store.put(subject("note://10"), entry())
    assert (len(store), store.evicted) == (10, 1)
    assert store.find(subject("note://0"))
    assert store.find(subject("note://1")) is None
    assert "note://1" not in {each.uri for each in store.index.of("files")}, "the index lets go of it, too"


def test_bytes_are_bounded(store):
    for number in range(8):
        assert store.put(subject(f"note://{number}"), entry(30_000))
        assert store.bytes <= store.max_bytes
    assert len(store) == 3
    assert not store.put(subject("note://large"), entry(100_000)), "it would not fit even alone"
    assert len(store) == 3, "and nothing has to make room for it"


def test_what_does_not_fit_any_more_replaces_nothing_old(store):
    store.put(subject(), entry())
    assert not store.put(subject(), entry(200_000))
    assert store.find(subject()) is None, "what was kept before is older"


def test_what_has_expired_is_not_found(store, clock):
    store.put(subject(), entry(fresh=110.0, stale=130.0))
    clock.now = 120.0
    assert store.find(subject()), "it may stand in"
    clock.now = 130.0
    assert store.find(subject(), at=129.0), "for one who asked before"
    assert store.find(subject()) is None
    assert (len(store), store.index.of("files")) == (0, [])


def test_forms_are_counted_and_go_with_their_entry(store):
    store.put(subject(), entry())
    kept, before = store.find(subject()), store.bytes
    store.keep_form(kept, L4, "form", 500)
    assert store.bytes == before + 500 + FORM_OVERHEAD
    assert store.find(subject()).forms == {L4: "form"}
    store.drop_forms(kept)
    assert (store.bytes, kept.forms) == (before, {})
    store.put(subject(), entry())
    store.keep_form(kept, L4, "form", 500)
    assert store.bytes == before, "it was for an entry that is not kept any more"


def test_forms_are_bounded(store):
    store.put(subject(), entry())
    kept = store.find(subject())
    for number in range(100):
        store.keep_form(kept, number, "form", 10)
    assert len(kept.forms) == 8
    store.drop_forms(kept)
    store.keep_form(kept, 0, "form", 60_000)
    assert kept.forms == {}, "one that takes half of all there is"


def test_other_bounds_drop_the_oldest(store):
    for number in range(10):
        store.put(subject(f"note://{number}"), entry())
    store.resize(100_000, 3)
    assert [each.uri for each in store.index.of("files")] == ["note://7", "note://8", "note://9"]
    assert store.find(subject("note://9"))
    store.resize(0, 3)
    assert len(store) == 0
    assert not store.put(subject(), entry())


def test_what_expires_early_may_still_stand_in(store, clock):
    store.put(subject(), entry(fresh=200.0, stale=300.0))
    store.put(subject("note://b"), entry())
    assert store.expire(subject(), 150.0)
    assert store.expire(subject("note://b"), 150.0)
    assert store.find(subject("note://b")) is None, "what is observed is worth nothing unobserved"
    assert not store.expire(subject(), 150.0), "its time was over already"
    found = store.find(subject()).entry
    assert (found.fresh_until, found.stale_until) == (100.0, 150.0)


@pytest.mark.covers("K-8", "N-11")
@pytest.mark.parametrize(
    ("changed", "gone"),
    [
        ("file:///a/b", ["file:///a", "file:///a/b", "file:///a/b/c", "file:///a/b?q"]),
        ("file:///a/b/c/d", ["file:///a", "file:///a/b", "file:///a/b/c"]),
        ("file:///a/bc", ["file:///a"]),
        ("file:///x", []),
        ("other://a", []),
    ],
)
def test_a_change_concerns_the_wholes_and_the_parts(store, changed, gone):
    for uri in ("file:///a", "file:///a/b", "file:///a/b/c", "file:///a/b?q", "file:///ab"):
        store.put(subject(uri), entry())
        store.put(subject(uri, upstream="others"), entry())
    assert sorted(each.uri for each in store.index.items_below("files", changed)) == gone
    assert store.index.items_below("nobody", changed) == []


def test_a_change_too_deep_to_follow_concerns_everything(store):
    store.put(subject(), entry())
    deep = "a:" + "/b" * 65
    assert store.index.items_below("files", deep) == [subject()]


def test_hosts_are_told_apart(store):
    store.put(subject(), entry())
    store.put(subject(tenant=DESK), entry())
    assert store.index.of_tenant("files", DESK) == [subject(tenant=DESK)]
    assert len(store.index.of_resource("files", "note://a")) == 2
