"""What a profile makes of the entries of upstreams."""

import json

import pytest
from msgspec import Raw, structs

from config.profile_settings import Profile, ResolvedOverride, ToolOverride
from hub.catalog.endpoint_views import profile_view
from hub.catalog.merge_catalog import choose, merge
from hub.catalog.profiles.fixed_arguments import FixedArguments
from hub.catalog.profiles.profile_entries import ProfileRules
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.time_slices import finish
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot

SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string"}}}
LONG = "a_tool_with_a_name_that_is_longer_than_thirty_two"


def tool(name, schema=SCHEMA, **more):
    fields = {"name": raw(name), "inputSchema": raw(schema)}
    return ListEntry(name, fields | {key: raw(value) for key, value in more.items()})


def snapshot(name, *tools, resources=()):
    entries = tuple(each if isinstance(each, ListEntry) else tool(each) for each in tools)
    listed = tuple(ListEntry(uri, {"uri": raw(uri), "name": raw("x")}) for uri in resources)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries, Kind.RESOURCE: listed}
    capabilities = {"tools": Raw(b"{}"), "resources": Raw(b"{}")}
    return Snapshot(name, L4, capabilities, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)


def chosen(profile, *snapshots, previous=None, **rules):
    """The catalogue that a profile makes of upstreams."""
    named = tuple(rules.get(each.upstream, UpstreamRule(each.upstream)) for each in snapshots)
    everything = merge(snapshots, Rules(named), UriClaims())
    return finish(choose(everything, profile_view("p"), ProfileRules("p", profile), previous))


def names(catalog, version=L4, **more):
    return [each["name"] for each in json.loads(bytes(catalog.page(Kind.TOOL, version, None, **more).value))["tools"]]


def original(catalog, name):
    route = catalog.route(Kind.TOOL, name)
    return None if route is None else (route.upstream, route.original)


A, B = snapshot("a", "x", "y"), snapshot("b", "x", "z", resources=["b://1"])


def test_servers_and_globs_choose_and_taking_away_wins():
    assert names(chosen(Profile(), A, B)) == ["a__x", "a__y", "b__x", "b__z"]
    assert names(chosen(Profile(servers=("b",)), A, B)) == ["b__x", "b__z"]
    assert names(chosen(Profile(servers=("hub",)), A, B)) == []
    assert names(chosen(Profile(tools=("*__x", "b__*", "!b__x")), A, B)) == ["a__x", "b__z"]
    assert names(chosen(Profile(tools=()), A, B)) == []
    hidden = chosen(Profile(servers=("a",)), A, B)
    assert hidden.resolve_uri("b://1") == []
    assert hidden.suspect("b__new") is None


@pytest.mark.covers("EP-5")
def test_a_tool_has_its_new_name_and_is_called_by_both():
    catalog = chosen(Profile(rename={"a__x": "first", "b__none": "other"}, always=("a__*",)), A, B)
    assert names(catalog) == ["first", "a__y", "b__x", "b__z"]
    assert original(catalog, "first") == original(catalog, "a__x") == ("a", "x")
    assert original(catalog, "other") is None
    assert catalog.names.mirrors("first") == catalog.names.mirrors("a__x") != ()
    assert catalog.always == {"first", "a__y"}
    assert catalog.warnings == ()


@pytest.mark.covers("EP-5")
def test_a_name_that_is_taken_is_not_given_also_if_its_tool_comes_later():
    profile = Profile(rename={"a__x": "b__new", "a__y": "a__x"})
    before = chosen(profile, A, B)
    assert names(before) == ["b__new", "a__y", "b__x", "b__z"]
    after = chosen(profile, A, snapshot("b", "new"), previous=before)
    assert names(after) == ["a__x", "a__y", "b__new"]
    assert original(after, "b__new") == ("b", "new")
    assert [warning for warning in after.warnings if "b__new" in warning] == [
        "profile p: tools are not renamed, because others have the names: 'a__x', 'b__new'"
    ]
    again = chosen(profile, A, B, previous=after)
    assert names(again) == names(before)
    hidden = chosen(Profile(rename={"a__x": "b__new"}, tools=("!b__new",)), A, snapshot("b", "new"))
    assert names(hidden) == ["b__new", "a__y"], "what is left out takes no name"
    assert original(hidden, "b__new") == ("a", "x")


