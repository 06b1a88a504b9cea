"""Catalogues of many tools are made in slices: nobody waits for a whole, nothing is lost, and all changes at once."""

import random

import pytest
import trio
import trio.testing
from msgspec import Raw, structs

import hub.catalog.upstream_entries
from config.profile_settings import Profile, ToolOverride
from hub.catalog.catalog import Catalog
from hub.catalog.endpoint_views import EVERYTHING, profile_view, server_view
from hub.catalog.merge_catalog import choose, merge
from hub.catalog.profiles.profile_entries import ProfileRules
from hub.catalog.time_slices import STEP, finish
from hub.catalog.upstream_entries import UpstreamEntries
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.sealing import Sealer
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.view_catalogs import CATALOG, ShownServers
from hub.wire.http.mirror_headers import mirrors_of
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot

CODING = profile_view("coding")
SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"string"}}}')


def snapshot(name, *tools):
    entries = tuple(ListEntry(tool, {"name": raw(tool), "inputSchema": SCHEMA}) for tool in tools)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
    return Snapshot(name, L4, {"tools": Raw(b"{}")}, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)


class Side:
    settling, has_reported, knows_tools = False, True, True

    def __init__(self, name, count):
        self.snapshot = snapshot(name, *(f"tool_{number}" for number in range(count)))


class World:
    """Upstreams with many tools each, one profile, and the hosts that are told."""

    def __init__(self, servers=20, tools=100, **profiles):
        names = [f"s{number}" for number in range(servers)]
        self.upstreams = {name: Side(name, tools) for name in names}
        self.profiles = profiles or {"coding": Profile(tools=("!*_7",))}
        self.rules = Rules(tuple(map(UpstreamRule, names)), profiles=self.profiles)
        self.live = LiveCatalog(ShownServers(self.upstreams, self.rules, UriClaims(), Sealer(b"k" * 32), lambda: None))
        self.told = []
        self.lists = ListUpdates(self.live, [self.list_changed])
        self.lists.settle()
        self.lists.rebuild()
        self.told.clear()

    def list_changed(self, kinds, view):
        self.told.append(view.name)

    def change(self, name, *tools):
        self.upstreams[name].snapshot = snapshot(name, *tools)
        self.live.changed(name)

    def change_all(self, count):
        for name in self.upstreams:
            self.change(name, *(f"other_{number}" for number in range(count)))

    def tools(self, view=CODING):
        parts = self.live.of(view).parts
        return {shown.visible for part in parts for shown in part.shown[Kind.TOOL]}


HEAVY = Profile(
    tools=("s*", *(f"x*{number}*y*z" for number in range(60)), "!*_3", "!*q*z"),
    rename={f"s0__tool_{number}": f"new_{number}" for number in range(900)},
    override={f"s0__tool_{number}": ToolOverride(fix={"a": 1}) for number in range(900)},
    name_budget=40,
)


@pytest.mark.parametrize(("servers", "tools"), [(20, 100), (40, 50), (1, 2_000)])
@pytest.mark.parametrize("profile", [Profile(), HEAVY], ids=["plain", "heavy"])
def test_no_step_of_a_profile_looks_at_more_than_so_many_tools(servers, tools, profile, monkeypatch):
    names = [f"s{number}" for number in range(servers)]
    snapshots = [Side(name, tools).snapshot for name in names]
    everything = merge(snapshots, Rules(tuple(map(UpstreamRule, names))), UriClaims())
    rules, looked_at, most = ProfileRules("coding", profile), 0, 0

    def shows_tool(names):
        nonlocal looked_at
        looked_at += 1
        return True

    rules.shows_tool = shows_tool
    steps = choose(everything, CODING, rules, None)
    for _ in steps:
        most, looked_at = max(most, looked_at), 0
    assert 0 < most <= max(STEP, min(tools, STEP))
    again = choose(everything, CODING, rules, None)
    assert len(finish(again).parts) == servers


async def test_others_have_their_turn_between_slices(autojump_clock, nursery):
    world = World()
    nursery.start_soon(world.lists.run)
    turns = []

    async def count():
        while True:
            turns.append(world.tools(EVERYTHING) == before)
            await trio.lowlevel.checkpoint()

    before = world.tools(EVERYTHING)
    world.change_all(100)
    with trio.CancelScope() as counting:
        async with trio.open_nursery() as inner:
            inner.start_soon(count)
            await world.lists.freshen((), Kind.TOOL)
            counting.cancel()
    assert len(turns) >= 2 * 2_000 // STEP, "once for each slice of the servers' tools and of the profile's"
    assert all(turns[:-2]), "nobody sees a half"
    assert len(world.tools()) == 20 * (100 - 1)
    assert set(world.told) == {"", "~coding", *world.upstreams}


