"""Streamable HTTP without sockets: `Answered` plays the connection, `Scripted` the router."""

import msgspec
import pytest
import trio
import trio.testing

from hub.catalog.endpoint_views import EVERYTHING, server_view
from hub.downstream.host_conversations import SESSION_IN_FLIGHT
from hub.downstream.http.endpoint import Endpoint
from hub.downstream.http.reply import is_json, read_accept
from hub.downstream.http.sessions import MAX_SESSIONS_OF_PRINCIPAL, SESSION_IDLE_S
from hub.downstream.request_admission import PRINCIPAL_IN_FLIGHT
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Result, encode, raw
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L1, L2, L3, L4, LOG_LEVEL_KEY, MODERN, VERSION_KEY, Kind
from hub.wire.questions.askable_questions import Question
from tests.support.http_fakes import ALICE, BOB, Answered, Host, Scripted, call, make_endpoint, pending, read
from tests.support.steps import wakes_within


@pytest.fixture(params=[False, True], ids=["in tasks", "quick"])
def router(request):
    return Scripted(is_quick=request.param)


@pytest.fixture
async def endpoint(router):
    return make_endpoint(router)


@pytest.fixture
def host(endpoint):
    return Host(endpoint)


@pytest.fixture
async def session(host):
    """A host with an open session of 2025-11-25."""
    await host.initialize()
    await host.notify("notifications/initialized")
    return host


def baseline(endpoint: Endpoint) -> None:
    """Nothing is left of any request."""
    hosts = endpoint.hosts
    assert pending(endpoint) == 0
    assert not hosts.requests.count
    assert not any(host.calls for host in hosts)


async def test_an_idle_endpoint_is_hardly_woken(endpoint, host, nursery, autojump_clock):
    nursery.start_soon(endpoint.run)
    await trio.sleep(1)
    assert await wakes_within(3600) <= 3600 / 10
    await host.initialize()
    await trio.sleep(1)
    assert await wakes_within(600) <= 2 * 600 / 10


# --- what is turned away ----------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-08")
@pytest.mark.parametrize("path", ["/", "/mc", "/mcp/", "/mcp/nobody", "/mcp/files/x", "/mcpx", "/status", "/healthz"])
async def test_paths_that_do_not_exist(host, path):
    assert (await host.http("POST", b"{}", host.headers(), path=path)).status == 404


async def test_unauthenticated_requests_are_not_read(endpoint):
    host = Host(endpoint)
    host.identity = None
    assert (await host.http("POST", b"{", host.headers())).status == 401


@pytest.mark.covers("SEC-04")
@pytest.mark.parametrize(
    "type", [None, "text/plain", "application/jsonx", "multipart/form-data", "application/json;charset=latin1", ""]
)
async def test_only_json_is_read(host, router, type):
    answered = await host.modern_call("echo", content_type=type)
    assert answered.status == 415
    assert not router.seen


@pytest.mark.parametrize(
    "type", ["application/json", "Application/JSON ; charset=UTF-8", 'application/json;charset="utf-8"']
)
def test_spellings_of_json(type):
    assert is_json(type)


@pytest.mark.covers("T-12")
@pytest.mark.parametrize(
    ("header", "json", "events"),
    [
        (None, True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("text/event-stream;q=0.5,Application/*", True, True),
        ("application/json", True, False),
        ("application/json, text/event-stream;q=0.0", True, False),
        ("text/event-stream", False, True),
        ("text/html", False, False),
        ("", False, False),
    ],
)
def test_what_accept_allows(header, json, events):
    assert (read_accept(header).json, read_accept(header).events) == (json, events)


def test_who_names_events_first_wants_them():
    assert read_accept("text/event-stream, application/json").events_first
    assert not read_accept("application/json, text/event-stream").events_first
    assert not read_accept("text/event-stream").events_first


async def test_a_host_that_takes_neither_form(host):
    assert (await host.modern_call("echo", accept="text/html")).status == 406


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}', -32602),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', -32600),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', -32600),
    ],
)
@pytest.mark.covers("F-H-08", "F-H-09", "B-2", "B-17")
async def test_malformed_messages(host, router, body, code):
    answered = await host.http("POST", body, host.headers(mcp_protocol_version=None))
    assert (answered.status, answered.code) == (400, code)
    assert not router.seen


@pytest.mark.covers("T-20")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
async def test_methods_without_a_session(host, method):
    answered = await host.http(method, b"", {"mcp-protocol-version": MODERN, "accept": "text/event-stream"})
    assert answered.status == 405
    assert "POST" in answered.headers["Allow"]


# --- modern -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("T-11", "T-14", "T-18", "V-4")
async def test_a_modern_call_is_one_json_message(host, router, endpoint):
    answered = await host.modern_call("echo", id="h-1", mcp_session_id="whatever")
    assert answered.last == {
        "jsonrpc": "2.0",
        "id": "h-1",
        "result": {"resultType": "complete", "content": [{"type": "text", "text": "echo"}]},
    }
    assert (answered.status, answered.headers, answered.streamed) == (200, {}, False)
    exchange, _ = router.seen[0]
    assert exchange.caller.identity is ALICE
    assert exchange.caller.version == MODERN
    assert len(endpoint.sessions) == 0
    baseline(endpoint)


@pytest.mark.covers("T-21", "S-29")
@pytest.mark.parametrize("method", ["nothing/such", "ping", "logging/setLevel", "resources/subscribe"])
async def test_an_unknown_method_is_404(host, method):
    answered = await host.modern(method, {"level": "error", "uri": "x:y"})
    assert (answered.status, answered.code) == (404, -32601)