def test_a_glob_means_the_same_tool_whatever_the_budget():
    everybodys = chosen(Profile(), snapshot("a", LONG))
    [whole] = names(everybodys)
    [short] = names(chosen(Profile(name_budget=32), snapshot("a", LONG)))
    assert len(short) <= 32 < len(whole)
    for name in (whole, short):
        assert names(chosen(Profile(name_budget=32, tools=(name,)), snapshot("a", LONG))) == [short]
        assert names(chosen(Profile(name_budget=32, tools=(f"!{name}",)), snapshot("a", LONG))) == []
        renamed = Profile(name_budget=32, rename={name: "n"}, override={name: ToolOverride(fix={"a": 1})})
        catalog = chosen(renamed, snapshot("a", LONG))
        assert names(catalog) == ["n"]
        assert isinstance(catalog.route(Kind.TOOL, "n").fixed, FixedArguments)


FIX = Profile(override={"a__x": ToolOverride(fix={"a": "1"})})


@pytest.mark.covers("EP-6")
def test_every_name_of_a_tool_leads_to_its_fixed_arguments():
    rule = UpstreamRule("a", aliases=("old",), apps=True, rename=(("y", "why"),))
    views = tool("x", _meta={"ui": {"resourceUri": "ui://x", "visibility": ["model", "app"]}})
    catalog = chosen(
        Profile(rename={"a__x": "new"}, override={"a__x": ToolOverride(fix={"a": "1"})}),
        snapshot("a", views, "y"),
        a=rule,
    )
    for name in ("new", "a__x", "old__x", "x"):
        route = catalog.route(Kind.TOOL, name)
        assert (route.original, route.fixed is not None) == ("x", True), name
    assert catalog.route(Kind.TOOL, "a__why").fixed is None
    assert catalog.names.mirrors("new") == (), "a host need not repeat what it does not send"
    shown = names(catalog, MODERN, ui=True)
    assert "x" in shown, "user interfaces call it by its bare name"


@pytest.mark.covers("EP-6")
def test_a_tool_whose_argument_cannot_be_fixed_is_left_out_with_a_warning():
    for schema in ({"$ref": "#/$defs/x"}, {"allOf": [SCHEMA]}, {"type": "object"}):
        catalog = chosen(FIX, snapshot("a", tool("x", schema), "y"), a=UpstreamRule("a", aliases=("old",)))
        assert names(catalog) == ["a__y"]
        assert original(catalog, "a__x") is None
        assert original(catalog, "old__x") is None
        [warning] = catalog.warnings
        assert warning.startswith("profile p: left out, since an argument of theirs cannot be fixed: 'a__x' (")


@pytest.mark.covers("EP-6")
def test_a_tool_whose_fixed_argument_has_no_value_is_left_out_by_each_of_its_names():
    [long], [short] = (names(chosen(Profile(name_budget=budget), snapshot("a", LONG))) for budget in (None, 32))
    lacking = ResolvedOverride(unread={"b": "it is " + "x" * 1_000})
    for override in ({short: lacking}, {long: lacking, short: ToolOverride(fix={"a": "1"})}):
        catalog = chosen(Profile(name_budget=32, override=override), snapshot("a", LONG, "y"))
        assert names(catalog) == ["a__y"]
        assert original(catalog, short) is None
        [warning] = [each for each in catalog.warnings if "fixed" in each]
        assert f"left out, since a fixed argument of theirs has no value: '{short}' (\"b\": it is xxx" in warning
        assert len(warning) < 500


@pytest.mark.covers("EP-6")
def test_values_that_do_not_fit_are_told_in_few_words_and_their_tools_are_shown():
    fix = {f"p{number}": number for number in range(50)}
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in fix}}
    many = [tool(f"x{number}", schema) for number in range(20)]
    override = {f"a__x{number}": ToolOverride(fix=fix) for number in range(20)}
    catalog = chosen(Profile(override=override), snapshot("a", *many))
    assert len(names(catalog)) == 20
    [warning] = catalog.warnings
    assert "does not fit: 'a__x0' (\"p0\" is to be a text, and is a whole number" in warning
    assert warning.endswith("and 47 more) and 17 more")


def test_former_names_lead_to_what_is_shown_only():
    rule = UpstreamRule("a", aliases=("old",))
    catalog = chosen(Profile(tools=("!a__y",)), A, a=rule)
    assert original(catalog, "old__x") == ("a", "x")
    assert original(catalog, "old__y") is None


@pytest.mark.parametrize(
    ("profile", "is_shown"),
    [
        (Profile(), True),
        (Profile(tools=("!a__x",)), True),
        (Profile(tools=("a__get_*", "b__*")), True),
        (Profile(tools=("*x",)), True),
        (Profile(tools=("b__*",)), False),
        (Profile(tools=("*", "!a__*")), False),
        (Profile(servers=("b",)), False),
    ],
)
def test_the_tool_for_signing_in_is_shown_where_others_of_its_server_may_be(profile, is_shown):
    found = names(chosen(profile, A, B, a=UpstreamRule("a", sign_in=SignInTool.LISTED)))
    assert ("a__sign_in" in found) is is_shown
    assert not {"a__x", "a__y"}.intersection(found)


