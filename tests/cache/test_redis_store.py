"""What hubs share through a real Redis: what is found, by whom, and what is found no more."""

import pytest
import trio
from redis_server import Store, redis_server, stores

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(autouse=True)
def _empty(server):
    server.do("FLUSHALL")


async def test_what_one_hub_keeps_another_finds(server):
    one, other = Store(server.url), Store(server.url)
    async with stores(one, other):
        await one.keep('{"text":"caf\\u00e9"}', fresh_s=100)
        assert await other.found() == '{"text":"caf\\u00e9"}'
        found, ticket = await other.look("s", "a://x/y", "ann")
        assert ticket is not None
        assert found.version == "2026-07-28"
        assert 99 < found.fresh_until - trio.current_time() <= 100.01
