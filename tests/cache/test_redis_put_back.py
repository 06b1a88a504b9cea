"""Somebody who can write to the store puts back what was there: nobody reads what was read before a change (F-X-04)."""

from math import inf

import pytest
import trio
from redis_server import RedisServer, Store, entry, stores
from served import Host, Served, read_of, reads_of

from cache.redis.layout import TIME_CHARS
from cache.redis.seen_changes import MAX_FIELDS, MAX_SOURCES, Changes
from hub.wire.mcp import MODERN

pytestmark = pytest.mark.covers("F-X-04")


class Snapshot:
    """All keys as they are now; `of` picks some by what their names hold."""

    def __init__(self, server: RedisServer, of: str = "") -> None:
        self.server = server
        self.dumps = {name: server.do("DUMP", name) for name in server.keys("*") if of in name}
        assert self.dumps

    def put_back(self) -> None:
        """For ever: whatever time they had left is over for nobody who writes here."""
        for name, dump in self.dumps.items():
            assert self.server.do("RESTORE", name, 0, dump, "REPLACE") == "OK"


@pytest.mark.real
@pytest.mark.parametrize("changed", ["a://x/y", "a://x", "a://x/y/part", None])
@pytest.mark.parametrize("observed", [False, True])
async def test_what_was_read_before_a_change_is_found_by_nobody(one, other, server, changed, observed):
    await one.keep("of before", fresh_s=inf if observed else 100.0, observed=observed)
    assert await other.found() == "of before"
    before = Snapshot(server)
    one.invalidate("s", changed)
    await other.told.until(lambda: ("stale", "s", changed) in other.told.news)
    before.put_back()
    assert await one.found() is None
    assert await other.found() is None
    assert (one.statistics().altered, other.statistics().altered) == (1, 1)
    assert len(one.told.said("WARNING")) == 2, "of two stores, one each"


@pytest.mark.real
@pytest.mark.parametrize("of", [":t:", ":e:"])
async def test_half_of_it_leads_nowhere(one, other, server, of):
    """The tokens alone, with entries that nobody has deleted; or entries alone, that no token leads to."""
    await one.keep("of before")
    before = Snapshot(server, of)
    other.invalidate("s", "a://x/y")
    await one.told.until(lambda: ("stale", "s", "a://x/y") in one.told.news)
    before.put_back()
    assert await one.found() is None
    assert await other.found() is None


@pytest.mark.real
async def test_what_is_read_anew_is_found_all_the_same(one, other, server):
    """Under the tokens that were put back as well: they say nothing any more."""
    await one.keep("of before")
    await one.keep("a bystander", uri="b://z")
    before = Snapshot(server)
    one.invalidate("s", "a://x/y")
    await other.told.until(lambda: ("stale", "s", "a://x/y") in other.told.news)
    before.put_back()
    await other.keep("of after")
    assert await one.found() == "of after"
    assert await other.found(uri="b://z") == "a bystander"
    before.put_back()
    assert await one.found() is None
    assert await other.found() is None


@pytest.mark.real
async def test_a_reading_across_a_change_is_not_found_though_its_tokens_are_back(one, other, server):
    ticket = await one.ticket()
    before = Snapshot(server, ":t:")
    other.invalidate("s", "a://x/y")
    await one.told.until(lambda: ("stale", "s", "a://x/y") in one.told.news)
    before.put_back()
    await one.put(ticket, "s", "a://x/y", "ann", entry("of before"))
    assert await one.found() is None
    assert await other.found() is None


@pytest.mark.real
async def test_a_hub_that_was_not_there_believes_nothing_older(one, server):
    await one.keep("of before")
    before = Snapshot(server)
    one.invalidate("s", "a://x/y")
    await one.until_written()
    before.put_back()
    later = Store(server.url)
    async with stores(later):
        assert await later.found() is None
        await one.keep("of after")
        assert await later.found() == "of after"
        assert later.statistics().altered == 0, "it cannot tell"


@pytest.mark.real
async def test_a_hub_that_was_cut_off_believes_nothing_older(one, other, server):
    await one.keep("of before")
    before = Snapshot(server)
    assert server.do("CLIENT", "KILL", "TYPE", "pubsub") >= 2
    one.invalidate("s", "a://x/y")
    for store in (one, other):
        await store.until_gaps(3)
        await store.until_coherent()
    await one.until_written()
    before.put_back()
    assert await one.found() is None
    assert await other.found() is None


@pytest.mark.real
async def test_a_hub_hears_again_what_was_said_and_knows_when_it_was(one, other, server):
    """A message that is said again, at the time that it had or before, makes nothing old that was read since."""
    said = one.overheard()
    other.invalidate("s", "a://x/y")
    await one.told.until(lambda: ("stale", "s", "a://x/y") in one.told.news)
    await one.keep("anew")
    for again in (said[-1], said[-1][:-TIME_CHARS] + b"0" * TIME_CHARS):
        server.do("PUBLISH", one._member.bus.channel, again)
    await one.told.until(lambda: one.told.news.count(("stale", "s", "a://x/y")) == 3)
    assert await one.found() == "anew"


