"""What one upstream, or a hub of another version, cannot do to the store that all share."""

import msgspec
import pytest
import trio

from cache.shared_store import ReadTicket
from tests.support.redis_server import SEALER, RedisServer, Store, entry, stores

pytestmark = pytest.mark.real


async def kept(store: Store, server: RedisServer) -> tuple[str, ReadTicket]:
    """The name of an entry that is kept now, and the ticket of its read."""
    ticket = await store.ticket()
    await store.put(ticket, "s", "a://x/y", "ann", entry())
    (name,) = server.keys("*:e:*")
    return name, ticket


@pytest.mark.covers("F-X-03")
async def test_a_burst_of_deep_changes_is_written(server):
    """More words than a script takes, again and again: nobody could use the store any more."""
    store = Store(server.url)
    async with stores(store):
        await store.keep(source="bystander")
        await store.keep(uri="note://0")
        for number in range(64):
            store.invalidate("s", f"note://{number}/" + "/".join("x" * 80))
        await store.until_written()
        assert await store.found(uri="note://0") is None
        assert await store.found(source="bystander") == "value"
        assert store.told.said("WARNING") == []


@pytest.mark.covers("F-X-04")
async def test_what_a_hub_of_another_version_keeps_is_a_miss(server):
    store = Store(server.url)
    async with stores(store):
        name, _ = await kept(store, server)
        assert await store.found() == "value"
        server.do("SET", name, SEALER.seal(name, b'{"of": "another version"}\n{}'))
        assert await store.found() is None


@pytest.mark.covers("F-X-04")
async def test_what_a_hub_of_another_version_says_is_not_heard(server):
    store = Store(server.url)
    async with stores(store):
        channel = server.channel()
        server.do("PUBLISH", channel, SEALER.seal(channel, msgspec.msgpack.encode({"of": "another version"})))
        await trio.lowlevel.checkpoint()
        store.invalidate("s", None)
        await store.until_written()
        assert store.is_coherent
        await store.keep()
        assert await store.found() == "value"


@pytest.mark.covers("F-X-03")
@pytest.mark.parametrize("set_back_s", [-1, 600])
async def test_what_was_kept_before_the_clock_was_set_back_is_a_miss(server, set_back_s):
    """Its time-to-live would count from the later time that the store's clock showed then."""
    store = Store(server.url)
    async with stores(store):
        name, ticket = await kept(store, server)
        until = trio.current_time() + ticket.ahead_s + set_back_s + 60
        head = ["2026-07-28", False, False, until, until, ticket.read_at + set_back_s * 1_000_000]
        server.do("SET", name, SEALER.seal(name, msgspec.json.encode(head) + b"\nof then"))
        assert await store.found() == (None if set_back_s > 0 else "of then")


@pytest.mark.covers("F-X-04")
async def test_what_is_put_back_is_good_for_no_longer_than_it_was(server):
    """Not even what has no time-to-live of its own: an hour at most."""
    store = Store(server.url)
    async with stores(store):
        name, ticket = await kept(store, server)
        now = trio.current_time() + ticket.ahead_s
        for good_until, found in ((now + 60, "of then"), (now - 1, None)):
            head = ["2026-07-28", False, True, None, good_until, ticket.read_at]
            server.do("SET", name, SEALER.seal(name, msgspec.json.encode(head) + b"\nof then"))
            assert await store.found() == found
