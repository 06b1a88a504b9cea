"""What happens when the shared store is away, slow, restarted, restored or cut off: misses, and it comes back."""

import time

import pytest
import trio
import trio.testing

from cache.shared_store import StoreUnreachable
from tests.support.redis_server import RedisServer, Relay, Store, elapsed_ms, entry, redis_server, stores

pytestmark = pytest.mark.real


@pytest.mark.covers("F-X-01")
async def test_it_is_down_at_start_and_comes_later(tmp_path):
    server, store = RedisServer(tmp_path), None
    try:
        store = Store(server.url)
        async with stores(store, is_coherent=False):
            await store.until_away()
            assert store.statistics().reason == "No such file or directory"
            assert store.statistics().state == "away"
            assert not store.is_coherent
            assert await store.look_up("s", "a://x/y", "ann") == (None, None)
            store.invalidate("s", "a://x/y")
            server.start()
            await store.until_coherent()
            assert store.statistics().state == "connected"
            assert store.statistics().reason == ""
            await store.keep()
            assert await store.found() == "value"
            assert len(store.told.said("WARNING")) == len(store.told.said("INFO")) == 1
    finally:
        server.stop()


@pytest.mark.covers("F-X-02")
async def test_a_slow_one_costs_little_and_is_left_alone(server, monkeypatch):
    monkeypatch.setattr("cache.redis.health.BYPASS_S", 0.5)
    store = Store(server.url, budget_s=0.05)
    async with stores(store):
        await store.keep()
        ticket = await store.ticket(uri="a://other")
        server.pause()
        for _ in range(4):
            began = time.perf_counter()
            assert await store.look_up("s", "a://x/y", "ann") == (None, None)
            assert elapsed_ms(began) > 45
        await store.put(ticket, "s", "a://other", "ann", entry())
        assert (store.statistics().late, store.statistics().dropped, store.statistics().bypasses) == (5, 1, 1)
        assert store.statistics().state == "slow"
        for _ in range(20):
            assert await store.look_up("s", "a://x/y", "ann") == (None, None)
        assert store.statistics().late == 5, "none of them was waited for"
        await trio.sleep(0.5)
        assert await store.look_up("s", "a://x/y", "ann") == (None, None)  # one is enough to see that it still is
        assert (store.statistics().late, store.statistics().bypasses) == (6, 2)
        server.resume()
        await trio.sleep(0.5)
        assert await store.found() == "value"  # and no answer that came late was taken for that of another
        assert store.statistics().state == "connected"
        assert store.is_coherent
        assert [text.rsplit(" ", 4)[-1] for text in store.told.said("WARNING")] == ["then"]
        assert len(store.told.said("INFO")) == 2


@pytest.mark.covers("F-X-02")
async def test_one_that_hangs_is_lost_and_found_again(server):
    store = Store(server.url)
    async with stores(store):
        await store.keep()
        gaps = store.told.news.count(("gap",))
        server.pause()
        began = trio.current_time()
        await store.until_away()
        assert trio.current_time() - began > 2
        assert not store.is_coherent
        assert store.told.news.count(("gap",)) == gaps + 1
        assert await store.look_up("s", "a://x/y", "ann") == (None, None)
        with pytest.raises(StoreUnreachable, match="is away"):
            await store.directory.get("x")
        server.resume()
        await store.until_coherent()
        assert store.told.news.count(("gap",)) == gaps + 2
        assert await store.found() == "value"
        assert len(store.told.said("WARNING")) == 1


@pytest.mark.covers("F-X-03")
@pytest.mark.parametrize("restored", [False, True])
async def test_after_a_restart_nothing_is_believed(server, restored):
    one, other = Store(server.url), Store(server.url)
    async with stores(one, other):
        await one.keep()
        await one.directory.put("replica/1", b"http://h", 100)
        assert await other.found() == "value"
        if restored:
            server.do("SAVE")
        server.stop()
        await one.until_away()
        await other.until_away()
        one.invalidate("s", "a://x/y")  # nobody can be told now
        assert not one.is_coherent
        server.start()
        assert bool(server.keys("*:e:*")) is restored
        for store in (one, other):
            await store.until_gaps(3)
            await store.until_coherent()
        assert len(one.told.said("WARNING")) == 2  # of two stores, one each
        assert len(one.told.said("INFO")) == 4
        await one.until_written()
        assert await one.found() is None
        assert await other.found() is None
        assert await other.directory.get("replica/1") is None
        await one.keep("anew")
        assert await other.found() == "anew"
        assert one.statistics().altered == other.statistics().altered == 0


