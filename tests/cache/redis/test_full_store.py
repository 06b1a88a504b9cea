"""A store that is full, that evicts, and one that cannot be written to."""

import pytest

from tests.support.redis_server import SEALER, Store, entry, redis_server, stores

pytestmark = pytest.mark.real


def fill(server) -> None:
    """Until nothing more can be written."""
    for n in range(10_000):
        if str(server.do("SET", f"ballast{n}", b"x" * 10_000)).startswith("OOM"):
            return
    raise AssertionError("it is never full")


@pytest.mark.covers("F-X-06")
async def test_a_full_one_takes_invalidations_and_drops_the_rest(tmp_path):
    with redis_server(tmp_path, "maxmemory 4mb", "maxmemory-policy noeviction") as server:
        one, other = Store(server.url), Store(server.url)
        async with stores(one, other):
            await one.keep("kept")
            ticket = await one.ticket(uri="a://z")
            fill(server)
            assert await other.found() == "kept"
            big = "x" * 100_000
            await one.put(ticket, "s", "a://z", "ann", entry(big))
            assert one.statistics().dropped == 1
            assert await one.look_up("s", "new://", "ann") == (None, None)
            other.invalidate("s", "a://x/y")
            await one.told.until(lambda: ("stale", "s", "a://x/y") in one.told.news)
            await other.until_written()
            assert await one.found() is None
            assert one.is_coherent
            assert other.is_coherent
            assert [text for text in one.told.said("WARNING") if "is full, so nothing new is kept there" in text]
            assert len(one.told.said("WARNING")) == 1
            assert (one.statistics().state, one.statistics().reason[:3]) == ("full", "OOM")
            server.do("CONFIG", "SET", "maxmemory", "0")
            await one.keep("anew")
            assert await other.found() == "anew"
            assert (one.statistics().state, one.statistics().reason) == ("connected", "")


@pytest.mark.covers("F-X-06")
async def test_evicting_tokens_is_an_invalidation(tmp_path):
    with redis_server(tmp_path, "maxmemory 4mb", "maxmemory-policy allkeys-lru") as server:
        one, other = Store(server.url), Store(server.url)
        async with stores(one, other):
            await one.keep("kept")
            ticket = await one.ticket(uri="a://z")
            (tokens,) = server.keys("*:t:" + SEALER.digest("s"))
            (name,) = server.keys("*:e:*")
            sealed = server.do("GET", name)
            for n in range(100_000):  # which key goes is chance: five are looked at, and their ages are told in seconds
                server.do("SET", f"ballast{n}", b"x" * 10_000)
                if not server.do("EXISTS", tokens):
                    break
            assert not server.do("EXISTS", tokens)
            server.do("SET", name, sealed)  # as if that were not evicted
            assert await other.found() is None
            await one.put(ticket, "s", "a://z", "ann", entry("of before"))
            assert await other.found(uri="a://z") is None
            await one.keep("anew")
            assert await other.found() == "anew"
            assert one.statistics().altered == other.statistics().altered == 0


@pytest.mark.covers("F-X-06")
async def test_a_replica_is_not_used(tmp_path):
    with redis_server(tmp_path, tcp=True) as server, redis_server(tmp_path, name="replica") as replica:
        replica.do("REPLICAOF", "127.0.0.1", server.port)
        store = Store(replica.url)
        async with stores(store, is_coherent=False):
            await store.until_away()
            assert store.statistics().reason == "it is a replica, which cannot be written to"
            replica.do("REPLICAOF", "NO", "ONE")
            await store.until_coherent()
            await store.keep()
            assert await store.found() == "value"


@pytest.mark.covers("F-X-06")
@pytest.mark.parametrize("by", ["look", "invalidate", "itself"])
async def test_one_that_becomes_a_replica_is_left(tmp_path, by):
    with redis_server(tmp_path, tcp=True) as server, redis_server(tmp_path, name="replica") as replica:
        store = Store(replica.url)
        async with stores(store):
            replica.do("REPLICAOF", "127.0.0.1", server.port)
            if by == "look":
                assert await store.look_up("s", "a://new", "ann") == (None, None)
            elif by == "invalidate":
                store.invalidate("s", "a://x/y")
            await store.until_away()
            assert len(store.told.said("WARNING")) == 1
            assert "replica" in store.told.said("WARNING")[0]
            assert not store.is_coherent
            replica.do("REPLICAOF", "NO", "ONE")
            await store.until_coherent()
            await store.until_written()
            assert len(store.told.said("INFO")) == 2


@pytest.mark.covers("F-X-06")
async def test_one_that_cannot_save_is_not_written_to(tmp_path):
    """Redis then refuses all that writes, deleting too."""
    with redis_server(tmp_path) as server:
        store = Store(server.url)
        async with stores(store):
            await store.keep("kept")
            (server.directory / "dump.rdb").mkdir()  # nothing can be saved in its place
            server.do("CONFIG", "SET", "save", "3600 1")
            server.do("BGSAVE")
            server.process.wait_for("Background saving error")
            assert "MISCONF" in server.do("SET", "x", "y")
            store.invalidate("s", "a://x/y")
            await store.until_away()
            assert await store.look_up("s", "a://x/y", "ann") == (None, None)
            assert "MISCONF" in store.told.said("WARNING")[0]
            server.do("CONFIG", "SET", "save", "")
            await store.until_coherent()
            assert await store.found() is None
