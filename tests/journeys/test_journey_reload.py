"""Changes of the configuration while hosts are at work: only the named upstreams are disturbed."""

import json
import os
import random

import pytest
import trio
import trio.testing
from msgspec import structs

from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig
from hub.wire.mcp import HUB_FAILURE, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from upstreams.lifecycle import State

NOTE = {"uri": "note://a", "name": "a"}
LISTED = "notifications/tools/list_changed"


async def settle(for_s=0.2):
    await trio.sleep(for_s)
    await trio.testing.wait_all_tasks_blocked()


async def change(house, upstreams=None, **settings):
    """Apply another configuration: settings of upstreams by name, None for those that go; and of the hub."""
    hub = house.hub
    configs = dict(hub.config.upstreams)
    for name, more in (upstreams or {}).items():
        if more is None:
            del configs[name]
        elif isinstance(more, UpstreamConfig):
            configs[name] = more
        else:
            configs[name] = structs.replace(configs[name], **more)
    config = structs.replace(hub.config, upstreams=configs, **settings)
    await hub.prepare(config)
    hub.apply(config)


async def begin(host, tool):
    """A call that has come as far as it can."""
    question = await host.start("tools/call", {"name": tool, "arguments": {}})
    await trio.testing.wait_all_tasks_blocked()
    return question


def failure(result):
    """The kind of failure of a tool's result."""
    return result["_meta"][HUB_FAILURE]["hub"]


def text(result):
    return result["content"][0]["text"]


class Gate:
    """A tool that answers when it is let."""

    def __init__(self, fake, tool="hang"):
        self.fake = fake
        self.open = trio.Event()
        self.calls = 0
        fake.on[f"tools/call:{tool}"] = self.answer

    async def answer(self, message, conversation):
        self.calls += 1
        await self.open.wait()
        return self.fake.answer(message)


def going_on(fake):
    return [each for each in fake.conversations if not each.over]


async def listen(host, uri):
    """Subscribe a host to a resource."""
    if host.version == MODERN:
        await host.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    else:
        await host.result("resources/subscribe", {"uri": uri})
    await settle()


async def hear_lists(host):
    """Subscribe a host to changed tools."""
    if host.version == MODERN:
        await host.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await settle()


def updates(host):
    return [params["uri"] for params in host.of("notifications/resources/updated")]


@pytest.mark.covers("F-C-07", "F-C-05", "I-7")
async def test_upstreams_come_and_go_and_nobody_else_notices(pair, autojump_clock):
    fakes = {"files": pair.fake(resources=[NOTE], tools=["echo", "hang"]), "old": pair.fake()}
    gate = Gate(fakes["files"])
    async with pair.house(fakes) as (house, host):
        await hear_lists(host)
        await host.names()
        await listen(host, NOTE["uri"])
        connection = fakes["files"].conversation
        running = await begin(host, "files__hang")
        fakes["new"] = pair.fake()
        await change(house, {"old": None, "new": UpstreamConfig(command="new")})
        await settle(1)
        assert await host.names() == ["files__echo", "files__hang", "new__echo"]
        assert len(host.of(LISTED)) == 2, "one for what went, one for what came"
        assert going_on(fakes["old"]) == []
        gone = await host.call("old__echo")
        assert failure(gone) == "upstream_unavailable"
        assert "configuration" in text(gone)
        assert "content" in await host.call("new__echo")

        before = house.hub.live.rebuilds
        await change(house)
        await settle(1)
        assert house.hub.live.rebuilds == before

        await fakes["files"].touch(NOTE["uri"])
        await settle()
        assert updates(host) == [NOTE["uri"]]
        gate.open.set()
        assert "content" in (await running.wait())["result"]
        assert fakes["files"].conversations == [connection]


