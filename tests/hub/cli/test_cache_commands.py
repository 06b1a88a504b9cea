"""`hubd cache` and `hubd cache clear` at a whole hub."""

import pytest
from msgspec import structs

from config.setting_declarations import Secret
from config.settings import CacheConfig, ReplicaConfig
from hub.cli.render.cache import cache
from hub.control.answers import Cleared
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.mcp import MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from tests.support.terminal import drawn

URI = "a://b"


def fake() -> FakeUpstream:
    return FakeUpstream(version=MODERN, resources=[{"uri": URI, "name": "r"}])


async def test_what_is_kept_is_shown_and_can_be_forgotten(autojump_clock):
    fakes = {"one": fake(), "two": FakeUpstream()}
    async with a_house(fakes, upstreams={"one": {"prefix": ""}}) as house:
        host = await house.host("lines", MODERN)
        [uri] = await host.names("resources")
        for _ in range(3):
            await host.result("resources/read", {"uri": uri})
        found = await house.api.cache()
        assert found == (await house.api.status()).cache
        [upstream] = found.upstreams
        assert (upstream.name, upstream.entries, upstream.counts.hits) == ("one", 1, 2)
        assert drawn(*cache(found)).splitlines()[1] == "3 reads: 67 % hits, 1 fetched, 0 shared a fetch in flight"

        with pytest.raises(UpstreamUnavailable, match="There is no server nope; there are: one, two"):
            await house.api.cache_clear("nope")
        assert await house.api.cache_clear("two") == Cleared(0)
        assert await house.api.cache_clear("one") == Cleared(1)
        await host.result("resources/read", {"uri": uri})
        assert await house.api.cache_clear() == Cleared(1)
        found = await house.api.cache()
        assert (found.entries, found.counts.misses, found.invalidations["cleared"]) == (0, 2, 2)


async def test_where_hubs_meet_counts_from_the_next_start(autojump_clock):
    async with a_house({"one": fake()}) as house:
        before = house.hub.config
        cache = CacheConfig(max_bytes=1000, password=Secret("c4n4ry"))
        house.hub.apply(structs.replace(before, cache=cache, replica=ReplicaConfig(name="a"), token=Secret("t" * 16)))
        assert house.hub.pending == ("cache.password", "replica.name")
        assert (await house.api.cache()).max_bytes == 1000, "sizes count at once"
        house.hub.apply(before)
        assert house.hub.pending == ()
