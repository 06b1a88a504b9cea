"""Lists of upstreams, walked page by page."""

import json

import pytest
from msgspec import Raw

import upstreams.inventory.read_lists
from hub.link.hub_errors import UpstreamProtocolError
from hub.wire.capabilities import ServerFacts
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import L4, Era, Kind
from hub.wire.upstream_snapshot import Freshness
from tests.support.steps import counting
from upstreams.inventory.read_lists import ENTRY_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_PAGES, TURN_BYTES, walk


class Pages:
    """A session that answers a list by a function from cursor to page."""

    def __init__(self, page, *, era=Era.LEGACY, capabilities=("tools", "resources")):
        self.era = era
        self.page = page
        self.asked = []
        known = {name: raw({"listChanged": True, "x": 1}) for name in capabilities}
        self.facts = ServerFacts(L4, known, {}, "")

    async def request(self, method, params):
        cursor = json.loads(bytes(params["cursor"])) if "cursor" in params else None
        self.asked.append((method, cursor))
        page = self.page(cursor)
        return page if isinstance(page, Failure | Result) else Result(raw(page))


def tool(name, **more):
    return {"name": name, "inputSchema": {}, **more}


def keys(listing):
    return [entry.key for entry in listing.entries]


@pytest.mark.covers("C-16", "S-31")
async def test_an_empty_cursor_is_a_cursor_and_no_cursor_ends_the_walk(autojump_clock):
    pages = {None: ("a", ""), "": ("b", "x"), "x": ("c", None)}

    def page(cursor):
        name, more = pages[cursor]
        return {"tools": [tool(name)]} | ({} if more is None else {"nextCursor": more})

    session = Pages(page)
    listing = await walk(session, Kind.TOOL)
    assert keys(listing) == ["a", "b", "c"]
    assert listing.degraded == ""
    assert listing.freshness == Freshness()
    assert session.asked == [("tools/list", None), ("tools/list", ""), ("tools/list", "x")]
    assert listing.entries[0].fields["inputSchema"] == raw({})


@pytest.mark.covers("F-P-17")
@pytest.mark.parametrize(
    ("cursors", "walked"), [({None: "a", "a": "a"}, 2), ({None: "a", "a": "b", "b": "a"}, 3), (None, MAX_PAGES)]
)
async def test_endless_pages_end(autojump_clock, cursors, walked):
    def page(cursor):
        more = f"{cursor}+" if cursors is None else cursors[cursor]
        return {"tools": [tool(f"after {cursor}")], "nextCursor": more}

    session = Pages(page)
    listing = await walk(session, Kind.TOOL)
    assert len(session.asked) == walked
    assert len(listing.entries) == walked
    assert listing.degraded


@pytest.mark.covers("F-P-16")
async def test_too_many_entries_are_cut(autojump_clock):
    session = Pages(lambda cursor: {"tools": [tool(str(n)) for n in range(3 * MAX_ENTRIES)], "nextCursor": "more"})
    listing = await walk(session, Kind.TOOL)
    assert len(listing.entries) == MAX_ENTRIES
    assert "too large" in listing.degraded
    assert len(session.asked) == 1


CROWDS = {
    "empty entries": b'{"tools":[' + b",".join([b"{}"] * 390_000) + b"]}",
    "entries": b'{"tools":[' + b",".join([b'{"name":"t%d"}' % number for number in range(100_000)]) + b"]}",
    "numbers": b'{"tools":[' + b",".join([b"1"] * 1_000_000) + b"]}",
    "members of the page": b'{"tools":[{"name":"t"}],' + b",".join([b'"%d":0' % n for n in range(300_000)]) + b"}",
    "members of an entry": b'{"tools":[{"name":"t"},{"name":"u",'
    + b",".join([b'"%d":0' % n for n in range(99)])
    + b"}]}",
    "schemas that ask": b'{"tools":['
    + b",".join(
        b'{"name":"t%d","inputSchema":{"x":"x-mcp-header",%b}}' % (n, b",".join([b'"":0'] * 40)) for n in range(2_000)
    )
    + b"]}",
    "schemas": b'{"tools":['
    + b",".join(b'{"name":"t%d","inputSchema":{%b}}' % (n, b",".join([b'"":0'] * 999)) for n in range(1_000))
    + b"]}",
}