@pytest.mark.covers("F-C-07")
@pytest.mark.parametrize("in_time", [True, False])
async def test_calls_of_a_removed_upstream_may_end_for_a_while(pair, autojump_clock, in_time):
    fakes = {"files": pair.fake(tools=["echo", "hang"]), "other": pair.fake()}
    gate = Gate(fakes["files"])
    async with pair.house(fakes, drain_s=10) as (house, host):
        await host.names()
        running = await begin(host, "files__hang")
        await change(house, {"files": None})
        await trio.sleep(5)
        assert going_on(fakes["files"])
        assert failure(await host.call("files__echo")) == "upstream_unavailable"
        if in_time:
            gate.open.set()
        result = (await running.wait())["result"]
        assert ("isError" not in result) if in_time else (failure(result) == "draining")
        assert trio.current_time() == pytest.approx(5 if in_time else 10, abs=1)
        await settle(1)
        assert going_on(fakes["files"]) == []
        assert gate.calls == 1


@pytest.mark.covers("F-C-06")
async def test_a_process_is_replaced_when_its_calls_are_over_and_others_wait(pair, autojump_clock):
    old, new = pair.fake(tools=["echo", "hang"]), pair.fake(tools=["echo", "hang"])
    gate = Gate(old)
    async with pair.house({"files": old}) as (house, host):
        await hear_lists(host)
        names = await host.names()
        running = await begin(host, "files__hang")
        house.fakes["files"] = new
        await change(house, {"files": {"args": ("--new",)}})
        waiting = await begin(host, "files__echo")
        await trio.sleep(5)
        assert await host.names() == names, "what it offered stays listed"
        assert new.conversations == []
        assert not waiting.done.is_set()
        gate.open.set()
        assert "isError" not in (await running.wait())["result"]
        assert "isError" not in (await waiting.wait())["result"]
        assert going_on(old) == []
        assert len(new.conversation.of("tools/call")) == 1
        assert trio.current_time() < 6
        await settle(1)
        assert host.of(LISTED) == []


@pytest.mark.covers("F-C-06")
async def test_a_server_is_connected_to_before_the_old_one_is_left(pair, autojump_clock):
    old, new = pair.fake(tools=["echo", "hang"]), pair.fake(tools=["echo", "hang", "more"])
    gate = Gate(old)
    new.refuses = True
    settings = {"files": {"command": None, "url": "http://here/"}}
    async with pair.house({"files": old}, upstreams=settings, drain_s=60) as (house, host):
        await hear_lists(host)
        await host.names()
        house.fakes["files"] = new
        await change(house, {"files": {"url": "http://there/"}})
        await trio.sleep(20)
        assert "isError" not in await host.call("files__echo")
        status = (await house.api.status()).upstreams[0]
        assert status.state == "connected"
        assert "refuses" in status.stale_config
        running = await begin(host, "files__hang")
        new.refuses = False
        await trio.sleep(40)
        assert await host.names() == ["files__echo", "files__hang", "files__more"]
        assert len(host.of(LISTED)) == 1
        assert "isError" not in await host.call("files__more")
        assert (await house.api.status()).upstreams[0].stale_config is None
        gate.open.set()
        assert "isError" not in (await running.wait())["result"]
        await settle(1)
        assert going_on(old) == []
        assert len(old.conversations) == len(new.conversations) == 1


@pytest.mark.covers("F-C-06", "F-C-05")
async def test_who_takes_a_bad_change_back_has_lost_nothing(pair, autojump_clock):
    old, new = pair.fake(), pair.fake()
    new.refuses = True
    settings = {"files": {"command": None, "url": "http://here/"}}
    async with pair.house({"files": old}, upstreams=settings) as (house, host):
        await host.names()
        house.fakes["files"] = new
        for port in range(3):
            await change(house, {"files": {"url": f"http://there:{port}/"}})
            await trio.sleep(10)
        await change(house, {"files": {"url": "http://here/"}})
        await trio.sleep(60)
        assert (await house.api.status()).upstreams[0].stale_config is None
        assert "isError" not in await host.call("files__echo")
        assert len(old.conversations) == 1
        assert new.conversations == []
        assert house.hub.supervisor._leaving == []


