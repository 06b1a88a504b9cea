import json
import random
from functools import partial
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.catalog.catalog import Catalog, NameTable
from hub.catalog.endpoint_views import server_view
from hub.catalog.list_result import SIGN_IN_TTL_MS
from hub.catalog.merge_catalog import merge
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.time_slices import finish
from hub.catalog.upstream_entries import MAX_CHUNKS, Route, UpstreamEntries, quote_some
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import RemoteProtocolError, encode_response, raw
from hub.wire.mcp import IDENTIFIER, L1, L4, LEGACY_VERSIONS, LIST_METHOD, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.support.schemas import validate
from upstreams.inventory.current_lists import in_full


def part(name, *tools, **rule):
    entries = tuple(ListEntry(tool, {"name": raw(tool)}) for tool in tools)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
    claims = UriClaims()
    claims.configure([name], aliases={}, bare=None)
    snapshot = Snapshot(name, L4, {"tools": Raw(b"{}")}, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)
    return finish(UpstreamEntries(snapshot, UpstreamRule(name, **rule), 50, claims).read())


def test_of_one_name_the_first_upstream_is_the_owner_and_the_other_is_told():
    first, second = part("a", "x"), part("b", "a__x", "y", prefix="")
    names = NameTable([first, second])
    assert names.route(Kind.TOOL, "a__x") == Route("a", "x")
    assert names.route(Kind.TOOL, "y") == Route("b", "y")
    assert [each.visible for each in names.entries_of(Kind.TOOL, second, ui=False)] == ["y"]
    assert names.warnings == ("b: left out, because an earlier upstream has the name: 'a__x'",)
    assert NameTable([first, second], chosen_from=names).warnings == (), "told already"
    assert NameTable([second, first]).route(Kind.TOOL, "a__x") == Route("b", "a__x")


def test_a_former_name_is_nobodys_that_has_it_now():
    renamed, present = part("new", "x", aliases=("old",)), part("old", "x")
    assert NameTable([renamed]).route(Kind.TOOL, "old__x") == Route("new", "x")
    assert NameTable([renamed, present]).route(Kind.TOOL, "old__x") == Route("old", "x")


def test_what_is_not_listed_can_still_be_called():
    only = part("a", "x", "y")
    whole = NameTable([only])
    less = whole.without({"a": frozenset({"a__x"})})
    assert [each.visible for each in less.entries_of(Kind.TOOL, only, ui=True)] == ["a__y"]
    assert less.route(Kind.TOOL, "a__x") == Route("a", "x")
    assert less.names_left_out(Kind.TOOL, "a") == {"a__x"}
    assert whole.names_left_out(Kind.TOOL, "a") == frozenset()
    assert less.without({"a": frozenset({"a__y"})}).names_left_out(Kind.TOOL, "a") == {"a__x", "a__y"}


SEALER = Sealer(bytes(32))
ALL_CAPABILITIES = {"tools": Raw(b"{}"), "prompts": Raw(b"{}"), "resources": Raw(b"{}")}
SCHEMA = Raw(b'{"type":"object"}')
REQUIRED = {
    Kind.TOOL: {"inputSchema": {"type": "object"}},
    Kind.PROMPT: {},
    Kind.RESOURCE: {"name": "r"},
    Kind.TEMPLATE: {"name": "t"},
}


def entry(kind, key, **more):
    return ListEntry(
        key, {name: raw(value) for name, value in {IDENTIFIER[kind]: key, **REQUIRED[kind], **more}.items()}
    )


def snapshot(
    name, tools=(), prompts=(), resources=(), templates=(), *, version=L4, freshness=None, title=None, text="", **more
):
    given = {Kind.TOOL: tools, Kind.PROMPT: prompts, Kind.RESOURCE: resources, Kind.TEMPLATE: templates}
    return Snapshot(
        upstream=name,
        version=version,
        capabilities=more.get("capabilities", ALL_CAPABILITIES),
        server_info={} if title is None else {"title": raw(title)},
        instructions=text,
        lists={
            kind: tuple(each if isinstance(each, ListEntry) else entry(kind, each) for each in entries)
            for kind, entries in given.items()
        },
        freshness=freshness or {},
        local=more.get("local", True),
    )


def rules(*names, **more):
    return Rules(tuple(each if isinstance(each, UpstreamRule) else UpstreamRule(each) for each in names), **more)


def merged(*snapshots, claims=None, rule=None, **more):
    rule = rule or rules(*(each.upstream for each in snapshots))
    return merge(snapshots, rule, claims or UriClaims(), sealer=SEALER, **more)


def alone_in(catalog: Catalog, name: str) -> Catalog:
    """The catalogue of one of its servers."""
    part = next((each for each in catalog.parts if each.name == name), None)
    return catalog.of_server(server_view(name), part and finish(part.in_own_scope()))