@pytest.mark.covers("F-P-16", "SEC-13")
@pytest.mark.parametrize("page", CROWDS.values(), ids=CROWDS)
async def test_a_list_of_any_shape_is_opened_in_turns_and_only_as_far_as_it_is_used(autojump_clock, monkeypatch, page):
    with counting() as steps:
        steps.count(monkeypatch, upstreams.inventory.read_lists, "detach")
        listing = await walk(Pages(lambda cursor: Result(Raw(page))), Kind.TOOL)
    assert len(listing.entries) <= MAX_ENTRIES
    assert steps.total <= MAX_ENTRIES
    assert steps.most <= TURN_BYTES // ENTRY_BYTES
    assert steps.most_bytes <= TURN_BYTES + MAX_ENTRY_BYTES
    if page is not CROWDS["members of the page"]:
        assert listing.degraded


@pytest.mark.covers("F-P-16")
async def test_a_huge_entry_is_left_out_and_the_walk_goes_on(autojump_clock):
    huge = tool("huge", description="x" * MAX_ENTRY_BYTES)
    pages = {None: {"tools": [huge, tool("a")], "nextCursor": "2"}, "2": {"tools": [tool("b")]}}
    listing = await walk(Pages(pages.__getitem__), Kind.TOOL)
    assert keys(listing) == ["a", "b"]
    assert "left out" in listing.degraded


@pytest.mark.covers("F-P-18")
async def test_of_two_with_one_name_the_first_wins(autojump_clock):
    page = {"tools": [tool("a", title="1"), tool("a", title="2"), tool(""), {"no": "name"}, 3, tool(7), tool("b")]}
    listing = await walk(Pages(lambda cursor: page), Kind.TOOL)
    assert keys(listing) == ["a", "b"]
    assert listing.entries[0].fields["title"] == raw("1")


@pytest.mark.covers("PIN-01", "POL-61")
async def test_of_a_member_that_stands_twice_everybody_reads_the_last(autojump_clock):
    inner = b'{"x": {"description": "EVIL \\u200b", "description": "good", "default": 1.50}}'
    page = b'{"tools":[{"name":"evil","name":"a","inputSchema":{"properties":%b}},{"name":"b","x":[1,{"y":1E9}]}]}'
    listing = await walk(Pages(lambda cursor: Result(Raw(page % inner))), Kind.TOOL)
    a, b = listing.entries
    assert bytes(a.fields["inputSchema"]) == b'{"properties":{"x":{"description":"good","default":1.50}}}'
    assert (a.key, bytes(b.fields["x"])) == ("a", b'[1,{"y":1E9}]')


async def test_what_is_not_offered_is_not_asked_for(autojump_clock):
    session = Pages(lambda cursor: {}, capabilities=("tools",))
    assert keys(await walk(session, Kind.PROMPT)) == []
    assert session.asked == []


async def test_templates_need_not_exist_where_resources_do(autojump_clock):
    session = Pages(lambda cursor: Failure(-32601, "?"))
    assert keys(await walk(session, Kind.TEMPLATE)) == []
    assert session.asked == [("resources/templates/list", None)]


@pytest.mark.covers("F-P-12")
@pytest.mark.parametrize("page", [Failure(-32603, "broken"), {}, [], {"prompts": []}])
async def test_a_page_that_is_none_fails_the_walk(autojump_clock, page):
    with pytest.raises(UpstreamProtocolError):
        await walk(Pages(lambda cursor: page), Kind.TOOL)


@pytest.mark.covers("K-4", "K-9")
async def test_freshness_is_that_of_the_worst_page(autojump_clock):
    pages = {
        None: {"tools": [], "ttlMs": 9000, "cacheScope": "public", "nextCursor": "2"},
        "2": {"tools": [], "ttlMs": 5000, "cacheScope": "private"},
    }
    listing = await walk(Pages(pages.__getitem__, era=Era.MODERN), Kind.TOOL)
    assert listing.freshness == Freshness(5000, public=False)
    pages = {None: {"tools": [], "ttlMs": 9000, "cacheScope": "public"}}
    listing = await walk(Pages(pages.__getitem__, era=Era.MODERN), Kind.TOOL)
    assert listing.freshness == Freshness(9000, public=True)
