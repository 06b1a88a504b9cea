"""A profile on top of a project: what its hosts see of both, and that they stay told."""

import os
from pathlib import Path

import pytest
import trio
from msgspec import structs

from config.profile_settings import Profile
from config.projects import Trust, load_project
from config.settings import HubConfig
from hub.catalog.endpoint_views import profile_view, project_view
from hub.link.call_interface import Identity
from hub.projects.find_project_of_host import TrustedProjects
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

CURSOR = Identity("alice", "cursor")
LISTED = "notifications/tools/list_changed"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / ".hubd.toml").write_text('[upstreams.db]\ncommand = "db"\n')
    return root


def a_house_with(shop, **profiles):
    trust = Trust(shop.parent / "trust.json")
    trust.allow(load_project(shop, os.environ, HubConfig()))
    fakes = {
        "notes": FakeUpstream(tools=["read", "write"]),
        f"db{project_view(shop).name}": FakeUpstream(tools=["query", "drop"]),
    }
    reader = TrustedProjects(trust, os.environ, shop.parent)
    return a_house(fakes, reader=reader, profiles=profiles)


@pytest.mark.covers("EP-3")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_hosts_profile_lies_on_top_of_its_project(shop, version):
    coding = Profile(hosts=("cursor",), servers=("db",), tools=("!*drop",), rename={"db__query": "ask"})
    async with a_house_with(shop, coding=coding) as house:
        host = await house.host("lines", version, workplace=shop)
        cursor = await house.host("lines", version, identity=CURSOR, workplace=shop)
        outside = await house.host("lines", version, identity=CURSOR)
        assert await host.names() == ["notes__read", "notes__write", "db__query", "db__drop"]
        assert await cursor.names() == ["ask"]
        assert await outside.names() == []
        await cursor.call("ask")
        await cursor.call("db__query")
        assert (await cursor.error("tools/call", {"name": "db__drop"}))["code"] == -32602
        views = {each.view for each in house.hub.hosts}
        assert profile_view("coding", project_view(shop)) in views
        named = await house.host("lines", version, endpoint="~coding", workplace=shop)
        assert await named.names() == ["ask"], "also one that its user named"


@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("endpoint", ["", "~coding"])
async def test_a_host_of_a_profile_is_where_its_roots_are(shop, carrier, endpoint):
    async with a_house_with(shop, coding=Profile(hosts=("cursor",), servers=("db",))) as house:
        host = await house.host(carrier, L4, identity=CURSOR, endpoint=endpoint, roots=shop.as_uri())

        async def there():
            return await host.names() == ["db__query", "db__drop"]

        await until(there)


async def until(ready) -> None:
    """Until the hub has seen to it that it is `ready`."""
    with trio.fail_after(60):
        while not await ready():  # noqa: ASYNC110
            await trio.sleep(0.01)


@pytest.mark.covers("EP-3", "EP-8")
async def test_changes_of_either_reach_hosts_of_both(shop):
    coding = Profile(hosts=("cursor",), tools=("db__*", "notes__read"))
    async with a_house_with(shop, coding=coding) as house:
        host = await house.host("lines", workplace=shop)
        cursor = await house.host("lines", identity=CURSOR, workplace=shop)
        assert await cursor.names() == ["notes__read", "db__query", "db__drop"]
        before = len(cursor.of(LISTED)), len(host.of(LISTED))

        async def change(profile):
            config = structs.replace(house.hub.config, profiles={"coding": profile})
            await house.hub.prepare(config)
            house.hub.apply(config)
            await host.result("ping")
            await cursor.result("ping")

        await change(structs.replace(coding, tools=("db__query",)))
        assert (len(cursor.of(LISTED)), len(host.of(LISTED))) == (before[0] + 1, before[1])
        assert await cursor.names() == ["db__query"]

        db = house.fakes[f"db{project_view(shop).name}"]
        db.lists["tools"] = [{"name": "query", "inputSchema": {"type": "object"}, "description": "new"}]
        await db.conversation.tell(LISTED)

        async def told():
            return len(host.of(LISTED)) == before[1] + 1

        await until(told)
        await cursor.result("ping")
        assert len(cursor.of(LISTED)) == before[0] + 2

        await change(structs.replace(coding, hosts=()))
        assert await cursor.names() == ["notes__read", "notes__write", "db__query"]