def listed(catalog: Catalog, kind: Kind, version=L4, **more):
    return json.loads(bytes(catalog.page(kind, version, None, **more).value))[kind.value]


def ids(catalog: Catalog, kind: Kind, **more):
    return [each[IDENTIFIER[kind]] for each in listed(catalog, kind, **more)]


# --- names and the way back ---


@pytest.mark.covers("S-4", "G-8", "S-15")
def test_entries_come_in_configuration_order_and_then_the_upstreams_own():
    fs, gh = snapshot("fs", ["b", "a"], ["p"]), snapshot("gh", ["a"], ["p"])
    catalog = merged(gh, fs, rule=rules("fs", "gh"))
    assert ids(catalog, Kind.TOOL) == ["fs__b", "fs__a", "gh__a"]
    assert ids(catalog, Kind.PROMPT) == ["fs__p", "gh__p"]
    assert catalog.route(Kind.TOOL, "gh__a") == Route("gh", "a")
    assert catalog.route(Kind.TOOL, "a") is catalog.route(Kind.PROMPT, "gh__a") is None
    assert catalog.warnings == ()


def test_entries_say_where_they_come_from():
    names = snapshot("fs", ["a", "b.c", entry(Kind.TOOL, "m", _meta={"v": 1, "dev.hubd/server": "x", "dev.hubd/q": 1})])
    one, two, three = listed(merged(names), Kind.TOOL)
    assert one["_meta"] == {"dev.hubd/server": "fs"}
    assert two["_meta"] == {"dev.hubd/server": "fs", "dev.hubd/originalName": "b.c"}
    assert three["_meta"] == {"v": 1, "dev.hubd/server": "fs"}
    uris = snapshot("far", resources=["file:///a", "x:1"], templates=["file:///{a}", "x:{y}"], local=False)
    catalog = merged(uris)
    tagged, plain = listed(catalog, Kind.RESOURCE)
    assert (tagged["uri"], tagged["_meta"]["dev.hubd/originalUri"]) == ("hub.far+file:///a", "file:///a")
    assert (plain["uri"], plain["_meta"]) == ("x:1", {"dev.hubd/server": "far"})
    assert ids(catalog, Kind.TEMPLATE) == ["hub.far+file:///{a}", "x:{y}"]
    assert catalog.route(Kind.TEMPLATE, "hub.far+file:///{a}") == Route("far", "file:///{a}")


def test_snapshots_without_a_rule_are_left_out():
    catalog = merged(snapshot("a", ["t"]), snapshot("removed", ["t"]), rule=rules("a", "not-there-yet"))
    assert ids(catalog, Kind.TOOL) == ["a__t"]


@pytest.mark.covers("F-P-18", "SEC-70")
def test_of_equal_names_in_one_upstream_the_first_is_used():
    first, second = entry(Kind.TOOL, "t", title="1"), entry(Kind.TOOL, "t", title="2")
    catalog = merged(snapshot("a", [first, "u", second]))
    assert [each.get("title") for each in listed(catalog, Kind.TOOL)] == ["1", None]
    assert catalog.warnings == ("a: lists the same tools more than once; the first of each is used",)


def colliding(kind="tool", sid="a"):
    """Two names that need a hash and have the same one in 8 digits, with one stem."""
    from hub.catalog.visible_names import visible_name

    seen: dict[str, str] = {}
    for number in range(1_000_000):
        name = "x" * 60 + str(number)
        other = seen.setdefault(visible_name(kind, sid, name), name)
        if other != name:
            return other, name
    raise AssertionError("no collision found")


@pytest.mark.covers("SEC-70")
def test_names_with_one_hash_get_a_longer_one():
    from hub.catalog.visible_names import visible_name

    one, two = colliding()
    squatter = visible_name("tool", "a", two, digits=16).removeprefix("a__")
    catalog = merged(snapshot("a", [one, "plain", two, squatter]))
    shown = ids(catalog, Kind.TOOL)
    assert len(shown) == len(set(shown)) == 3
    assert catalog.route(Kind.TOOL, shown[0]) == Route("a", one)
    assert catalog.route(Kind.TOOL, shown[2]) == Route("a", two)
    assert catalog.warnings == (f"a: left out, their visible names are taken: {squatter!r}",)


OF_ANOTHER = "since they are called as if they were of another server"


