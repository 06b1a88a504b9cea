"""Settings that name tools which are not there, and profiles that show none."""

from pathlib import Path

import pytest
from msgspec import Raw

from config.profile_settings import Profile, ToolOverride
from hub.catalog.endpoint_views import profile_view, project_view
from hub.catalog.merge_catalog import choose, merge
from hub.catalog.profiles.profile_entries import ProfileRules
from hub.catalog.sign_in_tool import SignInTool
from hub.catalog.time_slices import finish
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import Rules, UpstreamRule
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot

SCHEMA = Raw(b'{"type":"object","properties":{"a":{}}}')


def snapshot(name, *tools, **more):
    meta = {"_meta": raw(more)} if more else {}
    entries = tuple(ListEntry(tool, {"name": raw(tool), "inputSchema": SCHEMA, **meta}) for tool in tools)
    lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
    return Snapshot(name, L4, {"tools": Raw(b"{}")}, {}, "", lists, dict.fromkeys(Kind, Freshness()), True)


GITHUB = snapshot("github", "create_issue", "delete_repo", "get.file")
FILES = snapshot("files", "read", "write")


def everything(*snapshots, heard=None, previous=None, claims=None, budget=50, left_out=(), **rules):
    named = tuple(rules.get(each.upstream, UpstreamRule(each.upstream)) for each in snapshots)
    heard = {each.upstream for each in snapshots} if heard is None else heard
    return merge(
        snapshots, Rules(named, left_out, budget), claims or UriClaims(), heard=frozenset(heard), previous=previous
    )


def doubts(profile, *snapshots, **more):
    """The warnings about the profile p."""
    catalog = everything(*(snapshots or (GITHUB, FILES)), **more)
    made = finish(choose(catalog, profile_view("p"), ProfileRules("p", profile), None))
    assert all(each.startswith("profile p: ") for each in made.warnings)
    return [each.removeprefix("profile p: ") for each in made.warnings]


def test_entries_that_mean_a_tool_are_not_doubted():
    file = next(name for name in everything(GITHUB).parts[0].routes[Kind.TOOL] if "get" in name)
    profile = Profile(
        tools=("*", "github__*", "!github__delete_*", "files__read", file, "*_?ssue", "!files__w?ite"),
        always=("files__*", "!github__delete_repo"),
        rename={"github__create_issue": "x", "github__delete_repo": "hidden"},
        override={"files__write": ToolOverride(description="hidden")},
    )
    assert doubts(profile) == []


def test_each_setting_tells_its_entries_that_mean_none_and_what_is_near():
    profile = Profile(
        tools=("github__*", "github__creat_isue", "!github__*_release"),
        always=("files__raed",),
        rename={"github__create_isseu": "x"},
        override={"files__wrte": ToolOverride(description="y")},
    )
    assert doubts(profile) == [
        "entries of its `tools` mean no tool: 'github__creat_isue' (did you mean 'github__create_issue'?), "
        "'!github__*_release'",
        "entries of its `always` mean no tool: 'files__raed' (did you mean 'files__read'?)",
        "its `rename` names tools that are not there: 'github__create_isseu' (did you mean 'github__create_issue'?)",
        "its `override` names tools that are not there: 'files__wrte' (did you mean 'files__write'?)",
    ]


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("create_issue", "github__create_issue"),
        ("github__get.file", "github__get_file_"),
        ("create_*", "github__create_*"),
        ("github__creat_iss*", "github__create_issue"),
        ("old__read", "files__read"),
        ("files__write", "files__put"),
    ],
)
def test_a_tool_may_be_named_as_its_server_names_it_or_by_a_former_name(entry, meant):
    files = UpstreamRule("files", aliases=("old",), rename=(("write", "put"),))
    [said] = doubts(Profile(tools=("*", entry)), files=files)
    assert f"{entry!r} (did you mean '{meant}" in said


