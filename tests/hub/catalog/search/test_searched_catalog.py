"""The catalogue of a view in search mode."""

import json

import pytest
from msgspec.structs import replace

from hub.catalog.endpoint_views import View
from hub.catalog.uri_claims import UriClaims
from hub.catalog.visible_names import UpstreamRule
from hub.wire.mcp import L1, L4, MODERN, Kind
from tests.hub.catalog.test_catalog import entry, ids, listed, merged, rules, snapshot

SEARCH = View("", search=True)
READS = {"readOnlyHint": True}


def whole(*, trusted=False, page_size=0):
    files = snapshot("files", [entry(Kind.TOOL, "read", annotations=READS), "write"], resources=["file:///a"])
    rule = rules("files", "git", page_size=page_size)
    _, *rest = rule.upstreams
    rule = replace(rule, upstreams=(UpstreamRule("files", trusted=trusted), *rest))
    return merged(files, snapshot("git", ["log"]), rule=rule, claims=UriClaims())


@pytest.mark.covers("ES-10")
def test_the_tools_for_finding_stand_in_place_of_all_but_the_always_ones():
    catalog = whole().in_search_mode(SEARCH, {"git__log"})
    assert ids(catalog, Kind.TOOL) == ["hub__find_tools", "hub__call_tool", "git__log"]
    assert ids(catalog, Kind.RESOURCE) == ["file:///a"]
    found = listed(catalog, Kind.TOOL)[0]
    assert found["description"] == (
        "Search the 3 tools of this hub and get their definitions. Servers: files (2), git (1)."
    )


def test_tools_that_only_read_have_a_call_of_their_own_where_they_are_believed():
    assert "hub__call_read_only_tool" in ids(whole(trusted=True).in_search_mode(SEARCH, ()), Kind.TOOL)
    assert "hub__call_read_only_tool" not in ids(whole().in_search_mode(SEARCH, ()), Kind.TOOL)


@pytest.mark.covers("ES-7")
def test_all_tools_can_be_called():
    catalog = whole().in_search_mode(SEARCH, ())
    for name in ("files__read", "files__write", "git__log"):
        assert catalog.route(Kind.TOOL, name) == whole().route(Kind.TOOL, name)


def test_all_tools_can_be_found_but_none_that_the_view_does_not_have():
    catalog = whole().in_search_mode(SEARCH, ())
    assert [each.visible for _, shown in catalog.findable() for each in shown] == [
        "files__read",
        "files__write",
        "git__log",
    ]
    taken = merged(snapshot("a", ["b__t"]), snapshot("b", ["t"]), rule=rules(UpstreamRule("a", prefix=""), "b"))
    assert [each.visible for _, shown in taken.in_search_mode(SEARCH, ()).findable() for each in shown] == ["b__t"]


def test_pages_of_every_revision():
    for version in (L1, L4, MODERN):
        page = json.loads(bytes(whole().in_search_mode(SEARCH, ()).page(Kind.TOOL, version, None).value))
        assert [tool["name"] for tool in page["tools"]] == ["hub__find_tools", "hub__call_tool"]
    catalog = whole(page_size=2).in_search_mode(SEARCH, {"files__read"})
    first = json.loads(bytes(catalog.page(Kind.TOOL, L4, None).value))
    assert [tool["name"] for tool in first["tools"]] == ["hub__find_tools", "hub__call_tool"]
    second = json.loads(bytes(catalog.page(Kind.TOOL, L4, first["nextCursor"]).value))
    assert [tool["name"] for tool in second["tools"]] == ["files__read"]


def test_the_list_is_private_and_another_one():
    page = json.loads(bytes(whole().in_search_mode(SEARCH, ()).page(Kind.TOOL, MODERN, None).value))
    assert page["cacheScope"] == "private"
    assert whole().in_search_mode(SEARCH, ()).differs(whole(), Kind.TOOL)
    assert not whole().in_search_mode(SEARCH, ()).differs(whole(), Kind.RESOURCE)
    assert not whole().in_search_mode(SEARCH, ()).differs(whole().in_search_mode(SEARCH, ()), Kind.TOOL)


def test_the_cost_is_of_what_is_listed():
    catalog = whole().in_search_mode(SEARCH, {"git__log"})
    assert [name for name, _ in catalog.tool_bytes()] == ["hub__find_tools", "hub__call_tool", "git__log"]
    assert {name: cost.tools for name, cost in catalog.costs.items()} == {"hub": 2, "files": 0, "git": 1}
