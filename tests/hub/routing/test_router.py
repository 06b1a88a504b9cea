"""One table from method to handler; whole journeys through it are in tests/journeys."""

import json

import pytest
import trio
import trio.testing
from msgspec import Raw, structs

from config.settings import UpstreamConfig
from hub.bridge.bridge import EraBridge
from hub.bridge.parking.parking import ParkedCalls
from hub.bridge.request_state import RequestStates
from hub.bridge.tasks.tasks import Tasks
from hub.bridge.url_elicitation import PageVisits
from hub.catalog.catalog import Rules
from hub.catalog.entries import UpstreamRule
from hub.catalog.rewrite import LARGE_BYTES
from hub.catalog.uri_claims import UriClaims
from hub.catalog.view import EVERYTHING, server_view
from hub.link.errors import UpstreamUnavailable
from hub.link.sealing import Sealer
from hub.routing.host_exchange import ProgressUpkeep
from hub.routing.list_updates import ListUpdates
from hub.routing.live_catalog import LiveCatalog
from hub.routing.log_levels import LogLevels
from hub.routing.router import Router
from hub.routing.subscriptions import Subscriptions
from hub.wire.item_limits import MAX_ITEMS, SMALL_BYTES
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Request, Result, raw
from hub.wire.mcp import L1, L3, L4, MODERN, Freshness, Kind, ListEntry, Snapshot
from tests.support.fakes import FakeHost


class Files:
    """An upstream: keeps what it is asked, answers as told."""

    name = "files"
    config = UpstreamConfig(command="files")

    def __init__(self, *tools):
        entries = tuple(
            ListEntry(tool, {"name": raw(tool), "inputSchema": Raw(b'{"type":"object"}')}) for tool in tools
        )
        lists = dict.fromkeys(Kind, ()) | {Kind.TOOL: entries}
        fresh = dict.fromkeys(Kind, Freshness())
        self.snapshot = Snapshot("files", L4, {"tools": Raw(b"{}")}, {}, "Be brief.", lists, fresh, True)
        self.calls = []
        self.stale = []
        self.refreshed = []
        self.answer = Result(Raw(b'{"content":[]}'))

    def version_for(self, caller):
        return self.snapshot.version

    async def call(self, operation, exchange):
        self.calls.append(operation)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    settling = False

    def ttl_ms(self, kind):
        return 60_000

    def refresh_if_expired(self, kind):
        return None

    def retry_if_due(self):
        pass

    def mark_stale(self, kinds):
        self.stale.append(kinds)

    async def refresh(self, kind):
        self.refreshed.append((self.name, kind))


class Bench:
    """A router over one upstream."""

    def __init__(self, *tools, settled=True, reading=None):
        self.files = Files(*tools)
        self.applied = []
        levels = LogLevels(list, self.applied.append)
        states = RequestStates(Sealer(b"k" * 32), wall=lambda: 0.0)
        tasks = Tasks(states, Sealer(b"k" * 32), {"files": self.files}, ttl_s=900)
        bridge = EraBridge(states, ParkedCalls(states, ttl_s=900, total_s=7200), tasks, PageVisits())
        rules = Rules((UpstreamRule("files"),))
        self.live = LiveCatalog({"files": self.files}, rules, UriClaims(), Sealer(b"k" * 32), lambda: None)
        subscriptions = Subscriptions(self.live)
        self.router = Router(
            self.live, ListUpdates(self.live, ()), subscriptions, levels, bridge, ProgressUpkeep(0), reading
        )
        self.live.claim_for_good()
        self.live.rebuild()
        if settled:
            self.live.settled.set()

    async def ask(self, method, host=None, **params):
        request = Request(1, method, {name: raw(value) for name, value in params.items()})
        return await self.router.dispatch(request, host or FakeHost())


