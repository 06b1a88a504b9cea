"""One table from method to handler; whole journeys through it are in tests/journeys."""

import json

import pytest
import trio
from msgspec import structs

from hub.calls.host_exchange import HostExchange
from hub.catalog.endpoint_views import EVERYTHING, server_view
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.jsonrpc import RemoteProtocolError, Request, Result, raw
from hub.wire.mcp import L1, L3, L4, MODERN, Kind
from hub.wire.upstream_snapshot import ListEntry
from tests.support.fakes import FakeHost
from tests.support.routing_bench import Bench


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
    assert router.live.find_view("files") == server_view("files")
    assert router.live.find_view("file") is None
    assert router.live.find_view("") is None


async def test_a_failure_of_the_hub_is_told_in_the_hosts_revision():
    bench = Bench("echo")
    bench.files.answer = UpstreamUnavailable("files is away", upstream="files")
    for version in (L4, MODERN):
        reply = await bench.ask("tools/call", FakeHost(version=version), name="files__echo")
        result = json.loads(bytes(reply.value))
        assert result["isError"]
        assert ("resultType" in result) == (version == MODERN)
        assert result["_meta"]["dev.hubd/failure"]["hub"] == "upstream_unavailable"


def find_cached(reads, upstream, original, asked, caller, catalog, *, is_private):
    """Find one resource, as if it were in a cache."""
    return Result(raw({"contents": [caller.version]})) if original == "note:a" else None


@pytest.mark.covers("K-2")
@pytest.mark.parametrize("reading", [None, object()])
async def test_at_once_is_what_is_kept_of_what_is_asked_for_plainly(reading, monkeypatch):
    monkeypatch.setattr("hub.routing.compose_chains.find_cached", find_cached)
    bench = Bench(reading=reading)
    note = ListEntry("note:a", {"uri": raw("note:a"), "name": raw("a")})
    lists = {**bench.files.snapshot.lists, Kind.RESOURCE: (note, ListEntry("note:b", {"uri": raw("note:b")}))}
    bench.files.snapshot = structs.replace(bench.files.snapshot, lists=lists)
    bench.live.rebuild()
    caller = FakeHost().caller

    def at_once(method="resources/read", view=EVERYTHING, **params):
        members = {name: raw(value) for name, value in params.items()}
        exchange = HostExchange(caller, lambda message, *, vital=False: None, view=view)
        return bench.router.begin(Request(1, method, members), exchange, None)

    if reading is None:
        assert at_once(uri="note:a") is None, "nothing is kept"
        return
    assert json.loads(bytes(at_once(uri="note:a").value)) == {"contents": [L4]}
    assert at_once(uri="note:a", view=server_view("files"))
    assert at_once(uri="note:a", _meta={"traceparent": "x"})
    for params in ({"uri": "note:b"}, {"uri": "note:c"}, {"uri": 7}, {}, {"uri": "note:a", "_meta": {"more": 1}}):
        assert at_once(**params) is None, params
    assert at_once("resources/subscribe", uri="note:a") is None


async def test_pings_and_lists_that_are_ready_are_answered_at_once(monkeypatch):
    bench = Bench("echo")
    expired = []
    monkeypatch.setattr(bench.files, "refresh_if_expired", lambda kind: expired and expired[0])

    def at_once(method, host=None, view=EVERYTHING, **params):
        members = {name: raw(value) for name, value in params.items()}
        exchange = HostExchange((host or FakeHost()).caller, lambda message, *, vital=False: None, view=view)
        return bench.router.begin(Request(1, method, members), exchange, None)

    assert at_once("ping") == Result(raw({}))
    assert at_once("ping", FakeHost(version=MODERN)).code == -32601
    listed = at_once("tools/list")
    assert listed == await bench.ask("tools/list")
    assert at_once("tools/list", cursor=7).code == at_once("tools/list", cursor="no such").code == -32602
    expired.append(object())
    assert at_once("tools/list") is None, "it is read again first"
    expired.clear()
    bench.live.news.set()
    assert at_once("tools/list") is None, "it has changed"
    bench.live.rebuild()
    assert at_once("tools/list") == listed
    bench.live.settled = trio.Event()
    assert at_once("tools/list") is None, "not all have said what they offer"
    assert at_once("server/discover") is None
