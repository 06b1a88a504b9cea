"""Servers of both eras: a legacy host that supports questions gets the same side as without a hub."""

import pytest
import trio

from hub.wire.mcp import L4, MODERN, VERSION_KEY
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
CAN = {"elicitation": {}}
ME = {"action": "accept", "content": {"a": "me"}}


class Both(FakeUpstream):
    """A server of both eras, whose tool asks in mid-call: in the handshake era that works."""

    def __init__(self, **options):
        super().__init__(version=MODERN, **options)
        self.handshakes = 0
        self.on |= {"initialize": self.shake, "tools/call": self.ask}

    def shake(self, message, conversation):
        self.handshakes += 1
        about = {"name": "both", "version": "1"}
        return {"protocolVersion": L4, "capabilities": self.capabilities, "serverInfo": about}

    async def ask(self, message, conversation):
        if VERSION_KEY in message["params"].get("_meta", {}):
            text = {"type": "text", "text": "there is no way to ask"}
            return {"resultType": "complete", "content": [text], "isError": True}
        answer = await conversation.ask("elicitation/create", FORM)
        said = answer["result"].get("content", {}).get("a", "nobody") if "result" in answer else "refused"
        return {"content": [{"type": "text", "text": said}]}

    def judge(self, line, method):
        """Accept every message: other journeys check them; here the revision differs between connections."""


def willing(host):
    host.on["elicitation/create"] = lambda params: ME
    return host


def text(result):
    return result["content"][0]["text"]


@pytest.mark.covers("V-6", "F-I-01", "G-4")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_host_is_asked_in_its_own_era(autojump_clock, carrier):
    both = Both()
    async with a_house({"both": both}) as house:
        host = willing(await house.host(carrier, L4, capabilities=CAN))
        plain = await house.host(carrier, L4)
        modern = await house.host(carrier, MODERN, capabilities=CAN)
        assert text(await host.call("both__echo")) == "me"
        assert text(await host.call("both__echo")) == "me"
        assert text(await plain.call("both__echo")) == "there is no way to ask"
        assert text(await modern.call("both__echo")) == "there is no way to ask"
        assert (both.handshakes, len(both.conversations)) == (1, 2)
        status = house.hub.supervisor.upstreams["both"].status()
        assert (status.era, status.sessions, status.mode) == ("modern", 2, "shared")
        again = willing(await house.host(carrier, L4, capabilities=CAN))
        assert text(await again.call("both__echo")) == "me"
        assert both.handshakes == 2, "it asks, so that each host has its own"


async def test_the_call_that_starts_an_idle_server_is_asked_in_its_own_era_too(autojump_clock):
    both = Both()
    async with a_house({"both": both}, upstreams={"both": {"idle_stop_s": 50}}) as house:
        await trio.sleep(51)
        upstream = house.hub.supervisor.upstreams["both"]
        assert upstream.status().state == "idle"
        host = willing(await house.host("lines", L4, capabilities=CAN))
        assert text(await host.call("both__echo")) == "me"
        assert upstream.status().state == "connected"


async def test_a_server_of_one_era_is_tried_once(autojump_clock):
    modern = FakeUpstream(version=MODERN)
    async with a_house({"up": modern}) as house:
        host = willing(await house.host("lines", L4, capabilities=CAN))
        other = willing(await house.host("lines", L4, capabilities=CAN))
        for each in (host, other, host):
            assert "content" in await each.call("up__echo")
        assert sum(len(each.of("initialize")) for each in modern.conversations) == 1
        modern.on["initialize"] = Both().on["initialize"]
        modern.judge = lambda *_: None
        house.hub.supervisor.restart("up")
        await trio.sleep(1)
        assert "content" in await host.call("up__echo")
        assert sum(len(each.of("initialize")) for each in modern.conversations) == 2, "the user said: find out anew"


async def test_a_server_that_does_not_shake_hands_holds_nobody_up_for_long(autojump_clock):
    modern = FakeUpstream(version=MODERN)
    modern.on["initialize"] = lambda *_: None
    async with a_house({"up": modern}) as house:
        host = willing(await house.host("lines", L4, capabilities=CAN))
        began = trio.current_time()
        assert "content" in await host.call("up__echo")
        assert trio.current_time() - began < 20
        began = trio.current_time()
        assert "content" in await host.call("up__echo")
        assert trio.current_time() - began < 1
        await trio.sleep(100)
