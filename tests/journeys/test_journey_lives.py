"""Upstreams that are slow, late, dead, dying or far too large, and their effects on hosts."""

from time import thread_time

import pytest
import trio
import trio.testing

from config.settings import Timeouts
from hub.wire.mcp import L4, era_of
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.lifecycle import State

FAST = Timeouts(start=2)


def slow(pair, delay_s, **options):
    """An upstream whose handshake takes so long."""
    fake = pair.fake(**options)

    async def late(message, conversation):
        await trio.sleep(delay_s)
        return fake.answer(message)

    fake.on |= {"initialize": late, "server/discover": late}
    return fake


def era(pair):
    """Settings without a probe, so that it adds no time."""
    return {"slow": {"era": "legacy" if pair.to_legacy else "modern"}}


@pytest.mark.covers("G-1", "F-P-03")
@pytest.mark.parametrize(("delay_s", "seen"), [(0, True), (3, True), (20, False)])
async def test_the_first_list_waits_a_little_for_slow_upstreams(pair, autojump_clock, delay_s, seen):
    fakes = {"slow": slow(pair, delay_s), "quick": pair.fake()}
    async with pair.house(fakes, upstreams=era(pair)) as (_, host):
        names = await host.names()
        assert names == (["slow__echo"] if seen else []) + ["quick__echo"]
        assert trio.current_time() == pytest.approx(min(delay_s, 5), abs=0.2)
        await trio.sleep(30)
        assert await host.names() == ["slow__echo", "quick__echo"]
        assert len(host.of("notifications/tools/list_changed")) == (pair.from_legacy and not seen)
        assert "content" in await host.call("slow__echo")


async def test_nobody_waits_for_an_upstream_that_is_dead(pair, autojump_clock):
    fakes = {"dead": pair.fake(), "quick": pair.fake()}
    fakes["dead"].refuses = True
    async with pair.house(fakes) as (_, host):
        assert await host.names() == ["quick__echo"]
        assert "content" in await host.call("quick__echo")
        assert trio.current_time() < 0.5


@pytest.mark.covers("F-P-01")
async def test_one_that_never_connected_is_tried_again_when_a_host_lists(pair, autojump_clock):
    fakes = {"broken": pair.fake(), "quick": pair.fake()}
    fakes["broken"].refuses = True
    async with pair.house(fakes) as (house, host):
        upstream = house.hub.supervisor.upstreams["broken"]
        await trio.sleep(60)
        assert upstream.state is State.FAILED
        fakes["broken"].refuses = False
        await trio.sleep(120)
        assert upstream.state is State.FAILED, "nobody has asked"
        assert await host.names() == ["quick__echo"]
        await trio.sleep(5)
        assert await host.names() == ["broken__echo", "quick__echo"]


async def test_what_needs_no_upstream_does_not_wait(pair, autojump_clock):
    async with pair.house({"slow": slow(pair, 20)}, upstreams=era(pair)) as (_, host):
        if pair.from_legacy:
            assert await host.result("ping") == {}
        assert trio.current_time() < 0.1


async def test_a_call_in_the_first_seconds_waits_for_its_upstream(pair, autojump_clock):
    fakes = {"slow": slow(pair, 3), "quick": pair.fake()}
    async with pair.house(fakes, upstreams=era(pair)) as (_, host):
        question = await host.start("tools/call", {"name": "slow__echo"})
        await host.call("quick__echo")
        assert "content" in (await question.wait())["result"]


@pytest.mark.parametrize("prefix", [None, ""])
@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "completion/complete"])
async def test_a_name_that_no_list_had_before_the_grace_of_the_start_ended_is_looked_for_again(
    pair, autojump_clock, method, prefix
):
    fake = slow(pair, 6, prompts=[{"name": "echo"}])
    fake.capabilities["completions"] = {}
    name = "echo" if prefix == "" else "slow__echo"
    params = {"name": name}
    if method == "completion/complete":
        params = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": ""}}
    settings = {"slow": era(pair)["slow"] | ({} if prefix is None else {"prefix": prefix})}
    async with pair.house({"slow": fake, "quick": pair.fake()}, upstreams=settings) as (_, host):
        assert await host.names() == ["quick__echo"], "the grace is over"
        assert "error" not in await (await host.start(method, params)).wait()