def test_a_bare_upstream_takes_no_names_that_begin_as_those_of_others():
    upstreams = UpstreamRule("b", prefix=""), UpstreamRule("a", prefix="git", aliases=("old",))
    catalog = merged(
        snapshot("b", ["git__t", "old__t", "off__t", "a__t", "t"], ["git__p"]),
        snapshot("a", ["t"]),
        rule=Rules(upstreams, (UpstreamRule("off"),)),
    )
    assert ids(catalog, Kind.TOOL) == ["a__t", "t", "git__t"]
    assert ids(catalog, Kind.PROMPT) == []
    assert catalog.route(Kind.TOOL, "git__t") == Route("a", "t")
    assert [OF_ANOTHER in warning for warning in catalog.warnings] == [True, True]
    assert ids(alone_in(catalog, "b"), Kind.TOOL) == ["git__t", "old__t", "off__t", "a__t", "t"]


def test_a_bare_upstream_shows_its_names_as_they_are():
    catalog = merged(
        snapshot("a", ["t", "b__x"]),
        snapshot("b", ["read.file", "a__t", "x"], resources=["ui://w"]),
        rule=rules("a", UpstreamRule("b", prefix="")),
    )
    assert ids(catalog, Kind.TOOL) == ["a__t", "a__b__x", "read.file", "x"]
    assert catalog.route(Kind.TOOL, "a__t") == Route("a", "t")
    assert catalog.warnings == (f"b: left out, {OF_ANOTHER}: 'a__t'; a prefix gives them other names",)
    assert ids(catalog, Kind.RESOURCE) == ["ui://w"]
    assert listed(catalog, Kind.TOOL)[2]["_meta"] == {"dev.hubd/server": "b"}
    assert catalog.suspect("a__new") == "a"
    assert catalog.suspect("b__new") is None


def test_a_prefix_stands_for_the_name():
    catalog = merged(snapshot("a", ["t"]), rule=rules(UpstreamRule("a", prefix="short")))
    assert ids(catalog, Kind.TOOL) == ["short__t"]
    assert listed(catalog, Kind.TOOL)[0]["_meta"] == {"dev.hubd/server": "a"}
    assert catalog.suspect("short__x") == "a"


def test_former_names_still_lead_home():
    aliased = UpstreamRule("new", aliases=("old", "a"))
    catalog = merged(snapshot("new", ["t", "u.v"], resources=["x:1"]), snapshot("a", ["t"]), rule=rules(aliased, "a"))
    assert catalog.route(Kind.TOOL, "old__t") == Route("new", "t")
    assert catalog.route(Kind.TOOL, "a__t") == Route("a", "t")
    assert ids(catalog, Kind.TOOL) == ["new__t", ids(catalog, Kind.TOOL)[1], "a__t"]
    assert catalog.resolve_uri("hub.old+x:1") == [Route("new", "x:1")]
    assert catalog.route(Kind.RESOURCE, "x:1") == Route("new", "x:1")


def test_the_budget_is_the_operators():
    catalog = merged(snapshot("a", ["t" * 40]), rule=rules("a", budget=40))
    assert len(ids(catalog, Kind.TOOL)[0]) == 40


def test_names_in_warnings_are_few_short_and_harmless():
    assert quote_some(["a\nb" + "c" * 100, "d", "e", "f"]) == f"{'a' + chr(10) + 'b' + 'c' * 57!r}, 'd', 'e' and 1 more"


@pytest.mark.covers("SEC-70", "F-P-18")
@given(st.lists(st.lists(st.text(max_size=6) | st.sampled_from(["a", "a.b", "a_b", "b__a"]), max_size=5), max_size=3))
def test_every_visible_name_has_one_way_back(names):
    snapshots = [snapshot(f"s{i}", its) for i, its in enumerate(names)]
    catalog = merged(*snapshots)
    shown = ids(catalog, Kind.TOOL)
    assert len(shown) == len(set(shown)) == sum(len(set(its)) for its in names)
    back = {catalog.route(Kind.TOOL, name) for name in shown}
    assert back == {Route(f"s{i}", name) for i, its in enumerate(names) for name in its}


# --- order of arrival ---


def offers_of(chance: random.Random) -> dict[str, Snapshot]:
    uris = ["x:1", "x:2", "x:d/1", "y:1", "ui://w", "file:///f", "https://w", "hub.b+x:1"]
    templates = ["x:{a}", "x:d/{a}", "y:{a}", "file:///{a}", "https://w/{a}"]
    names = ["t", "u.v", "w" * 60]
    return {
        name: snapshot(
            name,
            chance.sample(names, 2),
            chance.sample(names, 1),
            chance.sample(uris, 4),
            chance.sample(templates, 2),
            local=name != "b",
        )
        for name in ("a", "b", "c")
    }


def everything(catalog: Catalog):
    return [bytes(catalog.page(kind, L4, None).value) for kind in Kind]


