"""What `hubd status` and `hubd reload` say of profiles."""

import pytest
from msgspec import structs

from config.profile_settings import Profile
from hub.daemon.api import DaemonApi
from hub.daemon.reload import Outcome
from hub.link.interface import Identity
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

CODEX, CURSOR = Identity("alice", "codex"), Identity("alice", "cursor")


class Reloads:
    """A reloader that applies what the test has it read."""

    def __init__(self, house):
        self.house = house
        self.profiles = {}

    async def reload(self):
        config = structs.replace(self.house.hub.config, profiles=self.profiles)
        await self.house.hub.prepare(config)
        self.house.hub.apply(config)
        return Outcome()


@pytest.mark.covers("EP-8")
async def test_a_reload_names_the_hosts_that_must_be_restarted(autojump_clock):
    fakes = {"files": FakeUpstream(tools=["read", "write"])}
    async with a_house(fakes) as house:
        reloads = Reloads(house)
        api = DaemonApi(house.hub, reloader=reloads)
        codex = await house.host("lines", identity=CODEX)
        cursor = await house.host("lines", identity=CURSOR)
        assert len(await codex.names()) == len(await cursor.names()) == 2

        reloads.profiles = {"small": Profile(hosts=("cursor",), tools=("*read",))}
        assert (await api.reload()).restart == (), "cursor notices it"
        reloads.profiles = {"small": Profile(hosts=("cursor", "codex"), tools=("*read",))}
        assert (await api.reload()).restart == ("codex",)
        assert (await api.reload()).restart == ("codex",), "until it is restarted"
        await codex.leave()
        again = await house.host("lines", identity=CODEX)
        assert (await api.reload()).restart == ()
        assert await again.names() == ["files__read"]


@pytest.mark.covers("EP-1", "ET-2")
async def test_status_says_what_each_profile_shows_and_to_how_many(autojump_clock):
    profiles = {
        "small": Profile(hosts=("cursor",), tools=("*read",), search="off", max_tools=1),
        "unused": Profile(instructions="x" * 400),
    }
    async with a_house({"files": FakeUpstream(tools=["read", "write"])}, profiles=profiles) as house:
        cursor = await house.host("lines", identity=CURSOR)
        await cursor.names()
        status = await house.api.status()
        [row] = status.hosts
        assert (row.profile, row.endpoint, row.tools) == ("small", "/mcp/~small", 1)
        small, unused = status.profiles
        assert (small.name, small.hosts, small.tools, small.search) == ("small", 1, 1, "off")
        assert small.tokens == row.tokens
        assert (unused.hosts, unused.tools) == (0, 2)
        assert unused.tokens > small.tokens + 90, "its own instructions count"
