"""Freshness of lists: old ones are read again when a host asks, and never because time passes."""

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.inventory.refresh import REFRESH_WAIT_S

CHANGED = "notifications/tools/list_changed"
SILENT_S = 10
VERSIONS = pytest.mark.parametrize("version", [L4, MODERN])


def tools(*names):
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def silent(version, *, ttl_ms=SILENT_S * 1000):
    """An upstream that reports no changes."""
    fake = FakeUpstream(version=version)
    fake.capabilities["tools"] = {}
    fake.ttl_ms = ttl_ms
    return fake


def walks(fake):
    return len(fake.conversation.of("tools/list"))


def slow(fake, seconds):
    async def answer(message, conversation):
        await trio.sleep(seconds)
        return fake.answer(message)

    fake.on["tools/list"] = answer


async def took(job):
    """The duration in seconds, and the result."""
    began = trio.current_time()
    found = await job
    return round(trio.current_time() - began, 1), found


async def modern_host(house):
    return await house.host("http", MODERN)


# --- refresh on access ------------------------------------------------------------------------------------------------


@pytest.mark.covers("K-6", "K-7", "K-9")
@VERSIONS
async def test_a_list_whose_time_is_over_is_read_when_a_host_asks(autojump_clock, version):
    fake = silent(version)
    async with a_house({"files": fake}) as house:
        host = await house.host("http", L4)
        await host.names()
        fake.lists["tools"] = tools("new")
        await trio.sleep(SILENT_S / 2)
        assert await host.names() == ["files__echo"]
        await trio.sleep(3600)
        assert walks(fake) == 1, "nobody has asked"
        assert await took(host.names()) == (0.0, ["files__new"])
        assert await host.names() == ["files__new"]
        assert walks(fake) == 2


