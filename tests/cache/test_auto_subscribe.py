"""How much is asked of an upstream that does not answer when it is asked to tell of changes."""

import trio

from cache.auto_subscribe import AGAIN_S, MAX_UNANSWERED
from tests.support.cache_upstream import Host, Served, Watches, read_of, reads_of


async def test_one_that_answers_no_subscription_is_asked_for_few(nursery, autojump_clock):
    """Each waits for its answer long after the read that asked for it."""
    server = Served()
    server.place.subscriptions.slow_s = 1_000
    reads = await reads_of(nursery, server)
    for round_ in range(1, 4):
        for number in range(300):
            await reads.call(server, read_of(f"note://{round_}/{number}"), Host(), server.call)
        assert len(server.place.subscriptions.asked) == round_ * MAX_UNANSWERED
        await trio.sleep(AGAIN_S)
    nursery.cancel_scope.cancel()


class Late(Watches):
    """Agrees to all, but not soon."""

    def __init__(self, server, nursery):
        super().__init__(server)
        self._nursery = nursery

    async def observe(self, uri, reader):
        self._nursery.start_soon(self._agree, uri, reader)
        await trio.sleep_forever()

    async def _agree(self, uri, reader):
        await trio.sleep(0.3)
        await super().observe(uri, reader)


async def test_one_that_is_far_away_is_asked_for_all(nursery, autojump_clock):
    server = Served()
    server.place.subscriptions = Late(server, nursery)
    reads = await reads_of(nursery, server)
    for _ in range(3):
        for number in range(100):
            await reads.call(server, read_of(f"note://{number}"), Host(), server.call)
            await trio.sleep(0.3)
    assert len(server.reads) == 200
    nursery.cancel_scope.cancel()


async def test_many_at_once_are_all_asked_for_where_that_is_quick(nursery, autojump_clock):
    server = Served()
    server.place.subscriptions.slow_s = 0.05
    reads = await reads_of(nursery, server)
    for _ in range(2):
        async with trio.open_nursery() as hosts:
            for number in range(200):
                hosts.start_soon(reads.call, server, read_of(f"note://{number}"), Host(), server.call)
    assert len(server.reads) == 200
    nursery.cancel_scope.cancel()
