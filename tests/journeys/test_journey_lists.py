"""Lists: merged, in pages, up to date, and hosts are notified of changes."""

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import BOB, a_house

CHANGED = "notifications/tools/list_changed"


def tools(*names):
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


async def settle():
    """Let changes arrive."""
    await trio.sleep(0.1)
    await trio.testing.wait_all_tasks_blocked()


# --- merging ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("G-8", "S-31")
async def test_lists_are_merged_in_the_order_of_the_configuration(pair, autojump_clock):
    fakes = {name: pair.fake(tools=[f"{name}-1", "same"]) for name in ("zoo", "alpha", "mid")}
    ready = trio.Event()

    async def late(message, conversation):
        await ready.wait()
        return fakes["zoo"].answer(message)

    fakes["zoo"].on |= {"initialize": late, "server/discover": late}
    async with a_house(fakes) as house:
        await trio.sleep(1)
        ready.set()
        host = await pair.host(house)
        assert await host.names() == [
            "zoo__zoo-1",
            "zoo__same",
            "alpha__alpha-1",
            "alpha__same",
            "mid__mid-1",
            "mid__same",
        ]


async def test_names_that_do_not_fit_are_changed_and_still_found(pair, autojump_clock):
    odd = ["read.file", "read_file", "x" * 80, "\u00fcber", "with space"]
    fake = pair.fake(tools=odd)
    async with pair.house({"files": fake}) as (_, host):
        names = await host.names()
        assert len(set(names)) == len(odd)
        assert all(len(name) <= 50 for name in names)
        for name, own in zip(names, odd, strict=True):
            await host.call(name)
            assert fake.conversation.of("tools/call")[-1]["params"]["name"] == own


# --- pages ------------------------------------------------------------------------------------------------------------


def paged(pair, *pages):
    """An upstream whose tool list has these pages: their cursor, their names and the next cursor."""
    fake = pair.fake()
    by_cursor = {cursor: (names, following) for cursor, names, following in pages}

    def list_tools(message, conversation):
        names, following = by_cursor[message["params"].get("cursor")]
        more = {} if following is None else {"nextCursor": following}
        fresh = {} if pair.to_legacy else {"ttlMs": 1000, "cacheScope": "public"}
        return pair.whole(tools=tools(*names), **fresh, **more)

    fake.on["tools/list"] = list_tools
    return fake


@pytest.mark.covers("C-16", "C-17")
async def test_all_pages_of_an_upstream_are_read_whatever_their_cursors(pair, autojump_clock):
    fake = paged(pair, (None, ["a"], ""), ("", ["b"], "\U0001f4a1"), ("\U0001f4a1", [], "last"), ("last", ["c"], None))
    async with pair.house({"files": fake}) as (_, host):
        assert await host.names() == ["files__a", "files__b", "files__c"]


@pytest.mark.covers("F-P-16")
async def test_pages_that_go_in_circles_end(pair, autojump_clock):
    fake = paged(pair, (None, ["a"], "x"), ("x", ["b"], "x"))
    async with pair.house({"files": fake}) as (house, host):
        assert await host.names() == ["files__a", "files__b"]
        assert house.hub.supervisor.upstreams["files"].snapshot.degraded


async def pages_of(host):
    found, cursor = [], None
    while True:
        page = await host.result("tools/list", {} if cursor is None else {"cursor": cursor})
        found.append([tool["name"] for tool in page["tools"]])
        if (cursor := page.get("nextCursor")) is None:
            return found