@pytest.mark.covers("F-C-06", "F-C-11")
@pytest.mark.parametrize("works", [True, False])
async def test_a_right_that_is_withdrawn_is_withdrawn_at_once(pair, autojump_clock, works):
    old, new = pair.fake(tools=["echo", "hang"]), pair.fake(tools=["echo", "hang"])
    gate = Gate(old)
    new.refuses = not works
    settings = {"files": {"command": None, "url": "http://here/", "headers": {"Authorization": Secret("old")}}}
    async with pair.house({"files": old}, upstreams=settings) as (house, host):
        await host.names()
        running = await begin(host, "files__hang")
        house.fakes["files"] = new
        await change(house, {"files": {"headers": {"Authorization": Secret("new")}, "timeouts": Timeouts(start=3)}})
        result = await host.call("files__echo")
        assert ("isError" not in result) is works
        assert len(old.conversations[0].of("tools/call")) == 1
        gate.open.set()
        assert "isError" not in (await running.wait())["result"]


@pytest.mark.covers("F-C-06")
@pytest.mark.parametrize("url", [None, "http://here/"])
async def test_what_is_watched_goes_on_being_watched(pair, autojump_clock, url):
    old, new = pair.fake(resources=[NOTE]), pair.fake(resources=[NOTE])
    settings = {"files": {"command": "x" if url is None else None, "url": url}}
    async with pair.house({"files": old}, upstreams=settings) as (house, host):
        await host.names()
        await listen(host, NOTE["uri"])
        house.fakes["files"] = new
        await change(house, {"files": {"tasks": "off"}})
        await settle(2)
        assert updates(host) == [NOTE["uri"]], "it may have changed meanwhile"
        assert house.watched("files") == [NOTE["uri"]]
        await new.touch(NOTE["uri"])
        await settle()
        assert updates(host) == [NOTE["uri"]] * 2


@pytest.mark.covers("F-C-07")
async def test_what_was_watched_at_one_that_is_gone_can_be_watched_again(pair, autojump_clock):
    fake = pair.fake(resources=[NOTE])
    async with pair.house({"files": fake, "other": pair.fake()}) as (house, host):
        await host.names()
        await listen(host, NOTE["uri"])
        config = house.hub.config.upstreams["files"]
        await change(house, {"files": None})
        await settle(1)
        assert updates(host) == [NOTE["uri"]]
        await change(house, {"files": config})
        await settle(1)
        await listen(host, NOTE["uri"])
        await fake.touch(NOTE["uri"])
        await settle()
        assert updates(host)[1:] == [NOTE["uri"]]


async def test_patience_and_looks_change_without_a_restart(pair, autojump_clock):
    fakes = {"files": pair.fake(tools=["echo", "hang"])}
    Gate(fakes["files"])
    async with pair.house(fakes) as (house, host):
        await hear_lists(host)
        await host.names()
        await change(house, {"files": {"timeouts": Timeouts(call=2), "tool_timeouts": {"slow": 9.0}, "ping_s": 5.0}})
        started = trio.current_time()
        assert failure(await host.call("files__hang")) == "upstream_timeout"
        assert trio.current_time() - started < 4
        assert host.of(LISTED) == []
        await change(house, {"files": {"prefix": "disk", "aliases": ("files",)}})
        assert await host.names() == ["disk__echo", "disk__hang"]
        await settle()
        assert len(host.of(LISTED)) == 1
        assert "isError" not in await host.call("files__echo")
        assert "isError" not in await host.call("disk__echo")
        await change(house, page_size=1, name_budget=40, synthetic_progress_s=3.0, on_lost="restart")
        assert len(await host.names()) == 1
        assert len(fakes["files"].conversations) == 1
        assert house.hub.pending == ()
        grace_s = house.hub.config.startup_grace_s
        await change(house, startup_grace_s=grace_s + 1)
        assert house.hub.pending == ("startup_grace_s",), "the start is over"
        await change(house, startup_grace_s=grace_s)
        assert house.hub.pending == ()