def test_what_does_not_change_is_taken_over():
    everything = merge((A, B), Rules((UpstreamRule("a"), UpstreamRule("b"))), UriClaims())
    rules = ProfileRules("p", Profile(tools=("!*y",), rename={"a__x": "n"}))
    before = finish(choose(everything, profile_view("p"), rules, None))
    after = finish(choose(everything, profile_view("p"), rules, before))
    assert [one is other for one, other in zip(before.parts, after.parts, strict=True)] == [True, True]
    assert not after.differs(before, Kind.TOOL)


def test_the_bytes_of_what_a_profile_leaves_as_it_is_are_made_once():
    everything = merge((A, B), Rules((UpstreamRule("a"), UpstreamRule("b"))), UriClaims())
    rules = ProfileRules("p", Profile(tools=("!b__z",), override={"b__x": ToolOverride(description="new " * 50)}))
    catalog = finish(choose(everything, profile_view("p"), rules, None))
    for kind in (Kind.TOOL, Kind.RESOURCE):
        pairs = list(zip(catalog.parts, everything.parts, strict=True))
        made = [one.chunk(kind, L4, ui=False) is other.chunk(kind, L4, ui=False) for one, other in pairs]
        assert made == [True, kind is Kind.RESOURCE]
    alone = finish(choose(merge((B,), Rules((UpstreamRule("b"),)), UriClaims()), profile_view("p"), rules, None))
    sizes = {name: size for part in catalog.parts for name, size in part.tool_bytes().items()}
    assert sizes.keys() == {"a__x", "a__y", "b__x"}
    assert sizes["b__x"] == alone.parts[0].tool_bytes()["b__x"] > sizes["a__x"] + 200
    assert sizes["a__x"] == everything.parts[0].tool_bytes()["a__x"]


def test_what_is_the_same_for_everybody_is_told_once():
    rules = {"a": UpstreamRule("a", apps=True), "b": UpstreamRule("b", apps=True), "c": UpstreamRule("c", "")}
    sides = snapshot("a", "x", "y", "hub__z"), snapshot("b", "x", "y", "y"), snapshot("c", "a__x", "hub__z")
    told = merge(sides, Rules(tuple(rules.values())), UriClaims()).warnings
    assert len(told) == 5, told
    assert chosen(Profile(), *sides, **rules).warnings == ()
    assert chosen(Profile(tools=("*x", "*hub__z")), *sides, **rules).warnings == ()


def test_what_only_a_profile_makes_so_is_told_as_its_own():
    rename = (("x", "n" * 33),)
    [warning] = chosen(Profile(name_budget=32), A, a=UpstreamRule("a", rename=rename)).warnings
    assert warning.startswith("profile p: a: 'x' keeps its name, since")
    apps = UpstreamRule("a", apps=True)
    [warning] = chosen(Profile(rename={"b__z": "x"}), A, B, a=apps).warnings
    assert warning.startswith("profile p: a: its user interfaces cannot call these tools here"), warning


@pytest.mark.covers("EP-9")
def test_the_instructions_are_those_of_servers_of_which_something_is_shown():
    says = {name: structs.replace(each, instructions=f"I am {name}.") for name, each in (("a", A), ("b", B))}
    both = chosen(Profile(), *says.values()).instructions
    assert "a__*: I am a; 2 tools" in both
    assert "I am b." in both
    no_tools = chosen(Profile(tools=("!*",)), *says.values()).instructions
    assert "I am a" not in no_tools
    assert "b__*: I am b; 1 resource" in no_tools, "its resources are shown"
    everything = merge(
        (structs.replace(snapshot("q"), instructions="I am q."),), Rules((UpstreamRule("q"),)), UriClaims()
    )
    assert "I am q" in everything.instructions, "without a profile nothing was left out"


def test_hostile_names_meet_globs_in_bounded_time():
    hostile = [f"{'a' * 200}{number}" for number in range(50)] + ["\x00", "é" * 300, "a" * 100_000]
    globs = tuple(f"*a*a*a*{number}*q" for number in range(60))
    catalog = chosen(Profile(tools=globs), snapshot("a", *hostile))
    assert names(catalog) == []
    assert len(names(chosen(Profile(tools=("*__*", *globs)), snapshot("a", *hostile)))) == len(hostile)


