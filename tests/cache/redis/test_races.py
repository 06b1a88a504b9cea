"""Readers and changes at random, on several hubs at once: nobody finds what was read before a change that all know."""

import random

import pytest
import trio

from tests.support.redis_server import Store, entry, redis_server, stores

pytestmark = pytest.mark.real

URIS = ("a://x", "a://x/y", "a://x/y/z")


class Upstream:
    """Resources that have versions, and how old what is found may be at most."""

    def __init__(self) -> None:
        self.version = dict.fromkeys(URIS, 0)
        self.known = dict.fromkeys(URIS, 0)
        """The version that each had when a change was last written for all hubs."""

    def change(self, uri: str) -> None:
        """With its parts and wholes: that is what a change of one may mean for the others."""
        for each in URIS:
            if each.startswith(uri) or uri.startswith(each):
                self.version[each] += 1


@pytest.mark.covers("F-X-05", "SEC-23")
@pytest.mark.parametrize("seed", range(4))
async def test_nobody_finds_what_was_read_before_a_change(tmp_path, seed):
    chance = random.Random(seed)
    hits = reads = 0
    upstream = Upstream()

    async def read(store: Store) -> None:
        nonlocal hits, reads
        for _ in range(60):
            uri = chance.choice(URIS)
            least = upstream.known[uri]
            found, ticket = await store.look_up("s", uri, "ann")
            if found is not None:
                hits += 1
                assert int(bytes(found.value)) >= least
            elif ticket is not None:
                reads += 1
                await trio.sleep(chance.choice((0, 0, 0.001)))
                value = str(upstream.version[uri])
                await trio.sleep(chance.choice((0, 0, 0.001)))
                await store.put(ticket, "s", uri, "ann", entry(value))

    async def change(store: Store) -> None:
        for _ in range(20):
            await trio.sleep(chance.uniform(0, 0.01))
            uri = chance.choice(URIS)
            upstream.change(uri)
            version = dict(upstream.version)
            store.invalidate("s", chance.choice((uri, uri, uri, None)))
            await store.until_written()
            for each in URIS:
                if each.startswith(uri) or uri.startswith(each):
                    upstream.known[each] = max(upstream.known[each], version[each])

    with redis_server(tmp_path) as server:
        hubs = [Store(server.url) for _ in range(3)]
        async with stores(*hubs), trio.open_nursery() as nursery:
            nursery.start_soon(change, hubs[0])
            nursery.start_soon(change, hubs[1])
            for hub in hubs * 3:
                nursery.start_soon(read, hub)
    assert hits > 20
    assert reads > 20