@pytest.mark.covers("C-16", "G-2")
async def test_pages_for_hosts_are_the_hubs_own(pair, autojump_clock):
    fakes = {"one": pair.fake(tools=["a", "b", "c"]), "two": pair.fake(tools=["d", "e"])}
    fakes["one"].page_size = 1
    async with pair.house(fakes, page_size=2) as (house, host):
        assert await pages_of(host) == [["one__a", "one__b"], ["one__c", "two__d"], ["two__e"]]
        cursor = (await host.result("tools/list"))["nextCursor"]
        other = await pair.host(house, identity=BOB)
        assert (await other.error("tools/list", {"cursor": cursor}))["code"] == -32602
        for wrong in ("", "1", cursor[:-2], cursor + "A", "x" * 5000):
            assert (await host.error("tools/list", {"cursor": wrong}))["code"] == -32602
        assert (await host.error("prompts/list", {"cursor": cursor}))["code"] == -32602
        for wrong in (7, None, ["a"]):
            assert (await host.error("tools/list", {"cursor": wrong}))["code"] == -32602
        assert (await host.result("tools/list", {"cursor": cursor}))["tools"][0]["name"] == "one__c"
        fakes["one"].lists["tools"] = tools("a", "b")
        await fakes["one"].conversation.tell(CHANGED)
        await settle()
        error = await host.error("tools/list", {"cursor": cursor})
        assert (error["code"], error["message"]) == (-32602, "cursor expired, list again")


# --- changes ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-7", "N-8")
async def test_a_change_is_passed_on_if_hosts_can_see_it(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake, "other": pair.fake()}) as (_, host):
        assert await host.names() == ["files__echo", "other__echo"]
        await fake.conversation.tell(CHANGED)
        await settle()
        assert host.heard == []
        fake.lists["tools"] = tools("echo", "more")
        await fake.conversation.tell(CHANGED)
        await settle()
        assert [message["method"] for message in host.heard] == ([CHANGED] if pair.from_legacy else [])
        assert await host.names() == ["files__echo", "files__more", "other__echo"]


