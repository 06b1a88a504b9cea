"""Visible names that the catalogue does not have, or not yet."""

import pytest
import trio
import trio.testing
from msgspec import structs

from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry
from tests.support.routing_bench import Bench, Files


async def test_a_known_name_is_called_before_all_is_settled(autojump_clock):
    bench = Bench("echo", settled=False)
    assert isinstance(await bench.ask("tools/call", name="files__echo"), Result)


async def test_an_unknown_name_waits_until_all_is_settled(autojump_clock, nursery):
    bench = Bench(settled=False)
    replies = []

    async def ask():
        replies.append(await bench.ask("tools/call", name="files__echo"))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    assert replies == []
    bench.files.snapshot = Files("echo").snapshot
    bench.live.rebuild()
    bench.router.settled.set()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(replies[0], Result)
    assert bench.files.refreshed == []


@pytest.mark.parametrize(
    ("name", "refreshed"),
    [("files__nothing", [("files", Kind.TOOL)]), ("others__echo", []), ("echo", []), ("", []), ("__", [])],
)
async def test_only_a_known_server_is_asked_again(name, refreshed):
    bench = Bench("echo")
    reply = await bench.ask("tools/call", name=name)
    assert reply == Failure(-32602, f"Unknown tool: {name}; tools/list names those there are")
    assert bench.files.refreshed == refreshed


async def test_a_resource_that_was_just_listed_is_found():
    bench = Bench()
    new = ListEntry("mem:new", {"uri": raw("mem:new"), "name": raw("new")})
    bench.files.snapshot = structs.replace(
        bench.files.snapshot, lists=dict.fromkeys(Kind, ()) | {Kind.RESOURCE: (new,)}
    )
    bench.files.answer = Result(raw({"contents": []}))
    bench.live.changed("files")  # the catalogue is to be made anew, and has not been
    assert isinstance(await bench.ask("resources/read", uri="mem:new"), Result)
