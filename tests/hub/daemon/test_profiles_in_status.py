"""What `hubd status` and `hubd reload` say of profiles."""

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile
from hub.control.answers import Reloaded
from hub.daemon.api import DaemonApi
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Failure
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
        return Reloaded(summary="nothing changed", pending=())


@pytest.mark.covers("EP-8")
async def test_a_reload_names_the_hosts_that_must_be_restarted(autojump_clock):
    fakes = {"files": FakeUpstream(tools=["read", "write"])}
    async with a_house(fakes) as house:
        reloads = Reloads(house)
        api = DaemonApi(house.hub, None, reloads)
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


async def settled():
    """Let changes of servers reach the catalogues."""
    await trio.sleep(0.5)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("EP-3")
async def test_a_profile_that_names_no_tool_is_doubted_while_that_is_so(autojump_clock, caplog):
    files, notes = FakeUpstream(tools=["read", "write"]), FakeUpstream(tools=["take"])
    notes.refuses = True
    profiles = {"p": Profile(tools=("files__raed", "notes__*")), "none": Profile(tools=())}
    raed = "profile p: entries of its `tools` mean no tool: 'files__raed' (did you mean 'files__read'?)"
    empty = "profile none: shows no tool, since its `tools` is an empty list; without that setting it shows all"

    async with a_house({"files": files, "notes": notes}, profiles=profiles) as house:

        async def doubts():
            await settled()
            return list((await house.api.status()).warnings)

        assert await doubts() == [raed, empty], "what may be of a server that is away is not doubted"
        assert [row.warnings for row in (await house.api.status()).profiles] == [(raed,), (empty,)]
        notes.refuses = False
        await trio.sleep(100)
        assert await doubts() == [raed, empty]
        for _ in range(3):  # it comes and goes
            notes.refuses = True
            await notes.conversation.close()
            assert await doubts() == [raed, empty]
            await trio.sleep(3)
            notes.refuses = False
            await trio.sleep(300)
            assert await doubts() == [raed, empty]

        files.lists["tools"][0]["name"] = "raed"
        await files.conversation.tell("notifications/tools/list_changed")
        assert await doubts() == [empty], "mended"
        logged = [record.getMessage() for record in caplog.records if record.getMessage().startswith("profile ")]
        assert logged == [raed, empty], "once"


async def test_a_server_that_has_not_listed_its_tools_makes_no_doubts(autojump_clock):
    notes = FakeUpstream(tools=["take"])
    notes.on["tools/list"] = lambda message, conversation: Failure(-32603, "not now")
    upstreams = {"notes": {"rename": {"give": "g"}}}
    profiles = {"p": Profile(tools=("notes__give",))}
    async with a_house({"notes": notes}, profiles=profiles, upstreams=upstreams) as house:
        await settled()
        assert (await house.api.status()).warnings == ()
        del notes.on["tools/list"]
        await trio.sleep(60)
        await settled()
        assert len((await house.api.status()).warnings) == 3, "of the profile, which shows nothing, and of `rename`"


async def test_a_label_that_is_nearly_that_of_a_known_host_is_doubted_unless_a_host_has_it(autojump_clock):
    profiles = {"small": Profile(hosts=("curser", "codex", "my-agent", "cursor-work"))}
    text = 'profile small: hosts: no host that hubd knows has the label "curser"; did you mean "cursor"?'
    async with a_house({"files": FakeUpstream(tools=["read"])}, profiles=profiles) as house:
        status = await house.api.status()
        assert status.warnings == (text,)
        assert status.profiles[0].warnings == (text,)
        await house.host("lines", identity=Identity("alice", "curser"))
        status = await house.api.status()
        assert status.warnings == status.profiles[0].warnings == ()
