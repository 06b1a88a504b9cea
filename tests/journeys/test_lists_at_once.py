"""The time-to-live of a list holds for its entries."""

import pytest
import trio.testing

from hub.wire.mcp import MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house


@pytest.mark.covers("K-8", "K-12")
async def test_a_list_that_was_just_read_is_what_is_shown_with_its_time(autojump_clock):
    """No time passes between the change and the question: the catalogue gathers changes for a moment."""
    fake = FakeUpstream(version=MODERN)
    fake.ttl_ms = 60_000
    async with a_house({"files": fake}) as house:
        host = await house.host("http", MODERN)
        await host.names()
        fake.lists["tools"] = [{"name": "new", "inputSchema": {"type": "object"}}]
        await fake.conversation.tell("notifications/tools/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        shown = await host.result("tools/list")
        assert ([tool["name"] for tool in shown["tools"]], shown["ttlMs"]) == (["files__new"], 60_000)
