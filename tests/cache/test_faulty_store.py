"""A store that raises what it must not: reads go on without it."""

import pytest
import trio

from cache.shared_store import ReadTicket
from hub.wire.jsonrpc import Result
from hub.wire.mcp import MODERN
from tests.support.cache_upstream import Host, Served, read_of, reads_of


class Faulty:
    """In place of `cache.redis.store.RedisStore`, but that it raises nothing."""

    is_coherent = True

    def __init__(self, *faults):
        self.faults = faults
        self.raised = []

    def _do(self, name):
        if name in self.faults:
            self.raised.append(name)
            raise OverflowError("int too big to convert")

    async def look_up(self, source, uri, owner, abilities=""):
        await trio.lowlevel.checkpoint()
        self._do("look")
        return None, ReadTicket("1")

    async def put(self, ticket, source, uri, owner, entry, abilities=""):
        await trio.lowlevel.checkpoint()
        self._do("put")

    def invalidate(self, source, uri):
        pass


@pytest.mark.covers("F-D-13", "F-X-04", "SEC-16")
@pytest.mark.parametrize("fault", ["look", "put"])
async def test_reads_go_on(nursery, autojump_clock, fault, caplog):
    server, store = Served(), Faulty(fault)
    reads = await reads_of(nursery, server, shared=store)
    for number in range(1, 4):
        reply = await reads.call(server, read_of(f"note://{number}"), Host(), server.call)
        assert isinstance(reply, Result)
        await trio.sleep(1)
    assert len(store.raised) >= 3
    assert len(caplog.records) == 1
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-D-13", "SEC-16")
async def test_what_nobody_waits_for_ends_nothing(nursery, autojump_clock):
    server = Served(MODERN)
    asked = []

    async def observe(uri, reader):
        asked.append(uri)
        raise KeyError(uri)

    server.place.subscriptions.observe = observe
    reads = await reads_of(nursery, server)
    for number in range(2):
        assert isinstance(await reads.call(server, read_of(f"note://{number}"), Host(), server.call), Result)
        await trio.sleep(1)
    assert len(asked) == 2
    nursery.cancel_scope.cancel()
