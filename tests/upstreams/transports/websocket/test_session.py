"""Sessions over real WebSockets: what holds for processes, and the ends that only a WebSocket has."""

import json
import ssl
from contextlib import suppress
from math import inf

import pytest
import trio
from wsproto.events import CloseConnection, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError

from config.diff import config_key
from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import (
    Executed,
    HubError,
    Overloaded,
    UpstreamDenied,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from hub.link.line_channel import MAX_LINE_BYTES
from hub.link.memory_budget import Budget
from hub.wire.capabilities import capabilities_of_shared_session
from hub.wire.jsonrpc import Result, peek_str, raw
from hub.wire.mcp import L2, L4, MODERN, Kind
from tests.support.fakes import FakeHost
from tests.support.private_ca import certificates
from tests.support.websocket_server import WebSocketServer, lead_to_process
from upstreams.inventory.read_lists import walk
from upstreams.session_contract import COMMON, CallTimeouts, SessionSetup, SessionTerms
from upstreams.transports.websocket.channel import CLOSE_S
from upstreams.transports.websocket.session import PING_S, PONG_S, WebSocketSession

NO_SERVER = "what answers there is no WebSocket server"
TIMEOUTS = CallTimeouts(idle_s=300, total_s=3600)
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}


class Open:
    """A session with a server, and how it ended."""

    def __init__(self, url, *, memory=None, terms=COMMON, budget=None, environ=None, **config):
        self.memory = memory or Memory(None)
        self.config = UpstreamConfig(url=url, **config)
        self.budget = budget or Budget()
        given = SessionSetup(self.config, "up", self, self.memory, terms, self.budget, environ or {})
        self.session = WebSocketSession(given)
        self.started = False
        self.error = None
        self.over = trio.Event()
        self.kinds = []

    def hears(self, on): ...

    def forgotten(self): ...

    def changed(self, kinds):
        self.kinds.append(kinds)

    def log(self, params): ...

    def asked(self, method): ...

    def admit(self, question, asked): ...

    def roots_withheld(self): ...

    def note(self, text): ...

    def unattributed(self, method): ...

    def answered(self, method, reply): ...

    def ended(self): ...

    async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
        def started(session):
            self.started = True
            task_status.started()

        try:
            await self.session.run(started)
        except HubError as error:
            self.error = error
            if not self.started:
                raise
        finally:
            self.over.set()

    async def call(self, name, *, host=None, **arguments):
        operation = Operation("tools/call", {"name": raw(name), "arguments": raw(arguments)})
        try:
            return await self.session.call(operation, host or FakeHost(), TIMEOUTS)
        except HubError as error:
            return error


async def serving(nursery, serve, **options):
    server = WebSocketServer(serve, **options)
    await nursery.start(server.run)
    return server


async def opened(nursery, serve, *, subprotocol="mcp", **config):
    """A session, and the server."""
    server = await serving(
        nursery, lead_to_process(serve) if isinstance(serve, dict) else serve, subprotocol=subprotocol
    )
    up = Open(server.url, **config)
    await nursery.start(up.run)
    return up, server


def text_of(reply):
    assert isinstance(reply, Result), reply
    return json.loads(bytes(reply.value))["content"][0]["text"]


# --- as over pipes ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("EW-1")
@pytest.mark.parametrize(("script", "version"), [({}, L4), ({"version": L2}, L2), ({"era": "modern"}, MODERN)])
@pytest.mark.parametrize("subprotocol", ["mcp", None])
async def test_both_eras(nursery, script, version, subprotocol):
    up, server = await opened(nursery, script, subprotocol=subprotocol)
    assert (up.session.facts.version, up.session.transport) == (version, "ws")
    assert [entry.key for entry in (await walk(up.session, Kind.TOOL)).entries] == ["echo"]
    assert json.loads(text_of(await up.call("echo", a="ü\n€")))["arguments"] == {"a": "ü\n€"}
    [asked] = server.requests
    assert (asked.subprotocols, asked.extensions) == (["mcp"], [])


class Person(FakeHost):
    """A host whose user says yes, or only looks at the question."""

    def __init__(self, *, answers=True):
        super().__init__()
        self.answers = answers
        self.reading = trio.Event()

    async def ask(self, question):
        self.reading.set()
        await trio.sleep(0 if self.answers else inf)
        return Result(raw({"action": "accept", "content": {"name": peek_str(question.params["message"])}}))


@pytest.mark.covers("EW-1")
async def test_a_server_asks_and_is_answered(nursery):
    script = {"on": {"tools/call:ask": [["ask", "elicitation/create", FORM], ["reply_told"]]}}
    up, _ = await opened(nursery, script, terms=SessionTerms(capabilities_of_shared_session()))
    told = json.loads(text_of(await up.call("ask", host=Person())))
    assert told == {"action": "accept", "content": {"name": "Name?"}}