async def test_changes_in_plenty_are_one_change(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (house, host):
        await host.names()
        await settle()
        walks, rebuilds = len(fake.conversation.of("tools/list")), house.hub.live.rebuilds
        fake.lists["tools"] = tools("more")
        for _ in range(500):
            await fake.conversation.tell(CHANGED)
        await settle()
        assert await host.names() == ["files__more"]
        assert len(host.heard) == pair.from_legacy
        assert len(fake.conversation.of("tools/list")) - walks <= 5
        assert house.hub.live.rebuilds - rebuilds <= 3


async def test_an_endpoint_of_one_upstream_hears_of_that_one(pair, autojump_clock):
    fakes = {"files": pair.fake(), "other": pair.fake()}
    async with pair.house(fakes) as (house, _):
        narrow = await pair.host(house, endpoint="files")
        assert await narrow.names() == ["echo"]
        for name, heard in (("other", 0), ("files", 1)):
            fakes[name].lists["tools"] = tools("new")
            await fakes[name].conversation.tell(CHANGED)
            await settle()
            assert len(narrow.heard) == heard * pair.from_legacy
        assert await narrow.names() == ["new"]


async def test_each_kind_is_announced_by_its_own_name(pair, autojump_clock):
    fake = pair.fake(prompts=[{"name": "p"}], resources=[{"uri": "a://b", "name": "r"}])
    async with pair.house({"files": fake}) as (_, host):
        await host.names()
        fake.lists["resourceTemplates"] = [{"uriTemplate": "a://{b}", "name": "t"}]
        await fake.conversation.tell("notifications/resources/list_changed")
        await settle()
        fake.lists["prompts"] = [{"name": "q"}]
        await fake.conversation.tell("notifications/prompts/list_changed")
        await settle()
        expected = ["notifications/resources/list_changed", "notifications/prompts/list_changed"]
        assert [message["method"] for message in host.heard] == (expected if pair.from_legacy else [])
        assert await host.names("prompts") == ["files__q"]
        assert await host.names("resourceTemplates") == ["a://{b}"]


# --- a second look ----------------------------------------------------------------------------------------------------


async def test_an_unknown_name_of_a_known_server_is_looked_up_once_more(pair, autojump_clock):
    fake = pair.fake(prompts=[{"name": "p"}])
    async with pair.house({"files": fake}) as (house, host):
        await host.names()
        narrow = await pair.host(house, endpoint="files")
        fake.lists["tools"] = tools("echo", "silent")  # and says nothing of it
        fake.lists["prompts"] = [{"name": "p"}, {"name": "q"}]
        assert "content" in await host.call("files__silent")
        assert "messages" in await narrow.result("prompts/get", {"name": "q"})
        assert "files__silent" in await host.names()


@pytest.mark.covers("P-13")
async def test_a_second_look_asks_the_one_server_each_time_and_once_at_a_time(pair, autojump_clock):
    fakes = {"files": pair.fake(), "other": pair.fake()}
    async with pair.house(fakes) as (_, host):
        await host.names()
        before = [len(fake.conversation.of("tools/list")) for fake in fakes.values()]
        await host.error("tools/call", {"name": "files__nothing"})
        await host.error("tools/call", {"name": "nobody__nothing"})
        assert [len(fake.conversation.of("tools/list")) for fake in fakes.values()] == [before[0] + 1, before[1]]
        for _ in range(20):
            started = trio.current_time()
            assert (await host.error("tools/call", {"name": "files__nothing"}))["code"] == -32602
            assert trio.current_time() - started < 0.1
        assert len(fakes["files"].conversation.of("tools/list")) == before[0] + 21

        async def slow(message, conversation):
            await trio.sleep(0.2)
            return fakes["files"].answer(message)

        fakes["files"].on["tools/list"] = slow
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(host.error, "tools/call", {"name": "files__nothing"})
        assert len(fakes["files"].conversation.of("tools/list")) <= before[0] + 23


async def test_a_second_look_at_an_upstream_that_is_silent_is_short(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (_, host):
        await host.names()
        fake.on["tools/list"] = lambda *_: None
        started = trio.current_time()
        await host.error("tools/call", {"name": "files__nothing"})
        assert trio.current_time() - started < 2
        await trio.sleep(60)


@pytest.mark.parametrize("message", ["Unknown tool: echo", "Tool echo not found"])
async def test_an_upstream_that_does_not_know_its_tool_is_listed_again(pair, autojump_clock, message):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (_, host):
        await host.names()
        fake.lists["tools"] = tools("other")
        fake.on["tools/call"] = lambda *_: Failure(-32602, message)
        assert await host.error("tools/call", {"name": "files__echo"}) == {"code": -32602, "message": message}
        await settle()
        assert await host.names() == ["files__other"]


async def test_other_refusals_do_not_cost_a_listing(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (_, host):
        await host.names()
        walks = len(fake.conversation.of("tools/list"))
        fake.on["tools/call"] = lambda *_: Failure(-32602, "text is a string")
        await host.error("tools/call", {"name": "files__echo"})
        await settle()
        assert len(fake.conversation.of("tools/list")) == walks


# --- freshness --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("K-4", "K-9", "K-12", "K-14")
async def test_freshness_of_a_merged_list_is_that_of_its_worst_part(autojump_clock):
    fakes = {
        "private": FakeUpstream(version=MODERN),
        "legacy": FakeUpstream(version=L4),
        "dead": FakeUpstream(version=L4),
    }
    fakes["private"].ttl_ms = 7_000
    fakes["dead"].refuses = True
    async with a_house(fakes) as house:
        host = await house.host("http", MODERN)
        listed = await host.result("tools/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (1_000, "private")
    del fakes["dead"]
    async with a_house(fakes) as house:
        host = await house.host("http", MODERN)
        listed = await host.result("tools/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (7_000, "private")
    del fakes["legacy"]
    async with a_house(fakes) as house:
        host = await house.host("http", MODERN)
        assert (await host.result("tools/list"))["cacheScope"] == "public"


@pytest.mark.covers("K-6", "K-12")
async def test_a_list_that_is_read_again_and_is_the_same_is_fresh_again(autojump_clock):
    fakes = {"files": FakeUpstream(version=MODERN)}
    fakes["files"].ttl_ms = 100_000
    fakes["files"].capabilities["tools"] = {}
    async with a_house(fakes) as house:
        host = await house.host("http", MODERN)
        catalog = house.hub.live.everything
        await trio.sleep(90)
        assert 9_000 <= (await host.result("tools/list"))["ttlMs"] <= 11_000
        await trio.sleep(60)
        assert (await host.result("tools/list"))["ttlMs"] == 100_000
        assert house.hub.live.everything is catalog, "nothing has changed"