@pytest.mark.covers("S-3", "S-4", "G-3", "G-7")
@pytest.mark.parametrize("seed", range(20))
def test_lists_do_not_depend_on_who_connected_first(seed):
    offers = offers_of(random.Random(seed))
    claims = UriClaims()
    expected = everything(merge(offers.values(), rules(*offers), claims, sealer=SEALER))
    written = json.loads(json.dumps(claims.dump()))
    for order in permutations(offers):
        cold, warm, previous = UriClaims(), UriClaims.load(written), None
        for count in range(len(order)):
            present = [offers[name] for name in order[:count]]
            merge(present, rules(*offers), cold, sealer=SEALER, provisional=True)
            previous = merge(present, rules(*offers), warm, sealer=SEALER, previous=previous)
        shuffled = [offers[name] for name in order]
        assert everything(merge(shuffled, rules(*offers), cold, sealer=SEALER)) == expected
        assert everything(merge(shuffled, rules(*offers), warm, sealer=SEALER, previous=previous)) == expected


def test_a_provisional_catalogue_claims_nothing():
    claims = UriClaims()
    early = merged(snapshot("b", resources=["x:1"]), rule=rules("a", "b"), claims=claims, provisional=True)
    assert ids(early, Kind.RESOURCE) == ["x:1"]
    late = merged(snapshot("a", resources=["x:1"]), snapshot("b", resources=["x:1"]), claims=claims, previous=early)
    assert ids(late, Kind.RESOURCE) == ["x:1", "hub.b+x:1"]


def test_what_did_not_change_is_taken_over():
    claims, a, b = UriClaims(), snapshot("a", ["t"], resources=["x:1"]), snapshot("b", ["t"], resources=["x:1"])
    first = merged(a, b, claims=claims)
    second = merged(a, snapshot("b", ["u"]), claims=claims, previous=first)
    assert second.parts[0] is first.parts[0]
    assert second.parts[1] is not first.parts[1]
    third = merged(a, b, claims=claims, previous=second, rule=rules("a", UpstreamRule("b", prefix="c")))
    assert third.parts[0] is second.parts[0]
    assert ids(third, Kind.TOOL) == ["a__t", "c__t"]
    only_b = merged(b, claims=claims, previous=third, rule=rules(UpstreamRule("b", prefix="c")))
    assert ids(only_b, Kind.RESOURCE) == ["x:1"]


def test_two_instances_of_one_product():
    product = {"tools": ["t"], "prompts": ["p"], "resources": ["x:1", "ui://w"], "templates": ["x:t/{id}"]}
    catalog = merged(snapshot("a", **product), snapshot("b", **product))
    assert ids(catalog, Kind.TOOL) == ["a__t", "b__t"]
    assert ids(catalog, Kind.RESOURCE) == ["x:1", "ui://a~w", "hub.b+x:1", "ui://b~w"]
    assert ids(catalog, Kind.TEMPLATE) == ["x:t/{id}", "hub.b+x:t/{id}"]
    assert catalog.resolve_uri("hub.b+x:t/7") == [Route("b", "x:t/7")]


def test_shared_uris_are_listed_once():
    shared = ["https://w", "file:///project/README.md"]
    far = snapshot("far", resources=shared, local=False)
    catalog = merged(snapshot("a", resources=shared), snapshot("b", resources=shared), far)
    assert ids(catalog, Kind.RESOURCE) == [*shared, "hub.far+file:///project/README.md"]
    assert catalog.resolve_uri(shared[1]) == [Route("a", shared[1]), Route("b", shared[1])]
    assert catalog.warnings == ()


def test_an_upstream_that_is_not_here_is_not_asked():
    claims = UriClaims()
    merged(snapshot("a", resources=["x:1"]), claims=claims)
    catalog = merged(snapshot("b"), claims=claims, rule=rules("a", "b"))
    assert catalog.resolve_uri("x:1") == []


# --- URIs in results ---


def test_results_show_uris_as_lists_do():
    catalog = merged(snapshot("a", resources=["x:1"]), snapshot("b", resources=["x:1"]))
    assert catalog.emitter("b")("x:1") == "hub.b+x:1"
    assert catalog.emitter("b") is catalog.emitter("b")
    assert catalog.untagger("b")("hub.b+x:1") == "x:1"


def test_a_read_answers_with_the_uri_it_was_asked_for():
    catalog = merged(snapshot("a", resources=["x:1"]), snapshot("b", resources=["x:1"]))
    emit = catalog.emitter("b", "hub.b+x:1")
    assert (emit("x:1"), emit("x:2")) == ("hub.b+x:1", "x:2")
    assert catalog.emitter("a", "x:1")("x:1") == "x:1"


# --- user interfaces ---