def test_a_new_name_and_a_server_that_is_left_out_are_told_as_such():
    [said] = doubts(Profile(tools=("*", "short"), rename={"files__read": "short"}))
    assert said == "entries of its `tools` mean no tool: 'short' (a new name; write 'files__read')"
    said = doubts(Profile(servers=("files",), tools=("files__*", "github__c*"), rename={"github__delete_repo": "d"}))
    assert said == [
        "entries of its `tools` mean no tool: 'github__c*' (its `servers` leaves \"github\" out)",
        "its `rename` names tools that are not there: 'github__delete_repo' (its `servers` leaves \"github\" out)",
    ]


@pytest.mark.parametrize("entry", ["github__nothing", "git*nothing", "*nothing", "hub*__nothing", "?ithub__x*"])
def test_what_may_be_of_a_server_that_has_not_been_heard_is_not_doubted(entry):
    profile = Profile(tools=("files__*", entry))
    assert doubts(profile, heard={"files"}) == ([] if not entry.startswith("hub*") else doubts(profile))
    assert len(doubts(profile)) == 1
    assert len(doubts(Profile(tools=("*", "files__nothing")), heard={"files"})) == 1
    bare = UpstreamRule("github", "")
    assert doubts(Profile(tools=("*", "files__nothing")), heard={"files"}, github=bare) == [], "any name may be its"
    assert len(doubts(Profile(tools=("*", "files__nothing")), github=bare)) == 1


def test_what_may_be_of_a_server_that_cannot_be_started_yet_is_not_doubted():
    profile = Profile(tools=("files__*", "*__query", "files__nothing", "db__query"))
    assert len(doubts(profile)) == 1
    assert "'*__query'" in doubts(profile)[0]
    for rule in (UpstreamRule("db"), UpstreamRule("db", "sql")):
        said = doubts(profile, left_out=(rule,))
        assert len(said) == 1
        assert "'files__nothing'" in said[0]
        assert "'*__query'" not in said[0]
    assert len(doubts(Profile(tools=("!*",)))) == 1
    assert doubts(Profile(tools=("*__query",)), left_out=(UpstreamRule("db"),)) == []


def test_what_begins_with_no_servers_id_is_left_to_the_configuration():
    assert doubts(Profile(tools=("*", "gihub__x", "!db__*", "hub__x"))) == []


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (Profile(tools=()), "its `tools` is an empty list; without that setting it shows all"),
        (Profile(tools=("files__x", "!*y")), "no entry of its `tools` means one"),
        (Profile(tools=("*", "!*")), "entries of its `tools` that begin with ! take away all that is there"),
        (Profile(tools=("!*",)), "entries of its `tools` that begin with ! take away all that is there"),
        (Profile(servers=("none",)), "none of its `servers` has any"),
        (Profile(servers=("hub",)), "none of its `servers` has any"),
        (
            Profile(tools=("*__read",), override={"files__read": ToolOverride(fix={"b": 1})}),
            "arguments of those that it chooses cannot be fixed",
        ),
    ],
)
def test_a_profile_that_shows_no_tool_says_why(profile, why):
    said = doubts(profile, GITHUB, FILES, snapshot("none"))
    assert [each for each in said if each.startswith("shows no tool")] == [f"shows no tool, since {why}"]


def test_tools_for_user_interfaces_are_none_that_a_model_sees():
    app = snapshot("app", "go", ui={"resourceUri": "ui://x", "visibility": ["app"]})
    [said] = doubts(Profile(servers=("app",)), FILES, app, app=UpstreamRule("app", apps=True))
    assert said.startswith("shows no tool to a model")


def test_nothing_is_said_of_a_profile_while_a_server_is_away_or_where_nobody_has_tools():
    assert doubts(Profile(servers=("github",)), snapshot("github"), FILES, heard={"files"}) == []
    assert doubts(Profile(servers=("away",))) == [], "the configuration tells that"
    assert doubts(Profile(tools=("!*",)), snapshot("github")) == []
    sign_in = UpstreamRule("github", sign_in=SignInTool.LISTED)
    assert doubts(Profile(servers=("github",), tools=("github__x",)), github=sign_in, heard={"files"}) == []


