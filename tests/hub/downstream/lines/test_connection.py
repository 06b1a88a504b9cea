"""Line connections over real socket pairs and pipes; `Scripted` plays the router."""

import os
import socket
from contextlib import asynccontextmanager, suppress

import msgspec
import pytest
import trio
import trio.testing

import hub.downstream.request_pipeline
from hub.catalog.endpoint_views import EVERYTHING, server_view
from hub.downstream.host_conversations import SESSION_IN_FLIGHT, Hosts
from hub.downstream.lines import connection as downstream
from hub.downstream.lines.connection import EOF_GRACE_S, MAX_MESSAGE_BYTES, TURN, LineHost
from hub.link import rate_limits
from hub.link.sync_primitives import SHARED_TURN
from hub.wire.jsonrpc import Failure, Result, encode, raw
from hub.wire.mcp import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    L1,
    L2,
    L3,
    L4,
    LOG_LEVEL_KEY,
    MAX_DECLARED_BYTES,
    MODERN,
    TOOLS_CALL,
    VERSION_KEY,
    Kind,
)
from hub.wire.questions.askable_questions import Question
from tests.support.http_fakes import ALICE, BOB, Scripted, call, read
from tests.support.schemas import validate
from tests.support.steps import counting


class Lines:
    """The host's end of a connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.version = L4
        self._buffer = b""

    async def send(self, message: object) -> None:
        data = message if isinstance(message, bytes) else encode(message)
        await self.stream.send_all(data + b"\n")

    async def line(self) -> bytes:
        while b"\n" not in self._buffer:
            data = await self.stream.receive_some(1 << 16)
            if not data:
                raise EOFError
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    async def receive(self, version: str | None = None, ask: str | None = None):
        """The next message, held against the schema."""
        line = await self.line()
        version = version or self.version
        if b'"id":' not in line and b'"error"' in line:
            version = max(version, L4)  # only newer ones have errors without an id
        validate(line, version, sender="server", method=ask)
        return msgspec.json.decode(line)

    async def ask(self, method: str, params: object = None, id: int | str = 1, **more: str):
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message)
        return await self.receive(**more)

    async def notify(self, method: str, params: object = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.send(message)

    async def initialize(self, version: str = L4, capabilities: object = None):
        about = {"name": "Test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": about}
        self.version = version if version != MODERN else L4
        reply = await self.ask("initialize", params, 0, ask="initialize")
        await self.notify("notifications/initialized")
        return reply

    async def settle(self) -> None:
        """Return when the hub has read all that was sent."""
        await self.ask("ping", id="settle")


@pytest.fixture(params=[False, True], ids=["in tasks", "quick"])
def router(request):
    return Scripted(is_quick=request.param)


@pytest.fixture
def hosts():
    return Hosts()


@asynccontextmanager
async def connected(router, hosts, identity=ALICE, **options):
    ours, theirs = (trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in socket.socketpair())
    async with trio.open_nursery() as nursery, ours, theirs:
        nursery.start_soon(lambda: LineHost(theirs, identity, router, hosts, **options).serve())
        yield Lines(ours)
        await ours.aclose()


@pytest.fixture
async def host(router, hosts):
    async with connected(router, hosts) as lines:
        yield lines


def modern(method: str, params: dict | None = None, id: int | str = 1, **meta: object):
    stamps = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, **meta}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**(params or {}), "_meta": stamps}}


# --- eras -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("V-5", "V-6", "F-H-25")
async def test_both_eras_on_one_connection(host, router):
    assert (await host.ask(TOOLS_CALL, {"name": "echo"}))["error"]["code"] == -32602
    await host.send(modern(TOOLS_CALL, {"name": "echo"}))
    assert (await host.receive(MODERN, TOOLS_CALL))["result"]["resultType"] == "complete"
    await host.initialize()
    assert "resultType" not in (await host.ask(TOOLS_CALL, {"name": "echo"}))["result"]
    await host.send(modern(TOOLS_CALL, {"name": "echo"}))
    assert (await host.receive(MODERN, TOOLS_CALL))["result"]["resultType"] == "complete"
    assert [exchange.caller.version for exchange, _ in router.seen] == [MODERN, L4, MODERN]


@pytest.mark.covers("S-22", "V-17")
async def test_ping_needs_no_handshake(host):
    assert (await host.ask("ping"))["result"] == {}
    await host.initialize()
    assert (await host.ask("ping"))["result"] == {}


@pytest.mark.covers("V-14", "V-26")
@pytest.mark.parametrize(("asked", "got"), [(L1, L1), (L2, L2), (L3, L3), (L4, L4), (MODERN, L4)])
async def test_initialize(host, asked, got):
    assert (await host.initialize(asked))["result"]["protocolVersion"] == got
    host.version = L4
    assert (await host.initialize())["result"]["protocolVersion"] == L4  # a shim's new connection starts over


async def test_an_initialize_that_cannot_be_used(host):
    assert (await host.ask("initialize", {}, 3))["error"]["code"] == -32602
    await host.initialize()


@pytest.mark.covers("F-H-20")
@pytest.mark.parametrize("member", ["capabilities", "clientInfo"])
async def test_what_a_host_says_of_itself_is_kept_and_has_a_limit(host, hosts, member):
    params = {"protocolVersion": L4, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    params[member] = {**params[member], "title": "x" * MAX_DECLARED_BYTES}
    refused = await host.ask("initialize", params, 3)
    assert (refused["error"]["code"], member in refused["error"]["message"]) == (-32602, True)
    await host.initialize()


@pytest.mark.covers("V-2", "B-10")
@pytest.mark.parametrize(
    ("meta", "code"),
    [({VERSION_KEY: "1999-01-01"}, -32022), ({VERSION_KEY: 1}, -32602), ({CLIENT_CAPABILITIES_KEY: 1}, -32602)],
)
async def test_bad_modern_requests(host, router, meta, code):
    await host.send(modern(TOOLS_CALL, {"name": "echo"}, 8, **meta))
    reply = await host.receive(MODERN)
    assert (reply["id"], reply["error"]["code"]) == (8, code)
    assert not router.seen


@pytest.mark.covers("S-23", "S-29")
async def test_set_level_belongs_to_the_legacy_era(host, router, hosts):
    await host.initialize()
    await host.send(modern("logging/setLevel", {"level": "error"}))
    assert (await host.receive(MODERN))["error"]["code"] == -32601
    assert (await host.ask("logging/setLevel", {"level": "shout"}))["error"]["code"] == -32602
    assert (await host.ask("logging/setLevel", {"level": "error"}))["result"] == {}
    assert hosts.log_levels() == ["error"]
    await host.send(call("log"))
    assert (await host.receive())["params"] == {"level": "error", "data": "oh"}
    assert (await host.receive())["id"] == 1
    await host.stream.aclose()
    await trio.testing.wait_all_tasks_blocked()
    assert hosts.log_levels() == []
    assert router.level_changes == 2


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("P-1", "P-2")
async def test_progress_keeps_its_token(host):
    await host.initialize()
    for token in (7, "7", "ü"):
        await host.send(call("progress", token=token))
        assert (await host.receive())["params"]["progressToken"] == token
        assert (await host.receive())["id"] == 1
    await host.send(call("progress", token={"no": "token"}))
    assert (await host.receive())["id"] == 1


@pytest.mark.covers("N-9", "T-15")
async def test_logs_of_a_modern_request(host):
    await host.send(modern(TOOLS_CALL, {"name": "log"}, **{LOG_LEVEL_KEY: "debug"}))
    assert (await host.receive(MODERN))["method"] == "notifications/message"
    assert (await host.receive(MODERN, TOOLS_CALL))["id"] == 1


@pytest.mark.covers("P-6", "P-7", "P-10", "F-H-02")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_cancellation(host, router, hosts, era):
    await host.initialize()
    for name, id in (("wait-a", 1), ("wait-b", "1")):
        await host.send(call(name, id) if era == "legacy" else modern(TOOLS_CALL, {"name": name}, id))
    async with connected(router, hosts, BOB) as stranger:
        await stranger.initialize()
        await stranger.notify("notifications/cancelled", {"requestId": 1})
        await stranger.settle()
    for params in ({"requestId": 9}, {"requestId": True}, {"requestId": 1.5}, {}, {"requestId": 1, "reason": 5}):
        assert router.cancelled == []
        await host.notify("notifications/cancelled", params)
        await host.settle()
    await host.notify("notifications/cancelled", {"requestId": 1})
    await host.settle()
    assert router.cancelled == ["wait-a"]
    router.release.set()
    reply = await host.receive(MODERN if era == "modern" else None)
    assert reply["id"] == "1"


@pytest.mark.covers("F-H-06", "F-H-07", "B-3")
async def test_ids_in_flight(host, router, hosts):
    await host.initialize()
    await host.send(call("wait", 1))
    async with connected(router, hosts, BOB) as other:
        await other.initialize()
        await other.send(call("echo", 1))
        assert (await other.receive())["result"]["content"][0]["text"] == "echo"
    await host.send(call("echo", 1))
    assert (await host.receive())["error"]["code"] == -32600
    router.release.set()
    assert (await host.receive())["result"]["content"][0]["text"] == "wait"
    await host.send(call("echo", 1))
    assert (await host.receive())["result"]


@pytest.mark.covers("F-H-05")
async def test_too_much_at_once(host, router):
    await host.initialize()
    for id in range(SESSION_IN_FLIGHT):
        await host.send(call("wait", id))
    await host.send(call("echo", 999))
    reply = await host.receive()
    assert (reply["id"], reply["error"]["data"]["hub"]) == (999, "overloaded")
    router.release.set()
    assert len({(await host.receive())["id"] for _ in range(SESSION_IN_FLIGHT)}) == 64


async def test_what_is_at_hand_is_not_waited_for(host, router):
    router.at_hand["note:a"] = Result(raw({"contents": []}))
    await host.initialize()
    await host.send(call("wait", 1))
    assert (await host.ask("resources/read", {"uri": "note:a"}, 2))["result"] == {"contents": []}
    assert (await host.ask("resources/read", {"uri": "note:a"}, 1))["error"]["code"] == -32600, "that one is running"
    await host.send(modern("resources/read", {"uri": "note:a"}, 3))
    assert (await host.receive())["id"] == 3
    assert [request.method for _, request in router.seen] == [TOOLS_CALL]
    router.release.set()


def note_hosts(router, begin, other, message):
    """Have `begin` take requests, and note the hosts of these. With the first comes `message` of the host `other`."""
    begun = []

    def note(request, exchange, done):
        begun.append(exchange.caller.identity)
        if len(begun) == 1:
            os.write(other.stream.socket.fileno(), encode(message) + b"\n")
        return begin(request, exchange, done)

    router.begin = note
    return begun


async def test_a_host_that_asks_much_at_once_lets_others_have_their_turn(router, hosts):
    many = 3 * TURN
    async with connected(router, hosts) as busy, connected(router, hosts, BOB) as other:
        await busy.initialize()
        await other.initialize()
        answered = note_hosts(router, lambda *_: Result(raw({"contents": []})), other, read("note:a"))
        await busy.send(b"\n".join(encode(read("note:a", id)) for id in range(many)))
        assert (await other.receive())["id"] == 1
        for id in range(many):
            assert (await busy.receive())["id"] == id
    assert answered.index(BOB) <= 2 * SHARED_TURN < TURN  # it has sent something lately


async def test_a_host_with_many_quick_calls_lets_others_have_their_turn(router, hosts):
    many = SESSION_IN_FLIGHT
    router.is_quick = True
    async with connected(router, hosts) as busy, connected(router, hosts, BOB) as other:
        await busy.initialize()
        await other.initialize()
        begun = note_hosts(router, router.begin, other, call("wait", 1))
        await busy.send(b"\n".join(encode(call("wait", id)) for id in range(many)))
        await trio.testing.wait_all_tasks_blocked()
        assert begun.index(BOB) <= 2 * SHARED_TURN < many == begun.count(ALICE)
        router.release.set()
        assert (await other.receive())["id"] == 1
        assert {(await busy.receive())["id"] for _ in range(many)} == set(range(many))


@pytest.mark.covers("SEC-16")
async def test_a_bug_fails_one_request(host, caplog):
    await host.initialize()
    await host.send(call("crash"))
    assert (await host.receive())["error"]["code"] == -32603
    assert "ZeroDivisionError" in caplog.text
    await host.settle()


async def test_one_upstream_by_itself(router, hosts):
    async with connected(router, hosts, view=server_view("files")) as host:
        await host.initialize()
        await host.send(call("echo"))
        await host.receive()
        assert hosts.status()[0].endpoint == "/mcp/files"
    assert router.seen[0][0].view.name == "files"


async def test_bytes_that_were_read_before(router, hosts):
    first = encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    async with connected(router, hosts, received=first + b"\n" + first[:10]) as host:
        assert (await host.receive())["id"] == 1
        await host.send(first[10:])
        assert (await host.receive())["id"] == 1


# --- questions --------------------------------------------------------------------------------------------------------

ASKABLE = {"elicitation": {}, "roots": {"listChanged": True}}
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def form():
    return Question("elicitation/create", {name: raw(value) for name, value in FORM.items()}, "files", L4)


@pytest.mark.covers("F-I-04", "F-H-19", "G-10", "T-25")
async def test_a_host_is_asked_during_its_call(host, router):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    await host.send(call("ask"))
    asked = await host.receive()
    assert (asked["id"][:4], asked["params"]["message"]) == ("hub-", "[files] Name?")
    await host.send({"jsonrpc": "2.0", "id": "hub-9", "result": {"action": "cancel"}})
    for action in ("accept", "decline"):
        await host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}})
    assert (await host.receive())["id"] == 1
    assert bytes(router.replies["ask"].value) == b'{"action":"accept"}'
    await host.settle()


@pytest.mark.covers("F-P-10", "F-H-08")
async def test_a_malformed_answer_ends_the_question_at_once(host, router):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    await host.send(call("ask"))
    asked = await host.receive()
    await host.send(
        b'{"jsonrpc":"2.0","id":"%b","result":{"action":"accept","content":{"a":NaN}}}' % asked["id"].encode()
    )
    assert {(await host.receive()).get("id"), (await host.receive()).get("id")} == {None, 1}
    assert router.replies["ask"].code == -32700


@pytest.mark.covers("F-H-19", "I-2", "G-2")
async def test_nobody_answers_for_another(host, router, hosts):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    await host.send(call("ask"))
    asked = await host.receive()
    async with connected(router, hosts, BOB) as stranger:
        await stranger.initialize()
        await stranger.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
        await stranger.settle()
    assert router.replies == {}
    await host.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}})
    assert (await host.receive())["id"] == 1
    assert router.replies["ask"] == Failure(-1, "no")


@pytest.mark.covers("P-7", "P-10", "F-I-03")
async def test_cancelling_a_call_withdraws_what_it_asks(host, router, hosts):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    await host.send(call("ask"))
    asked = await host.receive()
    assert hosts.status()[0].asked == 1
    await host.notify("notifications/cancelled", {"requestId": 1})
    withdrawn = await host.receive()
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
    await host.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept"}})
    await host.settle()
    assert router.replies == {}
    assert hosts.status()[0].asked == 0


@pytest.mark.covers("F-I-01", "R-2", "F-H-25")
async def test_modern_requests_of_the_same_connection_are_not_asked(host, router):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    await host.send(modern(TOOLS_CALL, {"name": "ask"}, **{CLIENT_CAPABILITIES_KEY: ASKABLE}))
    assert (await host.receive(MODERN, TOOLS_CALL))["id"] == 1
    assert router.replies["ask"].code == -32601


@pytest.mark.covers("F-I-05", "F-H-01")
async def test_a_host_that_has_said_all_it_wanted_answers_nothing(router, hosts, autojump_clock):
    router.questions["ask"] = form()
    async with connected(router, hosts) as host:
        await host.initialize(capabilities=ASKABLE)
        await host.send(call("ask"))
        await host.receive()
        started = trio.current_time()
        await host.stream.send_eof()
        assert (await host.receive())["id"] == 1
        assert trio.current_time() - started < 1
    assert router.replies["ask"].message == "The host has left"


@pytest.mark.covers("V-17", "S-23")
async def test_starting_over_forgets_what_was_asked(host, router, hosts):
    router.questions["ask"] = form()
    await host.initialize(capabilities=ASKABLE)
    assert (await host.ask("logging/setLevel", {"level": "error"}))["result"] == {}
    await host.send(call("ask", 7))
    await host.receive()
    await host.send({"jsonrpc": "2.0", "id": 8, "method": "initialize", "params": {"protocolVersion": L4}})
    assert {(await host.receive())["id"] for _ in range(2)} == {7, 8}
    assert router.replies["ask"].message == "The host has left"
    assert router.level_changes == 2
    assert hosts.log_levels() == []


@pytest.mark.covers("F-I-01", "G-10")
async def test_a_batch_may_be_asked_too(host, router):
    router.questions["ask"] = Question(
        "sampling/createMessage", {"maxTokens": raw(1), "messages": raw([])}, "files", "2024-11-05"
    )
    await host.initialize(L2, {"sampling": {}})
    await host.send([call("ask", 1), call("echo", 2)])
    asked = await host.receive()
    answer = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}}
    await host.send([{"jsonrpc": "2.0", "id": asked["id"], "result": answer}])
    assert {each["id"] for each in await host.receive()} == {1, 2}
    assert isinstance(router.replies["ask"], Result)


@pytest.mark.covers("C-8")
async def test_the_router_hears_of_changed_roots_and_of_the_end(router, hosts, nursery):
    async with connected(router, hosts) as host:
        await host.notify("notifications/roots/list_changed")
        await host.initialize(capabilities=ASKABLE)
        await host.send(call("echo"))
        await host.receive()
        await host.notify("notifications/roots/list_changed")
        await host.settle()
        tenant = router.seen[0][0].caller.tenant
        assert router.moved == [tenant]
        assert router.gone == []
    await trio.testing.wait_all_tasks_blocked()
    assert router.gone == [tenant]


# --- what is malformed ------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-08", "F-H-09", "B-17")
@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","params":[]}', -32602, 6),
        (b'{"jsonrpc":"2.0","id":6,"method":"ping","method":"x"}', -32600, None),
        (b'[{"jsonrpc":"2.0","id":6,"method":"ping"}]', -32600, None),
        (b"5", -32600, None),
    ],
)
async def test_a_malformed_line(host, line, code, id):
    await host.initialize()
    await host.send(line)
    reply = await host.receive()
    assert (reply["error"]["code"], reply.get("id")) == (code, id)
    await host.settle()


@pytest.mark.covers("F-H-10")
async def test_a_line_without_end(router, hosts, nursery):
    async with connected(router, hosts) as host:
        await host.initialize()
        await host.send(call("wait"))
        await host.settle()
        nursery.start_soon(_pour, host.stream, b"x" * (MAX_MESSAGE_BYTES + 10))
        assert (await host.receive())["error"]["code"] == -32600
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert router.cancelled == ["wait"]
        assert len(hosts) == 0


async def _pour(stream, data):
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(data)


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-01", "I-12")
async def test_a_host_that_is_gone(router, hosts, autojump_clock):
    async with connected(router, hosts) as host:
        await host.initialize()
        await host.send(call("wait"))
        await host.settle()
        started = trio.current_time()
        await host.stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert router.cancelled == ["wait"]
        assert trio.current_time() == started
    assert len(hosts) == 0
    assert hosts.requests.count == 0


async def test_a_host_that_has_said_all_gets_its_answers(router, hosts, autojump_clock):
    async with connected(router, hosts) as host:
        await host.initialize()
        await host.send(call("wait"))
        await host.send(call("echo", 2))
        assert (await host.receive())["id"] == 2
        await host.stream.send_eof()
        await trio.sleep(1)
        router.release.set()
        assert (await host.receive())["id"] == 1
        await trio.sleep(0.1)
        assert len(hosts) == 0


async def test_but_not_for_ever(router, hosts, autojump_clock):
    async with connected(router, hosts) as host:
        await host.initialize()
        await host.send(call("wait"))
        await host.stream.send_eof()
        await trio.sleep(EOF_GRACE_S - 0.5)
        assert not router.cancelled
        await trio.sleep(1)
        assert router.cancelled == ["wait"]
        assert len(hosts) == 0


async def test_standard_input_and_output(router, hosts):
    """As `hubd serve --stdio` does it: `printf ... | hubd serve --stdio`."""
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    os.write(write_in, ping * 2)
    os.close(write_in)
    stdio = trio.StapledStream(trio.lowlevel.FdStream(write_out), trio.lowlevel.FdStream(read_in))
    with trio.fail_after(30):
        async with stdio:
            await LineHost(stdio, ALICE, router, hosts, transport="stdio").serve()
    assert os.read(read_out, 1000).count(b'"result":{}') == 2
    os.close(read_out)


@pytest.mark.covers("F-H-01")
async def test_a_host_that_closed_both_pipes(router, hosts, nursery, autojump_clock):
    read_in, write_in = os.pipe()
    read_out, write_out = os.pipe()
    stdio = trio.StapledStream(trio.lowlevel.FdStream(write_out), trio.lowlevel.FdStream(read_in))
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": L4}}
    os.write(write_in, encode(hello) + b"\n" + encode(call("wait")) + b"\n")
    async with stdio:
        nursery.start_soon(LineHost(stdio, ALICE, router, hosts).serve)
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
        os.close(read_out)
        os.close(write_in)
        await trio.testing.wait_all_tasks_blocked()
        assert router.cancelled == ["wait"]
        assert trio.current_time() == started


@pytest.mark.covers("F-H-04")
async def test_a_host_that_does_not_read(router, hosts, autojump_clock):
    """Progress is dropped, list changes merge, answers wait; after 30 s without a byte the host is given up."""
    async with connected(router, hosts) as host:
        await host.initialize()
        (attached,) = hosts
        await host.send(call("wait", token=1))
        await host.settle()
        attached.send(b'"%b"' % (b"x" * (2 << 20)))
        before = attached._channel.queued_bytes
        assert before > 1 << 20
        router.exchanges["wait"].progress({"progress": msgspec.Raw(b"1")})
        for _ in range(3):
            hosts.list_changed({Kind.TOOL, Kind.PROMPT}, EVERYTHING)
        assert attached._channel.queued_bytes == before
        router.release.set()
        await trio.sleep(1)
        assert len(await host.line()) == (2 << 20) + 2
        seen = [await host.receive() for _ in range(3)]
        assert [message.get("id", message.get("method", "")[14:]) for message in seen] == [
            1,
            "tools/list_changed",
            "prompts/list_changed",
        ]
        attached.send(b'"%b"' % (b"x" * (2 << 20)))
        await trio.sleep(31)
        assert len(hosts) == 0


async def test_answers_that_do_not_fit(router, hosts):
    async with connected(router, hosts) as host:
        await host.initialize()
        (attached,) = hosts
        answer = b'"%b"' % (b"x" * (7 << 20))
        for _ in range(hosts.budget.limit // 4 // len(answer)):
            attached.send(answer, vital=True)
        await trio.testing.wait_all_tasks_blocked()
        assert len(hosts) == 1, "it has not read them yet, but may"
        attached.send(answer, vital=True)
        await trio.testing.wait_all_tasks_blocked()
        assert len(hosts) == 0


# --- what hosts are told ----------------------------------------------------------------------------------------------


@pytest.mark.covers("N-8", "V-17")
async def test_lists_that_change(host, router, hosts):
    hosts.list_changed(set(Kind), EVERYTHING)
    await host.send(modern(TOOLS_CALL, {"name": "echo"}))
    await host.receive(MODERN, TOOLS_CALL)
    hosts.list_changed(set(Kind), EVERYTHING)  # modern hosts hear of it where they listen
    await host.initialize()
    await host.settle()
    hosts.list_changed({Kind.TEMPLATE}, server_view("files"))
    hosts.list_changed(set(), EVERYTHING)
    hosts.list_changed({Kind.TEMPLATE}, EVERYTHING)
    assert (await host.receive())["method"] == "notifications/resources/list_changed"
    await host.settle()


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("B-15", "F-H-09")
async def test_a_batch(host, router):
    await host.initialize(L2)
    await host.send([call("echo", 1), {"jsonrpc": "2.0", "method": "x"}, {"jsonrpc": "2.0", "id": 2, "method": "y"}])
    line = await host.line()
    validate(line, L2, sender="server")
    assert sorted(reply["id"] for reply in msgspec.json.decode(line)) == [1, 2]
    await host.send([{"jsonrpc": "2.0", "method": "x"}])
    for refused in ([], [call("echo", id) for id in range(65)], [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]):
        await host.send(refused)
        assert (await host.receive())["error"]["code"] == -32600
    await host.send([call("wait", 5)])
    await trio.testing.wait_all_tasks_blocked(0.001)
    await host.notify("notifications/cancelled", {"requestId": 5})
    await host.settle()
    assert router.cancelled == ["wait"]


@pytest.mark.covers("F-H-09", "F-H-05")
@pytest.mark.parametrize("method", ["x", "notifications/x"])
async def test_the_parts_of_a_large_batch_are_read_in_turns(host, router, monkeypatch, method):
    await host.initialize(L2)
    each = {"jsonrpc": "2.0", "method": method, "params": {"x": "x" * 30_000}}
    parts = [each if "/" in method else {**each, "id": number} for number in range(64)]
    with counting() as steps:
        steps.count(monkeypatch, hub.downstream.request_pipeline, "decode")
        await host.send(parts)
        await host.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
        for _ in range(1 if "/" in method else 2):
            await host.line()
    assert steps.total == 64
    assert steps.most_bytes <= rate_limits.TURN_BYTES + 31_000


@pytest.mark.covers("F-H-09")
async def test_the_requests_of_a_batch_begin_one_after_another(host, router, monkeypatch):
    await host.initialize(L2)
    began, rounds = [], []

    class Rounds(trio.abc.Instrument):
        def before_io_wait(self, timeout):
            rounds.append(timeout)

    async def answer(host, router, request, exchange, scope, read_pace):
        await read_pace.next()
        began.append((len(rounds), request.id))
        host.end(request.id)
        return Result(raw({}))

    monkeypatch.setattr(hub.downstream.request_pipeline, "answer", answer)
    instrument = Rounds()
    trio.lowlevel.add_instrument(instrument)
    await host.send([call("echo", id) for id in range(20)])
    await host.line()
    trio.lowlevel.remove_instrument(instrument)
    assert sorted(id for _, id in began) == list(range(20))
    assert len({number for number, _ in began}) == 20, "one in each round of the loop"


# --- how it looks -----------------------------------------------------------------------------------------------------


async def test_status_rows(host, hosts):
    info = {"name": "code", "title": "The Code Editor", "version": "1"}
    await host.send(modern(TOOLS_CALL, {"name": "echo"}, **{CLIENT_INFO_KEY: info}))
    await host.receive(MODERN, TOOLS_CALL)
    (row,) = hosts.status()
    assert row.host == "The Code Editor"
    assert (row.transport, row.version, row.principal) == ("unix", MODERN, "token:alice")
    await host.initialize(L3)
    (row,) = hosts.status()
    assert (row.host, row.version, row.in_flight) == ("Test", L3, 0)
    assert repr(next(iter(hosts))) == "<LineHost desk 2025-06-18, 0 requests in flight>"


# --- floods -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-05")
@pytest.mark.parametrize("line", [b"1", b'{"jsonrpc":"2.0","method":"n"}', b'{"jsonrpc":"2.0","id":5,"result":{}}'])
async def test_a_host_that_floods_is_read_in_turns_and_no_faster_than_it_should(
    autojump_clock, monkeypatch, router, hosts, line
):
    async with connected(router, hosts) as host, trio.open_nursery() as nursery:
        await host.initialize()
        began = trio.current_time()
        with counting() as steps:
            steps.count(monkeypatch, downstream.jsonrpc, "decode")
            last = b'{"jsonrpc":"2.0","id":"last","method":"ping"}\n'
            nursery.start_soon(host.stream.send_all, (line + b"\n") * 3_000 + last)
            while b'"id":"last"' not in await host.line():
                pass
        assert steps.total >= 3_001
        assert steps.most <= rate_limits.TURN + 1
        assert trio.current_time() - began > 1.8


@pytest.mark.covers("F-H-04", "F-H-05")
async def test_a_host_that_asks_and_does_not_read_is_read_no_further(autojump_clock, monkeypatch, router, hosts):
    monkeypatch.setattr(downstream, "MUCH_UNREAD_BYTES", 1 << 20)
    async with connected(router, hosts) as host, trio.open_nursery() as nursery:
        await host.initialize()
        [served] = hosts
        ping = encode({"jsonrpc": "2.0", "id": "x" * 200, "method": "ping"}) + b"\n"
        nursery.start_soon(host.stream.send_all, ping * 50_000)
        with trio.move_on_after(29):  # it is given up after 30 s without a byte taken
            await trio.sleep_forever()
        assert 0 < served._channel.queued_bytes <= 2 << 20
        nursery.cancel_scope.cancel()


@pytest.mark.covers("F-D-01", "F-D-02")
async def test_what_runs_too_long_for_a_stop_is_answered(router, hosts):
    async with connected(router, hosts) as lines:
        await lines.initialize(L2)
        await lines.send(call("wait", 1))
        await lines.send(modern(TOOLS_CALL, {"name": "wait", "arguments": {}}, 2))
        await lines.send([call("wait", 3)])
        await lines.settle()
        hosts.requests.cut_off()
        answers = [msgspec.json.decode(await lines.line()) for _ in range(3)]
        flat = [message for each in answers for message in (each if isinstance(each, list) else [each])]
        assert {message["id"] for message in flat} == {1, 2, 3}
        for message in flat:
            (facts,) = message["result"]["_meta"].values()
            assert facts == {"hub": "draining", "executed": "unknown", "retryable": False}
        await lines.send(call("echo", 4))
        refused = msgspec.json.decode(await lines.line())["error"]["data"]
        assert (refused["hub"], refused["executed"]) == ("draining", "no")
