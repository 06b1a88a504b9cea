"""A store of client ids in memory."""

import contextlib

import trio


class MemoryClients:
    """As `upstreams.oauth.store.grant_store`; `kept` has the clients by their keys."""

    def __init__(self):
        self.kept = {}
        self._turns = {}

    def find(self, *key):
        return self.kept.get(key)

    def put(self, *key_and_client):
        *key, client = key_and_client
        self.kept[tuple(key)] = client

    def forget(self, *key):
        self.kept.pop(key, None)

    @contextlib.asynccontextmanager
    async def turn(self, *key):
        async with self._turns.setdefault(key, trio.Lock()):
            yield
