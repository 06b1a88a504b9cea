"""One record of each operation: of a whole hub, for calls that go well, fail, are refused, cached or cancelled."""

from time import perf_counter

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hub.telemetry.recorder import MAX_TALLIES, OTHER
from hub.telemetry.tally import Seconds, Tally
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

MARKS = pytest.mark.parametrize(("carrier", "version"), [("lines", L4), ("http", L4), ("http", MODERN)])


def fail(message, conversation):
    return {"content": [{"type": "text", "text": "no"}], "isError": True}


@pytest.mark.covers("OM-1")
@MARKS
async def test_what_hosts_asked_is_recorded_once_with_how_it_ended(autojump_clock, carrier, version):
    fake = FakeUpstream(tools=["write"], resources=["note://a"])
    async with a_house({"files": fake}) as house:
        recorder, told = house.hub.router.chains.recorder, []
        recorder.listeners.append(told.append)
        host = await house.host(carrier, version)
        await host.call("files__write", {"a": 1})
        fake.on["tools/call"] = fail
        await host.call("files__write", {"a": 2})
        assert told == list(recorder.ring)
        assert [(each.outcome, each.name, each.own) for each in told] == [
            *(("", "files__write", "write"), ("tool_error", "files__write", "write"))
        ]
        assert {(each.upstream, each.method, each.cached) for each in told} == {("files", "tools/call", False)}
        assert {each.transport for each in told} == {"unix" if carrier == "lines" else "tcp"}
        assert all(each.sent > 4 and each.size > 4 and each.took_s >= 0 for each in told)
        tally = recorder.tallies["files", "tools/call", "write"]
        assert {outcome: each.count for outcome, each in tally.outcomes.items()} == {"": 1, "tool_error": 1}
        assert (tally.sent, sum(use.size for use in tally.hosts.values())) == (
            sum(each.sent for each in told),
            sum(each.size for each in told),
        )
        assert len(tally.last) == sum(sum(each.buckets) for each in tally.outcomes.values()) == 2
        assert sum(each.count for key, each in recorder.served.items() if key[0] == "tools/call") == 2
        assert not recorder.running


@pytest.mark.covers("OM-1")
async def test_a_cancelled_call_is_recorded_as_such(autojump_clock):
    async def wait(message, conversation):
        await trio.sleep_forever()

    fake = FakeUpstream(tools=["write"])
    fake.on["tools/call"] = wait
    async with a_house({"files": fake}) as house:
        recorder = house.hub.router.chains.recorder
        host = await house.host("lines", L4)
        question = await host.start("tools/call", {"name": "files__write", "arguments": {}})
        await wait_all_tasks_blocked()
        assert [intent.target.exposed for intent in recorder.running.values()] == ["files__write"]
        await host.cancel(question)
        await wait_all_tasks_blocked()
        assert [each.outcome for each in recorder.ring] == ["cancelled"]
        assert not recorder.running


@pytest.mark.covers("OM-6")
async def test_tools_beyond_a_number_are_counted_together(autojump_clock):
    async with a_house({"files": FakeUpstream(tools=["write"])}) as house:
        recorder = house.hub.router.chains.recorder
        recorder.tallies |= {("x", "tools/call", str(each)): Tally(Seconds()) for each in range(MAX_TALLIES)}
        host = await house.host("lines", L4)
        await host.call("files__write", {})
        assert recorder.tallies["files", "tools/call", OTHER].count == 1


async def test_counts_go_on_where_they_were_when_places_are_found_anew(autojump_clock, monkeypatch):
    monkeypatch.setattr("hub.telemetry.recorder.MAX_PLACES", 1)
    async with a_house({"files": FakeUpstream(tools=["write", "erase"])}) as house:
        chains, host = house.hub.router.chains, await house.host("lines", L4)
        for tool in ("write", "erase", "write"):
            await host.call(f"files__{tool}", {})
        assert {key[2]: each.count for key, each in chains.recorder.tallies.items()} == {"write": 2, "erase": 1}
        assert {key[2]: each[""].count for key, each in chains.messages.sent.items()} == {"write": 2, "erase": 1}
        assert chains.recorder.served["tools/call", "", "unix"].count == 3


@pytest.mark.covers("OM-9")
@MARKS
async def test_when_a_call_was_sent_and_first_heard_of_is_recorded(autojump_clock, carrier, version):
    heard_at = []

    async def slow(message, conversation):
        await trio.sleep(2)
        return {"content": []}

    async def report(message, conversation):
        about = {"progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}
        await conversation.tell("notifications/progress", about)
        await wait_all_tasks_blocked()
        heard_at.append(perf_counter())
        return {"content": []}

    fake = FakeUpstream(tools=["write"])
    async with a_house({"files": fake}, upstreams={"files": {"in_flight": 1}}) as house:
        ring = house.hub.router.chains.recorder.ring
        host = await house.host(carrier, version)
        fake.on["tools/call"] = slow
        questions = [await host.start("tools/call", {"name": "files__write", "arguments": {}}) for _ in range(2)]
        for question in questions:
            await question.wait()
        first, second = ring
        assert first.at - first.took_s <= first.sent_at <= first.answered_at <= first.at
        assert first.answered_at <= second.sent_at <= second.answered_at <= second.at

        fake.on["tools/call"] = report
        await host.call("files__write", {}, token="t")
        assert ring[-1].sent_at <= ring[-1].answered_at <= heard_at[0] <= ring[-1].at

        fake.refuses = True
        await fake.conversation.close()
        await wait_all_tasks_blocked()
        question = await host.start("tools/call", {"name": "files__write", "arguments": {}}, token="u")
        await wait_all_tasks_blocked()
        back_at, fake.refuses = perf_counter(), False
        await question.wait()
        assert ring[-1].at - ring[-1].took_s <= back_at <= ring[-1].sent_at <= ring[-1].answered_at


@pytest.mark.covers("OM-9")
async def test_a_question_is_the_first_that_is_heard(autojump_clock):
    asked_at = []

    async def ask(message, conversation):
        await conversation.ask("elicitation/create", {"message": "?", "requestedSchema": {"type": "object"}})
        asked_at.append(perf_counter())
        return {"content": []}

    fake = FakeUpstream(tools=["write"])
    fake.on["tools/call"] = ask
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", L4, capabilities={"elicitation": {}})
        host.on["elicitation/create"] = lambda request: {"action": "decline"}
        await host.call("files__write", {})
        (ended,) = house.hub.router.chains.recorder.ring
        assert ended.sent_at <= ended.answered_at <= asked_at[0] <= ended.at
