"""Small facts that hubs tell each other through a real Redis: they are there, they end, and only one of many swaps."""

import pytest
import trio

from cache.shared_store import MAX_FACT_BYTES
from tests.support.redis_server import Relay, Store, stores

pytestmark = pytest.mark.real


async def test_the_directory(one, other, server):
    here, there = one.directory, other.directory
    assert await here.get("replica/1") is None
    await here.put("replica/1", b"http://10.0.0.5:8765", 15)
    assert await there.get("replica/1") == b"http://10.0.0.5:8765"
    (name,) = server.keys("*:d:*")
    assert 14_000 < server.do("PTTL", name) <= 15_000
    assert not await there.swap("replica/1", None, b"mine", 15)
    assert not await there.swap("replica/1", b"other", b"mine", 15)
    assert await there.swap("replica/1", b"http://10.0.0.5:8765", b"mine", 60)
    assert await here.get("replica/1") == b"mine"
    assert 15_000 < server.do("PTTL", name) <= 60_000
    await here.delete("replica/1")
    assert await there.get("replica/1") is None
    assert await there.swap("replica/1", None, b"", 15)
    assert await here.get("replica/1") == b""


async def test_only_one_of_many_swaps(one, other):
    won = []

    async def claim(store: Store, name: str) -> None:
        if await store.directory.swap("session", None, name.encode(), 15):
            won.append(name)

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(claim, (one, other)[n % 2], str(n))
    assert len(won) == 1
    assert await other.directory.get("session") == won[0].encode()


@pytest.mark.covers("F-X-04")
async def test_what_somebody_else_put_there_costs_nothing_whatever_its_size(server, nursery):
    """Nothing of it comes over the connection."""
    relay = Relay(server.socket)
    await nursery.start(relay.run)
    store = Store(relay.url)
    here = store.directory
    async with stores(store):
        await here.put("session", b"mine", 15)
        (name,) = server.keys("*:d:*")
        server.do("SETRANGE", name, 64 << 20, b"x")
        before = relay.passed
        for count in range(1, 4):
            assert await here.get("session") is None
            assert not await here.swap("session", None, b"mine", 15)
            assert store.statistics().altered == 2 * count
        assert relay.passed - before < 1 << 20, "heartbeats and short answers"
        server.do("DEL", name)
        server.do("LPUSH", name, b"x")
        assert await here.get("session") is None
        await here.put("session", b"mine", 15)
        assert await here.get("session") == b"mine"


async def test_the_largest_fact_is_found(one, other):
    largest = b"x" * MAX_FACT_BYTES
    await one.directory.put("kept", largest, 15)
    assert await other.directory.get("kept") == largest
    await one.directory.put("kept", largest + b"x", 15)
    assert await other.directory.get("kept") is None
