"""Servers that hide text in their definitions, in a whole hub, by each setting."""

import pytest
import trio

from config.security_settings import PolicyConfig
from hub.daemon.decision_requests import DecisionRequests
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

pytestmark = pytest.mark.covers("POL-61", "SEC-72")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "description": "a\u200b path"}}}


def shady():
    fake = FakeUpstream(
        tools=["x"],
        prompts=[{"name": "review", "description": "Review\u202e it."}],
        resources=[{"uri": "file:///a", "name": "a\u200b"}],
    )
    fake.lists["tools"] = [
        {"name": "read", "description": "\ufeffReads.", "inputSchema": SCHEMA},
        {"name": "plain", "description": "می\u200cخواهم", "inputSchema": {"type": "object"}},
        {"name": "bound", "inputSchema": {"type": "object", "properties": {"p\u200b": {"type": "string"}}}},
    ]
    fake.instructions = "Use\u2060 me."
    return fake


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_strip_takes_it_out_and_counts(autojump_clock, version):
    async with a_house({"fs": shady()}) as house:
        host = await house.host("http", version)
        tools = {each["name"]: each for each in (await host.result("tools/list"))["tools"]}
        assert list(tools) == ["fs__read", "fs__plain"]
        assert tools["fs__read"]["description"] == "Reads."
        assert tools["fs__read"]["inputSchema"]["properties"]["path"]["description"] == "a path"
        assert tools["fs__plain"]["description"] == "می\u200cخواهم"
        (prompt,) = (await host.result("prompts/list"))["prompts"]
        assert prompt["description"] == "Review it."
        (resource,) = (await host.result("resources/list"))["resources"]
        assert resource["name"] == "a"
        assert "Use me." in (await house.host("lines", L4)).welcome["instructions"]
        assert (await host.error("tools/call", {"name": "fs__bound", "arguments": {}}))["code"] == -32602
        (row,) = (await house.api.status()).upstreams
        assert row.pins == ("hidden characters in 5 of its definitions are not shown to hosts",)
        server = (await DecisionRequests(house.hub).pins("fs", shows=True))[0]
        assert server.left_out == ("tools/bound",)
        assert server.hidden == {
            "tools/read": 2,
            "tools/bound": 1,
            "prompts/review": 1,
            "resources/file:///a": 1,
            "instructions": 1,
        }


async def test_quarantine_holds_it_back(autojump_clock):
    async with a_house({"fs": shady()}, upstreams={"fs": {"hidden_text": "quarantine"}}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["fs__plain"]
        assert await host.names("prompts") == []
        assert await host.names("resources") == []
        assert "Use" not in (await house.host("lines", L4)).welcome["instructions"]
        result = await host.call("fs__read")
        assert result["content"][0]["text"] == (
            "Not run: fs hides characters in its definition of this tool; the user can look at it with hubd pins fs."
        )
        assert result["_meta"]["dev.hubd/failure"]["hub"] == "approval_required"


async def test_pass_leaves_it(autojump_clock):
    fake = shady()
    async with a_house({"fs": fake}, policy=PolicyConfig(hidden_text="pass")) as house:
        host = await house.host("lines", L4)
        tools = (await host.result("tools/list", {}))["tools"]
        assert [each["name"] for each in tools] == ["fs__read", "fs__plain", "fs__bound"]
        assert tools[0]["description"] == "\ufeffReads."
        (row,) = (await house.api.status()).upstreams
        assert row.pins == ()


async def test_results_are_not_touched(autojump_clock):
    fake = shady()
    fake.on["tools/call:read"] = lambda request, conversation: {"content": [{"type": "text", "text": "a\u200bb\u202e"}]}
    async with a_house({"fs": fake}) as house:
        host = await house.host("lines", L4)
        await host.names()
        assert (await host.call("fs__read"))["content"][0]["text"] == "a\u200bb\u202e"


async def test_what_is_pinned_is_what_came(autojump_clock):
    fake = shady()
    async with a_house({"fs": fake}, upstreams={"fs": {"pinning": "quarantine"}}) as house:
        host = await house.host("lines", L4)
        assert await host.names() == ["fs__read", "fs__plain"]
        fake.lists["tools"][0]["description"] = "\ufeff\u200bReads."
        await fake.conversation.tell("notifications/tools/list_changed")
        await trio.sleep(1)
        assert await host.names() == ["fs__plain"], "hosts would have seen the same"
