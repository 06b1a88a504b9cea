"""How long a hub that lost the store waits until it tries again."""

import pytest
import trio

from cache.redis.sealed_values import ValueSealer
from cache.redis.store_link import HURRY_S, Member
from cache.redis.url import address_of
from config.settings import CacheConfig, Secret
from tests.support.redis_server import Told


@pytest.mark.covers("F-X-01")
async def test_it_is_tried_sooner_while_others_may_find_what_is_stale(autojump_clock):
    address = address_of(CacheConfig(url=Secret("unix:///nowhere")))
    member = Member(address, ValueSealer(bytes(32)), trio.current_time, Told())

    async def paused_s(seconds: float) -> float:
        began = trio.current_time()
        await member.pause(seconds)
        return trio.current_time() - began

    assert await paused_s(30.0) == 30.0

    async def invalidate_later() -> None:
        await trio.sleep(10.0)
        member.invalidate("source", "note:a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(invalidate_later)
        assert await paused_s(30.0) == 10.0
    assert await paused_s(30.0) == HURRY_S
    assert await paused_s(0.5) == 0.5