APP_TOOL = entry(Kind.TOOL, "show", _meta={"ui": {"resourceUri": "ui://w"}, "ui/resourceUri": "ui://w", "v": 1})
APP_ONLY = entry(Kind.TOOL, "refresh", _meta={"ui": {"visibility": ["app"]}})
BOTH = entry(Kind.TOOL, "both", _meta={"ui": {"visibility": ["app", "model"]}})


@pytest.mark.covers("X-24")
def test_user_interfaces_are_taken_off_unless_marked():
    catalog = merged(snapshot("a", [APP_TOOL, APP_ONLY, BOTH]))
    assert ids(catalog, Kind.TOOL, ui=True) == ["a__show", "a__both"]
    assert listed(catalog, Kind.TOOL)[0]["_meta"] == {"v": 1, "dev.hubd/server": "a"}
    assert catalog.route(Kind.TOOL, "a__refresh") is None


@pytest.mark.covers("X-15", "X-16", "X-22")
def test_user_interfaces_of_marked_upstreams_can_be_found():
    claims = UriClaims()
    apps = rules(UpstreamRule("a", apps=True))
    catalog = merged(snapshot("a", [APP_TOOL, APP_ONLY]), rule=apps, claims=claims)
    assert ids(catalog, Kind.TOOL) == ["a__show"]
    assert ids(catalog, Kind.TOOL, ui=True) == ["a__show", "a__refresh", "show", "refresh"]
    meta = listed(catalog, Kind.TOOL)[0]["_meta"]
    assert meta["ui"]["resourceUri"] == meta["ui/resourceUri"] == "ui://a~w"
    assert catalog.resolve_uri("ui://a~w") == catalog.resolve_uri("ui://w") == [Route("a", "ui://w")]
    assert catalog.route(Kind.TOOL, "a__refresh") == Route("a", "refresh")


@pytest.mark.covers("X-21", "X-24")
def test_views_call_their_tools_by_bare_names_and_no_others():
    apps = rules(UpstreamRule("a", apps=True), UpstreamRule("b"))
    catalog = merged(snapshot("a", [APP_TOOL, APP_ONLY, "plain"]), snapshot("b", ["plain"]), rule=apps)
    tools = {tool["name"]: tool["_meta"]["ui"]["visibility"] for tool in listed(catalog, Kind.TOOL, ui=True)}
    model, app = ["model"], ["app"]
    assert tools == {
        "a__show": model,
        "a__refresh": app,
        "a__plain": model,
        "show": app,
        "refresh": app,
        "plain": app,
        "b__plain": model,
    }
    assert catalog.route(Kind.TOOL, "plain") == Route("a", "plain")
    assert all(
        tool["_meta"]["ui"]["resourceUri"] == "ui://a~w" for tool in listed(catalog, Kind.TOOL, ui=True)[::3][:1]
    )
    assert ids(catalog, Kind.TOOL) == ["a__show", "a__plain", "b__plain"]


def test_views_have_no_bare_names_that_are_the_hubs():
    catalog = merged(snapshot("a", ["hub__search", "plain"]), rule=rules(UpstreamRule("a", apps=True)))
    assert ids(catalog, Kind.TOOL, ui=True) == ["a__hub__search", "a__plain", "plain"]
    assert catalog.route(Kind.TOOL, "hub__search") is None
    [warning] = catalog.warnings
    assert warning.startswith("a: left out, since names that begin with hub__ are the hub's: 'hub__search'")


@pytest.mark.covers("X-21")
def test_a_bare_name_is_the_first_upstreams():
    apps = rules(UpstreamRule("a", apps=True), UpstreamRule("b", apps=True))
    catalog = merged(snapshot("a", ["go"]), snapshot("b", ["go", "stop"]), rule=apps)
    assert ids(catalog, Kind.TOOL, ui=True) == ["a__go", "go", "b__go", "b__stop", "stop"]
    assert catalog.route(Kind.TOOL, "go") == Route("a", "go")
    assert "b: its user interfaces cannot call these tools here" in catalog.warnings[0]


# --- one upstream alone ---


@pytest.mark.covers("X-21")
def test_the_endpoint_of_one_upstream_shows_it_as_it_is():
    claims = UriClaims()
    tools = [APP_TOOL, APP_ONLY, "read.file"]
    catalog = merged(snapshot("b", resources=["x:1"]), snapshot("a", tools, resources=["x:1", "ui://w"]), claims=claims)
    alone = alone_in(catalog, "a")
    assert ids(alone, Kind.TOOL, ui=True) == ["show", "refresh", "read.file"]
    assert ids(alone, Kind.TOOL) == ["show", "read.file"]
    assert listed(alone, Kind.TOOL)[0] == {name: json.loads(bytes(value)) for name, value in APP_TOOL.fields.items()}
    assert ids(alone, Kind.RESOURCE) == ["x:1", "ui://w"]
    assert alone.resolve_uri("x:any") == [Route("a", "x:any")]
    assert alone.route(Kind.TOOL, "read.file") == Route("a", "read.file")
    assert alone.route(Kind.TOOL, "b__t") is None
    assert alone.emitter("a")("ui://w") == alone.emitter("a", "ui://w")("ui://w") == "ui://w"
    assert alone.untagger("a")("hub.a+x:1") == "hub.a+x:1"
    again = merged(snapshot("b"), catalog.parts[1].snapshot, claims=claims, previous=catalog)
    assert alone_in(again, "a").parts[0] is alone.parts[0]


