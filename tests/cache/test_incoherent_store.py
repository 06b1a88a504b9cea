"""What a hub keeps while it cannot hear what other hubs are told of changes."""

import pytest
import trio
import trio.testing

from hub.wire.mcp import MODERN
from tests.support.cache_upstream import Host, Served, read_of, reads_of


class Silent:
    """A store that nothing is found in. In place of `cache.redis.store.RedisStore`."""

    is_coherent = False

    async def look_up(self, source, uri, owner, abilities=""):
        await trio.lowlevel.checkpoint()
        return None, None

    def invalidate(self, source, uri):
        """Nobody is told."""


@pytest.mark.covers("F-X-03")
async def test_nothing_is_kept_that_only_others_may_be_told_of(nursery, autojump_clock):
    server, store = Served(MODERN), Silent()
    server.more = {"ttlMs": 60_000, "cacheScope": "private"}
    reads = await reads_of(nursery, server, shared=store)
    for _ in range(2):
        await reads.call(server, read_of(), Host(), server.call)
    assert len(server.reads) == 2
    store.is_coherent = True
    for _ in range(2):
        await reads.call(server, read_of(), Host(), server.call)
    assert len(server.reads) == 3
    nursery.cancel_scope.cancel()


async def test_what_this_hub_hears_of_itself_is_kept_nevertheless(nursery, autojump_clock):
    server = Served()
    reads = await reads_of(nursery, server, shared=Silent())
    for _ in range(3):
        await reads.call(server, read_of(), Host(), server.call)
    assert len(server.reads) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-X-03", "SEC-23")
async def test_nor_is_what_was_read_meanwhile_when_they_are_heard_again(nursery, autojump_clock):
    """Another hub may have been told of a change in the middle of it, and have said so to nobody here."""
    server, store = Served(MODERN), Silent()
    server.more, server.gate = {"ttlMs": 60_000, "cacheScope": "private"}, trio.Event()
    reads = await reads_of(nursery, server, shared=store)
    nursery.start_soon(reads.call, server, read_of(), Host(), server.call)
    await trio.testing.wait_all_tasks_blocked()
    store.is_coherent = True
    reads.on_gap()
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    await reads.call(server, read_of(), Host(), server.call)
    assert len(server.reads) == 2
    nursery.cancel_scope.cancel()


async def test_a_process_is_of_this_hub_alone_wherever_its_files_are(nursery, autojump_clock):
    """As it is with a container: what another hub read is of another process."""
    server = Served(url=None, command="docker", locality="remote")
    looked = Silent()
    looked.look = None
    looked.is_coherent = True
    reads = await reads_of(nursery, server, shared=looked)
    for _ in range(2):
        await reads.call(server, read_of(), Host(), server.call)
    assert len(server.reads) == 1
    nursery.cancel_scope.cancel()
