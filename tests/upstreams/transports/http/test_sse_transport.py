"""The deprecated HTTP+SSE, against a scripted server."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from config.diff import config_key
from config.remembered_facts import Memory
from hub.link.hub_errors import (
    DeadlineExceeded,
    Executed,
    HubError,
    Overloaded,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from hub.wire.capabilities import capabilities_of_shared_session
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import Era, Kind
from tests.support.http_fixture import TEXT, Ear, config_for, failing, log_note, note, run, running
from tests.support.http_peer import PeerRequest, Talk, http_peer
from upstreams.session_contract import CallTimeouts, SessionTerms

Step = Callable[[PeerRequest, Talk], Awaitable[None]]


class SseScript:
    """A server of 2024-11-05: GET /mcp opens the stream, POSTs go to /messages?session=N.

    `on[method]` replaces what happens to a POST; it may use `say` to send events. Everything else is 405.
    """

    def __init__(self, endpoint: str = "/messages?session={}", version: str = "2024-11-05") -> None:
        self.endpoint = endpoint
        self.version = version
        self.on: dict[str, Step] = {}
        self.streams: list[Talk] = []
        self.done = trio.Event()
        self._turn = trio.Lock()

    async def say(self, message: Any) -> None:
        async with self._turn:
            await self.streams[-1].event(message)

    async def __call__(self, request: PeerRequest, talk: Talk) -> None:
        if request.method == "GET":
            return await self._stream(talk)
        if not request.target.startswith("/messages"):
            return await talk.reply(status=405)
        method = request.rpc or "response"
        if method in self.on:
            return await self.on[method](request, talk)
        await talk.reply(status=202, body=b"Accepted", headers={"Content-Type": "text/plain"})
        if method == "initialize":
            server = {"name": "old", "version": "1"}
            facts = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": server}
            await self.say(request.result(facts))
        elif method == "tools/call":
            await self.say(request.result(TEXT))

    async def _stream(self, talk: Talk) -> None:
        self.streams.append(talk)
        await talk.stream()
        if self.endpoint:
            await talk.chunk(b"event: endpoint\ndata: " + self.endpoint.format(len(self.streams)).encode() + b"\n\n")
        await talk.gone()
        self.done.set()


@pytest.mark.covers("T-37", "V-11")
async def test_found_when_nothing_newer_answers() -> None:
    script = SseScript()
    memory = Memory(None)
    async with running(script, memory=memory) as it:
        assert it.session.transport == "sse"
        assert it.session.era is Era.LEGACY
        assert it.session.facts.version == "2024-11-05"
        assert await it.call() == TEXT
        discover, initialize, get, *later = it.peer.requests
        assert (discover.rpc, initialize.rpc) == ("server/discover", "initialize")
        assert (get.method, get.headers["accept"]) == ("GET", "text/event-stream")
        assert [request.target for request in later] == ["/messages?session=1"] * 3
        assert [request.rpc for request in later] == ["initialize", "notifications/initialized", "tools/call"]
        assert all(request.headers["x-key"] == "k" for request in later)
        assert "mcp-protocol-version" not in later[-1].headers
    await script.done.wait()
    assert memory.era(config_key(config_for(it.peer))) == "sse"


@pytest.mark.covers("V-12")
async def test_remembered_and_doubted_when_contradicted(autojump_clock: trio.abc.Clock) -> None:
    memory, first = Memory(None), ""
    script = SseScript()
    async with http_peer(script) as peer:
        for _ in range(2):
            peer.requests.clear()
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(run, config_for(peer), memory=memory))
                first = peer.methods()[0]
                nursery.cancel_scope.cancel()
        assert first == "GET"
        script.endpoint = ""
        peer.requests.clear()
    script.endpoint = ""
    with pytest.raises(UpstreamProtocolError):
        await failing(script, memory=memory)


async def test_a_configured_transport_is_not_probed() -> None:
    async with running(SseScript(version="2025-06-18"), transport="sse") as it:
        assert it.peer.methods()[:2] == ["GET", "initialize"]
        await it.call()
        assert it.peer.requests[-1].headers["mcp-protocol-version"] == "2025-06-18"
    with pytest.raises(UpstreamProtocolError, match="405"):
        await failing(SseScript(), transport="http")


@pytest.mark.covers("T-38")
@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("http://else.example/messages", "at http://else.example, another origin"),
        ("//else.example/messages", "another origin"),
        ("https://127.0.0.1/messages", "another origin"),
        ("file:///etc/passwd", "not a URL"),
        ("http://[", "not a URL"),
    ],
)
async def test_an_endpoint_elsewhere_is_refused(endpoint: str, why: str) -> None:
    with pytest.raises(UpstreamProtocolError, match=why):
        await failing(SseScript(endpoint), transport="sse")


@pytest.mark.covers("T-38")
@pytest.mark.parametrize("endpoint", ["{}", "messages", "?session={}", "./messages?x=1#y"])
async def test_an_endpoint_is_relative_to_the_stream(endpoint: str) -> None:
    script = SseScript(endpoint)
    targets: list[str] = []

    async def handler(request: PeerRequest, talk: Talk) -> None:
        if request.method == "POST":
            targets.append(request.target)
            request.target = "/messages"
        await script(request, talk)

    async with running(handler, transport="sse") as it:
        assert await it.call() == TEXT
    wanted = {"{}": "/1", "messages": "/messages", "?session={}": "/mcp?session=1", "./messages?x=1#y": "/messages?x=1"}
    assert set(targets) == {wanted[endpoint]}


@pytest.mark.covers("T-37")
async def test_a_stream_that_names_no_endpoint(autojump_clock: trio.abc.Clock) -> None:
    with pytest.raises(UpstreamProtocolError, match="named no endpoint"):
        await failing(SseScript(""), transport="sse")

    async def talkative(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(log_note("hello"))
        await talk.hang()

    with pytest.raises(UpstreamProtocolError, match="named no endpoint"):
        await failing(talkative, transport="sse")


@pytest.mark.parametrize("status", [401, 403])
async def test_access_is_refused(status: int) -> None:
    async def refuse(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=status)

    with pytest.raises(UpstreamUnauthorized):
        await failing(refuse, transport="sse")


async def test_progress_logs_and_changes_come_on_the_one_stream() -> None:
    script = SseScript()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202, headers={"Connection": "close"})  # what follows would hold up the next on it
        token = request.json["params"]["_meta"]["progressToken"]
        await script.say(note("notifications/progress", progressToken=token, progress=1))
        await script.say(log_note("from afar"))
        await script.say(note("notifications/tools/list_changed"))
        await script.say({"jsonrpc": "2.0", "id": "q", "method": "roots/list"})
        await answered.wait()
        await script.say(request.result(TEXT))

    async def response(request: PeerRequest, talk: Talk) -> None:
        answers.append(request.json)
        await talk.reply(status=202)
        answered.set()

    answered, answers = trio.Event(), []
    script.on |= {"tools/call": call, "response": response}
    async with running(script, transport="sse") as it:
        ear = Ear()
        ear.answer = Failure(-32601, "the host has not declared it")
        assert await it.call(exchange=ear) == TEXT
        assert ear.steps == [{"progress": 1}]
        assert ear.logs == [{"level": "info", "data": "from afar", "logger": "far"}]
        assert it.ear.kinds == [Kind.TOOL]
        assert answers[0]["error"]["code"] == -32601


@pytest.mark.covers("T-39")
@pytest.mark.parametrize("how", ["cut", "end"])
async def test_the_end_of_the_stream_is_the_end_of_the_session(how: str) -> None:
    script = SseScript()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202)
        stream = script.streams[-1]
        await stream.event({"half": 1}) if how == "end" else None
        await (stream.cut() if how == "cut" else stream.end())

    script.on["tools/call"] = call
    async with running(script, transport="sse") as it:
        with pytest.raises(UpstreamLost):
            await it.call()
        assert isinstance(await it.end(), UpstreamLost)
        assert it.ear.endings == 1
        with pytest.raises(HubError):
            await it.call()


async def test_the_stream_ends_during_the_handshake() -> None:
    script = SseScript()

    async def initialize(request: PeerRequest, talk: Talk) -> None:
        await script.streams[-1].cut()
        await talk.reply(status=202)

    script.on["initialize"] = initialize
    with pytest.raises(UpstreamLost):
        await failing(script, transport="sse")


@pytest.mark.covers("I-3", "F-R-06")
@pytest.mark.parametrize(
    ("status", "error", "executed"),
    [
        (500, UpstreamProtocolError, Executed.UNKNOWN),
        (429, Overloaded, Executed.NO),
        (None, UpstreamLost, Executed.UNKNOWN),
    ],
)
async def test_a_request_that_is_not_accepted_fails_alone(
    status: int | None, error: type[HubError], executed: Executed
) -> None:
    script = SseScript()

    async def refuse(request: PeerRequest, talk: Talk) -> None:
        del script.on["tools/call"]
        await (talk.cut() if status is None else talk.reply(status=status, body=b"secret"))

    script.on["tools/call"] = refuse
    async with running(script, transport="sse") as it:
        with pytest.raises(error) as caught:
            await it.call()
        assert caught.value.executed is executed
        assert caught.value.upstream == "far"
        assert "secret" not in str(caught.value)
        assert await it.call() == TEXT


async def test_a_handshake_that_is_not_accepted_says_why() -> None:
    script = SseScript()

    async def refuse(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=500)

    script.on["initialize"] = refuse
    with pytest.raises(UpstreamProtocolError, match="far answered with HTTP status 500"):
        await failing(script, transport="sse")


@pytest.mark.parametrize(
    ("status", "error"), [(404, UpstreamProtocolError), (401, UpstreamUnauthorized), (None, UpstreamUnavailable)]
)
async def test_an_endpoint_that_is_gone_ends_the_session(
    status: int | None, error: type[HubError], autojump_clock: trio.abc.Clock
) -> None:
    script = SseScript()

    async def refuse(request: PeerRequest, talk: Talk) -> None:
        if status is None:
            it.peer.stop()
            await talk.cut()
        else:
            await talk.reply(status=status)

    async with running(script, transport="sse") as it:
        script.on["tools/call"] = refuse
        if status is None:
            with pytest.raises(UpstreamLost):
                await it.call()
        with pytest.raises(error) as caught:
            await it.call()
        assert caught.value.executed is Executed.NO
        ended = await it.end()
        assert (type(ended), str(ended)) == (type(caught.value), str(caught.value))


@pytest.mark.covers("P-6")
@pytest.mark.parametrize("by", ["caller", "deadline"])
async def test_cancelling_tells_the_server(by: str, autojump_clock: trio.abc.Clock) -> None:
    script = SseScript()

    async def accept(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202)

    script.on["tools/call"] = accept
    async with running(script, transport="sse") as it:
        if by == "caller":
            with trio.move_on_after(5):
                await it.call()
        else:
            with pytest.raises(DeadlineExceeded):
                await it.call(timeouts=CallTimeouts(5, 10))
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "notifications/cancelled")
        asked = next(request for request in it.peer.requests if request.rpc == "tools/call")
        assert it.peer.requests[-1].json["params"]["requestId"] == asked.json["id"]


async def test_a_server_that_accepts_only_what_is_done_does_not_block_others(autojump_clock: trio.abc.Clock) -> None:
    script = SseScript()
    release = trio.Event()

    async def slow(request: PeerRequest, talk: Talk) -> None:
        if request.json["params"]["name"] == "slow":
            await release.wait()
        else:
            release.set()
        await script.say(request.result(TEXT))
        await talk.reply(status=202)

    script.on["tools/call"] = slow
    async with running(script, transport="sse") as it, trio.open_nursery() as nursery:
        nursery.start_soon(it.call, "slow")
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "tools/call")
        assert await it.call("fast") == TEXT


async def test_answers_that_are_nonsense_are_dropped(autojump_clock: trio.abc.Clock) -> None:
    script = SseScript()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202)
        await script.say(b"not json")
        await script.say({"jsonrpc": "2.0", "id": 4711, "result": {}})
        await script.streams[-1].chunk(b"event: other\ndata: " + json.dumps(request.result({})).encode() + b"\n\n")
        await script.say([log_note("batch"), request.result(TEXT)])

    script.on["tools/call"] = call
    async with running(script, transport="sse") as it:
        assert await it.call() == TEXT


async def test_an_event_that_is_too_large_ends_the_session() -> None:
    script = SseScript()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202)
        for _ in range(200):
            await script.streams[-1].chunk(b"data: " + b"x" * 60_000 + b"\n")

    script.on["tools/call"] = call
    async with running(script, transport="sse") as it:
        with pytest.raises(UpstreamLost):
            await it.call()
        assert "too large" in str(await it.end())


@pytest.mark.covers("G-4", "F-I-02")
async def test_questions_come_on_the_one_stream_too() -> None:
    script = SseScript()
    told, answered = [], trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=202, headers={"Connection": "close"})
        sampling = {"messages": [], "maxTokens": 9}
        await script.say({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": sampling})
        await answered.wait()
        await script.say(request.result(TEXT))

    async def response(request: PeerRequest, talk: Talk) -> None:
        told.append(request.json)
        await talk.reply(status=202)
        answered.set()

    script.on |= {"tools/call": call, "response": response}
    async with running(script, transport="sse", terms=SessionTerms(capabilities_of_shared_session())) as it:
        ear = Ear(answer={"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
        assert await it.call(exchange=ear) == TEXT
        assert [question.version for question in ear.questions] == ["2024-11-05"]
        assert [message["result"]["model"] for message in told] == ["m"]
        assert it.ear.events == ["asked"]