@pytest.mark.parametrize(("servers", "tools"), [(1, 2_000), (100, 20), (200, 1)])
async def test_no_step_reads_more_than_a_slice(servers, tools, monkeypatch, autojump_clock, nursery):
    world = World(servers, tools)
    nursery.start_soon(world.lists.run)
    await trio.testing.wait_all_tasks_blocked()
    counts = dict.fromkeys(("names", "headers", "catalogues"), 0)
    most = dict(counts)

    def count(owner, attribute, noun):
        counted = getattr(owner, attribute)

        def call(*args, **options):
            counts[noun] += 1
            return counted(*args, **options)

        monkeypatch.setattr(owner, attribute, call)

    class Steps(trio.abc.Instrument):
        def after_task_step(self, task):
            for noun in counts:
                most[noun], counts[noun] = max(most[noun], counts[noun]), 0

    count(hub.catalog.upstream_entries, "visible_name", "names")
    count(hub.catalog.upstream_entries, "mirrors_of", "headers")
    count(Catalog, "of_server", "catalogues")
    world.change_all(tools)
    trio.lowlevel.add_instrument(steps := Steps())
    await world.lists.freshen((), Kind.TOOL)
    trio.lowlevel.remove_instrument(steps)
    assert 0 < most["names"] <= 2 * STEP
    assert 0 < most["headers"] <= 2 * STEP
    assert 0 < most["catalogues"] <= 2 * STEP // CATALOG
    assert len(world.tools(EVERYTHING)) == servers * tools


def test_entries_read_in_steps_are_the_same():
    claims, rule, read = UriClaims(), UpstreamRule("s"), snapshot("s", *(f"tool_{number}" for number in range(250)))
    claims.configure(["s"], aliases={}, bare=None)
    steps = UpstreamEntries(read, rule, 50, claims).read()
    made = finish(steps)
    at_once = finish(UpstreamEntries(read, rule, 50, claims).read())
    assert (made.shown, made.routes, made.mirrors) == (at_once.shown, at_once.routes, at_once.mirrors)
    assert made.still_right(read, rule, 50, claims)
    assert [each.visible for each in finish(made.in_own_scope()).shown[Kind.TOOL]][:2] == ["tool_0", "tool_1"]


@pytest.mark.parametrize("tools", [("*",), ("plain",)])
def test_arguments_in_headers_are_known_at_both_endpoints(tools):
    schema = raw({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}})
    headed = ListEntry("headed", {"name": raw("headed"), "inputSchema": schema})
    app = ListEntry("app", {"name": raw("app"), "_meta": raw({"ui": {"visibility": ["app"]}}), "inputSchema": schema})
    plain = snapshot("s", "plain")
    read = structs.replace(plain, lists={**plain.lists, Kind.TOOL: (app, *plain.lists[Kind.TOOL], headed)})
    claims, rule = UriClaims(), UpstreamRule("s", tools=tools)
    claims.configure(["s"], aliases={}, bare=None)
    made = finish(UpstreamEntries(read, rule, 50, claims).read())
    own = finish(made.in_own_scope())
    assert set(made.mirrors) == ({"s__headed"} if tools == ("*",) else set())
    assert {name: mirror for name, (mirror,) in own.mirrors.items()} == {
        each.original: mirrors_of(schema)[0] for each in own.shown[Kind.TOOL] if each.original != "plain"
    }


def test_entries_are_read_again_if_claims_are_given_up_meanwhile():
    claims, rule, read = UriClaims(), UpstreamRule("s"), snapshot("s", *(f"tool_{number}" for number in range(250)))
    claims.configure(["s"], aliases={}, bare=None)
    steps = UpstreamEntries(read, rule, 50, claims).read()
    next(steps)
    claims.releases += 1
    assert not finish(steps).still_right(read, rule, 50, claims)


async def test_a_change_in_the_midst_is_not_lost_and_a_flood_is_one_rebuild(autojump_clock, nursery):
    world = World()
    nursery.start_soon(world.lists.run)
    await trio.testing.wait_all_tasks_blocked()
    rebuilds = world.live.rebuilds

    async def flood():
        for number in range(200):
            world.change("s3", f"late_{number}")
            await trio.lowlevel.checkpoint()

    world.change_all(50)
    async with trio.open_nursery() as inner:
        inner.start_soon(flood)
        inner.start_soon(world.lists.freshen, (), Kind.TOOL)
    await trio.sleep(1)
    assert world.live.rebuilds - rebuilds <= 6
    assert "s3__late_199" in world.tools(EVERYTHING)
    assert "s3__late_199" in world.tools()
    assert not world.live.dirty
    assert world.live.of(server_view("s3")).route(Kind.TOOL, "late_199") is not None


