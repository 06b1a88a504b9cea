"""A host that called a tool reads the effects of the call, and joins no read that began before."""

import pytest
import trio
import trio.testing

from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house


@pytest.mark.covers("K-8")
async def test_a_call_without_an_answer_may_have_done_something(autojump_clock):
    fake, gate, state = FakeUpstream(version=L4, resources=[{"uri": "note://a", "name": "a"}]), trio.Event(), ["before"]

    async def read(message, conversation):
        found = state[0]
        await gate.wait()
        return {"contents": [{"uri": "note://a", "text": found}]}

    async def call(message, conversation):
        state[0] = "after"
        await trio.sleep_forever()

    fake.on |= {"resources/read": read, "tools/call": call}
    texts = {}
    limits = {"files": {"tool_timeouts": {"echo": 2.0}}}
    async with a_house({"files": fake}, upstreams=limits) as house, trio.open_nursery() as nursery:
        early, late = await house.host("http", L4), await house.host("http", L4)

        async def ask(host, name):
            found = await host.result("resources/read", {"uri": "note://a"})
            texts[name] = found["contents"][0]["text"]

        await trio.sleep(3)
        nursery.start_soon(ask, early, "early")
        await trio.sleep(3)
        answer = await late.result("tools/call", {"name": "files__echo", "arguments": {}})
        assert answer["isError"]
        nursery.start_soon(ask, late, "late")
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert texts == {"early": "before", "late": "after"}