def test_few_entries_are_told_whatever_a_profile_has():
    entries = tuple(f"files__{number}\x07{'x' * 200}" for number in range(900))
    [said] = doubts(Profile(tools=("*", *entries)))
    assert said.endswith(" and 892 more")
    assert said.isprintable()
    assert len(said) < 1_000


def test_hostile_names_of_tools_make_short_and_printable_hints():
    hostile = snapshot("files", *(f"{'read' * 9}\x1b[2J\u202e{number}" for number in range(3_000)))
    [said] = doubts(Profile(tools=("*", "files__" + "read" * 9, "read" * 9)), hostile)
    assert said.isprintable()
    assert len(said) < 400


def test_doubts_go_when_they_are_mended_and_are_kept_while_nothing_differs():
    profile, claims = ProfileRules("p", Profile(tools=("files__*", "github__fork"))), UriClaims()

    def chosen(catalog, previous):
        return finish(choose(catalog, profile_view("p"), profile, previous))

    first = everything(GITHUB, FILES, claims=claims)
    doubted = chosen(first, None)
    assert len(doubted.warnings) == 1
    same = chosen(everything(GITHUB, FILES, claims=claims, previous=first), doubted)
    assert same.doubts is doubted.doubts
    away = chosen(everything(GITHUB, FILES, claims=claims, previous=first, heard=["files"]), doubted)
    assert away.warnings == ()
    mended = everything(snapshot("github", "fork"), FILES, claims=claims, previous=first)
    assert chosen(mended, doubted).warnings == ()


def test_on_top_of_a_project_nothing_is_doubted_since_nobody_reads_it():
    project = project_view(Path("/somewhere"))
    rules = Rules((UpstreamRule("github"),))
    base = merge((GITHUB,), rules, UriClaims(), view=project, heard={"github"})
    profile = ProfileRules("p", Profile(tools=("github__nothing",)))
    assert finish(choose(base, profile_view("p", project), profile, None)).warnings == ()


# --- settings of one upstream ---


def of_upstream(rule, *tools, heard=("files",)):
    return list(everything(snapshot("files", *tools), files=rule, heard=heard).warnings)


def test_names_of_tools_that_an_upstream_does_not_have():
    rule = UpstreamRule(
        "files",
        tools=("*", "!delete_*", "read*"),
        rename=(("raed", "r"), ("write", "put")),
        describe=(("files__write", "x"), ("put", "y"), ("zzz", "z")),
    )
    assert of_upstream(rule, "read", "write") == [
        "files: entries of `tools` mean no tool of it: '!delete_*'",
        "files: `rename` names tools that it does not have: 'raed' (did you mean 'read'?)",
        "files: `describe` names tools that it does not have: 'files__write' (did you mean 'write'?), "
        "'put' (did you mean 'write'?), 'zzz'",
    ]
    assert of_upstream(rule, "read", "write", heard=()) == []
    assert of_upstream(UpstreamRule("files", tools=("read",), rename=(("write", "w"),)), "read", "write") == []


def test_a_glob_over_visible_names_hints_at_own_names():
    [said] = of_upstream(UpstreamRule("files", tools=("*", "!files__w*")), "read", "write")
    assert said == "files: entries of `tools` mean no tool of it: '!files__w*' (did you mean 'w*'?)"


def test_an_upstream_is_looked_at_once():
    rule, claims = UpstreamRule("files", rename=(("x", "y"),)), UriClaims()
    files = snapshot("files", "read")
    first = everything(files, files=rule, claims=claims)
    again = everything(files, files=rule, claims=claims, previous=first)
    assert again.parts[0].doubts is first.parts[0].doubts
    assert again.warnings == first.warnings != ()
    assert everything(files, files=rule, claims=claims, previous=first, heard=()).warnings == ()