@pytest.mark.covers("EP-5")
@pytest.mark.parametrize("cycle", [("a__x", "a__y"), ("a__x", "b__z", "a__y"), ("a__x",)])
def test_names_that_go_round_are_given_to_nobody(cycle):
    rename = dict(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    catalog = chosen(Profile(rename=rename), A, B)
    assert names(catalog) == ["a__x", "a__y", "b__x", "b__z"]
    for name in cycle:
        assert original(catalog, name) == tuple(name.split("__")), "what was allowed by a name stays what it was"
    told = [f"{name!r}" for name in sorted(cycle)]
    expected = f"profile p: tools are not renamed, because others have the names: {', '.join(told)}"
    assert catalog.warnings == ((expected,) if len(cycle) > 1 else ())


@pytest.mark.covers("EP-4", "EP-5")
def test_a_name_of_what_is_left_out_leads_to_what_has_it_now_and_nowhere_else():
    profile = Profile(rename={"a__x": "a__y", "b__x": "b__z"}, tools=("a__x", "b__x"))
    catalog = chosen(profile, A, B, a=UpstreamRule("a", aliases=("old",)))
    assert names(catalog) == ["a__y", "b__z"]
    assert original(catalog, "a__y") == original(catalog, "a__x") == original(catalog, "old__x") == ("a", "x")
    assert original(catalog, "old__y") is None, "the tool that is left out is not there by its former name"


def test_a_tool_that_two_upstreams_list_under_one_name_is_renamed_once():
    sides = snapshot("a", "x"), snapshot("c", "a__x", "n")
    catalog = chosen(Profile(rename={"a__x": "new"}), *sides, c=UpstreamRule("c", ""))
    assert names(catalog) == ["new", "n"]
    assert original(catalog, "new") == original(catalog, "a__x") == ("a", "x")
    assert names(catalog, MODERN, ui=True) == names(catalog)


def test_thousands_of_entries_of_each_setting_choose_as_they_say():
    many = [f"t{number}" for number in range(1_000)]
    profile = Profile(
        tools=(*(f"a__{name}" for name in many[:500]), *(f"!a__{name}" for name in many[250:750])),
        always=tuple(f"a__{name}" for name in many),
        rename={f"a__{name}": f"n{name}" for name in many},
        override={f"a__{name}": ToolOverride(fix={"a": name}) for name in many},
    )
    catalog = chosen(profile, snapshot("a", *many))
    assert names(catalog) == [f"n{name}" for name in many[:250]]
    assert catalog.always == {f"n{name}" for name in many[:250]}
    assert all(catalog.route(Kind.TOOL, name).fixed is not None for name in names(catalog))
    assert catalog.warnings == ()


@pytest.mark.covers("EP-6")
def test_what_is_said_of_a_tool_by_each_of_its_names_counts():
    everybodys = chosen(Profile(), snapshot("a", LONG))
    [long], [short] = names(everybodys), names(chosen(Profile(name_budget=32), snapshot("a", LONG)))
    override = {
        long: ToolOverride(description="long", fix={"a": "long", "b": "long"}),
        short: ToolOverride(fix={"a": "short"}),
    }
    catalog = chosen(Profile(name_budget=32, override=override), snapshot("a", LONG))
    sent = json.loads(bytes(catalog.route(Kind.TOOL, short).fixed.fill(None)))
    assert sent == {"a": "short", "b": "long"}
    [shown] = json.loads(bytes(catalog.page(Kind.TOOL, L4, None).value))["tools"]
    assert (shown["description"], shown["inputSchema"]["properties"]) == ("long", {})


@pytest.mark.covers("EP-4", "EP-6", "EP-11")
@pytest.mark.parametrize("prefix", [None, ""])
def test_a_server_that_takes_the_new_name_of_a_tool_does_not_bring_it_back(prefix):
    """Its tool `delete` is called `remove` by the configuration, until it lists a tool of that name."""
    rule = UpstreamRule("a", prefix, rename=(("delete", "remove"),))
    start = "" if prefix == "" else "a__"
    hides, fixes = Profile(tools=(f"!{start}remove",)), Profile(override={f"{start}remove": ToolOverride(fix={"a": 1})})
    before, after = snapshot("a", "delete", "x"), snapshot("a", "delete", "x", "remove")
    assert names(chosen(hides, before, a=rule)) == names(chosen(hides, after, a=rule)) == [f"{start}x"]
    for side, name in ((before, "remove"), (after, "delete"), (after, "remove")):
        assert chosen(fixes, side, a=rule).route(Kind.TOOL, f"{start}{name}").fixed is not None, name
    renamed = chosen(Profile(rename={f"{start}remove": "gone"}), after, a=rule)
    assert names(renamed) == [f"{start}delete", f"{start}x", "gone"]
    assert original(renamed, "gone") == ("a", "remove")
