"""Questions for roots outside of any call, from servers that derive their access from roots."""

import pytest
import trio

from hub.link.call_interface import Identity
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
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

    fake.on |= {"notifications/initialized": learn, "notifications/roots/list_changed": learn, "tools/call": tell}
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


# --- servers that ask although no roots were declared -----------------------------------------------------------------


def bold(curious=False):
    """A server that asks for roots in each call, whatever was declared; `curious`: it asks who is there before."""
    fake = FakeUpstream(version=L4)

    async def tell(message, conversation):
        if curious:
            await conversation.ask("elicitation/create", FORM)
        answer = await conversation.ask("roots/list")
        roots = answer["result"]["roots"] if "result" in answer else [{"uri": answer["error"]["message"]}]
        return {"content": [{"type": "text", "text": " ".join(root["uri"] for root in roots)}]}

    fake.on["tools/call"] = tell
    return fake


async def at(house, uri, carrier="lines", **more):
    """A host that works there and answers questions."""
    host = await house.host(carrier, capabilities={"roots": {}, "elicitation": {}}, **more)
    host.on["elicitation/create"] = lambda params: {"action": "cancel"}
    at_work(host, uri)
    return host


@pytest.mark.covers("G-11", "D-13")
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("curious", [False, True], ids=["", "after another question"])
async def test_a_server_that_asks_for_roots_has_those_of_each_host_from_the_next_call_on(
    autojump_clock, carrier, curious
):
    fake = bold(curious)
    async with a_house({"up": fake}) as house:
        upstream = house.hub.supervisor.upstreams["up"]
        bare = await house.host(carrier, identity=Identity("alice", "bare"))
        host, other = (
            await at(house, HERE, carrier),
            await at(house, THERE, carrier, identity=Identity("alice", "other")),
        )
        refusal = "Hosts share this session of up, so it is given no roots"
        assert await told(host) == f'{refusal}; with roots = "host" it is given those of each host'
        assert (await told(host), await told(other), await told(host)) == (HERE, THERE, HERE)
        assert await told(bare) == "The host of this call does not answer roots/list"
        assert (upstream.status().withheld_roots, upstream.status().mode) == (1, "interactive")
        assert len(upstream.pool._by_host) == 3


@pytest.mark.covers("G-11")
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"session_mode": "shared"}, "Hosts share this session of up, so it is given no roots"),
        ({"session_mode": "singleton"}, "Hosts share this session of up, so it is given no roots"),
        ({"roots": "none"}, "The configuration of up gives it no roots"),
        ({"roots": "none", "session_mode": "per_host"}, "The configuration of up gives it no roots"),
    ],
)
async def test_a_server_that_is_given_no_roots_is_told_the_setting(autojump_clock, settings, why):
    async with a_house({"up": bold()}, upstreams={"up": settings}) as house:
        host = await at(house, HERE)
        for number in range(1, 3):
            assert await told(host) == f'{why}; with roots = "host" it is given those of each host'
            assert house.hub.supervisor.upstreams["up"].status().withheld_roots == number


@pytest.mark.covers("C-7", "C-8", "G-11")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_server_whose_session_began_with_a_shared_read_hears_where_its_host_works_now(autojump_clock, carrier):
    """The session is opened for a read, which is over when the roots change."""
    fake = careful()
    fake.capabilities["resources"] = {}
    fake.lists["resources"] = [{"uri": "up:a", "name": "a"}]
    fake.on["resources/read"] = lambda message, conversation: {"contents": [{"uri": "up:a", "text": "x"}]}
    async with a_house({"up": fake}, upstreams={"up": {"roots": "host"}}) as house:
        host = await house.host(carrier, L4, capabilities={"roots": {"listChanged": True}})
        at_work(host, HERE)
        await host.result("resources/read", {"uri": "up:a"})
        assert await told(host) == HERE
        at_work(host, THERE)
        await host.tell("notifications/roots/list_changed")
        await trio.sleep(1)
        assert await told(host) == THERE