@pytest.mark.real
async def test_a_time_to_come_ends_the_link_and_harms_nobody_for_long(one, other, server):
    said = one.overheard()
    other.invalidate("s", "a://x/y")
    await one.told.until(lambda: ("stale", "s", "a://x/y") in one.told.news)
    server.do("PUBLISH", one._member.bus.channel, said[-1][:-TIME_CHARS] + b"9" * TIME_CHARS)
    await one.until_gaps(3)
    await one.until_coherent()
    assert any("its clock has leapt" in text for text in one.told.said("WARNING"))
    await one.keep("anew")
    assert await one.found() == "anew"
    assert await other.found() == "anew"


@pytest.mark.real
async def test_a_clock_that_is_set_back_keeps_nobody_from_sharing(one, other, server):
    """The store's clock was an hour ahead when this hub began to listen: what is read now is not of the time before."""
    for store in (one, other):
        store._member._seen_us += 3_600_000_000
        store._member.changes.since += 3_600_000_000
    for store in (one, other):
        await store.until_gaps(3)
        await store.until_coherent()
    assert any("its clock was set back" in text for text in one.told.said("WARNING"))
    await one.keep("anew")
    assert await one.found() == "anew"
    assert await other.found() == "anew"


@pytest.mark.real
async def test_a_fact_that_is_put_back_is_good_for_no_longer_than_it_was(one, other, server, monkeypatch):
    """So is a registration of a hub that has ended: good for as long as if it had just died."""
    await one.directory.put("replica/1", b"http://10.0.0.5:8765", 0.2)
    before = Snapshot(server, ":d:")
    (name,) = before.dumps
    before.put_back()
    assert await other.directory.get("replica/1") == b"http://10.0.0.5:8765"
    monkeypatch.setattr("cache.redis.directory.GRACE_S", 0.0)
    with trio.fail_after(30):
        while await other.directory.get("replica/1") is not None:
            await trio.lowlevel.checkpoint()
    assert server.do("PTTL", name) == -1
    assert other.statistics().altered == 1
    assert not await other.directory.swap("replica/1", b"http://10.0.0.5:8765", b"x", 60)
    assert await other.directory.swap("replica/1", None, b"http://10.0.0.6:8765", 60)
    assert await one.directory.get("replica/1") == b"http://10.0.0.6:8765"


@pytest.mark.real
async def test_a_host_is_never_given_what_was_put_back(one, other, server, nursery):
    """With all of the cache around the store."""
    here, there = Served(MODERN), Served(MODERN)
    for served in (here, there):
        served.more = {"ttlMs": 60_000, "cacheScope": "private"}
    near, far = await reads_of(nursery, here, shared=one), await reads_of(nursery, there, shared=other)
    await near.call(here, read_of(), Host())
    with trio.fail_after(30):
        while not server.keys("*:e:*"):  # it is put there after the host was answered
            await trio.lowlevel.checkpoint()
    await far.call(there, read_of(), Host())
    assert (here.reads, there.reads) == (["note://a"], []), "it was found"
    before = Snapshot(server)
    here.says.updated("note://a")
    with trio.fail_after(30):
        while far.statistics().invalidations["another hub"] == 0:
            await trio.lowlevel.checkpoint()
    before.put_back()
    await far.call(there, read_of(), Host())
    assert there.reads == ["note://a"]


# --- what a hub remembers ---------------------------------------------------------------------------------------------


def test_what_changed_concerns_what_was_read_before():
    changes = Changes()
    assert not changes.knows("s", 10**16)
    changes.begin(100)
    assert [changes.knows("s", at) for at in (99, 100, 101)] == [False, False, True]
    changes.add("s", ["d1", "s1"], 200)
    changes.add("s", ["d1"], 150)
    assert [changes.concern("s", ["*", "s1"], at) for at in (199, 200, 201)] == [True, True, False]
    assert not changes.concern("s", ["*", "s2"], 150)
    assert not changes.concern("t", ["*", "s1"], 150)
    changes.add("s", (), 300)
    assert changes.concern("s", ["*", "s2"], 299)
    assert repr(changes) == "<Changes of 1 sources since 100>"
    changes.begin(400)
    assert not changes.concern("s", ["*"], 299)
    assert not changes.knows("s", 400)


def test_what_is_remembered_is_bounded_and_nothing_is_believed_too_early():
    changes = Changes()
    changes.begin(0)
    for n in range(MAX_FIELDS + 1):
        changes.add("s", [f"s{n}"], n + 1)
    assert [changes.knows("s", at) for at in (MAX_FIELDS + 1, MAX_FIELDS + 2)] == [False, True]
    assert changes.knows("t", 1)
    for n in range(MAX_SOURCES):
        changes.add(f"more {n}", ["*"], 10_000 + n)
    assert not changes.knows("s", 10_000)
    assert changes.knows("s", 10**6)
