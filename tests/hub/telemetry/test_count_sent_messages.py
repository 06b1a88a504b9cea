"""What is sent to upstreams is counted where it is sent: once for all hosts that wait for it."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hub.link.hub_errors import Overloaded
from hub.telemetry.count_sent_messages import MAX_TOOLS, OTHER
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house


def counts_of(house):
    sent = house.hub.router.chains.messages.sent
    return {(*key, outcome): each.count for key, outcomes in sent.items() for outcome, each in outcomes.items()}


@pytest.mark.covers("OM-2")
async def test_a_shared_read_is_asked_for_twice_and_sent_once(autojump_clock):
    release = trio.Event()

    async def read(message, conversation):
        await release.wait()
        return {"contents": [{"uri": "note://a", "text": "x"}]}

    fake = FakeUpstream(resources=[{"uri": "note://a", "name": "a"}])
    fake.on["resources/read"] = read
    async with a_house({"files": fake}, upstreams={"files": {"cache": True}}) as house:
        hosts = [await house.host(carrier, L4) for carrier in ("lines", "http")]
        asked = [await host.start("resources/read", {"uri": "note://a"}) for host in hosts]
        await wait_all_tasks_blocked()
        release.set()
        for question in asked:
            await question.wait()
        recorder = house.hub.router.chains.recorder
        assert [(each.method, each.outcome) for each in recorder.ring] == [("resources/read", "")] * 2
        assert counts_of(house) == {("files", "resources/read", "", ""): 1}
        await hosts[0].ask("resources/read", {"uri": "note://a"})
        assert [each.cached for each in recorder.ring] == [False, False, True]
        assert sorted(each.sent_at > 0 for each in recorder.ring) == [False, True, True]
        assert recorder.ring[-1].sent_at == recorder.ring[-1].answered_at == 0
        assert counts_of(house) == {("files", "resources/read", "", ""): 1}


@pytest.mark.covers("OM-2")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_messages_are_counted_with_what_the_upstream_made_of_them(autojump_clock, version):
    fake = FakeUpstream(tools=["write"])
    async with a_house({"files": fake}) as house:
        host = await house.host("http", version)
        for answer in ({"content": []}, {"content": [], "isError": True}, Failure(-32000, "no")):
            fake.on["tools/call"] = lambda message, conversation, answer=answer: answer
            await host.ask("tools/call", {"name": "files__write", "arguments": {}})
        await host.ask("tools/call", {"name": "files__nothing", "arguments": {}})
        key = "files", "tools/call", "write"
        assert counts_of(house) == {(*key, outcome): 1 for outcome in ("", "tool_error", "-32000")}


async def test_what_could_not_be_sent_is_not_counted_and_the_log_says_why(autojump_clock, monkeypatch, caplog):
    caplog.set_level("INFO")

    def refuse(*call):
        raise Overloaded("full")

    async with a_house({"files": FakeUpstream(tools=["write"])}) as house:
        host = await house.host("lines", L4)
        for name in ("begin", "call"):
            monkeypatch.setattr(house.hub.supervisor.upstreams["files"], name, refuse)
        await host.ask("tools/call", {"name": "files__write", "arguments": {}})
        [ended] = house.hub.router.chains.recorder.ring
        assert (ended.executed, counts_of(house)) == ("no", {})
        [said] = [each.getMessage() for each in caplog.records if each.name == "hubd.call"]
        assert said.startswith(f"{ended.host}: files__write {ended.outcome} after ")
        assert said.endswith(" s: full")


@pytest.mark.covers("OM-6")
async def test_tools_beyond_a_number_are_counted_together_and_that_is_said_once(autojump_clock, caplog):
    async with a_house({"files": FakeUpstream(tools=["write", "erase"])}) as house:
        messages = house.hub.router.chains.messages
        messages.sent |= {("x", "tools/call", str(each)): {} for each in range(MAX_TOOLS)}
        host = await house.host("lines", L4)
        for tool in ("write", "erase", "erase"):
            await host.call(f"files__{tool}", {})
        assert messages.sent["files", "tools/call", OTHER][""].count == 3
        assert sum("metrics count further ones together" in each.getMessage() for each in caplog.records) == 1
