"""Whole hubs on a real Redis that stops, dies and comes back empty: nobody reads what their hub knows to be old.

The clock runs many times faster than that of the wall, for hubs and upstreams only; the store is as it is.
"""

import os
from random import Random

import pytest
import trio
import trio.testing

from cache.redis.store import RedisStore
from config.setting_declarations import Secret
from config.settings import CacheConfig
from tests.support.cache_world import a_world
from tests.support.everything import draw
from tests.support.redis_server import KEY, RedisServer, redis_server

pytestmark = pytest.mark.real

RATE = 10.0
BUDGET_S = 1.0
"""Of the fast clock: as long as in earnest, on this one."""
MOVES = 250
SEEDS = range(int(os.environ["HUBD_SEEDS"])) if "HUBD_SEEDS" in os.environ else draw(1, range(4))


@pytest.fixture
def fast_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(rate=RATE)


class Faults:
    """What happens to the store."""

    def __init__(self, server: RedisServer, dice: Random) -> None:
        self._server = server
        self._dice = dice

    async def happen(self) -> None:
        """Perhaps something does, and is over when this returns."""
        match self._dice.randrange(150):
            case 0:
                await trio.to_thread.run_sync(self._server.stop)
                await trio.sleep(self._dice.choice((0, 5)))
                await trio.to_thread.run_sync(self._server.start)
            case 1:
                self._server.pause()
                await trio.sleep(self._dice.choice((1, 10)))
                self._server.resume()
            case 2:
                self._server.do("FLUSHALL")
            case 3:
                self._server.do("CLIENT", "KILL", "TYPE", self._dice.choice(("normal", "pubsub")))


@pytest.mark.covers("K-8", "SEC-23", "F-X-02", "F-X-03")
@pytest.mark.parametrize("seed", SEEDS)
async def test_nobody_reads_what_is_known_to_be_old(seed, tmp_path, fast_clock):
    dice = Random(seed)
    stores: list[RedisStore] = []
    with redis_server(tmp_path) as server:
        faults = Faults(server, dice)

        def share(number: int) -> RedisStore:
            stores.append(RedisStore(CacheConfig(url=Secret(server.url)), KEY, trio.current_time, budget_s=BUDGET_S))
            return stores[-1]

        async with a_world(dice, hubs=2, share=share) as world:
            while not all(store.is_coherent for store in stores):  # noqa: ASYNC110
                await trio.sleep(0.1)
            for _ in range(MOVES):
                await world.move()
                await world.read()
                await faults.happen()
            fast_clock.rate *= 40  # what is under way may end
            stored = sum(house.hub.reads.statistics().counts.stored for house in world.houses)
    assert world.wrong == []
    assert world.answers > 10
    assert stored
