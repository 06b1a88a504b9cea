"""A real Redis, and two stores on it that are coherent. Modules that need another server have their own `server`."""

import pytest

from tests.support.redis_server import Store, redis_server, stores


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """How long an answer may take is no part of what is tested with a real store."""
    monkeypatch.setattr("cache.redis.shared_facts.FACT_S", 10.0)


@pytest.fixture
def server(tmp_path):
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
async def one(server, nursery):
    store = Store(server.url)
    async with stores(store):
        yield store


@pytest.fixture
async def other(server, nursery):
    store = Store(server.url)
    async with stores(store):
        yield store
