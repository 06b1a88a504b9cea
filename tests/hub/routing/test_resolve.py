"""Visible names that the catalogue does not have, or not yet."""

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure, Result
from hub.wire.mcp import Kind
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
