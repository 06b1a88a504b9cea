"""What a hub finds in the store that hubs share, and how it counts that."""

import trio
import trio.testing
from msgspec import Raw

from cache.cache_entry import Entry
from cache.shared_store import ReadTicket
from cache.statistics import StoreStatistics
from hub.wire.mcp import MODERN
from tests.support.cache_upstream import Host, Served, read_of, reads_of

FOUND = Entry(
    value=Raw(b'{"contents":[],"ttlMs":60000,"cacheScope":"private"}'),
    version=MODERN,
    public=False,
    fresh_until=3600.0,
    stale_until=3600.0,
    observed=False,
)


class Full:
    """A store that has all of it. In place of `cache.redis.store.RedisStore`."""

    is_coherent = True

    async def look_up(self, source, uri, owner, abilities=""):
        await trio.lowlevel.checkpoint()
        return FOUND, ReadTicket("t")

    def statistics(self):
        return StoreStatistics(state="connected", since_s=0)


async def test_what_is_found_is_no_read_of_the_upstream(nursery, autojump_clock):
    server = Served(MODERN)
    reads = await reads_of(nursery, server, shared=Full())
    for uri in ("note://a", "note://b", "note://a"):
        await reads.call(server, read_of(uri), Host(), server.call)
        await trio.testing.wait_all_tasks_blocked()
    counts = reads.statistics().counts
    assert server.reads == []
    assert (counts.misses, counts.found, counts.stored, counts.coalesced) == (2, 2, 2, 0)
    nursery.cancel_scope.cancel()