@pytest.mark.covers("EW-1")
async def test_large_messages_pass(nursery):
    up, _ = await opened(nursery, {"on": {"tools/call:big": [["big", 3 << 20]]}})
    assert len(text_of(await up.call("big"))) == 3 << 20
    assert len(text_of(await up.call("echo", text="y" * (3 << 20)))) > 3 << 20
    assert up.budget.used == 0


@pytest.mark.covers("EW-1")
async def test_a_server_that_closes_when_probed_is_asked_without(nursery):
    memory, script = Memory(None), {"on": {"server/discover": [["exit", 1]]}}
    up, server = await opened(nursery, script, memory=memory)
    assert (up.session.facts.version, len(server.requests)) == (L4, 2)
    assert memory.era(config_key(up.config)) == "legacy"


@pytest.mark.covers("EW-1")
async def test_chatter_is_overheard(nursery):
    up, _ = await opened(nursery, {"start": [["raw", "Starting...\n\n"]]})
    assert isinstance(await up.call("echo"), Result)
    assert up.session.peer.bad_messages == 1


@pytest.mark.covers("EW-1")
async def test_a_flood_of_notifications_delays_only_its_own_answers(nursery):
    flood = ["flood", 100_000_000, "notifications/tools/list_changed", {}]
    up, _ = await opened(nursery, {"on": {"tools/call:flood": [flood, ["serve"]]}})
    other, _ = await opened(nursery, {})
    nursery.start_soon(up.call, "flood")
    with trio.fail_after(30):
        for _ in range(20):
            assert isinstance(await other.call("echo"), Result)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("EW-1")
async def test_one_message_in_many_frames(nursery):
    async def serve(peer):
        await peer.shake_hands()
        call = await peer.message()
        text = "".join(chr(0x1F600 + number % 64) for number in range(3000))
        await peer.send(Ping(b"meanwhile"))
        await peer.tell({"id": call["id"], "result": {"content": [{"type": "text", "text": text}]}}, frames=500)
        assert isinstance(await peer.receive(), Pong)
        await peer.receive()

    up, _ = await opened(nursery, serve)
    assert len(text_of(await up.call("echo"))) == 3000


# --- it ends ----------------------------------------------------------------------------------------------------------


async def ends_by(nursery, deed, **config):
    """The outcome of a call during which the server does `deed`, the end of the session, and the server."""

    async def serve(peer):
        await peer.shake_hands()
        await peer.message()
        await deed(peer)

    up, server = await opened(nursery, serve, **config)
    outcome = await up.call("echo")
    await up.over.wait()
    return outcome, str(up.error), up, server


@pytest.mark.covers("EW-2")
@pytest.mark.parametrize(
    ("event", "why"),
    [
        (CloseConnection(1000), "closed the connection (code 1000)"),
        (CloseConnection(1001, "going\x1b away"), "closed the connection (code 1001: going\\x1b away)"),
        (CloseConnection(1011, "it hurts"), "closed the connection (code 1011: it hurts)"),
        (CloseConnection(4401), "closed the connection (code 4401)"),
    ],
)
async def test_a_server_that_closes(nursery, event, why):
    async def deed(peer):
        await peer.send(event)

    outcome, error, _, server = await ends_by(nursery, deed)
    assert isinstance(outcome, UpstreamLost)
    assert outcome.executed is Executed.UNKNOWN
    assert error == f"up {why}"
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert server.closed == [event.code]


@pytest.mark.covers("EW-2")
async def test_a_connection_that_breaks(nursery):
    async def deed(peer):
        await peer.stream.aclose()

    outcome, error, _, _ = await ends_by(nursery, deed)
    assert isinstance(outcome, UpstreamLost)
    assert error == "up closed the connection, or it was lost"


@pytest.mark.covers("EW-1")
@pytest.mark.parametrize(
    ("frames", "code", "why"),
    [
        (b"\x82\x02{}", 1003, "up sent a binary message, which MCP has not"),
        (b"\x81\x02\xff\xfe", 1007, "up broke the WebSocket protocol"),
        (b"\xc1\x02{}", 1002, "up broke the WebSocket protocol"),
        (b"\x80\x02{}", 1002, "up broke the WebSocket protocol"),
        (b"\x89\x7e\x00\xff" + bytes(255), 1002, "up broke the WebSocket protocol"),
        (b"\x01\x00" * 200 + b"\x83\x00", 1002, "up broke the WebSocket protocol"),
    ],
    ids=["binary", "not UTF-8", "compressed", "continues nothing", "long ping", "unknown"],
)
async def test_a_server_that_breaks_the_protocol(nursery, frames, code, why):
    async def deed(peer):
        await peer.send_bytes(frames)

    outcome, error, _, server = await ends_by(nursery, deed)
    assert isinstance(outcome, UpstreamLost)
    assert error == why
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert server.closed == [code]