@pytest.mark.covers("F-P-01", "F-P-02")
async def test_an_upstream_that_dies_during_a_call_fails_it_and_comes_back(pair, autojump_clock):
    fake = pair.fake(tools=["echo", "die"], prompts=[{"name": "die"}])

    async def die(message, conversation):
        await conversation.close()

    fake.on |= {"tools/call:die": die, "prompts/get": die}
    async with pair.house({"files": fake, "other": pair.fake()}) as (house, host):
        await host.names()
        result = await host.call("files__die")
        failure = result["_meta"]["dev.hubd/failure"]
        assert (result["isError"], failure["hub"], failure["executed"]) == (True, "upstream_lost", "unknown")
        assert len(await host.names()) == 3  # it stays listed
        await host.call("other__echo")
        assert "isError" not in await host.call("files__echo")  # waits for the new one
        error = await host.error("prompts/get", {"name": "files__die"})
        assert (error["code"], error["data"]["hub"]) == (-32603, "upstream_lost")
        await host.call("files__echo")
        assert house.hub.supervisor.upstreams["files"].status().restarts == 2
        assert host.of("notifications/tools/list_changed") == []


async def test_an_upstream_that_cannot_come_back_is_said_to_be_away(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}, upstreams={"files": {"timeouts": FAST}}) as (_, host):
        await host.names()
        fake.refuses = True
        await fake.conversation.close()
        result = await host.call("files__echo")
        failure = result["_meta"]["dev.hubd/failure"]
        assert (failure["hub"], failure["executed"], failure["retryable"]) == ("upstream_unavailable", "no", True)
        assert await host.names() == ["files__echo"]


async def test_an_upstream_may_come_back_in_another_era(pair, autojump_clock):
    fake = pair.fake(resources=[{"uri": "a://b", "name": "r"}])
    async with pair.house({"files": fake}) as (_, host):
        await host.names()
        release = trio.Event()

        async def hold(message, conversation):
            await release.wait()
            return fake.answer(message)

        fake.on["tools/list"] = hold  # so that only the handshake tells
        fake.version = pair.other_version
        fake.era = era_of(pair.other_version)
        await fake.conversation.close()
        result = await host.call("files__echo")
        assert ("resultType" in result) != pair.from_legacy
        release.set()


async def test_an_upstream_that_never_listed_is_answered_for_in_its_own_era(pair, autojump_clock):
    fake = pair.fake(resources=[{"uri": "a://b", "name": "r"}])
    release = trio.Event()

    async def hold(message, conversation):
        await release.wait()
        return fake.answer(message)

    fake.on["tools/list"] = hold
    async with pair.house({"files": fake}) as (house, _):
        host = await pair.host(house, endpoint="files")
        await trio.testing.wait_all_tasks_blocked()
        question = await host.start("resources/read", {"uri": "a://b"})
        result = (await question.wait())["result"]
        assert ("resultType" in result) != pair.from_legacy
        release.set()


@pytest.mark.covers("F-P-17", "G-1")
@pytest.mark.parametrize("page_size", [0, 1000])
async def test_an_upstream_with_far_too_many_tools_is_cut_and_delays_nobody(autojump_clock, page_size):
    big = FakeUpstream(version=L4, tools=[f"tool_{number}" for number in range(100_000)])
    big.page_size = page_size
    longest = Longest()
    async with a_house({"big": big, "small": FakeUpstream()}) as house:
        trio.lowlevel.add_instrument(longest)
        host = await house.host("lines", L4)
        await host.call("small__echo")
        names = await host.names()
        trio.lowlevel.remove_instrument(longest)
        assert len(names) == 2001
        assert house.hub.supervisor.upstreams["big"].snapshot.degraded
        assert "content" in await host.call("big__tool_1999")
    assert longest.found_s < 3.0  # to read all 100 000 takes longer than that; others slow a processor down, too


class Longest(trio.abc.Instrument):
    """How long the longest step of a task of the hub took, in time of the processor: others may be busy too."""

    def __init__(self):
        self.found_s = 0.0
        self._since = 0.0

    def before_task_step(self, task):
        self._since = thread_time()

    def after_task_step(self, task):
        if "FakeUpstream" not in task.name and "test_" not in task.name:
            self.found_s = max(self.found_s, thread_time() - self._since)
