"""Whose a visible name is."""

from msgspec import Raw

from hub.catalog.entries import Route, UpstreamEntries
from hub.catalog.name_table import NameTable
from hub.catalog.names import UpstreamRule
from hub.catalog.steps import finish
from hub.catalog.uri_claims import UriClaims
from hub.wire.jsonrpc import raw
from hub.wire.mcp import L4, Freshness, Kind, ListEntry, Snapshot


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