def test_the_endpoint_of_an_absent_upstream_is_empty():
    assert ids(alone_in(merged(snapshot("a", ["t"])), "b"), Kind.TOOL) == []


# --- pages ---


@pytest.mark.covers("S-20", "S-31", "C-16")
def test_pages_are_cut_across_upstreams():
    catalog = merged(
        snapshot("a", ["1", "2", "3"]), snapshot("b"), snapshot("c", ["4", "5"]), rule=rules("a", "b", "c", page_size=2)
    )
    seen, cursor = [], None
    for _ in range(3):
        page = json.loads(bytes(catalog.page(Kind.TOOL, L4, cursor).value))
        seen.append([tool["name"] for tool in page["tools"]])
        cursor = page.get("nextCursor")
    assert seen == [["a__1", "a__2"], ["a__3", "c__4"], ["c__5"]]
    assert cursor is None


@pytest.mark.covers("S-20", "C-16", "SEC-20")
def test_only_the_cursors_of_this_list_are_taken():
    paged = rules("a", page_size=1)
    catalog = merged(snapshot("a", ["1", "2"], ["1", "2"]), rule=paged)
    cursor = json.loads(bytes(catalog.page(Kind.TOOL, L4, None, principal="me").value))["nextCursor"]
    same = merged(snapshot("a", [entry(Kind.TOOL, "1", title="new"), "2"]), rule=paged)
    for each in (catalog, same):
        page = json.loads(bytes(each.page(Kind.TOOL, L4, cursor, principal="me").value))
        assert [tool["name"] for tool in page["tools"]] == ["a__2"]
    changed = merged(snapshot("a", ["0", "1", "2"]), rule=paged)
    refused = [
        (catalog, Kind.TOOL, "", "me"),
        (catalog, Kind.TOOL, cursor, "you"),
        (catalog, Kind.PROMPT, cursor, "me"),
        (changed, Kind.TOOL, cursor, "me"),
        (alone_in(catalog, "a"), Kind.TOOL, cursor, "me"),
    ]
    for each, kind, text, principal in refused:
        with pytest.raises(RemoteProtocolError, match="cursor expired, list again") as caught:
            each.page(kind, L4, text, principal=principal)
        assert caught.value.failure.code == -32602


def test_a_cursor_survives_the_end_of_paging():
    catalog = merged(snapshot("a", ["1", "2", "3"]), rule=rules("a", page_size=1))
    cursor = json.loads(bytes(catalog.page(Kind.TOOL, L4, None).value))["nextCursor"]
    page = json.loads(bytes(merged(snapshot("a", ["1", "2", "3"])).page(Kind.TOOL, L4, cursor).value))
    assert [tool["name"] for tool in page["tools"]] == ["a__2", "a__3"]
    assert "nextCursor" not in page


def test_without_a_sealer_cursors_end_with_the_catalogue():
    paged, a = rules("a", page_size=1), snapshot("a", ["1", "2"])
    catalog = merge([a], paged, UriClaims())
    cursor = json.loads(bytes(catalog.page(Kind.TOOL, L4, None).value))["nextCursor"]
    assert b'"a__2"' in bytes(catalog.page(Kind.TOOL, L4, cursor).value)
    with pytest.raises(RemoteProtocolError):
        merge([a], paged, UriClaims()).page(Kind.TOOL, L4, cursor)


@pytest.mark.covers("K-1", "S-2", "V-21")
@pytest.mark.parametrize("version", [*LEGACY_VERSIONS, MODERN])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("page_size", [0, 1])
def test_results_are_what_the_revision_says(version, kind, page_size):
    full = snapshot("a", ["t", "u.v"], ["p", "q"], ["x:1", "ui://w"], ["x:{a}", "y:{a}"])
    for catalog in (merged(full, rule=rules("a", page_size=page_size)), merged(snapshot("a"))):
        for each in (catalog, alone_in(catalog, "a")):
            message = encode_response(1, each.page(kind, version, None))
            validate(message, version, sender="server", method=LIST_METHOD[kind])
            result = json.loads(message)["result"]
            assert ("resultType" in result) is (version == MODERN)