@pytest.mark.covers("H-1", "H-2", "H-3", "H-8", "T-22", "F-H-17", "V-2", "B-10", "F-H-18")
@pytest.mark.parametrize(
    ("meta", "headers", "code"),
    [
        ({}, {"mcp_protocol_version": None}, -32020),
        ({}, {"mcp_protocol_version": L4}, -32020),
        ({VERSION_KEY: "1999-01-01"}, {}, -32020),
        ({VERSION_KEY: "1999-01-01"}, {"mcp_protocol_version": "1999-01-01"}, -32022),
        ({VERSION_KEY: 5}, {}, -32602),
        ({CLIENT_CAPABILITIES_KEY: None}, {}, -32602),
        ({LOG_LEVEL_KEY: "loud"}, {}, -32602),
        ({}, {"mcp_method": None}, -32020),
        ({}, {"mcp_method": "Tools/call"}, -32020),
        ({}, {"mcp_name": None}, -32020),
        ({}, {"mcp_name": "other"}, -32020),
        ({}, {"mcp_name": "=?base64?!?="}, -32020),
    ],
)
async def test_bad_modern_requests(host, router, meta, headers, code):
    answered = await host.modern_call("echo", id=7, meta=meta, **headers)
    assert (answered.status, answered.code, answered.last["id"]) == (400, code, 7)
    assert not router.seen
    if code == -32022:
        assert answered.last["error"]["data"]["supported"][0] == MODERN


async def test_a_modern_header_without_modern_metadata(host):
    answered = await host.http("POST", encode(call("echo")), host.headers(mcp_protocol_version=MODERN))
    assert (answered.status, answered.code) == (400, -32602)


@pytest.mark.covers("T-22")
async def test_a_missing_capability_is_400(host):
    answered = await host.modern_call("headers")
    assert (answered.status, answered.code) == (400, -32021)


@pytest.mark.covers("T-13")
async def test_modern_notifications_are_accepted(host, router):
    for params in ({"requestId": 1}, {"requestId": 1, "_meta": {VERSION_KEY: MODERN}}):
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        answered = await host.http("POST", encode(message), host.headers(mcp_protocol_version=MODERN))
        assert (answered.status, answered.body) == (202, b"")
    assert not router.seen


@pytest.mark.covers("T-15", "P-1")
async def test_progress_opens_a_stream(host):
    answered = await host.modern_call("progress", meta={"progressToken": "t"})
    assert answered.streamed
    progress, result = answered.messages
    assert progress["params"] == {"progressToken": "t", "progress": 1, "total": 2}
    assert result["id"] == 1
    assert [id for id, _ in answered.events] == [None, None]
    assert answered.complete.is_set()


@pytest.mark.covers("N-9")
async def test_logs_of_a_modern_request(host):
    assert (await host.modern_call("log", meta={LOG_LEVEL_KEY: "warning"})).streamed
    assert not (await host.modern_call("log", meta={LOG_LEVEL_KEY: "alert"})).streamed
    assert not (await host.modern_call("log")).streamed


async def test_hosts_that_take_only_one_form(host):
    token = {"progressToken": 1}
    answered = await host.modern_call("progress", meta=token, accept="application/json")
    assert not answered.streamed
    assert answered.last["result"]
    answered = await host.modern_call("echo", accept="text/event-stream")
    assert answered.streamed


@pytest.mark.covers("T-14", "T-19")
async def test_a_slow_answer_becomes_a_stream(host, router, endpoint, nursery, autojump_clock):
    nursery.start_soon(endpoint.run)
    answered = Answered()
    nursery.start_soon(lambda: host.modern_call("wait", into=answered))
    await trio.sleep(1.4)
    assert not answered.started
    await trio.sleep(1.2)
    assert answered.streaming
    assert not answered.events
    router.release.set()
    await answered.complete.wait()
    assert answered.last["result"]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("T-16", "F-H-01", "P-6")
@pytest.mark.parametrize("after", [0.1, 5])
async def test_a_modern_host_that_leaves_cancels(host, router, endpoint, nursery, autojump_clock, after):
    nursery.start_soon(endpoint.run)
    answered = Answered()
    nursery.start_soon(lambda: host.modern_call("wait", into=answered))
    await trio.sleep(after)
    answered.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert router.cancelled == ["wait"]
    assert answered.messages == []
    baseline(endpoint)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-H-06", "F-H-07", "B-11")
async def test_modern_hosts_may_use_the_same_id_at_once(endpoint, router, nursery):
    answers = [Answered() for _ in range(3)]
    for answered, who in zip(answers, (ALICE, ALICE, BOB), strict=True):
        nursery.start_soon(lambda a=answered, w=who: Host(endpoint, w).modern_call("wait", into=a))
    await trio.testing.wait_all_tasks_blocked()
    router.release.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [answered.last["id"] for answered in answers] == [1, 1, 1]


@pytest.mark.covers("SEC-16")
async def test_a_bug_fails_one_request(host, endpoint, caplog):
    answered = await host.modern_call("crash")
    assert (answered.status, answered.code) == (200, -32603)
    assert "ZeroDivisionError" in caplog.text
    baseline(endpoint)


KEPT = Result(raw({"contents": [], "resultType": "complete", "ttlMs": 1, "cacheScope": "private"}))


async def test_what_is_at_hand_is_not_waited_for(host, session, router):
    router.at_hand["note:a"] = KEPT
    assert (await host.modern("resources/read", {"uri": "note:a"})).last["result"]["ttlMs"] == 1
    assert (await session.post(read("note:a"))).last["result"]["ttlMs"] == 1
    assert not router.seen
    assert (await session.post(read("note:b"))).code == -32601
    assert [request.method for _, request in router.seen] == ["resources/read"]