async def test_an_upstream_can_be_disabled_and_enabled_again(pair, autojump_clock):
    fakes = {"files": pair.fake(resources=[NOTE]), "other": pair.fake()}
    async with pair.house(fakes) as (house, host):
        await hear_lists(host)
        await host.names()
        await listen(host, NOTE["uri"])
        await change(house, {"files": {"disabled": True}})
        await settle(1)
        assert await host.names() == ["other__echo"]
        assert house.hub.supervisor.upstreams["files"].state is State.DISABLED
        off = await host.call("files__echo")
        assert failure(off) == "upstream_unavailable"
        assert "disabled" in text(off)
        assert going_on(fakes["files"]) == []
        await change(house, {"files": {"disabled": False}})
        await settle(1)
        assert await host.names() == ["files__echo", "other__echo"]
        assert len(host.of(LISTED)) == 2
        assert house.watched("files") == [NOTE["uri"]]


@pytest.mark.covers("F-C-08")
async def test_of_many_changes_the_last_one_counts_and_no_two_run_at_one_time(pair, autojump_clock):
    fakes = [pair.fake(tools=["echo", "hang"]) for _ in range(6)]
    together = []

    def watch(fake):
        answer = fake.answer

        def counted(message):
            together.append(sum(len(going_on(each)) for each in fakes))
            return answer(message)

        fake.answer = counted

    for fake in fakes:
        watch(fake)
    gate = Gate(fakes[0])
    async with pair.house({"files": fakes[0]}) as (house, host):
        await host.names()
        running = await begin(host, "files__hang")
        waiting = []
        for number, fake in enumerate(fakes[1:5]):
            house.fakes["files"] = fake
            await change(house, {"files": {"args": (str(number),)}})
            waiting.append(await begin(host, "files__echo"))
            await trio.sleep(0.3)
        config = house.hub.config.upstreams["files"]
        await change(house, {"files": None})
        house.fakes["files"] = fakes[5]
        await change(house, {"files": config})
        await trio.sleep(1)
        gate.open.set()
        assert "isError" not in (await running.wait())["result"]
        await settle(2)
        assert [len(fake.conversations) for fake in fakes] == [1, 0, 0, 0, 0, 1]
        assert set(together) == {1}
        assert "isError" not in await host.call("files__echo")
        for question in waiting:
            assert failure((await question.wait())["result"]) == "upstream_unavailable", "it was removed meanwhile"


async def test_a_call_that_waits_for_what_cannot_start_is_served_by_what_can(pair, autojump_clock):
    bad, good = pair.fake(), pair.fake()
    fakes = {"files": bad, "other": pair.fake()}
    async with pair.house(fakes) as (house, host):
        await host.names()
        bad.refuses = True
        await bad.conversation.close()
        await trio.sleep(0.5)
        waiting = await host.start("tools/call", {"name": "files__echo", "arguments": {"n": 1}})
        fakes["files"] = good
        await change(house, {"files": {"args": ("--better",)}})
        assert json.loads(text((await waiting.wait())["result"]))["arguments"] == {"n": 1}
        assert len(good.conversation.of("tools/call")) == 1


async def test_one_that_is_new_is_as_talkative_as_hosts_want(autojump_clock):
    fake = FakeUpstream()
    async with a_house({}) as house:
        house.fakes["files"] = fake
        host = await house.host("lines", L4)
        await host.set_level("info")
        await change(house, {"files": UpstreamConfig(command="files")})
        await settle(1)
        assert [message["params"]["level"] for message in fake.conversation.of("logging/setLevel")] == ["info"]


