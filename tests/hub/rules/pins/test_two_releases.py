"""Two releases of one real server, npm's `@modelcontextprotocol/server-filesystem`, as they list their tools (recorded,
2025.12.18 and 2026.8.31; both call themselves 0.2.0): the newer one takes the place of the older one, and one decision
settles it."""

import json
from pathlib import Path

import pytest
import trio

from hub.cli.rules.pins import differences
from hub.wire.mcp import L4
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

pytestmark = pytest.mark.covers("PIN-03", "PIN-04")
OLD, NEW = (
    json.loads((Path(__file__).parents[3] / "data" / "pins" / f"server-filesystem-{version}.json").read_text())
    for version in ("2025.12.18", "2026.8.31")
)


@pytest.mark.parametrize("mode", ["warn", "freeze", "quarantine", "required"])
async def test_one_decision_for_a_whole_upgrade(autojump_clock, mode):
    fake = FakeUpstream()
    fake.lists["tools"] = OLD
    async with a_house({"fs": fake}, upstreams={"fs": {"pinning": mode}}) as house:
        pins, host = house.hub.pins, await house.host("lines", L4)
        await host.names()
        if mode == "required":
            await pins.approve("fs", pins.of("fs").state)
        await trio.sleep(1)
        before = (await host.result("tools/list"))["tools"]
        assert [each["description"] for each in before] == [each["description"] for each in OLD]
        fake.lists["tools"] = NEW
        await fake.conversation.tell("notifications/tools/list_changed")
        await trio.sleep(1)
        meanwhile = await host.names()
        changed = {key.partition("/")[2] for key in pins.of("fs").changes.waiting}
        assert changed, "releases differ"
        if mode in ("quarantine", "required"):
            assert meanwhile == [f"fs__{each['name']}" for each in NEW if each["name"] not in changed]
        elif mode == "warn":
            assert meanwhile == [f"fs__{each['name']}" for each in NEW]
        server = pins.describe("fs", shows=True)
        assert len(server.changes) == len(changed)
        assert differences(server)
        assert await pins.approve("fs", server.state) == len(changed)
        await trio.sleep(1)
        after = (await host.result("tools/list"))["tools"]
        assert [each["inputSchema"] for each in after] == [each["inputSchema"] for each in NEW]
        assert not pins.of("fs").changes