@pytest.mark.covers("V-14", "V-26")
@pytest.mark.parametrize(("asked", "agreed"), [(L1, L1), (L3, L3), ("2099-01-01", L4), (MODERN, L4)])
async def test_a_handshake_agrees_on_a_revision(asked, agreed):
    params = {"protocolVersion": raw(asked), "capabilities": raw({"roots": {}})}
    result, version, capabilities = Bench().router.initialize(params, EVERYTHING)
    assert version == agreed
    assert json.loads(bytes(result.value))["protocolVersion"] == agreed
    assert set(capabilities) == {"roots"}


async def test_a_handshake_on_the_endpoint_of_an_upstream_has_its_instructions():
    params = {"protocolVersion": raw(L4)}
    result, _, _ = Bench().router.initialize(params, server_view("files"))
    assert json.loads(bytes(result.value))["instructions"] == "Be brief."


@pytest.mark.parametrize("params", [{}, {"protocolVersion": raw(7)}, {"protocolVersion": raw(None)}])
async def test_a_handshake_without_a_revision_is_refused(params):
    with pytest.raises(RemoteProtocolError) as caught:
        Bench().router.initialize(params, EVERYTHING)
    assert caught.value.failure.code == -32602


async def test_the_name_of_an_upstream_is_that_of_its_view():
    router = Bench().router
    assert router.find_view("files") == server_view("files")
    assert router.find_view("file") is None
    assert router.find_view("") is None


async def test_a_known_name_is_called_before_all_is_settled(autojump_clock):
    bench = Bench("echo", settled=False)
    assert isinstance(await bench.ask("tools/call", name="files__echo"), Result)


async def test_an_unknown_name_waits_until_all_is_settled(autojump_clock, nursery):
    bench = Bench(settled=False)
    replies = []

    async def ask():
        replies.append(await bench.ask("tools/call", name="files__echo"))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    assert replies == []
    bench.files.snapshot = Files("echo").snapshot
    bench.live.rebuild()
    bench.router.settled.set()
    await trio.testing.wait_all_tasks_blocked()
    assert isinstance(replies[0], Result)
    assert bench.files.refreshed == []


@pytest.mark.parametrize(
    ("name", "refreshed"),
    [("files__nothing", [("files", Kind.TOOL)]), ("others__echo", []), ("echo", []), ("", []), ("__", [])],
)
async def test_only_a_known_server_is_asked_again(name, refreshed):
    bench = Bench("echo")
    reply = await bench.ask("tools/call", name=name)
    assert reply == Failure(-32602, f"Unknown tool: {name}; tools/list names those there are")
    assert bench.files.refreshed == refreshed


@pytest.mark.parametrize(
    ("code", "text", "stale"),
    [
        (-32602, "Unknown tool: echo", True),
        (-32602, "MCP error -32602: Tool echo not found", True),
        (-32601, "Unknown method", True),
        (-32602, "text is missing", False),
        (-32603, "Unknown tool", False),
    ],
)
async def test_an_upstream_that_does_not_know_its_own_tool_is_out_of_date(code, text, stale):
    bench = Bench("echo")
    bench.files.answer = Failure(code, text)
    assert await bench.ask("tools/call", name="files__echo") == Failure(code, text)
    assert bench.files.stale == ([(Kind.TOOL,)] if stale else [])


async def test_a_failure_of_the_hub_is_told_in_the_hosts_revision():
    bench = Bench("echo")
    bench.files.answer = UpstreamUnavailable("files is away", upstream="files")
    for version in (L4, MODERN):
        reply = await bench.ask("tools/call", FakeHost(version=version), name="files__echo")
        result = json.loads(bytes(reply.value))
        assert result["isError"]
        assert ("resultType" in result) == (version == MODERN)
        assert result["_meta"]["dev.hubd/failure"]["hub"] == "upstream_unavailable"


async def test_the_level_of_a_modern_request_is_wanted_before_it_is_sent():
    bench = Bench("echo")
    await bench.ask("tools/call", FakeHost(version=L4, level="debug"), name="files__echo")
    assert bench.applied == []
    await bench.ask("tools/call", FakeHost(version=MODERN, level="debug"), name="files__echo")
    assert bench.applied == ["debug"]


class Kept:
    """A cache that has one resource."""

    def find_cached(self, upstream, original, asked, caller, catalog):
        return Result(raw({"contents": [caller.version]})) if original == "note:a" else None