@pytest.mark.covers("K-9")
async def test_a_list_without_a_ttl_is_read_each_time(autojump_clock):
    fake = silent(MODERN)
    fake.on["tools/list"] = lambda message, _: {"resultType": "complete", "tools": fake.lists["tools"]}
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        for number in range(5):
            fake.lists["tools"] = tools(f"n{number}")
            assert await host.names() == [f"files__n{number}"]
        listed = await host.result("tools/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (0, "private")
        for wrong in (-5, "soon", None, 1e99):
            fake.on["tools/list"] = lambda message, _, wrong=wrong: {**fake.answer(message), "ttlMs": wrong}
            assert (await host.result("tools/list"))["ttlMs"] == (300_000 if wrong == 1e99 else 0)
        fake.complaints.clear()


@pytest.mark.covers("K-7", "K-8")
@VERSIONS
async def test_an_upstream_that_tells_of_changes_is_not_asked(autojump_clock, version):
    fake = FakeUpstream(version=version)
    fake.ttl_ms = 1000
    async with a_house({"files": fake}) as house:
        host = await house.host("http", L4)
        await host.names()
        await trio.sleep(5)
        await host.names()
        before = walks(fake)
        for _ in range(10):
            await trio.sleep(100)
            assert await host.names() == ["files__echo"]
        assert walks(fake) == before
        fake.lists["tools"] = tools("new")
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": next(iter(fake.conversation.listens), 0)}}
        await fake.conversation.tell(CHANGED, meta)
        await trio.sleep(0.1)
        assert await host.names() == ["files__new"]
        assert walks(fake) == before + 1


@pytest.mark.covers("K-6", "N-17")
async def test_who_does_not_agree_to_tell_or_tells_no_more_is_asked(autojump_clock):
    fake = FakeUpstream(version=MODERN)
    fake.ttl_ms = 1000

    async def agree_to_nothing(message, conversation):
        message["params"]["notifications"] = {}
        return await fake.answer_subscription(message, conversation)

    fake.on["subscriptions/listen"] = agree_to_nothing
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        for number in range(3):
            fake.lists["tools"] = tools(f"n{number}")
            await trio.sleep(2)
            assert await host.names() == [f"files__n{number}"]
        del fake.on["subscriptions/listen"]
        await fake.end_listens()
        await trio.sleep(100)
        before = walks(fake)
        await trio.sleep(100)
        await host.names()
        assert walks(fake) == before, "it tells again"
        fake.on["subscriptions/listen"] = lambda *_: None
        await fake.end_listens()
        await trio.sleep(10)
        await host.names()
        assert walks(fake) == before + 1


async def test_what_changed_before_the_upstream_began_to_tell_is_found(autojump_clock):
    fake = FakeUpstream(version=MODERN)
    fake.ttl_ms = 1000

    async def late(message, conversation):
        await trio.sleep(5)
        return await fake.answer_subscription(message, conversation)

    fake.on["subscriptions/listen"] = late
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await trio.sleep(1)
        fake.lists["tools"] = tools("new")
        await trio.sleep(5)
        assert await host.names() == ["files__new"]
        before = walks(fake)
        await trio.sleep(100)
        await host.names()
        assert walks(fake) == before


# --- slow ones --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("K-6", "N-7")
@VERSIONS
async def test_all_lists_are_read_at_once_and_nobody_waits_for_long(autojump_clock, version):
    fakes = {name: silent(version) for name in ("a", "b", "c")}
    async with a_house(fakes) as house:
        host = await house.host("lines", L4)
        await host.names()
        await trio.sleep(2 * SILENT_S)
        for fake, seconds in zip(fakes.values(), (1, 1, 4), strict=True):
            fake.lists["tools"] = tools("new")
            slow(fake, seconds)
        assert await took(host.names()) == (REFRESH_WAIT_S, ["a__new", "b__new", "c__echo"])
        assert await took(host.names()) == (0.0, ["a__new", "b__new", "c__echo"]), "it has been waited for in vain"
        assert walks(fakes["c"]) == 2
        host.heard.clear()
        await trio.sleep(4)
        assert [message["method"] for message in host.heard] == [CHANGED]
        assert await took(host.names()) == (0.0, ["a__new", "b__new", "c__new"])


@pytest.mark.covers("K-6")
@VERSIONS
async def test_an_upstream_that_hangs_slows_one_list(autojump_clock, version):
    fakes = {"well": silent(version, ttl_ms=0), "hung": silent(version, ttl_ms=0)}
    async with a_house(fakes) as house:
        host = await modern_host(house)
        await host.names()
        await trio.sleep(2 * SILENT_S)
        fakes["hung"].on["tools/list"] = lambda *_: None
        spent = [await took(host.names())]
        for _ in range(20):
            await trio.sleep(SILENT_S + 1)
            spent.append(await took(host.names()))
        assert [seconds for seconds, _ in spent] == [REFRESH_WAIT_S, *[0.0] * 20]
        assert {tuple(names) for _, names in spent} == {("well__echo", "hung__echo")}
        del fakes["hung"].on["tools/list"]
        fakes["hung"].lists["tools"] = tools("new")
        await trio.sleep(20)
        await host.names()
        await trio.sleep(SILENT_S + 1)
        assert await took(host.names()) == (0.0, ["well__echo", "hung__new"])
        fakes["hung"].lists["tools"] = tools("newer")
        slow(fakes["hung"], 0.5)
        await trio.sleep(SILENT_S + 1)
        assert await took(host.names()) == (0.5, ["well__echo", "hung__newer"]), "it is quick again"


@pytest.mark.covers("K-6")
@VERSIONS
async def test_a_list_that_cannot_be_read_anew_is_shown_as_it_was(autojump_clock, version):
    fake = silent(version)
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await host.names()
        fake.on["tools/list"] = lambda *_: Failure(-32603, "broken")
        await trio.sleep(2 * SILENT_S)
        assert await took(host.names()) == (0.0, ["files__echo"])
        del fake.on["tools/list"]
        fake.lists["tools"] = tools("new")
        assert await took(host.names()) == (0.0, ["files__new"])


@VERSIONS
async def test_an_upstream_that_is_away_is_not_waited_for(autojump_clock, version):
    fake = silent(version)
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await host.names()
        await trio.sleep(2 * SILENT_S)
        fake.refuses = True
        await fake.conversation.close()
        await trio.sleep(0.1)
        assert await took(host.names()) == (0.0, ["files__echo"])


@VERSIONS
async def test_a_session_that_ends_lets_nobody_wait(autojump_clock, version):
    fake = silent(version)
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await host.names()
        await trio.sleep(2 * SILENT_S)

        async def die(message, conversation):
            fake.refuses = True
            await conversation.close()

        fake.on["tools/list"] = die
        assert await took(host.names()) == (0.0, ["files__echo"])


async def test_hosts_that_ask_at_one_time_share_one_reading(autojump_clock):
    fake = silent(MODERN, ttl_ms=0)
    async with a_house({"files": fake}) as house:
        hosts = [await modern_host(house) for _ in range(20)]
        await hosts[0].names()
        before = walks(fake)
        slow(fake, 1)
        async with trio.open_nursery() as nursery:
            for host in hosts:
                nursery.start_soon(host.names)
        assert walks(fake) == before + 1


async def test_a_change_while_a_list_is_being_read_is_read_after_that(autojump_clock):
    fake = FakeUpstream()
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", L4)
        await host.names()
        old = fake.answer({"method": "tools/list"})
        release = trio.Event()

        async def hang(message, conversation):
            await release.wait()
            return old

        fake.on["tools/list"] = hang
        await host.error("tools/call", {"name": "files__nothing"})
        del fake.on["tools/list"]
        fake.lists["tools"] = tools("new")
        await fake.conversation.tell(CHANGED)
        await trio.sleep(1)
        assert await host.names() == ["files__echo"]
        release.set()
        await trio.sleep(1)
        assert await host.names() == ["files__new"]


async def test_one_endpoint_asks_only_its_own_upstream(autojump_clock):
    fakes = {"files": silent(L4), "other": silent(L4)}
    async with a_house(fakes) as house:
        narrow = await house.host("lines", L4, endpoint="files")
        await narrow.names()
        await trio.sleep(2 * SILENT_S)
        await narrow.names()
        assert [walks(fake) for fake in fakes.values()] == [2, 1]


async def test_a_host_that_turns_pages_is_not_disturbed(autojump_clock):
    fake = silent(MODERN, ttl_ms=0)
    fake.lists["tools"] = tools("a", "b", "c")
    async with a_house({"files": fake}, page_size=2) as house:
        host = await modern_host(house)
        first = await host.result("tools/list")
        before = walks(fake)
        fake.lists["tools"] = tools("x")
        second = await host.result("tools/list", {"cursor": first["nextCursor"]})
        assert ([tool["name"] for tool in second["tools"]], walks(fake)) == (["files__c"], before)
        assert first["cacheScope"] == second["cacheScope"]
        assert await host.names() == ["files__x"]


# --- what hosts are told ----------------------------------------------------------------------------------------------


@pytest.mark.covers("K-12", "K-14")
async def test_hosts_come_back_soon_while_an_upstream_is_away(autojump_clock):
    fakes = {"legacy": FakeUpstream(version=L4), "modern": FakeUpstream(version=MODERN)}
    fakes["modern"].ttl_ms = 200_000
    async with a_house(fakes) as house:
        host, narrow = await modern_host(house), await house.host("http", MODERN, endpoint="modern")
        assert (await host.result("tools/list"))["ttlMs"] == 60_000
        assert (await host.result("prompts/list"))["ttlMs"] == 300_000
        fakes["legacy"].refuses = True
        await fakes["legacy"].conversation.close()
        await trio.sleep(0.1)
        assert (await host.result("tools/list"))["ttlMs"] == 1_000
        assert (await host.result("prompts/list"))["ttlMs"] == 1_000
        assert (await narrow.result("tools/list"))["ttlMs"] > 100_000, "that is not its affair"
        fakes["legacy"].refuses = False
        await trio.sleep(60)
        assert (await host.result("tools/list"))["ttlMs"] == 60_000


@pytest.mark.covers("K-12")
async def test_a_ttl_counts_from_the_first_page(autojump_clock):
    fake = silent(MODERN, ttl_ms=50_000)
    fake.page_size, fake.lists["tools"] = 1, tools("a", "b", "c")
    slow(fake, 2)
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await trio.sleep(10)
        assert 41_000 <= (await host.result("tools/list"))["ttlMs"] <= 42_000


@pytest.mark.covers("K-12")
async def test_a_ttl_that_shrinks_makes_no_other_list(autojump_clock):
    fake = silent(MODERN, ttl_ms=9_000)
    async with a_house({"files": fake}) as house:
        host = await modern_host(house)
        await host.names()
        catalog = house.hub.live.everything
        for ttl_ms in (8_000, 7_000):
            await trio.sleep(10)
            fake.ttl_ms = ttl_ms
            assert (await host.result("tools/list"))["ttlMs"] == ttl_ms
        assert house.hub.live.everything is catalog


# --- pages of upstreams -----------------------------------------------------------------------------------------------


@pytest.mark.covers("K-10")
@VERSIONS
async def test_a_cursor_that_is_not_good_any_more_starts_the_walk_over_once(autojump_clock, version):
    fake = FakeUpstream(version=version)
    fake.page_size, fake.lists["tools"] = 1, tools("a", "b")
    expired = [1]

    def expire(message, conversation):
        if message["params"].get("cursor") and expired[0]:
            expired[0] -= 1
            fake.lists["tools"] = tools("c", "d")
            return Failure(-32602, "cursor expired")
        return fake.answer(message)

    fake.on["tools/list"] = expire
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["files__c", "files__d"]
        assert walks(fake) == 4
        expired[0] = 100
        fake.lists["tools"] = tools("e", "f")
        await host.error("tools/call", {"name": "files__nothing"})
        assert await host.names() == ["files__c", "files__d"]
        assert walks(fake) == 8
        [problem] = house.hub.supervisor.upstreams["files"].snapshot.degraded
        assert "cursor expired" in problem
