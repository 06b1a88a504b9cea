"""Calls of a whole hub, as its user is told of them."""

from contextlib import aclosing

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hub.daemon.live.calls_and_overview import LiveRequests
from hub.telemetry import call_costs, describe_calls
from hub.telemetry.tally import Seconds, Tally
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house
from tests.support.steps import counting
from upstreams.journal.journal import MAX_QUEUED

pytestmark = pytest.mark.covers("SEE-1")


def fail(message, conversation):
    return {"content": [], "isError": True}


async def listed(requests, **wanted):
    async with aclosing(requests.calls(**wanted)) as answers:
        return await anext(answers)


async def test_calls_are_chosen_by_what_they_are_about(autojump_clock):
    fakes = {"files": FakeUpstream(tools=["write"]), "db": FakeUpstream(tools=["ask"])}
    fakes["db"].on["tools/call"] = fail
    async with a_house(fakes) as house:
        requests = LiveRequests(house.hub, house.api.status)
        assert await listed(requests) == await listed(requests, about="files")
        host = await house.host("lines", L4)
        for name in ("files__write", "db__ask", "files__write"):
            await host.call(name, {})
        found = await listed(requests)
        assert [call.name for call in found.calls] == ["files__write", "db__ask", "files__write"]
        assert (found.kept, found.running, found.lost) == (1_000, (), 0)
        first, second, third = found.calls
        assert first.at <= second.at <= third.at
        for wanted, expected in (
            ({"n": 1}, [third]),
            ({"n": 0}, []),
            ({"n": 1, "about": "db"}, [second]),
            ({"about": "ask"}, [second]),
            ({"about": "files__write"}, [first, third]),
            ({"about": first.ref}, [first]),
            ({"about": "nothing"}, []),
            ({"host": first.host, "failed": True}, [second]),
            ({"host": "another"}, []),
            ({"slower_s": 1_000.0}, []),
            ({"since": third.at + 1}, []),
        ):
            refs = [call.ref for call in (await listed(requests, **wanted)).calls]
            assert refs == [call.ref for call in expected], wanted


async def test_the_last_calls_are_found_among_many(autojump_clock):
    async with a_house({"files": FakeUpstream(tools=["write"])}) as house:
        requests, ring = LiveRequests(house.hub, house.api.status), house.hub.router.chains.recorder.ring
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        [one] = ring
        ring.extend(msgspec.structs.replace(one, ref=at, outcome="" if at % 300 else "x") for at in range(999))
        for number in (0, 1, 20, 199, 200, 201, 999, 1_000, 5_000):
            refs = [call.ref for call in (await listed(requests, n=number)).calls]
            expected = [f"{at:08x}" for at in range(max(0, 999 - number), 999)]
            assert refs[-len(expected) :] == expected or not refs
            assert len(refs) == min(number, 1_000)
        found = (await listed(requests, n=2, failed=True)).calls
        assert [call.ref for call in found] == [f"{at:08x}" for at in (600, 900)]


async def test_a_call_that_runs_is_told_and_followers_hear_of_its_end(autojump_clock):
    async def wait(message, conversation):
        await trio.sleep(60)
        return {"content": []}

    fake = FakeUpstream(tools=["write"])
    async with a_house({"files": fake}) as house:
        requests, recorder = LiveRequests(house.hub, house.api.status), house.hub.router.chains.recorder
        before = list(recorder.listeners)
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        fake.on["tools/call"] = wait
        question = await host.start("tools/call", {"name": "files__write", "arguments": {}})
        await wait_all_tasks_blocked()
        async with aclosing(requests.calls(follow=True, about="files", n=1)) as answers:
            found = await anext(answers)
            [running] = found.running
            assert (running.name, running.upstream, running.method) == ("files__write", "files", "tools/call")
            assert len(found.calls) == 1
            assert not (await listed(requests, host="another")).running
            assert [each.ref for each in (await listed(requests, about=running.ref)).running] == [running.ref]
            await question.wait()
            [call] = (await anext(answers)).calls
            assert (call.ref, call.outcome) == (running.ref, "")
            assert len(recorder.listeners) == len(before) + 1
        assert recorder.listeners == before, "nobody watches any more"


async def test_a_reader_that_is_too_slow_is_told_how_many_it_lost(autojump_clock):
    async with a_house({"files": FakeUpstream(tools=["write"])}) as house:
        requests, recorder = LiveRequests(house.hub, house.api.status), house.hub.router.chains.recorder
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        async with aclosing(requests.calls(follow=True, n=0)) as answers:
            assert (await anext(answers)).calls == ()
            for _ in range(MAX_QUEUED + 5):
                recorder.listeners[-1](recorder.ring[0])
            found = await anext(answers)
            assert (len(found.calls), found.lost) == (MAX_QUEUED, 5)


@pytest.mark.covers("SEE-3", "OD-7")
async def test_an_overview_of_much_lets_others_have_their_turn(autojump_clock, monkeypatch):
    async with a_house({f"s{each}": FakeUpstream(tools=["t"]) for each in range(30)}) as house:
        recorder = house.hub.router.chains.recorder
        for each in range(2_000):
            seconds = recorder.seconds.setdefault(f"s{each % 30}", Seconds())
            tally = recorder.tallies[f"s{each % 30}", "tools/call", f"t{each}"] = Tally(seconds)
            tally.histogram("").observe(0.1)
            tally.last.append(0.1)
            tally.use("desk").charged += 1
        requests = LiveRequests(house.hub, house.api.status)
        for owner, name, most in (
            (call_costs, "cost_by_host", 100),
            (describe_calls, "count_failures", 100),
            (Seconds, "last", 10),
            (house.api, "_upstream", 1),
        ):
            with counting() as steps, monkeypatch.context() as patch:
                steps.count(patch, owner, name)
                assert (await requests.overview()).totals.calls == 2_000
            assert steps.total >= 30
            assert steps.most <= most, name


@pytest.mark.covers("SEE-3")
async def test_everything_at_a_glance_is_told_again_and_again(autojump_clock):
    async def wait(message, conversation):
        await trio.sleep(60)
        return {"content": []}

    fake = FakeUpstream(tools=["write", "read"])
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        async with aclosing(LiveRequests(house.hub, house.api.status).watch(2.0)) as answers:
            first = await anext(answers)
            assert (first.totals.calls, first.principal, first.totals.tools) == (1, "local", 2)
            [server] = first.servers
            assert (server.name, server.state, server.health, server.tools) == ("files", "connected", "good", 2)
            await host.call("files__write", {})
            fake.on["tools/call"] = wait
            question = await host.start("tools/call", {"name": "files__read", "arguments": {}})
            begun = trio.current_time()
            second = await anext(answers)
            assert trio.current_time() == begun + 2
            [server], [attached], [running] = second.servers, second.hosts, second.running
            assert (server.calls, server.busy, second.totals.busy, running.name) == (2, 1, 1, "files__read")
            assert (attached.calls, attached.in_flight, sum(second.seconds.calls)) == (2, 1, 2)
            await question.wait()