@pytest.mark.covers("EW-1")
async def test_a_message_that_is_too_long(nursery):
    sent = 0

    async def deed(peer):
        nonlocal sent
        async with trio.open_nursery() as inner:
            inner.start_soon(wait_for_close, peer, inner.cancel_scope)
            with suppress(LocalProtocolError):  # the close has just come
                for _ in range(1000):
                    await peer.send(TextMessage("x" * (64 << 10), message_finished=False))
                    sent += 64 << 10

    async def wait_for_close(peer, scope):
        assert (await peer.receive()).code == 1009
        scope.cancel()

    outcome, error, up, _ = await ends_by(nursery, deed)
    assert isinstance(outcome, UpstreamProtocolError)
    assert error == "up sent a message that is too long and was given up"
    assert up.budget.highest <= MAX_LINE_BYTES + (1 << 20)
    assert up.budget.used == 0


@pytest.mark.covers("EW-1")
async def test_a_message_that_there_is_no_room_for_is_dropped(nursery):
    async def serve(peer):
        await peer.shake_hands()
        call = await peer.message()
        text = "x" * (1 << 20)
        await peer.tell({"id": call["id"], "result": {"content": [{"type": "text", "text": text}]}}, frames=20)
        call = await peer.message()
        await peer.tell({"id": call["id"], "result": {"content": [{"type": "text", "text": "small"}]}})
        await peer.receive()

    up, _ = await opened(nursery, serve, budget=Budget(1 << 20))
    outcome = await up.call("echo")
    assert isinstance(outcome, Overloaded)
    assert text_of(await up.call("echo")) == "small"
    assert up.budget.used == 0


@pytest.mark.covers("EW-1")
async def test_empty_frames_and_pings_are_read_at_a_pace(nursery):
    """A server that sends as many as it can for as long as it is read; another is served meanwhile."""

    async def serve(peer):
        await peer.shake_hands()
        await peer.message()
        await peer.send_bytes(b"\x01\x01{")
        while True:
            await peer.send_bytes(b"\x00\x00" * 2000 + b"\x89\x00" * 2000)

    up, _ = await opened(nursery, serve)
    other, _ = await opened(nursery, {})
    nursery.start_soon(up.call, "echo")
    with trio.fail_after(30):
        for _ in range(20):
            assert isinstance(await other.call("echo"), Result)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("EW-2")
async def test_silence_is_pinged_and_then_ends_the_session(nursery, mock_clock):
    mock_clock.rate = 1
    pinged = trio.Event()

    async def serve(peer):
        await peer.shake_hands()
        call = await peer.message()
        answer = await peer.receive()
        assert isinstance(answer, Ping)
        await peer.send(answer.response())
        assert isinstance(await peer.receive(), Ping)
        pinged.set()
        assert call["method"] == "tools/call"
        await trio.sleep_forever()  # as if the way to it had gone

    up, _ = await opened(nursery, serve)
    outcome = []

    async def call():
        outcome.append(await up.call("echo"))

    nursery.start_soon(call)
    await trio.testing.wait_all_tasks_blocked(0.05)
    mock_clock.jump(PING_S)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert not up.over.is_set()
    mock_clock.jump(PING_S)
    await pinged.wait()
    await trio.testing.wait_all_tasks_blocked(0.05)
    mock_clock.jump(PONG_S)
    await trio.testing.wait_all_tasks_blocked(0.05)
    mock_clock.jump(CLOSE_S)
    await up.over.wait()
    assert isinstance(outcome[0], UpstreamLost)
    assert str(up.error) == "up did not answer a ping within 20 seconds and was given up"
    nursery.cancel_scope.cancel()


@pytest.mark.covers("EW-2")
@pytest.mark.parametrize("takes_leave", [True, False])
async def test_the_hub_takes_leave(nursery, mock_clock, takes_leave):
    mock_clock.rate = 1

    async def serve(peer):
        await peer.shake_hands()
        assert (await peer.receive()).code == 1000
        if not takes_leave:
            mock_clock.jump(CLOSE_S)
            await trio.sleep_forever()
        await peer.send(CloseConnection(1000))

    up, _ = await opened(nursery, serve)
    up.session.give_up("is not needed")
    await up.over.wait()
    nursery.cancel_scope.cancel()


# --- it cannot be reached ---------------------------------------------------------------------------------------------


async def refused(nursery, server, **config):
    with pytest.raises(HubError) as caught:
        await Open(server.url, **config).run()
    return caught.value


