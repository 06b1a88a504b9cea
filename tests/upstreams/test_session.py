"""What all sessions share: stamps, notifications, deadlines, walking lists."""

import json

import pytest
from fakes import FakeHost
from schemas import validate

from config.schema import UpstreamConfig
from config.state import Memory
from hub.link.exchange import Operation, UpstreamProtocolError
from hub.wire.jsonrpc import Failure, Result, encode_request, raw
from hub.wire.legacy import ServerFacts
from hub.wire.mcp import L1, L4, MODERN, Era, Freshness, Kind
from upstreams.session import (
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_PAGES,
    Offer,
    Terms,
    capability,
    named_log,
    open_session,
    split_progress,
    stamp_call,
    stamp_own,
    walk,
)

ANYTHING = Offer(Terms())
CALL = Operation("tools/call", {"name": raw("t"), "arguments": raw({})})
TRACED = Operation("tools/call", {"name": raw("t")}, {"traceparent": raw("00-1-2-01")})


def meta_of(params):
    return json.loads(bytes(params["_meta"])) if "_meta" in params else None


# --- stamps -----------------------------------------------------------------------------------------------------------


def test_a_legacy_call_is_left_alone_unless_there_is_something_to_say():
    assert stamp_call(Era.LEGACY, L4, CALL, FakeHost(), 7, ANYTHING) is CALL.params
    assert meta_of(stamp_call(Era.LEGACY, L4, CALL, FakeHost(token="theirs"), 7, ANYTHING)) == {"progressToken": 7}
    assert meta_of(stamp_call(Era.LEGACY, L4, TRACED, FakeHost(), 7, ANYTHING)) == {"traceparent": "00-1-2-01"}
    both = meta_of(stamp_call(Era.LEGACY, L4, TRACED, FakeHost(token=1), 7, ANYTHING))
    assert both == {"traceparent": "00-1-2-01", "progressToken": 7}
    assert "_meta" not in CALL.params


@pytest.mark.covers("G-2", "P-1", "C-1")
def test_a_modern_call_says_everything_about_itself():
    host = FakeHost(version=MODERN, token="theirs", level="info", capabilities={"sampling": {}})
    meta = meta_of(stamp_call(Era.MODERN, MODERN, TRACED, host, 7, ANYTHING))
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    tasks = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"sampling": {}, **tasks}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "hubd"
    assert meta["io.modelcontextprotocol/logLevel"] == "info"
    assert meta["progressToken"] == 7
    assert meta["traceparent"] == "00-1-2-01"
    quiet = meta_of(stamp_call(Era.MODERN, MODERN, CALL, FakeHost(), 7, ANYTHING))
    assert set(quiet) == {
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
    }


@pytest.mark.parametrize("version", [L1, L4, MODERN])
@pytest.mark.parametrize("host", [FakeHost(), FakeHost(token="theirs", level="error")])
def test_stamped_calls_are_valid(version, host):
    era = Era.MODERN if version == MODERN else Era.LEGACY
    for operation in (CALL, TRACED):
        message = encode_request(1, operation.method, stamp_call(era, version, operation, host, 1, ANYTHING))
        validate(message, version, sender="client")
    validate(encode_request(1, "tools/list", stamp_own(era, version, {})), version, sender="client")


def test_own_requests_are_bare_in_legacy_and_promise_nothing_in_modern():
    params = {"cursor": raw("x")}
    assert stamp_own(Era.LEGACY, L4, params) is params
    declared = meta_of(stamp_own(Era.MODERN, MODERN, params))["io.modelcontextprotocol/clientCapabilities"]
    apps = {"mimeTypes": ["text/html;profile=mcp-app"]}
    assert declared == {"extensions": {"io.modelcontextprotocol/ui": apps}}


@pytest.mark.covers("R-5")
@pytest.mark.parametrize(
    ("terms", "told"),
    [
        (Terms(), {"roots", "sampling", "elicitation", "extensions"}),
        (Terms(absorbs_tasks=False), {"roots", "sampling", "elicitation"}),
        (Terms(tells_roots=False, absorbs_tasks=False), {"sampling", "elicitation"}),
        (Terms(client_features="none", absorbs_tasks=False), set()),
    ],
)
def test_a_modern_upstream_hears_what_its_configuration_allows(terms, told):
    host = FakeHost(version=L4, capabilities={"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}})
    meta = meta_of(stamp_call(Era.MODERN, MODERN, CALL, host, 7, Offer(terms)))
    assert set(meta["io.modelcontextprotocol/clientCapabilities"]) == told


@pytest.mark.covers("R-5", "I-2")
def test_hosts_that_come_after_each_other_are_not_confused():
    offer = Offer(Terms(absorbs_tasks=False))
    for capabilities in ({"sampling": {}}, {}, {"sampling": {}}, {"sampling": {"tools": {}}}):
        assert offer.of(FakeHost(capabilities=capabilities).caller) == {k: raw(v) for k, v in capabilities.items()}


# --- notifications ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-11", "P-2")
@pytest.mark.parametrize(
    ("token", "found"), [(7, 7), ("7", None), (-7, None), (7.0, None), (None, None), (10**30, None), ([7], None)]
)
def test_only_an_integer_can_be_our_token(token, found):
    params = {"progressToken": raw(token), "progress": raw(1), "_meta": raw({})}
    assert split_progress(params) == (found, {"progress": raw(1)})
    assert split_progress({}) == (None, {})


def test_loggers_carry_the_name_of_their_upstream():
    said = {"level": raw("info"), "data": raw({"a": 1}), "logger": raw("db"), "_meta": raw({})}
    assert named_log("files", said) == {"level": raw("info"), "data": raw({"a": 1}), "logger": raw("files/db")}
    assert named_log("files", {"data": raw(1)})["logger"] == raw("files")


# --- lists ------------------------------------------------------------------------------------------------------------


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
        return page if isinstance(page, Failure) else Result(raw(page))


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


def test_capabilities_are_looked_up_kindly():
    facts = Pages(None).facts
    assert capability(facts, "tools", "listChanged")
    assert not capability(facts, "tools", "x")
    assert not capability(facts, "prompts", "listChanged")


async def test_the_configuration_chooses_the_transport(autojump_clock):
    stdio = open_session(UpstreamConfig(command="x"), "a", None, Memory(None))
    http = open_session(UpstreamConfig(url="http://127.0.0.1:1/mcp"), "b", None, Memory(None))
    assert (stdio.transport, http.transport) == ("stdio", "http")
