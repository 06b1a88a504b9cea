"""Search mode: which hosts are shown tools to find and call the others, when that changes, and who is told."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from config.profile_settings import Profile, ToolOverride
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.catalog.search.index import SearchIndex
from hub.catalog.token_cost import tokens_of, tool_bytes
from hub.link.call_interface import Identity
from hub.routing.own_tools import WORDS_PER_STEP, OwnTools
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, MODERN
from tests.hub.catalog.search.corpus import servers
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.lifecycle import State

META = ["hub__find_tools", "hub__call_tool"]
WINDSURF, CLAUDE = Identity("alice", "windsurf"), Identity("alice", "claude-code")
CHANGED = "notifications/tools/list_changed"
CARRIERS = [("lines", L4), ("lines", MODERN), ("http", L4), ("http", MODERN)]


def many(count=101):
    """A server with more tools than Windsurf takes."""
    return FakeUpstream(tools=[f"t{at}" for at in range(count)])


async def settle():
    """Let all that is due be done."""
    await trio.sleep(10)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("ES-8", "ES-9")
@pytest.mark.parametrize(("carrier", "version"), CARRIERS)
async def test_a_host_that_takes_fewer_tools_finds_them_by_searching(carrier, version, autojump_clock):
    async with a_house({"files": many()}) as house:
        await settle()
        host = await house.host(carrier, version, identity=WINDSURF)
        assert await host.names() == META
        for other in (CLAUDE, Identity("alice", "desk"), Identity("alice", "")):
            assert len(await (await house.host(carrier, version, identity=other)).names()) == 101
        result = await host.call("hub__call_tool", {"name": "files__t7", "arguments": {}})
        assert result["_meta"]["dev.hubd/tool"] == "files__t7"
        assert await host.call("files__t7"), "by its own name, too"


@pytest.mark.covers("ES-9")
async def test_a_server_that_comes_and_goes_flips_nothing(autojump_clock):
    fake = many()
    async with a_house({"files": fake}) as house:
        await settle()
        host = await house.host(identity=WINDSURF)
        every = fake.lists["tools"]
        for now in (every[:3], every, every[:3]):
            fake.lists["tools"] = now
            await fake.conversation.tell(CHANGED)
            await settle()
            assert await host.names() == META
        second = await house.host(identity=WINDSURF)
        assert await second.names() == META, "while one is there, it stays"
        await host.leave()
        await second.leave()
        await settle()
        assert len(await (await house.host(identity=WINDSURF)).names()) == 3


@pytest.mark.covers("ES-9")
async def test_a_server_that_fails_keeps_nobody_from_searching(autojump_clock):
    fake, broken = many(), FakeUpstream(tools=["x"])
    broken.refuses = True
    async with a_house({"files": fake, "broken": broken}) as house:
        await settle()
        host = await house.host(identity=WINDSURF)
        assert await host.names() == META
        fake.lists["tools"] = fake.lists["tools"][:3]
        await fake.conversation.tell(CHANGED)
        await settle()
        assert await host.names() == META
        house.hub.apply(structs.replace(house.hub.config, profiles={"default": Profile(tools=("*",))}))
        await settle()
        assert len(await host.names()) == 3, "nor from seeing all again"


@pytest.mark.covers("ES-9")
async def test_it_is_decided_for_a_host_that_comes_while_a_server_reconnects(autojump_clock):
    other = FakeUpstream(tools=["x"])
    async with a_house({"files": many(), "other": other}) as house:
        await settle()
        other.refuses = True
        await other.conversation.close()
        await trio.sleep(0.1)
        assert house.hub.supervisor.upstreams["other"].state is not State.CONNECTED
        host = await house.host(identity=WINDSURF)
        assert await host.names() == META
        other.refuses = False
        await trio.sleep(3600)
        assert house.hub.supervisor.upstreams["other"].state is State.CONNECTED
        assert await host.names() == META
        assert host.of(CHANGED) == []


@pytest.mark.covers("ES-9")
@pytest.mark.parametrize("comes", [True, False], ids=["it starts in the end", "it never starts"])
async def test_nothing_is_decided_while_a_server_starts_for_the_first_time(comes, autojump_clock):
    memory, slow, ready = Memory(None), many(60), trio.Event()
    fakes = {"files": many(50), "slow": slow}
    async with a_house(fakes, memory=memory) as house:
        await settle()
        assert await (await house.host(identity=WINDSURF)).names() == META

    async def initialize(params, conversation):
        await ready.wait()

    slow.on["initialize"] = initialize
    async with a_house(fakes, memory=memory) as house:
        await settle()
        host = await house.host(identity=WINDSURF)
        assert house.hub.live.settled.is_set()
        assert await host.names() == META, "50 tools are few enough, but there is more to come"
        slow.on.pop("initialize")
        if comes:
            ready.set()
        else:
            slow.refuses = True
            await trio.sleep(3600)
        await settle()
        assert await host.names() == META if comes else len(await host.names()) == 50
        ready.set()


@pytest.mark.covers("ES-9")
@pytest.mark.parametrize(("carrier", "version"), CARRIERS)
async def test_a_server_that_starts_at_last_floods_no_host_that_searched_before(carrier, version, autojump_clock):
    memory, late = Memory(None), many(60)
    fakes = {"files": many(50), "late": late}
    async with a_house(fakes, memory=memory) as house:
        await settle()
        assert await (await house.host(carrier, version, identity=WINDSURF)).names() == META
    late.refuses = True
    async with a_house(fakes, memory=memory) as house:
        host = await house.host(carrier, version, identity=WINDSURF)
        await settle()
        assert len(await host.names()) == 50, "it has failed, so this is all there is"
        late.refuses = False
        await trio.sleep(3600)
        await settle()
        assert len(await (await house.host(identity=CLAUDE)).names()) == 110
        assert await host.names() == META


@pytest.mark.covers("ES-9")
async def test_what_was_decided_outlives_the_hub(autojump_clock):
    memory, fake = Memory(None), many()
    async with a_house({"files": fake}, memory=memory) as house:
        await settle()
        await house.host(identity=WINDSURF)
        await settle()
    fake.lists["tools"] = fake.lists["tools"][:90]  # less than it takes, but not by much
    async with a_house({"files": fake}, memory=memory) as house:
        host = await house.host(identity=WINDSURF)
        assert await host.names() == META
        await settle()
        assert await host.names() == META
    fake.lists["tools"] = fake.lists["tools"][:50]
    async with a_house({"files": fake}, memory=memory) as house:
        host = await house.host(identity=WINDSURF)
        await settle()
        assert len(await host.names()) == 50


@pytest.mark.covers("ES-9")
@pytest.mark.parametrize(("carrier", "version"), [("lines", L4), ("http", L4)])
async def test_a_change_of_the_configuration_decides_anew_and_tells_those_whose_list_differs(
    carrier, version, autojump_clock
):
    async with a_house({"files": many()}) as house:
        await settle()
        searching = await house.host(carrier, version, identity=WINDSURF)
        other = await house.host(carrier, version, identity=CLAUDE)
        assert await searching.names() == META
        house.hub.apply(structs.replace(house.hub.config, profiles={"default": Profile(search="off")}))
        await settle()
        assert len(await searching.names()) == 101
        assert [len(host.of(CHANGED)) for host in (searching, other)] == [1, 0]
        house.hub.apply(structs.replace(house.hub.config, profiles={"default": Profile(search="on")}))
        await settle()
        assert await searching.names() == await other.names() == META
        assert [len(host.of(CHANGED)) for host in (searching, other)] == [2, 1]


@pytest.mark.covers("ES-8")
@pytest.mark.parametrize(("carrier", "version"), CARRIERS)
async def test_always_tools_are_listed_in_search_mode_and_marked_elsewhere(carrier, version, autojump_clock):
    profiles = {
        "searching": Profile(hosts=("windsurf",), search="on", always=("files__t1",)),
        "whole": Profile(hosts=("claude-code",), always=("files__t1",)),
    }
    async with a_house({"files": many(3)}, profiles=profiles) as house:
        await settle()
        host = await house.host(carrier, version, identity=WINDSURF)
        assert await host.names() == [*META, "files__t1"]
        other = await house.host(carrier, version, identity=CLAUDE)
        tools = (await other.result("tools/list"))["tools"]
        marked = [tool["name"] for tool in tools if tool.get("_meta", {}).get("anthropic/alwaysLoad") is True]
        assert (len(tools), marked) == (3, ["files__t1"])


@pytest.mark.covers("ES-5", "ES-7")
async def test_a_profile_holds_for_calls_by_way_of_the_hub(autojump_clock):
    schema = {"type": "object", "required": ["owner"], "properties": {"owner": {"type": "string"}, "a": {}}}
    fake = FakeUpstream(tools=["echo", "hidden"])
    fake.lists["tools"][0]["inputSchema"] = schema
    profile = Profile(
        search="on",
        tools=("!files__hidden",),
        rename={"files__echo": "say"},
        override={"files__echo": ToolOverride(description="Speak.", fix={"owner": "acme"})},
    )
    async with a_house({"files": fake}, profiles={"default": profile}) as house:
        host = await house.host(identity=WINDSURF)
        found = await host.call("hub__find_tools", {"query": "speak"})
        shown = json.loads(found["content"][0]["text"].splitlines()[0])
        assert (shown["name"], shown["description"]) == ("say", "Speak.")
        assert "owner" not in json.dumps(shown["inputSchema"])
        host.via = "hub__call_tool"
        await host.call("say", {"a": 1})
        assert fake.conversation.of("tools/call")[0]["params"]["arguments"] == {"a": 1, "owner": "acme"}
        refused = await host.call("say", {"owner": "me"})
        assert refused["isError"]
        assert "fixed by profile default" in refused["content"][0]["text"]
        assert "there is no tool files__hidden" in (await host.call("files__hidden"))["content"][0]["text"]
        assert len(fake.conversation.of("tools/call")) == 1
        host.via = ""
        for words in ("hidden", "files__hidden"):
            found = await host.call("hub__find_tools", {"query": words})
            assert "files__hidden: " not in found["content"][0]["text"]
            assert '"files__hidden"' not in found["content"][0]["text"]


@pytest.mark.covers("ES-10")
async def test_the_list_changes_only_when_tools_do(autojump_clock):
    fake = many(2)
    async with a_house({"files": fake}, profiles={"default": Profile(search="on")}) as house:
        await settle()
        host = await house.host(identity=WINDSURF)
        before = await host.result("tools/list")
        await fake.conversation.tell(CHANGED)
        await settle()
        assert host.of(CHANGED) == []
        fake.lists["tools"].append({"name": "more", "inputSchema": {"type": "object"}})
        await fake.conversation.tell(CHANGED)
        await settle()
        assert len(host.of(CHANGED)) == 1
        after = await host.result("tools/list")
        assert "the 2 tools" in before["tools"][0]["description"]
        assert "the 3 tools" in after["tools"][0]["description"]


@pytest.mark.covers("ES-9")
async def test_status_says_who_is_in_search_mode_and_what_that_costs(autojump_clock):
    async with a_house({"files": many()}) as house:
        await settle()
        for identity in (WINDSURF, CLAUDE):
            await house.host(identity=identity)
        rows = {row.label: row for row in (await house.api.status()).hosts}
        assert (rows["windsurf"].search, rows["claude-code"].search) == (True, False)
        assert rows["windsurf"].tools == 2
        assert (rows["windsurf"].tokens or 0) < 600


@pytest.mark.covers("ES-9")
async def test_a_list_that_differs_by_host_is_nobody_elses(autojump_clock):
    fake = FakeUpstream(version=MODERN, tools=[f"t{at}" for at in range(101)])
    async with a_house({"files": fake}) as house:
        await settle()
        await house.host(identity=WINDSURF)
        await settle()
        other = await house.host("http", MODERN, identity=CLAUDE)
        assert (await other.result("tools/list"))["cacheScope"] == "private"


async def test_a_view_of_one_server_knows_no_search_mode(autojump_clock):
    config = UpstreamConfig(command="files")
    assert not config.trusted
    async with a_house({"files": many()}, profiles={"default": Profile(search="on")}) as house:
        await settle()
        host = await house.host("http", L4, identity=WINDSURF, endpoint="files")
        assert len(await host.names()) == 101


@pytest.mark.covers("ES-8", "ES-9")
async def test_hundreds_of_tools_of_real_servers(autojump_clock):
    fakes = {name: FakeUpstream(tools=tools) for name, tools in servers().items()}
    for name, fake in fakes.items():
        fake.lists["tools"] = [{"inputSchema": {"type": "object"}, **tool} for tool in servers()[name]]
    always = Profile(always=("filesystem__read_text_file",))
    upstreams = {"filesystem": {"trusted": True}}
    async with a_house(fakes, upstreams=upstreams, profiles={"default": always}) as house:
        await settle()
        searching = await house.host(identity=Identity("alice", "lm-studio"))
        assert await searching.names() == [*META, "hub__call_read_only_tool", "filesystem__read_text_file"]
        rows = (await house.api.status()).hosts
        listed = (await searching.result("tools/list"))["tools"]
        size = sum(tool_bytes(tool["name"], {key: raw(value) for key, value in tool.items()}) for tool in listed[:3])
        assert tokens_of(size) < 600
        whole = await house.host(identity=CLAUDE)
        assert len(await whole.names()) == sum(map(len, servers().values())) >= 300
        found = await searching.call("hub__find_tools", {"query": "open an issue in a repository"})
        assert "github__create_issue" in found["content"][0]["text"]
        assert rows[0].search


@pytest.mark.covers("ES-4")
async def test_an_index_is_made_in_slices(autojump_clock, monkeypatch):
    fakes = {"one": many(120), "two": many(3)}
    async with a_house(fakes) as house:
        await settle()
        catalog = house.hub.live.everything
        slices = 0
        work: dict[int, list[int]] = {}
        take_up = SearchIndex.add

        def add(index, tool, title=""):
            done = take_up(index, tool, title)
            work.setdefault(slices, []).append(done)
            return done

        monkeypatch.setattr(SearchIndex, "add", add)

        class Steps(trio.abc.Instrument):
            def before_task_step(self, task):
                nonlocal slices
                slices += task is me

        me, steps = trio.lowlevel.current_task(), Steps()
        trio.lowlevel.add_instrument(steps)
        await OwnTools(None, None, None, {}).index_of(catalog)
        trio.lowlevel.remove_instrument(steps)
        assert sum(map(len, work.values())) == 123
        assert len(work) > 1, "by the step of this task in which it was done"
        assert all(sum(each[:-1]) < WORDS_PER_STEP for each in work.values()), "only the last tool may pass it"
        index = catalog.index
        await OwnTools(None, None, None, {}).index_of(catalog)
        assert catalog.index is index is not None
