"""Requests of hosts over real sockets, through `HttpServer` and `Endpoint` together."""

import pytest
import trio
import trio.testing

from hub.catalog.endpoint_views import EVERYTHING
from hub.wire.http.sse import SseParser
from hub.wire.jsonrpc import encode, raw
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L4, MODERN, TOOLS_CALL, VERSION_KEY, Kind
from tests.support.http_client import get, post, serving
from tests.support.http_fakes import ALICE, Scripted, call, make_endpoint

JSON = ("Content-Type: application/json", "Accept: application/json, text/event-stream")


@pytest.fixture(params=[False, True], ids=["in tasks", "quick"])
def router(request):
    return Scripted(is_quick=request.param)


@pytest.fixture
async def endpoint(router):
    return make_endpoint(router)


@pytest.fixture
async def served(endpoint):
    def guard(request):
        request.identity = ALICE

    async with serving(endpoint.handle, guard) as server:
        server.nursery.start_soon(endpoint.run)
        yield server


def modern_call(name: str) -> bytes:
    meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, "progressToken": 1}
    body = encode({"jsonrpc": "2.0", "id": 1, "method": TOOLS_CALL, "params": {"name": name, "_meta": meta}})
    fields = (f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {TOOLS_CALL}", f"Mcp-Name: {name}")
    return post(body, *JSON, *fields)


async def open_session(served) -> str:
    params = {"protocolVersion": L4, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = await served.ask(post(encode(message), *JSON))
    assert answer.status == 200
    session = f"Mcp-Session-Id: {answer.headers['mcp-session-id']}"
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await served.ask(post(encode(message), *JSON, session))).status == 202
    return session


async def running(router) -> None:
    """Return when a `wait` has reached the router."""
    while not router.running:
        await trio.testing.wait_all_tasks_blocked(0.001)


@pytest.mark.covers("T-16", "F-H-01", "F-H-03")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_modern_host_that_leaves_cancels(served, router, endpoint, how, streamed, caplog):
    client = await served.connect()
    await client.send(modern_call("wait"))
    await running(router)
    if streamed:
        router.exchanges["wait"].progress({"progress": raw(1)})
        assert (await client.head()).headers["content-type"].startswith("text/event-stream")
    if how == "fin":
        await client.stream.aclose()
    else:
        client.reset()
    with trio.fail_after(30):
        while router.running or endpoint.hosts.requests.count:
            await trio.testing.wait_all_tasks_blocked(0.001)
    assert router.cancelled == ["wait"]
    assert (await served.ask(modern_call("echo"))).status == 200
    assert not caplog.records


@pytest.mark.covers("T-28", "T-29", "F-H-01")
async def test_a_legacy_host_comes_back(served, router, endpoint):
    session = await open_session(served)
    client = await served.connect()
    await client.send(post(encode(call("wait", token=1)), *JSON, session))
    await running(router)
    router.exchanges["wait"].progress({"progress": raw(1)})
    await client.head()
    parser = SseParser()
    first = parser.feed(await client.chunk())
    first += parser.feed(await client.chunk())
    assert [event.id for event in first] == ["a1-0", "a1-1"]
    client.reset()
    other = await served.connect()
    await other.send(get("Accept: text/event-stream", session, "Last-Event-ID: a1-0"))
    await other.head()
    events = SseParser().feed(await other.chunk())
    assert [event.id for event in events] == ["a1-1"]
    router.release.set()
    (event,) = SseParser().feed(await other.chunk())
    assert event.id == "a1-2"
    assert b'"result"' in event.data
    assert await other.chunk() == b""
    assert not router.cancelled
    # still the same connection
    ping = await other.ask(
        post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', *JSON, session)
    )  # still the same connection
    assert ping.body == b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.covers("T-23", "F-H-03", "I-12")
async def test_a_listener_that_leaves_is_noticed(served, endpoint):
    session = await open_session(served)
    client = await served.connect()
    await client.send(get("Accept: text/event-stream", session))
    assert (await client.head()).status == 200
    await client.chunk()
    endpoint.hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert b"tools/list_changed" in await client.chunk()
    (attached,) = endpoint.hosts
    assert not attached.idle
    await client.stream.aclose()
    with trio.fail_after(30):
        while not attached.idle:
            await trio.testing.wait_all_tasks_blocked(0.001)


@pytest.mark.covers("F-H-21", "P-10")
async def test_what_is_cancelled_ends_without_an_answer(served, router):
    session = await open_session(served)
    client = await served.connect()
    await client.send(post(encode(call("wait", 5)), *JSON, session))
    await running(router)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    assert (await served.ask(post(encode(cancel), *JSON, session))).status == 202
    answer = await client.answer()
    assert (answer.status, answer.body) == (200, b"")
    assert router.cancelled == ["wait"]


async def test_a_drain_waits_for_calls_but_not_for_listeners(served, router, endpoint, nursery):
    session = await open_session(served)
    listener, caller = await served.connect(), await served.connect()
    await listener.send(get("Accept: text/event-stream", session))
    await listener.head()
    await caller.send(post(encode(call("wait")), *JSON, session))
    await running(router)
    nursery.start_soon(served.server.drain)
    endpoint.drain()
    await listener.chunk()
    assert await listener.chunk() == b""
    router.release.set()
    assert b'"result"' in (await caller.answer()).body
    with trio.fail_after(30):
        await served.finished.wait()