async def test_who_is_cancelled_in_the_midst_leaves_the_change_to_the_next(autojump_clock, nursery):
    world = World()
    world.change_all(60)
    for checkpoints in range(1, 12):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(world.lists.freshen, (), Kind.TOOL)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        assert world.live.dirty
        assert world.told == []
    nursery.start_soon(world.lists.run)
    await trio.sleep(1)
    assert len(world.tools()) == 20 * (60 - 1)
    assert sorted(world.told) == sorted(["", "~coding", *world.upstreams]), "each once"


async def test_a_rebuild_out_of_turn_takes_the_place_of_one_in_slices(autojump_clock, nursery):
    world = World()
    world.change_all(60)
    async with trio.open_nursery() as inner:
        inner.start_soon(world.lists.freshen, (), Kind.TOOL)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        world.change("s1", "now")
        world.lists.rebuild()
        told = list(world.told)
    assert "s1__now" in world.tools()
    assert sorted(told) == sorted(["", "~coding", *world.upstreams]), "what had been begun is told, too"
    assert world.told == told


async def test_other_profiles_are_chosen_before_they_are_applied(autojump_clock, monkeypatch):
    world = World()
    looked_at, real = [], ProfileRules.shows_tool
    monkeypatch.setattr(ProfileRules, "shows_tool", lambda self, names: looked_at.append(names) or real(self, names))
    profiles = {"coding": Profile(tools=("!*_8",)), "more": Profile(tools=("*_1",), rename={"s0__tool_1": "one"})}
    await world.live.prepare(profiles)
    assert len(looked_at) == 2 * 2_000
    assert len(world.tools()) == 20 * 99, "nothing differs yet"
    looked_at.clear()
    world.live.apply(Rules(world.rules.upstreams, profiles=profiles))
    world.lists.rebuild()
    assert looked_at == []
    assert not any(name.endswith("_8") for name in world.tools())
    assert len(world.tools(profile_view("more"))) == 20
    assert world.live.of(profile_view("more")).route(Kind.TOOL, "one") is not None
    await world.live.prepare({"coding": Profile()})
    world.change("s1", "now")
    world.lists.rebuild()
    assert not any(name.endswith("_8") for name in world.tools()), "what was prepared in vain changes nothing"


async def test_a_view_that_is_first_shown_meanwhile_is_kept(autojump_clock, nursery):
    world = World()
    found = world.live.of(server_view("s2"))
    world.change("s2", "other")
    async with trio.open_nursery() as inner:
        inner.start_soon(world.lists.freshen, (), Kind.TOOL)
        await trio.lowlevel.checkpoint()
    assert found.route(Kind.TOOL, "other") is None
    assert world.live.of(server_view("s2")).route(Kind.TOOL, "other") is not None


@pytest.mark.covers("EP-3")
@pytest.mark.parametrize("seed", range(20))
def test_lists_of_a_profile_do_not_depend_on_the_order_in_which_servers_come(seed):
    """Servers connect, change and go in any order: the same entries make the same lists, names and texts."""
    order = random.Random(seed)
    names = ["a", "b", "c"]
    final = {
        "a": ["x", "y", "new", "a_very_long_name_of_a_tool_that_does_not_fit_anywhere_at_all"],
        "b": ["x", "z"],
        "c": ["y", "x.y"],
    }
    profile = Profile(
        tools=("!b__z",),
        rename={"a__x": "first", "b__x": "second", "c__y": "a__y", "a__y": "third"},
        override={"a__y": ToolOverride(description="Y.", fix={"a": 1})},
        name_budget=36,
        instructions="Be kind.",
    )
    rules = Rules(tuple(map(UpstreamRule, names)), profiles={"coding": profile})

    def outcome(steps):
        upstreams = {name: Side(name, 0) for name in names}
        live = LiveCatalog(ShownServers(upstreams, rules, UriClaims(), Sealer(b"k" * 32), lambda: None))
        live.rebuild()
        for name, tools in steps:
            upstreams[name].snapshot = snapshot(name, *tools)
            live.changed(name)
            live.rebuild()
        catalog = live.of(CODING)
        page = bytes(catalog.page(Kind.TOOL, L4, None).value)
        return page, catalog.instructions, catalog.warnings, catalog.digest(Kind.TOOL)

    expected = outcome(final.items())
    assert b'"first"' in expected[0]
    assert b'"third"' in expected[0]
    assert any("are not renamed" in warning for warning in expected[2]), "a__y is a tool's name before renaming"
    steps = [(name, order.sample(["x", "y", "second", "first", "third"], 3)) for name in names for _ in range(3)]
    order.shuffle(steps)
    last = list(final.items())
    order.shuffle(last)
    assert outcome([*steps, *last]) == expected