@pytest.mark.covers("EW-3")
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, UpstreamUnauthorized, "headers.Authorization"),
        (403, UpstreamDenied, "403"),
        (404, UpstreamProtocolError, "endpoint"),
        (302, UpstreamProtocolError, "redirect, which is not followed"),
        (200, UpstreamProtocolError, "endpoint"),
        (503, Overloaded, "503"),
    ],
)
async def test_a_handshake_that_is_refused(nursery, status, kind, words):
    elsewhere = await serving(nursery, lead_to_process({}))
    headers = [(b"location", elsewhere.url.encode()), (b"content-length", b"0")]
    server = await serving(nursery, lead_to_process({}), refuse=[status], headers=headers)
    error = await refused(nursery, server)
    assert type(error) is kind
    assert words in str(error)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", NO_SERVER),
        (b"HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", NO_SERVER),
        (b"", "it closed the connection in the WebSocket handshake"),
        (b"HTTP/1.1 101 " + b"x" * 40_000, NO_SERVER),
    ],
)
async def test_something_else_answers(nursery, answer, why):
    async def speak(stream):
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)
            await stream.send_eof()
            await stream.receive_some()

    listeners = await nursery.start(trio.serve_tcp, speak, 0)
    port = listeners[0].socket.getsockname()[1]
    with pytest.raises(UpstreamUnavailable) as caught:
        await Open(f"ws://127.0.0.1:{port}/").run()
    assert str(caught.value) == f"The server up cannot be reached at ws://127.0.0.1:{port}: {why}"


async def test_a_server_that_hangs_in_the_handshake(nursery):
    server = await serving(nursery, lead_to_process({"on": {"initialize": []}}))
    error = await refused(nursery, server, timeouts=Timeouts(start=0.5), era="legacy")
    assert "within 0.5 seconds" in str(error)


@pytest.mark.covers("EW-3")
async def test_headers_are_those_of_the_configuration(nursery):
    server = await serving(nursery, lead_to_process({}))
    headers = {"Authorization": "Bearer s3cret", "Origin": "https://evil", "Sec-WebSocket-Key": "x", "Host": "x"}
    up = Open(server.url, headers={name: Secret(value) for name, value in headers.items()})
    await nursery.start(up.run)
    sent = [(name.lower(), value) for name, value in server.requests[0].extra_headers]
    assert (b"authorization", b"Bearer s3cret") in sent
    assert b"origin" not in dict(sent)
    assert dict(sent)[b"sec-websocket-key"] != b"x"


@pytest.mark.covers("EW-3")
async def test_headers_that_changed_are_shown_after_a_refusal(nursery):
    async def renew(refused):
        assert refused == {"Authorization": "Bearer old"}
        return {"Authorization": "Bearer new"}

    server = await serving(nursery, lead_to_process({}), refuse=[401], headers=[(b"content-length", b"0")])
    terms = SessionTerms(renewed_headers=renew)
    up = Open(server.url, headers={"Authorization": Secret("Bearer old")}, terms=terms)
    await nursery.start(up.run)
    shown = [dict(each.extra_headers)[b"authorization"] for each in server.requests]
    assert shown == [b"Bearer old", b"Bearer new"]


async def test_a_header_that_cannot_be_sent_is_not_repeated(nursery):
    server = await serving(nursery, lead_to_process({}))
    error = await refused(nursery, server, headers={"Authorization": Secret("Bearer s3cret\r\nX: y")})
    assert "s3cret" not in str(error)
    assert "the header Authorization holds characters" in str(error)


@pytest.mark.covers("EW-3")
async def test_tls_by_an_authority_that_is_trusted(nursery, tmp_path, monkeypatch):
    ca, own = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    server = await serving(nursery, lead_to_process({"on": {"tools/call:big": [["big", 1 << 20]]}}), tls=context)
    error = await refused(nursery, server)
    assert "its certificate is not trusted" in str(error)
    trust = ssl.create_default_context(cafile=str(ca))
    monkeypatch.setattr("upstreams.fetch.connection.system_trust", lambda: trust)
    up = Open(server.url)
    await nursery.start(up.run)
    assert len(text_of(await up.call("big"))) == 1 << 20
    assert isinstance(await up.call("echo", text="y" * (1 << 20)), Result)


@pytest.mark.covers("EW-3")
async def test_a_proxy_is_asked_for_a_tunnel(nursery):
    asked = []

    async def speak(stream):
        async with stream:
            asked.append((await stream.receive_some()).split(b"\r\n")[0])
            await stream.send_all(b"HTTP/1.1 403 no\r\n\r\n")

    listeners = await nursery.start(trio.serve_tcp, speak, 0)
    port = listeners[0].socket.getsockname()[1]
    with pytest.raises(UpstreamUnavailable) as caught:
        await Open("ws://mcp.example/x", environ={"http_proxy": f"http://127.0.0.1:{port}"}).run()
    assert asked == [b"CONNECT mcp.example:80 HTTP/1.1"]
    assert f"the proxy 127.0.0.1:{port} refuses to connect (status 403)" in str(caught.value)