def test_revisions_that_see_the_same_share_the_bytes():
    offers = merged(snapshot("a", ["t"])).parts[0]
    assert offers.chunk(Kind.TOOL, L1, ui=False) is offers.chunk(Kind.TOOL, L4, ui=False)


# --- freshness ---


def modern(name, ttl_ms=None, public=False, **more):
    return snapshot(name, ["t"], version=MODERN, freshness={Kind.TOOL: Freshness(ttl_ms, public)}, **more)


def left(snapshot, kind, age_ms):
    return max(0, in_full(snapshot, kind) - age_ms)


def fresh(catalog, kind=Kind.TOOL, age_ms=0):
    result = json.loads(bytes(catalog.page(kind, MODERN, None, ttl_ms=partial(left, age_ms=age_ms)).value))
    return result["ttlMs"], result["cacheScope"]


@pytest.mark.covers("K-1", "K-3", "K-4", "K-9", "K-12", "K-14")
def test_a_merged_list_is_as_fresh_as_its_stalest_part():
    tells = snapshot("l", ["t"], capabilities={"tools": Raw(b'{"listChanged":true}')})
    silent, without = snapshot("s", ["t"]), snapshot("w", capabilities={})
    assert fresh(merged(modern("a", 5000, True), modern("b", 7000, True), without)) == (5000, "public")
    assert fresh(merged(modern("a", 5000, True), modern("b", 7000))) == (5000, "private")
    assert fresh(merged(modern("a", 900_000, True))) == (300_000, "public")
    assert fresh(merged(modern("a"))) == (0, "private")
    assert fresh(merged(modern("a", 90_000, True), tells)) == (60_000, "private")
    assert fresh(merged(modern("a", 90_000, True), tells, silent)) == (10_000, "private")
    assert fresh(merged(modern("a", 90_000, True)), Kind.PROMPT) == (0, "private")
    assert fresh(merged(without)) == (300_000, "private")
    assert fresh(merged(modern("a", 5000, True), settling=True)) == (1000, "public")


@pytest.mark.covers("K-12")
def test_a_list_that_varies_with_the_host_is_private():
    app = snapshot("a", [APP_ONLY], version=MODERN, freshness={Kind.TOOL: Freshness(5000, True)})
    assert fresh(merged(app, rule=rules(UpstreamRule("a", apps=True)))) == (5000, "private")


@pytest.mark.covers("K-6", "K-12")
def test_freshness_runs_out_with_the_age_of_the_list():
    catalog = merged(modern("a", 5000, True))
    assert [fresh(catalog, age_ms=age)[0] for age in (0, 3000, 8000)] == [5000, 2000, 0]
    assert fresh(alone_in(catalog, "a"), age_ms=3000)[0] == 2000


@pytest.mark.covers("K-12")
def test_each_part_of_a_merged_list_has_its_own_age():
    catalog = merged(modern("a", 5000, True), modern("b", 7000, True))
    ages = {"a": 1000, "b": 6500}
    page = catalog.page(Kind.TOOL, MODERN, None, ttl_ms=lambda of, kind: left(of, kind, ages[of.upstream])).value
    assert json.loads(bytes(page))["ttlMs"] == 500


# --- changes ---


@pytest.mark.covers("N-1")
def test_only_what_hosts_see_makes_a_difference():
    claims = UriClaims()
    before = merged(snapshot("a", ["t"], ["p"]), snapshot("b"), claims=claims)
    same = merged(snapshot("b", text="new"), snapshot("a", ["t"], ["p"]), rule=rules("a", "b"), claims=claims)
    assert not any(before.differs(same, kind) for kind in Kind)
    titled = merged(snapshot("a", [entry(Kind.TOOL, "t", title="T")], ["p"]), snapshot("b"), claims=claims)
    assert [kind for kind in Kind if before.differs(titled, kind)] == [Kind.TOOL]
    moved = merged(snapshot("b", ["t"], ["p"]), claims=claims)
    assert [kind for kind in Kind if before.differs(moved, kind)] == [Kind.TOOL, Kind.PROMPT]
    assert alone_in(before, "a").differs(alone_in(before, "b"), Kind.TOOL)


# --- instructions ---


@pytest.mark.covers("G-12")
def test_instructions_stand_under_their_servers():
    a = snapshot("a", title=" Files \n\x07 and\tmore ", text="  Use me. \n")
    catalog = merged(snapshot("b", text="B!"), a, snapshot("c"), rule=rules("a", "b", "c"))
    texts = "# Files and more (tools: a__*)\n\nUse me.\n\n# b (tools: b__*)\n\nB!"
    assert catalog.instructions == f"a__*: Files and more\nb__*: B!\n\n{texts}"
    assert catalog.instructions is catalog.instructions
    assert alone_in(catalog, "a").instructions == "Use me."
    assert alone_in(catalog, "c").instructions == merged().instructions == ""