async def test_what_is_at_hand_has_no_id_of_a_request_that_is_running(session, router, nursery):
    router.at_hand["note:a"] = KEPT
    nursery.start_soon(session.call, "wait", 1)
    await router.started.wait()
    assert (await session.post(read("note:a", 1))).code == -32600
    assert (await session.post(read("note:a", 2))).last["result"]
    router.release.set()


@pytest.mark.covers("SEC-16")
async def test_a_bug_at_hand_fails_one_request(host, session, endpoint, router, caplog):
    router.at_hand["note:a"] = ZeroDivisionError()
    answered = await host.modern("resources/read", {"uri": "note:a"})
    assert (answered.status, answered.code) == (200, -32603)
    assert (await session.post(read("note:a"))).code == -32603
    assert caplog.text.count("ZeroDivisionError") == 2
    baseline(endpoint)


@pytest.mark.covers("F-H-05")
async def test_one_principal_cannot_have_everything(endpoint, router, nursery):
    for _ in range(PRINCIPAL_IN_FLIGHT):
        nursery.start_soon(Host(endpoint).modern_call, "wait")
    await trio.testing.wait_all_tasks_blocked()
    answered = await Host(endpoint).modern_call("echo")
    assert (answered.status, answered.headers["Retry-After"]) == (429, "1")
    assert answered.last["error"]["data"]["hub"] == "overloaded"
    assert (await Host(endpoint, BOB).modern_call("echo")).status == 200
    router.release.set()
    await trio.testing.wait_all_tasks_blocked()
    assert (await Host(endpoint).modern_call("echo")).status == 200
    baseline(endpoint)


@pytest.mark.covers("F-H-25")
async def test_a_session_id_means_nothing_to_a_modern_request(session, router):
    answered = await session.modern_call("echo", mcp_session_id=session.session)
    assert answered.status == 200
    assert router.seen[-1][0].caller.version == MODERN
    answered = await session.call("echo")
    assert router.seen[-1][0].caller.version == L4


async def test_one_upstream_by_itself(endpoint, router):
    host = Host(endpoint, path="/mcp/files")
    await host.modern_call("echo")
    await host.initialize()
    await host.call("echo")
    assert [exchange.view.name for exchange, _ in router.seen] == ["files", "files"]
    host.path = "/mcp"
    assert (await host.call("echo")).status == 404


# --- legacy: the session ----------------------------------------------------------------------------------------------


@pytest.mark.covers("V-13", "V-14", "V-26", "T-32")
@pytest.mark.parametrize(("asked", "got"), [(L1, L1), (L2, L2), (L3, L3), (L4, L4), (MODERN, L4), ("1999-01-01", L4)])
async def test_initialize_mints_a_session(host, endpoint, asked, got):
    answered = await host.initialize(asked)
    assert answered.last["result"]["protocolVersion"] == got
    assert host.session is not None
    assert len(host.session) >= 22
    assert host.session.isascii()
    assert len(endpoint.sessions) == 1


async def test_an_initialize_that_cannot_be_used(host, endpoint):
    message = {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}}
    answered = await host.http("POST", encode(message), host.headers())
    assert (answered.status, answered.code, answered.last["id"]) == (400, -32602, 3)
    assert len(endpoint.sessions) == 0