async def until(is_so):
    """Ask a server until it says so."""
    with trio.fail_after(30):
        while not is_so():  # noqa: ASYNC110  # it does not tell
            await trio.sleep(0.02)


async def follow(follower: RedisServer, leader: RedisServer) -> None:
    """Make one server a replica of the other; returns when it has all data."""
    follower.do("REPLICAOF", "127.0.0.1", leader.port)
    await until(lambda: b"master_link_status:up" in follower.do("INFO", "replication"))


@pytest.mark.covers("F-X-03")
async def test_after_a_failover_and_back_nothing_is_believed(tmp_path):
    """Replication is asynchronous: what was invalidated just before a failover is there again after it."""
    with (
        redis_server(tmp_path, name="first", tcp=True) as first,
        redis_server(tmp_path, name="second", tcp=True) as second,
    ):
        await follow(second, first)
        one, other = Store(first.url), Store(first.url)
        async with stores(one, other):
            await one.keep("of before")
            assert await other.found() == "of before"
            await until(lambda: second.keys("*:e:*"))
            second.do("REPLICAOF", "NO", "ONE")
            one.invalidate("s", "a://x/y")
            await other.told.until(lambda: ("stale", "s", "a://x/y") in other.told.news)
            await follow(first, second)
            first.do("REPLICAOF", "NO", "ONE")
            for store in (one, other):
                await store.until_gaps(3)
                await store.until_coherent()
            assert first.keys("*:e:*")
            assert await one.found() is None
            assert await other.found() is None
            await one.keep("anew")
            assert await other.found() == "anew"


@pytest.mark.covers("F-X-03")
async def test_losing_all_data_is_a_miss(server):
    one, other = Store(server.url), Store(server.url)
    async with stores(one, other):
        await one.keep()
        ticket = await one.ticket(uri="a://z")
        server.do("FLUSHALL")
        assert await other.found() is None
        await one.put(ticket, "s", "a://z", "ann", entry("of a reading from before"))
        assert await other.found(uri="a://z") is None
        await one.keep("anew")
        assert await other.found() == "anew"
        assert one.is_coherent
        assert not one.told.said("WARNING")


@pytest.mark.covers("F-X-05")
@pytest.mark.parametrize("kind", ["pubsub", "normal"])
async def test_a_connection_that_is_killed_is_replaced(server, kind):
    one, other = Store(server.url), Store(server.url)
    async with stores(one, other):
        await one.keep()
        assert server.do("CLIENT", "KILL", "TYPE", kind) >= 2
        for store in (one, other):
            await store.until_gaps(3)
            await store.until_coherent()
        assert await other.found() == "value"
        one.invalidate("s", "a://x/y")
        await other.told.until(lambda: ("stale", "s", "a://x/y") in other.told.news)
        assert await other.found() is None
        assert len(one.told.said("WARNING")) == 2  # of two stores, one each


async def test_what_could_not_be_written_is_found_by_nobody_here(server, nursery):
    """A hub that cannot tell others goes by what it knows itself, and tells them as soon as it can."""
    relay = Relay(server.socket)
    await nursery.start(relay.run)
    far, near = Store(relay.url), Store(server.url)
    async with stores(far, near):
        await near.keep()
        await relay.cut()
        far.invalidate("s", "a://x/y")
        assert await far.found() is None
        await far.until_coherent() if not far.is_coherent else None
        await near.told.until(lambda: ("stale", "s", "a://x/y") in near.told.news)
        assert await near.found() is None
        await far.until_coherent()
        assert await far.found() is None


async def test_two_servers_behind_one_address_are_not_one_store(server, tmp_path, nursery):
    with redis_server(tmp_path, name="second") as second:
        relay = Relay(server.socket, second.socket)
        await nursery.start(relay.run)
        store = Store(relay.url)
        async with stores(store, is_coherent=False):
            await store.until_away()
            assert store.statistics().reason == "two connections reach two servers"
            relay.sockets = [second.socket]
            await store.until_coherent()


async def test_a_hub_that_does_not_hear_itself_hears_nobody(server, nursery):
    """The connections stand, and nothing comes back any more."""
    relay = Relay(server.socket)
    await nursery.start(relay.run)
    store = Store(relay.url)
    async with stores(store):
        relay.silent = True
        await store.until_away()
        assert store.statistics().reason == "messages of hubs do not arrive there"
        relay.silent = False
        await store.until_coherent()


async def test_cancelling_at_any_time_leaves_nothing(server):
    """Nothing hangs, and no task or connection stays (they would be reported as unclosed)."""
    for checkpoints in range(0, 120, 3):
        store = Store(server.url)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run, store.told)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert scope.cancelled_caught
        assert not store.is_coherent