@pytest.mark.covers("G-12")
def test_equal_titles_are_told_apart_by_the_names_of_the_tools():
    one, two = (snapshot(name, title="Everything", text=f"Use get-{name}.") for name in ("a", "b"))
    rule = Rules((UpstreamRule("a", prefix=""), UpstreamRule("b", prefix="shown")))
    assert merged(one, two, rule=rule).instructions == (
        "Everything\nshown__*: Everything\n\n# Everything\n\nUse get-a.\n\n# Everything (tools: shown__*)\n\nUse get-b."
    )
    said = merged(snapshot("a", title="t" * 200, text="x")).instructions
    assert said == f"a__*: {'t' * 80}\n\n# {'t' * 80} (tools: a__*)\n\nx"


def test_a_long_id_is_cut_for_a_small_budget_and_calls_find_it_by_its_whole():
    name = "sequential-thinking"
    catalog = merged(snapshot(name, ["think"]), rule=rules(UpstreamRule(name, aliases=("old",)), budget=36))
    (visible,) = ids(catalog, Kind.TOOL)
    assert visible.startswith("sequentia-")
    assert len(visible) <= 36
    for asked in (visible, f"{name}__think", "old__think"):
        assert catalog.route(Kind.TOOL, asked) == Route(name, "think")
    assert catalog.suspect(f"{visible.partition('__')[0]}__new") == name
    assert ids(merged(snapshot(name, ["think"])), Kind.TOOL) == [f"{name}__think"]


# --- the tool for signing in ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign_in", [SignInTool.LISTED, SignInTool.FORMER])
def test_the_tool_for_signing_in_leads_to_the_hub_itself(sign_in):
    rule = UpstreamRule("notes", sign_in=sign_in, aliases=("former",), tools=("nothing",))
    catalog = merge([snapshot("notes"), snapshot("up", ["x"])], rules(rule, "up"), UriClaims())
    assert catalog.route(Kind.TOOL, "notes__sign_in") == Route("notes", "sign_in", signs_in=True)
    assert catalog.route(Kind.TOOL, "former__sign_in") is None
    (tool, *_) = listed = json.loads(bytes(catalog.page(Kind.TOOL, MODERN, None).value))["tools"]
    assert (tool["name"] == "notes__sign_in") == (sign_in is SignInTool.LISTED)
    assert len(listed) == (2 if sign_in is SignInTool.LISTED else 1)
    alone = catalog.of_server(server_view("notes"), finish(catalog.parts[0].in_own_scope()))
    assert alone.route(Kind.TOOL, "sign_in") == Route("notes", "sign_in", signs_in=True)


def test_a_tool_of_the_upstream_itself_comes_first():
    rule = UpstreamRule("notes", sign_in=SignInTool.FORMER)
    catalog = merge([snapshot("notes", ["sign_in"])], rules(rule), UriClaims())
    assert catalog.route(Kind.TOOL, "notes__sign_in") == Route("notes", "sign_in")


def test_lists_with_a_tool_for_signing_in_are_good_for_a_short_time():
    rule = UpstreamRule("notes", sign_in=SignInTool.LISTED)
    for rules_now, most in ((rules(rule), SIGN_IN_TTL_MS), (rules("notes"), 300_000)):
        catalog = merge([snapshot("notes")], rules_now, UriClaims())
        page = catalog.page(Kind.TOOL, MODERN, None, ttl_ms=lambda *_: 1_000_000).value
        assert json.loads(bytes(page))["ttlMs"] == most


def test_what_other_servers_hide_takes_no_more_and_more_memory():
    claims, before = UriClaims(), None
    rule = rules(UpstreamRule("a", prefix=""), UpstreamRule("b", prefix=""))
    whole = snapshot("b", [f"t{at}" for at in range(10)])
    for turn in range(1, 50):
        taking = snapshot("a", [f"t{at}" for at in range(6) if turn >> at & 1])
        before = merged(taking, whole, claims=claims, rule=rule, previous=before)
        names = [tool["name"] for tool in listed(before, Kind.TOOL)]
        assert sorted(names) == [f"t{at}" for at in range(10)], "each once"
        part = before.part("b")
        assert part is not None
        assert part.snapshot is whole
    kept = [chunk for chunks in part._chunks.values() for chunk in chunks.values()]
    assert 1 < len(kept) <= MAX_CHUNKS
    again = part.chunk(Kind.TOOL, L4, ui=False, hidden=frozenset({"t0", "t4", "t5"}))
    assert again is kept[-1], "the last is made once"