@pytest.mark.covers("F-H-25")
async def test_initialize_ignores_the_session_of_the_request(session):
    first = session.session
    params = {"protocolVersion": L3, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answered = await session.post(message)
    assert answered.headers["Mcp-Session-Id"] not in (None, first)
    assert (await session.call("echo")).status == 200


@pytest.mark.covers("T-24")
async def test_a_legacy_call_is_one_json_message(session, router, endpoint):
    answered = await session.call("echo", id="x")
    assert answered.last == {"jsonrpc": "2.0", "id": "x", "result": {"content": [{"type": "text", "text": "echo"}]}}
    assert not answered.streamed
    assert router.seen[0][0].caller.version == L4
    assert (await session.notify("notifications/anything")).status == 202
    assert (await session.post({"jsonrpc": "2.0", "id": 5, "result": {}})).status == 202
    baseline(endpoint)


async def test_an_unknown_method_in_a_session_is_200(session):
    answered = await session.post({"jsonrpc": "2.0", "id": 5, "method": "server/discover"})
    assert (answered.status, answered.code) == (200, -32601)


@pytest.mark.covers("T-33", "SEC-06", "SEC-07", "F-H-14")
async def test_sessions_that_are_not_there(endpoint, autojump_clock):
    owner = Host(endpoint)
    await owner.initialize()
    ended = Host(endpoint)
    await ended.initialize()
    await ended.http("DELETE", b"", ended.headers())
    foreign = Host(endpoint, BOB)
    other_program = Host(endpoint, Identity(ALICE.principal, "other"))
    guessed = Host(endpoint)
    foreign.session = other_program.session = owner.session
    guessed.session = "x" * 32
    bodies = set()
    for host in (ended, foreign, other_program, guessed):
        answered = await host.call("echo")
        assert answered.status == 404
        bodies.add(answered.body)
        assert (await host.get()).status == 404
        assert (await host.http("DELETE", b"", host.headers())).status == 404
    assert len(bodies) == 1
    assert (await owner.call("echo")).status == 200
    owner.session = None
    assert (await owner.call("echo")).status == 400


@pytest.mark.covers("T-35")
@pytest.mark.parametrize(
    ("version", "status"), [(None, 200), (L4, 200), (L2, 200), ("2099-01-01", 400), (MODERN, 400), ("", 400)]
)
async def test_the_version_header_of_a_session(session, version, status):
    answered = await session.call("echo", mcp_protocol_version=version)
    assert answered.status == status
    if version != MODERN:
        assert (await session.post(b'{"jsonrpc":"2.0","method":"x"}', mcp_protocol_version=version)).status in (
            202,
            400,
        )


@pytest.mark.covers("F-H-06", "B-4")
async def test_an_id_that_is_in_flight(session, router, nursery, endpoint):
    first = Answered()
    nursery.start_soon(lambda: session.call("wait", 1, into=first))
    await trio.testing.wait_all_tasks_blocked()
    answered = await session.call("echo", 1)
    assert (answered.status, answered.code) == (400, -32600)
    assert (await session.call("echo", "1")).status == 200
    router.release.set()
    await trio.testing.wait_all_tasks_blocked()
    assert first.last["result"]
    assert (await session.call("echo", 1)).status == 200
    baseline(endpoint)


@pytest.mark.covers("F-H-05")
async def test_a_session_cannot_have_everything(session, router, nursery):
    for id in range(SESSION_IN_FLIGHT):
        nursery.start_soon(session.call, "wait", id)
    await trio.testing.wait_all_tasks_blocked()
    assert (await session.call("echo", 999)).status == 429
    router.release.set()


@pytest.mark.covers("S-23", "S-7")
async def test_set_level(session, router, endpoint, autojump_clock):
    def set_level(level):
        return {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": level}}

    assert (await session.post(set_level("loud"))).code == -32602
    assert (await session.post(set_level(7))).code == -32602
    assert router.level_changes == 0
    assert not (await session.call("log")).streamed
    assert (await session.post(set_level("error"))).last["result"] == {}
    assert router.level_changes == 1
    assert endpoint.hosts.log_levels() == ["error"]
    answered = await session.call("log")
    assert answered.messages[0]["params"] == {"level": "error", "data": "oh"}
    await session.http("DELETE", b"", session.headers())
    assert router.level_changes == 2
    assert endpoint.hosts.log_levels() == []


@pytest.mark.covers("P-7", "P-10", "F-H-02", "T-28")
async def test_cancelling_a_legacy_request(session, router, nursery, endpoint):
    answers = [Answered(), Answered()]
    nursery.start_soon(lambda: session.call("wait-a", 1, into=answers[0]))
    nursery.start_soon(lambda: session.call("wait-b", "1", into=answers[1]))
    await trio.testing.wait_all_tasks_blocked()
    stranger = Host(endpoint)
    await stranger.initialize()
    await stranger.notify("notifications/cancelled", {"requestId": 1})
    for params in ({"requestId": 77}, {"requestId": 1.0}, {"requestId": None}, {}, {"requestId": []}):
        assert (await session.notify("notifications/cancelled", params)).status == 202
    assert not router.cancelled
    for _ in range(2):
        await session.notify("notifications/cancelled", {"requestId": 1, "reason": "enough"})
    await trio.testing.wait_all_tasks_blocked()
    assert router.cancelled == ["wait-a"]
    assert answers[0].complete.is_set()
    assert answers[0].messages == []
    await session.notify("notifications/cancelled", {"requestId": "1"})
    await trio.testing.wait_all_tasks_blocked()
    assert router.cancelled == ["wait-a", "wait-b"]
    baseline(endpoint)


@pytest.mark.covers("F-H-21", "T-34")
async def test_delete_cancels_what_runs(session, router, nursery, endpoint, autojump_clock):
    answered, listening = Answered(), Answered()
    nursery.start_soon(lambda: session.call("wait", 1, into=answered))
    nursery.start_soon(lambda: session.get(into=listening))
    await trio.testing.wait_all_tasks_blocked()
    assert (await session.http("DELETE", b"", session.headers())).status == 200
    await trio.testing.wait_all_tasks_blocked()
    assert router.cancelled == ["wait"]
    assert listening.complete.is_set()
    assert (await session.http("DELETE", b"", session.headers())).status == 404
    assert len(endpoint.sessions.archive) == 0
    baseline(endpoint)


@pytest.mark.covers("F-H-20")
async def test_silent_sessions_end(endpoint, router, nursery, autojump_clock):
    nursery.start_soon(endpoint.run)
    silent, calling, listening = Host(endpoint), Host(endpoint), Host(endpoint)
    for host in (silent, calling, listening):
        await host.initialize()
    answered, stream = Answered(), Answered()
    nursery.start_soon(lambda: calling.call("wait", into=answered))
    nursery.start_soon(lambda: listening.get(into=stream))
    await trio.sleep(SESSION_IDLE_S - 60)
    assert len(endpoint.sessions) == 3
    await trio.sleep(120)
    assert len(endpoint.sessions) == 2
    assert (await silent.call("echo")).status == 404
    router.release.set()
    stream.leave()
    await trio.sleep(SESSION_IDLE_S - 60)
    assert len(endpoint.sessions) == 2
    await trio.sleep(120)
    assert len(endpoint.sessions) == 0
    assert len(endpoint.sessions.archive) == 0
    baseline(endpoint)
    nursery.cancel_scope.cancel()


async def test_too_many_sessions(endpoint, router, nursery, autojump_clock):
    busy = Host(endpoint)
    await busy.initialize()
    nursery.start_soon(busy.call, "wait")
    for _ in range(MAX_SESSIONS_OF_PRINCIPAL - 1):
        await Host(endpoint).initialize()
    refused = await Host(endpoint).initialize()
    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert (await Host(endpoint, BOB).initialize()).status == 200
    await trio.sleep(61)
    assert (await Host(endpoint).initialize()).status == 200
    assert router.running == {"wait"}
    assert len(endpoint.sessions) == MAX_SESSIONS_OF_PRINCIPAL + 1
    router.release.set()


# --- legacy: streams --------------------------------------------------------------------------------------------------


@pytest.mark.covers("T-25", "T-29", "T-30", "P-2")
@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_progress_in_a_session(host, version):
    await host.initialize(version)
    answered = await host.call("progress", token=12)
    assert answered.streamed
    progress, result = answered.messages
    assert progress["params"] == {"progressToken": 12, "progress": 1, "total": 2}
    assert result["id"] == 1
    assert [id for id, _ in answered.events] == (["a1-1", "a1-2"])
    primed = answered.raw_events.startswith(b"id: a1-0\nretry: 1000\ndata: \n\n")
    assert primed == (version == L4)
    assert (await host.call("progress", token=12)).events[0][0] == "a2-1"


@pytest.mark.covers("T-28", "F-H-01", "T-29")
async def test_a_broken_stream_is_resumed(session, router, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    answered = Answered()
    nursery.start_soon(lambda: session.call("wait", token=1, into=answered))
    await trio.sleep(1)
    router.exchanges["wait"].progress({"progress": number(1)})
    assert [id for id, _ in answered.events] == ["a1-1"]
    answered.leave()
    await trio.sleep(1)
    router.exchanges["wait"].progress({"progress": number(2)})
    assert router.running == {"wait"}

    resumed = Answered()
    nursery.start_soon(lambda: session.get(last_event_id="a1-1", into=resumed))
    await trio.sleep(1)
    assert [id for id, _ in resumed.events] == ["a1-2"]
    router.exchanges["wait"].progress({"progress": number(3)})
    router.release.set()
    await resumed.complete.wait()
    assert [id for id, _ in resumed.events] == ["a1-2", "a1-3", "a1-4"]
    assert resumed.last["result"]
    assert len(answered.events) == 1

    again = await session.get(last_event_id="a1-0")
    assert [id for id, _ in again.events] == ["a1-1", "a1-2", "a1-3", "a1-4"]
    assert (await session.get(last_event_id="a1-4")).events == []
    await trio.sleep(320)
    assert (await session.get(last_event_id="a1-4")).status == 400
    baseline(endpoint)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("T-28", "T-29")
async def test_the_host_leaves_and_comes_back_after_the_end(session, router, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    answered = Answered()
    nursery.start_soon(lambda: session.call("wait", into=answered))
    await trio.sleep(3)
    assert answered.raw_events.startswith(b"id: a1-0\n")
    answered.leave()
    router.release.set()
    await trio.sleep(100)
    resumed = await session.get(last_event_id="a1-0")
    assert resumed.last["result"]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("T-29", "SEC-06", "F-H-14")
async def test_streams_of_others_are_not_resumed(endpoint, router):
    one, other = Host(endpoint), Host(endpoint)
    await one.initialize()
    await other.initialize()
    await one.call("progress", token=1)
    assert (await other.get(last_event_id="a1-0")).status == 400
    for id in ("a1", "a1-", "-1", "a1-x", "a1--1", "a1-" + "9" * 40, "a1-\u0661", "x", "a2-0"):
        assert (await one.get(last_event_id=id)).status == 400


async def test_a_stream_that_two_connections_want(session, router, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    first, second, third = Answered(), Answered(), Answered()
    nursery.start_soon(lambda: session.call("wait", into=first))
    await trio.sleep(3)
    nursery.start_soon(lambda: session.get(last_event_id="a1-0", into=second))
    await trio.sleep(1)
    assert first.complete.is_set()
    nursery.start_soon(lambda: session.get(last_event_id="a1-0", into=third))
    await trio.sleep(1)
    assert second.complete.is_set()
    router.release.set()
    await third.complete.wait()
    assert third.last["result"]
    assert not first.messages
    assert not second.messages
    nursery.cancel_scope.cancel()


# --- legacy: questions ------------------------------------------------------------------------------------------------


def form() -> Question:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    return Question("elicitation/create", {"message": raw("Name?"), "requestedSchema": raw(schema)}, "files", L4)


@pytest.fixture
async def askable(host, router):
    """A session whose host can be asked; the tool `ask` does."""
    host.capabilities = {"elicitation": {}, "roots": {"listChanged": True}}
    await host.initialize()
    await host.notify("notifications/initialized")
    router.questions["ask"] = form()
    return host


def says(id, action="accept"):
    return {"jsonrpc": "2.0", "id": id, "result": {"action": action}}


@pytest.mark.covers("T-25", "T-27", "F-I-04", "F-H-19", "G-10")
async def test_a_question_goes_to_the_stream_of_its_call_only(askable, router, nursery, endpoint):
    answered, other, listening = Answered(), Answered(), Answered()
    nursery.start_soon(lambda: askable.get(into=listening))
    nursery.start_soon(lambda: askable.call("wait", 2, token=1, into=other))
    nursery.start_soon(lambda: askable.call("ask", 1, into=answered))
    await trio.testing.wait_all_tasks_blocked()
    (asked,) = answered.messages
    assert asked["params"]["message"] == "[files] Name?"
    assert not listening.messages
    assert not other.messages
    stranger = Host(endpoint)
    await stranger.initialize()
    assert (await stranger.post(says(asked["id"]))).status == 202
    await trio.testing.wait_all_tasks_blocked()
    assert router.replies == {}
    for action in ("decline", "accept"):
        assert (await askable.post(says(asked["id"], action))).status == 202
    await trio.testing.wait_all_tasks_blocked()
    assert bytes(router.replies["ask"].value) == b'{"action":"decline"}'
    assert answered.complete.is_set()
    assert answered.last["result"]
    router.release.set()
    listening.leave()
    await trio.testing.wait_all_tasks_blocked()
    baseline(endpoint)


@pytest.mark.covers("T-28", "T-29", "F-I-04", "F-H-04")
async def test_a_question_outlives_its_connection(askable, router, nursery, endpoint, autojump_clock):
    answered = Answered()
    nursery.start_soon(lambda: askable.call("ask", token=1, into=answered))
    await trio.sleep(1)
    asked = answered.last
    answered.leave()
    for value in range(1, 1000):
        router.exchanges["ask"].progress({"progress": number(value)})
        await trio.sleep(0.1)
    resumed = Answered()
    nursery.start_soon(lambda: askable.get(last_event_id="a1-0", into=resumed))
    await trio.sleep(1)
    assert resumed.messages[0] == asked
    await askable.post(says(asked["id"]))
    await resumed.complete.wait()
    assert resumed.last["result"]
    baseline(endpoint)


@pytest.mark.covers("F-I-07", "P-9")
async def test_a_host_that_never_comes_back_to_answer(askable, router, nursery, endpoint, autojump_clock):
    answered = Answered()
    nursery.start_soon(lambda: askable.call("ask", into=answered))
    await trio.sleep(1)
    answered.leave()
    await trio.sleep(endpoint.hosts.park_ttl_s)
    assert bytes(router.replies["ask"].value) == b'{"action":"cancel"}'
    late = await askable.get(last_event_id="a1-0")
    assert [message.get("method") for message in late.messages] == [
        "elicitation/create",
        "notifications/cancelled",
        None,
    ]
    baseline(endpoint)


@pytest.mark.covers("P-7", "F-I-03")
async def test_cancelling_a_call_by_post_withdraws_what_it_asks(askable, router, nursery, endpoint):
    answered = Answered()
    nursery.start_soon(lambda: askable.call("ask", into=answered))
    await trio.testing.wait_all_tasks_blocked()
    await askable.notify("notifications/cancelled", {"requestId": 1})
    await trio.testing.wait_all_tasks_blocked()
    assert answered.complete.is_set()
    asked, withdrawn = answered.messages
    assert withdrawn["params"]["requestId"] == asked["id"]
    assert router.replies == {}
    baseline(endpoint)


@pytest.mark.covers("F-I-01", "T-12")
async def test_a_host_that_takes_no_events_is_not_asked(askable, router):
    answered = await askable.call("ask", accept="application/json")
    assert answered.last["result"]
    assert router.replies["ask"].code == -32601


@pytest.mark.covers("F-I-05", "T-28")
async def test_a_host_that_left_before_it_was_asked_is_not(askable, router, nursery, endpoint):
    answered = Answered()
    answered.leave()
    await askable.http("POST", encode(call("ask")), askable.headers(), into=answered)
    assert router.replies["ask"].code == -32601


@pytest.mark.covers("F-H-21", "F-I-05")
async def test_a_session_that_ends_is_told_of_once(askable, router, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    answered = Answered()
    nursery.start_soon(lambda: askable.call("ask", into=answered))
    await trio.testing.wait_all_tasks_blocked()
    await askable.notify("notifications/roots/list_changed")
    tenant = router.exchanges["ask"].caller.tenant
    assert router.moved == [tenant]
    await askable.http("DELETE", b"", askable.headers())
    await askable.http("DELETE", b"", askable.headers())
    await trio.testing.wait_all_tasks_blocked()
    assert answered.complete.is_set()
    assert router.gone == [tenant]
    silent = Host(endpoint)
    await silent.initialize()
    await trio.sleep(SESSION_IDLE_S + 60)
    assert len(router.gone) == 2
    baseline(endpoint)
    nursery.cancel_scope.cancel()


async def test_a_batch_may_be_asked_too(host, router, nursery, endpoint):
    params = {"maxTokens": raw(1), "messages": raw([])}
    router.questions["ask"] = Question("sampling/createMessage", params, "files", L1)
    host.capabilities = {"sampling": {}}
    await host.initialize(L2)
    answered = Answered()
    nursery.start_soon(lambda: host.post([call("ask", 1), call("echo", 2)], into=answered))
    await trio.testing.wait_all_tasks_blocked()
    asked = next(message for message in answered.messages if "method" in message)
    answer = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}
    await host.post([{"jsonrpc": "2.0", "id": asked["id"], "result": answer}])
    await answered.complete.wait()
    assert {message["id"] for message in answered.messages if "result" in message} == {1, 2}
    baseline(endpoint)


async def test_a_host_that_left_before_any_event_has_nothing_to_resume(session, router, nursery, endpoint):
    answered = Answered()
    nursery.start_soon(lambda: session.call("wait", token=1, into=answered))
    await trio.testing.wait_all_tasks_blocked()
    answered.leave()
    router.exchanges["wait"].progress({"progress": number(1)})
    router.release.set()
    await trio.testing.wait_all_tasks_blocked()
    assert not answered.events
    assert len(endpoint.sessions.archive) == 0
    baseline(endpoint)


@pytest.mark.covers("F-H-04")
async def test_progress_is_dropped_for_a_host_that_does_not_read(session, router, nursery, autojump_clock):
    answered = Answered()
    nursery.start_soon(lambda: session.call("wait", token=1, into=answered))
    await trio.testing.wait_all_tasks_blocked()
    router.exchanges["wait"].progress({"progress": number(1)})
    answered.queued_bytes = 1 << 20
    await trio.sleep(1)
    router.exchanges["wait"].progress({"progress": number(2)})
    router.release.set()
    await answered.complete.wait()
    assert len(answered.events) == 2
    assert answered.last["result"]


@pytest.mark.covers("T-23", "T-26", "T-27", "N-8", "F-H-03")
async def test_lists_that_change(session, router, nursery, endpoint):
    hosts = endpoint.hosts
    streams = [Answered(), Answered()]
    for stream in streams:
        nursery.start_soon(lambda s=stream: session.get(into=s))
        await trio.testing.wait_all_tasks_blocked()
    hosts.list_changed({Kind.TOOL, Kind.RESOURCE, Kind.TEMPLATE}, EVERYTHING)
    methods = ["notifications/tools/list_changed", "notifications/resources/list_changed"]
    assert [message["method"] for message in streams[1].messages] == methods
    assert streams[0].messages == []
    session.judge(streams[1], L4)
    streams[1].leave()
    await trio.testing.wait_all_tasks_blocked()
    hosts.list_changed({Kind.PROMPT}, EVERYTHING)
    assert [message["method"] for message in streams[0].messages] == ["notifications/prompts/list_changed"]
    hosts.list_changed({Kind.PROMPT}, server_view("files"))
    assert len(streams[0].messages) == 1
    streams[0].leave()
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(3):
        hosts.list_changed({Kind.TOOL}, EVERYTHING)
    late = Answered()
    nursery.start_soon(lambda: session.get(into=late))
    await trio.testing.wait_all_tasks_blocked()
    assert [message["method"] for message in late.messages] == ["notifications/tools/list_changed"]
    late.leave()


@pytest.mark.covers("T-29", "T-27")
async def test_a_broken_get_stream_is_resumed(session, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    hosts = endpoint.hosts
    stream = Answered()
    nursery.start_soon(lambda: session.get(into=stream))
    await trio.sleep(1)
    hosts.list_changed({Kind.TOOL}, EVERYTHING)
    stream.leave()
    await trio.sleep(1)
    hosts.list_changed({Kind.PROMPT}, EVERYTHING)
    resumed = Answered()
    nursery.start_soon(lambda: session.get(last_event_id="n1-0", into=resumed))
    await trio.sleep(1)
    assert [id for id, _ in resumed.events] == ["n1-1", "n1-2"]
    hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert resumed.events[-1][0] == "n1-3"
    resumed.leave()
    await trio.sleep(320)
    assert len(endpoint.sessions.archive) == 0
    forgotten = Answered()
    nursery.start_soon(lambda: session.get(last_event_id="n1-3", into=forgotten))
    await trio.sleep(1)
    hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert forgotten.events[-1][0] == "n2-1"
    forgotten.leave()
    await trio.sleep(1)
    nursery.cancel_scope.cancel()


async def test_a_host_with_many_get_streams_keeps_the_newest(session, nursery, endpoint):
    streams = [Answered() for _ in range(10)]
    for stream in streams:
        nursery.start_soon(lambda s=stream: session.get(into=s))
        await trio.testing.wait_all_tasks_blocked()
    assert [stream.complete.is_set() for stream in streams] == [True] * 2 + [False] * 8
    for stream in streams:
        stream.leave()
    await trio.testing.wait_all_tasks_blocked()
    (host,) = endpoint.hosts
    assert not host.hears


async def test_a_get_that_is_cancelled_leaves_its_stream_to_be_resumed(session, endpoint):
    stream = Answered()
    with trio.move_on_after(0.01):
        await session.get(into=stream)
    assert stream.complete.is_set()
    assert len(endpoint.sessions.archive) == 1


@pytest.mark.covers("F-H-04")
async def test_a_listener_that_does_not_read_is_told_later(session, nursery, endpoint, autojump_clock):
    nursery.start_soon(endpoint.run)
    stream = Answered()
    nursery.start_soon(lambda: session.get(into=stream))
    await trio.sleep(1)
    stream.queued_bytes = 1 << 20
    for _ in range(3):
        endpoint.hosts.list_changed({Kind.TOOL}, EVERYTHING)
    await trio.sleep(30)
    assert stream.messages == []
    stream.queued_bytes = 0
    await trio.sleep(30)
    assert len(stream.messages) == 1
    endpoint.hosts.list_changed({Kind.PROMPT}, EVERYTHING)
    assert len(stream.messages) == 2
    stream.leave()
    await trio.sleep(1)
    nursery.cancel_scope.cancel()


async def test_draining_ends_streams_that_only_listen(session, nursery, endpoint, router):
    listening, answered = Answered(), Answered()
    nursery.start_soon(lambda: session.get(into=listening))
    nursery.start_soon(lambda: session.call("wait", into=answered))
    await trio.testing.wait_all_tasks_blocked()
    endpoint.drain()
    await trio.testing.wait_all_tasks_blocked()
    assert listening.complete.is_set()
    router.release.set()
    await answered.complete.wait()
    assert answered.last["result"]


def fact(message):
    """What the hub says of its own failure."""
    return next(iter(message["result"]["_meta"].values()))


@pytest.mark.covers("F-D-01", "F-D-02")
@pytest.mark.parametrize("after_s", [0.1, 60.0], ids=["whole", "stream"])
async def test_what_runs_too_long_for_a_stop_is_answered(endpoint, nursery, autojump_clock, after_s):
    nursery.start_soon(endpoint.run)
    modern, legacy, old = Host(endpoint), Host(endpoint), Host(endpoint)
    await legacy.initialize()
    await old.initialize(L2)
    answers = [Answered(), Answered(), Answered()]
    nursery.start_soon(lambda: modern.modern_call("wait", into=answers[0]))
    nursery.start_soon(lambda: legacy.call("wait", into=answers[1]))
    nursery.start_soon(lambda: old.post([call("wait", 1), call("wait", 2), call("echo", 3)], into=answers[2]))
    await trio.sleep(after_s)
    assert [each.streamed for each in answers] == [after_s > 1] * 3
    endpoint.hosts.requests.cut_off()
    with trio.fail_after(0.1):
        for each in answers:
            await each.complete.wait()
    batch = answers[2].messages if after_s > 1 else answers[2].last
    assert {message["id"] for message in batch} == {1, 2, 3}
    cut = [message for message in batch if message["id"] != 3]
    for message in (answers[0].last, answers[1].last, *cut):
        assert message["result"]["isError"]
        assert fact(message) == {"hub": "draining", "executed": "unknown", "retryable": False}
    await trio.testing.wait_all_tasks_blocked()
    baseline(endpoint)
    assert endpoint.hosts.requests.count == 0
    refused = await Host(endpoint).modern_call("echo")
    assert refused.last["error"]["data"]["hub"] == "draining"
    assert refused.last["error"]["data"]["executed"] == "no"
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-D-01")
async def test_a_stop_does_not_answer_whom_a_host_has_left_or_cancelled(session, endpoint, nursery, router):
    gone, cancelled = Answered(), Answered()
    nursery.start_soon(lambda: session.modern_call("wait", into=gone))
    nursery.start_soon(lambda: session.call("wait", 7, into=cancelled))
    await trio.testing.wait_all_tasks_blocked()
    gone.leave()
    await session.notify("notifications/cancelled", {"requestId": 7})
    endpoint.hosts.requests.cut_off()
    await trio.testing.wait_all_tasks_blocked()
    assert gone.messages == cancelled.messages == []
    assert router.cancelled == ["wait", "wait"]
    baseline(endpoint)


async def test_a_modern_host_that_is_gone_before_its_request_is_read(host, router, endpoint):
    answered = Answered()
    answered.leave()
    await host.modern_call("wait", into=answered)
    assert router.cancelled == ["wait"]
    baseline(endpoint)


async def test_a_get_that_takes_no_events(session):
    assert (await session.get(accept="application/json")).status == 406


async def test_hosts_hear_nothing_before_they_are_initialised(host, nursery, endpoint):
    await host.initialize()
    stream = Answered()
    nursery.start_soon(lambda: host.get(into=stream))
    await trio.testing.wait_all_tasks_blocked()
    endpoint.hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert stream.messages == []
    await host.call("echo")  # a host that forgot `initialized`
    endpoint.hosts.list_changed({Kind.TOOL}, EVERYTHING)
    assert len(stream.messages) == 1
    stream.leave()


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("B-15", "F-H-09")
async def test_a_batch(host, endpoint):
    await host.initialize(L2)
    batch = [
        call("echo", 1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nothing"},
        {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel", "params": {"level": "error"}},
        call("echo", 1),
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        {"jsonrpc": "1.0", "id": 4, "method": "ping"},
    ]
    answered = await host.post(batch)
    assert answered.status == 200
    (replies,) = answered.messages
    assert sorted(reply["id"] for reply in replies) == [1, 1, 2, 3, 4]
    codes = sorted(reply["error"]["code"] for reply in replies if "error" in reply)
    assert codes == [-32601, -32600, -32600]
    baseline(endpoint)


async def test_legacy_hosts_that_take_only_one_form(host, router, nursery):
    await host.initialize(L2)
    assert (await host.call("echo", accept="text/event-stream")).streamed
    assert (await host.post([call("echo")], accept="text/event-stream")).streamed
    assert not (await host.call("progress", token=1, accept="application/json")).streamed
    answered = Answered()
    nursery.start_soon(lambda: host.call("wait", 4, into=answered, accept="application/json"))
    await trio.testing.wait_all_tasks_blocked()
    await host.notify("notifications/cancelled", {"requestId": 4})
    await answered.complete.wait()
    assert (answered.status, answered.body) == (202, b"")


async def test_a_batch_that_wants_no_answer(host):
    await host.initialize(L2)
    batch = [{"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 9, "result": {}}]
    answered = await host.post(batch)
    assert (answered.status, answered.body) == (202, b"")


async def test_a_batch_with_progress_is_streamed(host, router, nursery):
    await host.initialize(L2)
    answered = Answered()
    nursery.start_soon(lambda: host.post([call("echo", 1), call("wait", 2, token=5)], into=answered))
    await trio.testing.wait_all_tasks_blocked()
    assert not answered.started
    router.exchanges["wait"].progress({"progress": number(1)})
    router.release.set()
    await answered.complete.wait()
    assert [message.get("id") for message in answered.messages] == [1, None, 2]


@pytest.mark.covers("P-10")
async def test_a_batch_may_be_cancelled(host, router, nursery, endpoint):
    await host.initialize(L2)
    answered = Answered()
    nursery.start_soon(lambda: host.post([call("wait-a", 1), call("wait-b", 2)], into=answered))
    await trio.testing.wait_all_tasks_blocked()
    await host.notify("notifications/cancelled", {"requestId": 1})
    await host.notify("notifications/cancelled", {"requestId": 2})
    await answered.complete.wait()
    assert answered.messages == []
    baseline(endpoint)


@pytest.mark.covers("B-16", "B-17", "F-H-09")
@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_batches_that_are_refused_whole(host, router, version):
    await host.initialize(version)
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": L2}}
    bodies = [[], [call("echo"), initialize], [call("echo", id) for id in range(65)], b"[1,"]
    if version != L2:
        bodies.append([call("echo")])
    for body in bodies:
        answered = await host.post(body)
        assert answered.status == 400
        assert answered.code in (-32600, -32700)
    assert not router.seen
    assert len(host.endpoint.sessions) == 1


# --- how it looks -----------------------------------------------------------------------------------------------------


async def test_status_rows_and_reprs(session, endpoint, nursery, router):
    nursery.start_soon(session.call, "wait")
    await trio.testing.wait_all_tasks_blocked()
    (row,) = endpoint.hosts.status()
    assert row.host == "test"
    assert row.label == "desk"
    assert (row.transport, row.version, row.endpoint, row.in_flight) == ("http", L4, "/mcp", 1)
    assert msgspec.json.encode(row)
    (host,) = endpoint.hosts
    assert repr(host) == "<HttpSession desk 2025-11-25, 1 requests in flight>"
    assert len(endpoint.hosts) == 1
    router.release.set()


def number(value):
    return msgspec.Raw(encode(value))