@pytest.mark.covers("K-2")
@pytest.mark.parametrize("reading", [None, Kept()])
async def test_at_once_is_what_is_kept_of_what_is_asked_for_plainly(reading):
    bench = Bench(reading=reading)
    note = ListEntry("note:a", {"uri": raw("note:a"), "name": raw("a")})
    lists = {**bench.files.snapshot.lists, Kind.RESOURCE: (note, ListEntry("note:b", {"uri": raw("note:b")}))}
    bench.files.snapshot = structs.replace(bench.files.snapshot, lists=lists)
    bench.live.rebuild()
    caller = FakeHost().caller

    def at_once(method="resources/read", view=EVERYTHING, **params):
        members = {name: raw(value) for name, value in params.items()}
        return bench.router.at_once(Request(1, method, members), caller, view)

    if reading is None:
        assert at_once(uri="note:a") is None, "nothing is kept"
        return
    assert json.loads(bytes(at_once(uri="note:a").value)) == {"contents": [L4]}
    assert at_once(uri="note:a", view=server_view("files"))
    assert at_once(uri="note:a", _meta={"traceparent": "x"})
    for params in ({"uri": "note:b"}, {"uri": "note:c"}, {"uri": 7}, {}, {"uri": "note:a", "_meta": {"more": 1}}):
        assert at_once(**params) is None, params
    assert at_once("resources/subscribe", uri="note:a") is None


async def test_parameters_are_passed_on_without_being_changed_in_the_request():
    bench = Bench("echo")
    arguments = {"deep": [1, {"a": None}], "uri": "file:///a"}
    request = Request(1, "tools/call", {"name": raw("files__echo"), "arguments": raw(arguments), "extra": raw(1)})
    await bench.router.dispatch(request, FakeHost())
    assert json.loads(bytes(request.params["name"])) == "files__echo"
    sent = {name: json.loads(bytes(value)) for name, value in bench.files.calls[0].params.items()}
    assert sent == {"name": "echo", "arguments": arguments, "extra": 1}


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize("filler", [0, LARGE_BYTES])
async def test_tagged_uris_in_arguments_are_put_right_however_large_these_are(filler):
    """Large ones in a thread, so that nobody else waits."""
    bench = Bench("find")
    text = {"more": "a" * filler}
    await bench.ask("tools/call", name="files__find", arguments={"uri": "hub.files+x://1", **text})
    (called,) = bench.files.calls
    assert json.loads(bytes(called.params["arguments"])) == {"uri": "x://1", **text}


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize("filler", [0, LARGE_BYTES])
async def test_a_call_with_too_many_tagged_uris_is_refused_and_not_made(filler, monkeypatch):
    monkeypatch.setattr("hub.catalog.rewrite.MAX_TAGS", 2)
    bench = Bench("find")
    found = await bench.ask("tools/call", name="files__find", arguments=["hub.files+x://1"] * 3 + ["a" * filler])
    assert isinstance(found, Failure)
    assert found.code == -32602
    assert found.message == (
        "The arguments hold more than 2 URIs with a tag of the hub, more than the hub puts right in one call;"
        " pass fewer at a time"
    )
    assert not bench.files.calls


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"content": [], "more": [1] * (MAX_ITEMS + 1)}, "a result has more than 100000 items"),
        ({"content": [1] * MAX_ITEMS + [{"uri": 1}]}, "the content of a result has more than 100000 items"),
        ({"content": [{"uri": 1}] * 5001 + ["a" * SMALL_BYTES]}, "a result has 5001 URIs; the hub looks up 5000"),
    ],
)
async def test_a_result_with_more_in_it_than_the_hub_looks_through_is_an_error(answer, why):
    bench = Bench("find")
    bench.files.answer = Result(raw(answer))
    found = await bench.ask("tools/call", FakeHost(version=MODERN), name="files__find", arguments={})
    assert isinstance(found, Result)
    told = json.loads(bytes(found.value))
    assert told["isError"]
    assert why in told["content"][0]["text"]
