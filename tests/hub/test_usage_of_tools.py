"""Calls of tools are counted in a whole hub: whose, of what, and what stays on disk."""

import json

import pytest
import trio
from msgspec import structs

from config.profile_settings import Profile
from config.remembered_facts import Memory
from config.settings import UsageConfig
from hub.link.call_interface import Identity
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

pytestmark = pytest.mark.covers("ET-3")

CURSOR = Identity("alice", "cursor")
CODEX = Identity("alice", "codex")


def fakes():
    return {"files": FakeUpstream(tools=["read", "write"]), "mail": FakeUpstream(version=MODERN, tools=["send"])}


def uses(house):
    return {called: use.calls for called, use in house.hub.usage.recent().items()}


@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_calls_are_counted_by_host_and_under_the_own_names_of_tools(autojump_clock, carrier, version):
    async with a_house(fakes(), upstreams={"files": {"prefix": "f"}}) as house:
        cursor = await house.host(carrier, version, identity=CURSOR)
        codex = await house.host("lines", L4, identity=CODEX, endpoint="files")
        await cursor.call("f__read")
        await cursor.call("f__read")
        await cursor.call("mail__send")
        await codex.call("read")
        await cursor.error("tools/call", {"name": "f__unknown", "arguments": {}})
        await cursor.names()
        assert uses(house) == {("files", "read"): {"cursor": 2, "codex": 1}, ("mail", "send"): {"cursor": 1}}


async def test_a_tool_that_is_called_otherwise_counts_as_itself(autojump_clock):
    work = Profile(hosts=("cursor",), rename={"files__read": "look"})
    renamed = {"mail": {"rename": {"send": "post"}}}
    async with a_house(fakes(), upstreams=renamed, profiles={"work": work}) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("look")
        await host.call("files__read")
        await host.call("mail__post")
        await host.call("hub__call_tool", {"name": "mail__send", "arguments": {}})
        await host.call("hub__find_tools", {"query": "send"})
        assert uses(house) == {("files", "read"): {"cursor": 2}, ("mail", "send"): {"cursor": 2}}


async def test_the_tools_that_are_told_are_those_of_all_servers_under_their_names(autojump_clock):
    renamed = {"mail": {"rename": {"send": "post"}}}
    async with a_house(fakes(), upstreams=renamed, profiles={"work": Profile(tools=("files__*",))}) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("mail__post")
        told = await house.api.tool_use()
        assert [(each.name, each.server, each.tool, each.calls) for each in told.tools] == [
            ("files__read", "files", "read", {}),
            ("files__write", "files", "write", {}),
            ("mail__post", "mail", "send", {"cursor": 1}),
        ]
        assert told.tools[2].last == told.today == told.since
        assert all(each.tokens > 5 for each in told.tools)


async def test_the_record_is_written_beside_the_rest_and_outlives_the_hub(autojump_clock, tmp_path):
    path = tmp_path / "usage.json"
    async with a_house(fakes(), used=Memory(path)) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("files__read", {"text": "what nobody should read later"})
        assert not path.exists(), "no call waits for the disk"
        await trio.sleep(90)
        for _ in range(1_000_000):  # a thread writes it
            if path.exists():
                break
            await trio.lowlevel.checkpoint()
        assert json.loads(path.read_bytes())["sections"]["calls"].keys() == {"files"}
        await host.call("mail__send")
    assert b"nobody" not in path.read_bytes()
    async with a_house(fakes(), used=Memory(path)) as house:
        assert uses(house) == {("files", "read"): {"cursor": 1}, ("mail", "send"): {"cursor": 1}}


async def test_a_changed_setting_forgets_the_record_at_once(autojump_clock, tmp_path):
    path = tmp_path / "usage.json"
    async with a_house(fakes(), used=Memory(path)) as house:
        host = await house.host("lines", L4, identity=CURSOR)
        await host.call("files__read")
        house.hub.apply(structs.replace(house.hub.config, usage=UsageConfig(keep=False)))
        await host.call("files__read")
        assert uses(house) == {}
    assert b"files" not in (path.read_bytes() if path.exists() else b"")
