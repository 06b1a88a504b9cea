"""How long a hub waits for a store that stops answering, and until it tries again."""

import pytest
import trio

from cache.redis.coherence_link import GREETING_S, HURRY_S, StoreLink
from cache.redis.layout import ValueSealer
from cache.redis.url import address_of
from config.setting_declarations import Secret
from config.settings import CacheConfig
from tests.support.redis_server import Store, Told, stores
from tests.support.scripted_store import LOOK, Scripted


@pytest.mark.covers("F-X-02")
@pytest.mark.parametrize("command", [b"PING", LOOK])
async def test_one_that_hangs_once_it_is_connected_is_left(autojump_clock, monkeypatch, nursery, command):
    server = Scripted(monkeypatch, nursery)
    server.answers[command] = b""
    store = Store("redis://127.0.0.1:1")
    began = trio.current_time()
    async with stores(store, is_coherent=False):
        await store.until_away()
        assert (store.statistics().reason, server.links) == ("no answer within 3 s", 1)
        assert trio.current_time() - began == GREETING_S
        server.answers.clear()
        await store.until_coherent()


@pytest.mark.covers("F-X-01")
async def test_it_is_tried_sooner_while_others_may_find_what_is_stale(autojump_clock):
    address = address_of(CacheConfig(url=Secret("unix:///nowhere")))
    link = StoreLink(address, ValueSealer(bytes(32)), trio.current_time, Told())

    async def paused_s(seconds: float) -> float:
        began = trio.current_time()
        await link.pause(seconds)
        return trio.current_time() - began

    assert await paused_s(30.0) == 30.0

    async def invalidate_later() -> None:
        await trio.sleep(10.0)
        link.invalidate("source", "note:a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(invalidate_later)
        assert await paused_s(30.0) == 10.0
    assert await paused_s(30.0) == HURRY_S
    assert await paused_s(0.5) == 0.5
