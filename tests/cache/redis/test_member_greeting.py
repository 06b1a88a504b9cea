"""A store that is there, and stops answering at the worst moment."""

import pytest
import trio

from cache.redis.store_link import GREETING_S
from tests.support.redis_server import Store, stores
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
