"""The one consumer of changes."""

import logging

import pytest
import trio
import trio.testing
from msgspec import Raw

from hub.catalog.endpoint_views import server_view
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.sealing import Sealer
from hub.routing.list_updates import COALESCE_S, ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.view_catalogs import ShownServers
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot


def snapshot(name, *tools):
    entries = tuple(ListEntry(tool, {"name": raw(tool), "inputSchema": Raw(b'{"type":"object"}')}) for tool in tools)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
    return Snapshot(name, L4, {"tools": Raw(b"{}")}, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)


class Side:
    """An upstream that lists what is in `snapshot`."""

    settling, has_reported, knows_tools = False, True, True

    def __init__(self, name):
        self.snapshot = snapshot(name, "echo")


class World:
    """Upstreams, the catalogues made of them, and the hosts that are told of them."""

    def __init__(self, *names, bare=None):
        self.upstreams = {name: Side(name) for name in names}
        rules = Rules(tuple(UpstreamRule(name, "" if name == bare else None) for name in names))
        self.live = LiveCatalog(ShownServers(self.upstreams, rules, UriClaims(), Sealer(b"k" * 32), lambda: None))
        self.told = []
        self.lists = ListUpdates(self.live, [self.list_changed])

    def list_changed(self, kinds, view):
        self.told.append((kinds, view.name))

    def change(self, name, *tools):
        self.upstreams[name].snapshot = snapshot(name, *tools)
        self.live.changed(name)

    def settle(self):
        self.lists.rebuild()
        self.live.settled.set()

    def names(self):
        parts = self.live.everything.parts
        return [each.name + ":" + shown.original for each in parts for shown in each.shown[Kind.TOOL]]


@pytest.fixture
async def world(nursery):
    world = World("a", "b")
    nursery.start_soon(world.lists.run)
    await trio.testing.wait_all_tasks_blocked()
    return world


@pytest.mark.covers("N-8")
async def test_nothing_is_announced_that_nobody_can_have_seen(autojump_clock, world):
    world.change("a", "new")
    await trio.sleep(1)
    world.settle()
    assert world.told == []
    assert world.names() == ["a:new", "b:echo"]


async def test_a_rebuild_out_of_turn_loses_no_later_change(autojump_clock, world):
    world.settle()
    world.settle()
    world.change("a", "new")
    await trio.sleep(1)
    assert world.names() == ["a:new", "b:echo"]
    assert world.told == [({Kind.TOOL}, ""), ({Kind.TOOL}, "a")]


async def test_a_rebuild_out_of_turn_makes_the_next_one_needless(autojump_clock, world):
    world.settle()
    world.change("a", "new")
    assert world.live.dirty
    world.lists.rebuild()
    assert not world.live.dirty
    before = world.live.rebuilds
    await trio.sleep(1)
    assert world.live.rebuilds == before
    world.change("b", "other")
    await trio.sleep(1)
    assert world.live.rebuilds == before + 1
    assert world.names() == ["a:new", "b:other"]


async def test_changes_at_one_time_are_one_rebuild(autojump_clock, world):
    world.settle()
    before = world.live.rebuilds
    for number in range(100):
        world.change("a", f"new-{number}")
        world.change("b", f"new-{number}")
    await trio.sleep(COALESCE_S * 2)
    assert world.live.rebuilds == before + 1
    assert world.told == [({Kind.TOOL}, ""), ({Kind.TOOL}, "a"), ({Kind.TOOL}, "b")] or world.told == [
        ({Kind.TOOL}, ""),
        ({Kind.TOOL}, "b"),
        ({Kind.TOOL}, "a"),
    ]


async def test_a_change_that_nobody_sees_is_not_announced(autojump_clock, world):
    world.settle()
    world.change("a", "echo")
    await trio.sleep(1)
    assert world.told == []


async def test_a_warning_is_logged_once(autojump_clock, caplog):
    world = World("a", "b", bare="a")
    world.upstreams["a"].snapshot = snapshot("a", "b__echo")
    with caplog.at_level(logging.WARNING, "hubd.notify"):
        world.settle()
        world.lists.rebuild()
    assert len(caplog.records) == 1
    assert "b__echo" in caplog.text


@pytest.mark.covers("SEC-16")
async def test_lists_that_cannot_be_merged_leave_the_catalogue_as_it_was(autojump_clock, world, caplog):
    world.settle()
    good, world.upstreams["a"].snapshot = world.upstreams["a"].snapshot, None
    world.live.changed("a")
    await trio.sleep(1)
    assert world.names() == ["a:echo", "b:echo"]
    assert "the one before stays" in caplog.text
    world.upstreams["a"].snapshot = good
    world.change("b", "other")
    await trio.sleep(1)
    assert world.names() == ["a:echo", "b:other"]


async def test_a_list_of_one_server_waits_no_longer_than_the_start_where_lists_cannot_be_merged(nursery):
    world = World("a", "b")
    world.upstreams["a"].snapshot = None
    shown = trio.Event()

    async def wait() -> None:
        await world.live.wait(server_view("b"))
        shown.set()

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    world.lists.settle()
    await trio.testing.wait_all_tasks_blocked()
    assert shown.is_set()
