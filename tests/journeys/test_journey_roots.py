"""Questions for roots outside of any call, from servers that derive their access from roots."""

import pytest
import trio

from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

HERE, THERE = "file:///work/here", "file:///work/there"


def careful():
    """A server that learns roots when it is told that they changed, and answers what it knows."""
    fake = FakeUpstream(version=L4)
    known: dict[int, list[str]] = {}

    async def learn(message, conversation):
        answer = await conversation.ask("roots/list")
        roots = answer["result"]["roots"] if "result" in answer else [{"uri": str(answer["error"])}]
        known[id(conversation)] = [root["uri"] for root in roots]

    def tell(message, conversation):
        return {"content": [{"type": "text", "text": " ".join(known.get(id(conversation), ["nothing"]))}]}

    fake.on |= {
        "notifications/initialized": learn,
        "notifications/roots/list_changed": learn,
        "tools/call": tell,
    }
    return fake


def at_work(host, *uris):
    host.on["roots/list"] = lambda params: {"roots": [{"uri": uri} for uri in uris]}


async def told(host):
    return (await host.call("up__echo"))["content"][0]["text"]


@pytest.mark.covers("C-7", "C-8", "G-11")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_server_hears_where_its_host_works_now(autojump_clock, carrier):
    async with a_house({"up": careful()}, upstreams={"up": {"roots": "host"}}) as house:
        host = await house.host(carrier, L4, capabilities={"roots": {"listChanged": True}})
        other = await house.host(carrier, L4, capabilities={"roots": {"listChanged": True}})
        at_work(host, HERE)
        at_work(other, "file:///elsewhere")
        assert await told(host) == HERE
        assert await told(other) == "file:///elsewhere"
        at_work(host, HERE, THERE)
        before = trio.current_time()
        await host.tell("notifications/roots/list_changed")
        await trio.sleep(1)
        assert await told(host) == f"{HERE} {THERE}"
        assert trio.current_time() - before < 5
        assert await told(other) == "file:///elsewhere"