@pytest.mark.covers("F-C-07")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_host_of_one_upstream_is_told_that_this_is_gone(carrier, autojump_clock):
    fakes = {"files": FakeUpstream(resources=[NOTE]), "other": FakeUpstream()}
    async with a_house(fakes) as house:
        host = await house.host("lines", L4, endpoint="files")
        other = await house.host("lines", L4, endpoint="other")
        assert await host.names() == ["echo"]
        assert await other.names() == ["echo"]
        await change(house, {"files": None})
        await settle(1)
        assert await host.names() == []
        assert (len(host.of(LISTED)), other.of(LISTED)) == (1, [])
        assert failure(await host.call("echo")) == "upstream_unavailable"
        error = await host.error("resources/read", {"uri": NOTE["uri"]})
        assert "configuration" in error["message"]
        assert "isError" not in await other.call("echo")


@pytest.mark.covers("F-C-08", "F-C-06", "I-7", "I-12")
@pytest.mark.parametrize("seed", range(int(os.environ.get("HUBD_SEEDS", "4"))))
async def test_whatever_changes_nothing_is_lost_or_left_behind(seed, autojump_clock):
    """Changes at random, some while others are under way, beneath hosts that call and watch all the time."""
    chance = random.Random(seed)
    steady = FakeUpstream(resources=[NOTE])
    fakes = {"steady": steady}
    made = []
    async with a_house(fakes, drain_s=5) as house:
        host = await house.host("lines", L4)
        other = await house.host("http", MODERN)
        await listen(host, NOTE["uri"])
        enough = trio.Event()
        outcomes = []

        async def keep_calling(name):
            while not enough.is_set():
                answer = await other.ask("tools/call", {"name": f"{name}__echo", "arguments": {}})
                result = answer.get("result", {})
                kind = result.get("_meta", {}).get(HUB_FAILURE, {}).get("hub")
                outcomes.append((name, kind if "result" in answer else answer["error"]["message"].partition(":")[0]))
                await trio.sleep(chance.random())

        async with trio.open_nursery() as callers:
            for name in ("steady", "a", "b", "c"):
                callers.start_soon(keep_calling, name)
            for _ in range(40):
                name = chance.choice("abc")
                fake = house.fakes[name] = FakeUpstream(resources=[{"uri": f"note://{name}", "name": name}])
                made.append((name, fake))
                fake.refuses = chance.random() < 0.2
                changes = {name: UpstreamConfig(**some_config(chance))}
                if chance.random() < 0.3 and name in house.hub.config.upstreams:
                    changes = {name: None}
                await change(house, changes)
                await trio.sleep(chance.choice([0, 0, 0.1, 1, 8]))
            enough.set()
        await trio.sleep(60)
        configs = house.hub.config.upstreams
        supervisor = house.hub.supervisor
        assert [*supervisor.upstreams] == [*configs]
        assert supervisor._leaving == []
        assert {kind for name, kind in outcomes if name == "steady"} == {None}
        assert {kind for _, kind in outcomes} <= {None, "Unknown tool", "upstream_unavailable"}
        assert steady.conversations == [steady.conversation]
        await steady.touch(NOTE["uri"])
        await settle()
        assert updates(host) == [NOTE["uri"]]
        for name in "abc":
            alive = [each for made_name, fake in made if made_name == name for each in going_on(fake)]
            upstream = supervisor.upstreams.get(name)
            assert len(alive) == (upstream is not None and upstream.state is State.CONNECTED)
            if upstream is not None and supervisor.candidate(name) is None:
                assert upstream.config == configs[name]


def some_config(chance):
    more = {"args": (), "url": "http://x/"} if chance.random() < 0.5 else {"command": "x"}
    return {
        **more,
        "tasks": chance.choice(["absorb", "off"]),
        "era": chance.choice(["auto", "legacy"]),
        "disabled": chance.random() < 0.15,
        "replace": chance.choice(["auto", "start-first", "stop-first"]),
        "timeouts": Timeouts(start=chance.choice([3.0, 60.0])),
    }
