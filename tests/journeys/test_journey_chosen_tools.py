"""The setting `tools` of an upstream: what it leaves out does not exist, for no host and by no name."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from hub.wire.mcp import L2
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

TOOLS = ["read_file", "delete_file", "delete_all"]
LISTED = "notifications/tools/list_changed"


async def choose(house, tools, name="files"):
    """Apply another choice of tools of an upstream."""
    hub = house.hub
    upstreams = {**hub.config.upstreams, name: structs.replace(hub.config.upstreams[name], tools=tuple(tools))}
    config = structs.replace(hub.config, upstreams=upstreams)
    await hub.prepare(config)
    hub.apply(config)
    await trio.sleep(0.2)
    await trio.testing.wait_all_tasks_blocked()


def calls_of(fake):
    return [call for each in fake.conversations for call in each.of("tools/call")]


async def batched(host, messages):
    """The responses to one batch, by id."""
    answered, answers = trio.Event(), []

    def take(line):
        answers.extend(json.loads(line))
        answered.set()

    host._take = take
    await host._stream.send_all(json.dumps(messages).encode() + b"\n")
    await answered.wait()
    return {each["id"]: each for each in answers}


def unknown(name):
    return -32602, f"Unknown tool: {name}; tools/list names those there are"


async def refusal(host, name):
    error = await host.error("tools/call", {"name": name, "arguments": {}})
    return error["code"], error["message"]


@pytest.mark.covers("FH-13")
async def test_what_is_left_out_is_in_no_list_and_no_call_finds_it(pair, autojump_clock):
    files = pair.fake(tools=TOOLS)
    settings = {"tools": ("!delete_*",), "aliases": ("old",)}
    async with pair.house({"files": files}, upstreams={"files": settings}) as (house, host):
        assert await host.names() == ["files__read_file"]
        alone = await pair.host(house, endpoint="files")
        assert await alone.names() == ["read_file"]
        await host.call("files__read_file")
        await host.call("old__read_file")
        await alone.call("read_file")
        assert len(calls_of(files)) == 3
        for asking, name in ((host, "files__delete_all"), (host, "old__delete_all"), (alone, "delete_all")):
            assert await refusal(asking, name) == unknown(name)
        assert await refusal(host, "files__no_such") == unknown("files__no_such"), "the same words"
        assert len(calls_of(files)) == 3, "none arrived"


async def test_a_changed_choice_is_a_reload_and_only_those_who_see_it_are_told(pair, autojump_clock):
    files, other = pair.fake(tools=TOOLS), pair.fake(tools=["echo"])
    async with pair.house({"files": files, "other": other}) as (house, host):
        untouched = await pair.host(house, endpoint="other")
        if not pair.from_legacy:
            for each in (host, untouched):
                await each.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await host.names(), await untouched.names()
        before = files.conversation
        for tools, left in (
            (["read_*"], ["files__read_file"]),
            ([], []),
            (["*", "!delete_all"], ["files__read_file", "files__delete_file"]),
            (["*"], [f"files__{tool}" for tool in TOOLS]),
        ):
            told = len(host.of(LISTED))
            await choose(house, tools)
            assert len(host.of(LISTED)) == told + 1
            assert await host.names() == [*left, "other__echo"]
        await choose(house, ["read_*", "delete_*"])
        assert len(host.of(LISTED)) == 4, "the list is the same"
        assert untouched.of(LISTED) == []
        assert files.conversation is before, "the server did not notice"


async def test_batches_bare_names_and_completion_find_no_more(autojump_clock):
    files = FakeUpstream(tools=TOOLS)
    settings = {"tools": ("!delete_*",), "prefix": ""}
    async with a_house({"files": files}, upstreams={"files": settings}) as house:
        host = await house.host("lines", L2)
        assert await host.names() == ["read_file"]
        ask = {"jsonrpc": "2.0", "method": "tools/call"}
        batch = [{**ask, "id": id, "params": {"name": name}} for id, name in (("a", "read_file"), ("b", "delete_all"))]
        answers = await batched(host, batch)
        assert "result" in answers["a"]
        assert answers["b"]["error"]["code"] == -32602
        assert [json.loads(bytes(tool))["name"] for tool in await house.api.tools()] == ["read_file"]
