"""Sessions over Streamable HTTP, both eras, against a scripted server."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from http_peer import Handler, HttpPeer, PeerRequest, Script, Talk, http_peer
from msgspec import Raw

from config.schema import Secret, UpstreamConfig
from config.state import Memory
from hub.link.exchange import (
    Caller,
    DeadlineExceeded,
    Executed,
    HubError,
    Identity,
    Operation,
    Overloaded,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
    UpstreamVersionError,
)
from hub.wire.jsonrpc import Failure, Reply, Result, raw
from hub.wire.mcp import MODERN, Era, Kind
from upstreams.http import HttpSession, open_http
from upstreams.session import CallTimeouts

TIMEOUTS = CallTimeouts(300.0, 3600.0)
TEXT = {"content": [{"type": "text", "text": "called"}]}


class Ear:
    """SessionEvents, and the host's end of one call."""

    def __init__(self, *, wants_progress: bool = True) -> None:
        self.caller = Caller(Identity("me", "test"), MODERN, {}, "debug")
        self.wants_progress = wants_progress
        self.kinds: list[Kind] = []
        self.logs: list[Any] = []
        self.steps: list[Any] = []
        self.endings = 0
        self.heard = trio.Event()

    def changed(self, kinds: tuple[Kind, ...]) -> None:
        self.kinds += kinds
        self._hear()

    def ended(self) -> None:
        self.endings += 1

    def log(self, params: dict[str, Raw]) -> None:
        self.logs.append(json.loads(bytes(raw(params))))
        self._hear()

    def progress(self, params: dict[str, Raw]) -> None:
        self.steps.append(json.loads(bytes(raw(params))))
        self._hear()

    async def ask(self, method: str, params: dict[str, Raw]) -> Reply:
        raise NotImplementedError

    def _hear(self) -> None:
        self.heard.set()
        self.heard = trio.Event()


class Fixture:
    """A running session and its server."""

    def __init__(self, session: HttpSession, peer: HttpPeer, ear: Ear, memory: Memory) -> None:
        self.session, self.peer, self.ear, self.memory = session, peer, ear, memory
        self._end: HubError | None = None
        self._over = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self.session.run(task_status=task_status)
        except HubError as error:
            self._end = error
            self._over.set()

    async def end(self) -> HubError:
        """Wait until the session has ended by itself; why."""
        await self._over.wait()
        assert self._end is not None
        return self._end

    async def call(
        self, name: str = "t", arguments: Any = None, *, exchange: Ear | None = None, timeouts: CallTimeouts = TIMEOUTS
    ) -> Any:
        params = {"name": raw(name), "arguments": raw({} if arguments is None else arguments)}
        reply = await self.session.call(Operation("tools/call", params), exchange or Ear(), timeouts)
        return json.loads(bytes(reply.value)) if isinstance(reply, Result) else reply


def config_for(peer: HttpPeer, **more: Any) -> UpstreamConfig:
    return UpstreamConfig(url=peer.url, headers={"X-Key": Secret("k")}, **more)


@asynccontextmanager
async def running(handler: Handler, *, memory: Memory | None = None, **more: Any) -> AsyncIterator[Fixture]:
    memory, ear = memory or Memory(None), Ear()
    async with http_peer(handler) as peer, trio.open_nursery() as nursery:
        it = Fixture(open_http(config_for(peer, **more), "far", ear, memory), peer, ear, memory)
        await nursery.start(it.run)
        yield it
        nursery.cancel_scope.cancel()


async def failing(handler: Handler, *, memory: Memory | None = None, **more: Any) -> None:
    """Run a session that cannot be opened; raises why."""
    failure: HubError | None = None
    async with http_peer(handler) as peer:
        try:
            await open_http(config_for(peer, **more), "far", Ear(), memory or Memory(None)).run()
        except HubError as error:
            failure = error
    assert failure is not None
    raise failure


def answering(*, status: int = 200, body: bytes = b"", **headers: str) -> Handler:
    async def handler(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return handler


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def log_note(text: str) -> dict[str, Any]:
    return note("notifications/message", level="info", data=text)


# --- what does it speak? ---------------------------------------------------------------------------------------------


@pytest.mark.covers("V-10")
async def test_a_modern_server() -> None:
    async with running(Script("modern")) as it:
        assert it.session.era is Era.MODERN
        assert it.session.facts.version == MODERN
        assert it.session.transport == "http"
        assert it.session.pid is None
        assert await it.call() == TEXT
        assert it.peer.methods() == ["server/discover", "tools/call"]
        assert it.memory._sections["eras"].popitem()[1] == "modern"


@pytest.mark.covers("V-10", "V-11", "V-16", "T-32", "T-35")
async def test_a_legacy_server() -> None:
    async with running(Script()) as it:
        assert it.session.era is Era.LEGACY
        assert it.session.facts.version == "2025-11-25"
        assert it.session.facts.server_info["name"] == raw("far")
        assert await it.call() == TEXT
        methods = it.peer.methods()
        assert methods == ["server/discover", "initialize", "notifications/initialized", "GET", "tools/call"]
        asked, first, *later = it.peer.requests
        assert asked.headers["mcp-protocol-version"] == MODERN
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        for request in later:
            assert request.headers["mcp-session-id"] == "session-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
            assert request.headers["x-key"] == "k"
        assert later[-1].headers["accept"] == "application/json, text/event-stream"


@pytest.mark.covers("T-35")
@pytest.mark.parametrize(("version", "named"), [("2024-11-05", False), ("2025-03-26", False), ("2025-06-18", True)])
async def test_the_version_header_begins_with_2025_06_18(version: str, named: bool) -> None:
    async with running(Script(version=version, session=False), era="legacy") as it:
        await it.call()
        assert ("mcp-protocol-version" in it.peer.requests[-1].headers) is named
        assert "mcp-session-id" not in it.peer.requests[-1].headers


LEGACY_ANSWERS_TO_DISCOVER = {
    "json error": {"status": 200, "body": b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'},
    "400 text": {"status": 400, "body": b"Bad Request: no session", "Content_Type": "text/plain"},
    "400 json": {"status": 400, "body": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}'},
    "404": {"status": 404},
    "405": {"status": 405},
    "406": {"status": 406},
    "web page": {"status": 200, "body": b"<html>", "Content_Type": "text/html"},
    "202": {"status": 202},
    "only legacy versions": {
        "status": 200,
        "body": b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2025-11-25"]}}',
    },
    "no common version": {
        "status": 400,
        "body": b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}',
    },
}


@pytest.mark.covers("V-10", "V-11")
@pytest.mark.parametrize("answer", LEGACY_ANSWERS_TO_DISCOVER.values(), ids=LEGACY_ANSWERS_TO_DISCOVER.keys())
async def test_answers_to_discover_that_mean_legacy(answer: dict[str, Any]) -> None:
    script = Script()
    script.on["server/discover"] = answering(**{"Content_Type": "application/json"} | answer)
    async with running(script) as it:
        assert it.session.era is Era.LEGACY


@pytest.mark.covers("V-9")
async def test_a_modern_error_is_never_followed_by_initialize() -> None:
    script = Script("modern")

    async def picky(request: PeerRequest, talk: Talk) -> None:
        del script.on["server/discover"]
        await talk.reply(request.error(-32022, data={"supported": [MODERN], "requested": "x"}), status=400)

    script.on["server/discover"] = picky
    async with running(script) as it:
        assert it.session.era is Era.MODERN
        assert it.peer.methods() == ["server/discover", "server/discover"]


@pytest.mark.covers("V-9", "V-3")
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"], "requested": MODERN}},
        {"code": -32020, "message": "no"},
    ],
)
async def test_a_modern_server_without_a_common_revision(error: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    script = Script("modern")
    script.on["server/discover"] = answering(status=400, body=body, Content_Type="application/json")
    with pytest.raises((UpstreamVersionError, UpstreamProtocolError), match="far"):
        await failing(script)


@pytest.mark.covers("V-29", "F-R-05", "F-R-06", "F-R-07")
@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (401, UpstreamUnauthorized, "401"),
        (403, UpstreamUnauthorized, "403"),
        (500, UpstreamProtocolError, "status 500"),
        (502, UpstreamProtocolError, "status 502"),
        (503, Overloaded, "overloaded"),
        (429, Overloaded, "overloaded"),
        (302, UpstreamProtocolError, "redirect to https://else.example:444, which"),
    ],
)
async def test_what_says_nothing_about_the_era(status: int, error: type[Exception], text: str) -> None:
    script = Script()
    where = "https://else.example:444/mcp?token=x"
    script.on["server/discover"] = answering(status=status, body=b"secret", Location=where)
    async with http_peer(script) as peer:
        session = open_http(config_for(peer), "far", Ear(), Memory(None))
        with pytest.raises(error, match=text) as caught:
            await session.run()
        assert peer.methods() == ["server/discover"]
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


@pytest.mark.covers("V-12")
async def test_the_era_is_remembered_and_doubted_when_contradicted() -> None:
    script = Script()

    async def front(request: PeerRequest, talk: Talk) -> None:
        await script(request, talk)

    memory, ear = Memory(None), Ear()
    async with http_peer(front) as peer:

        async def once() -> str:
            peer.requests.clear()
            async with trio.open_nursery() as nursery:
                session = open_http(config_for(peer), "far", ear, memory)
                await nursery.start(session.run)
                nursery.cancel_scope.cancel()
            return peer.methods()[0]

        assert await once() == "server/discover"
        assert await once() == "initialize"
        script = Script("modern")
        assert await once() == "initialize"
        assert "server/discover" in peer.methods()
        assert await once() == "server/discover"


async def test_a_forced_era() -> None:
    async with running(Script(), era="legacy") as it:
        assert it.peer.methods()[0] == "initialize"
    with pytest.raises(UpstreamVersionError, match='remove era = "modern"'):
        await failing(Script(), era="modern")
    with pytest.raises(UpstreamProtocolError):
        await failing(Script("modern"), era="legacy")


@pytest.mark.covers("V-15", "V-19")
@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"protocolVersion": "2031-01-01", "capabilities": {}}, UpstreamVersionError),
        ({"capabilities": {}}, UpstreamProtocolError),
        ([], UpstreamProtocolError),
    ],
)
async def test_a_handshake_that_fails(result: Any, error: type[Exception]) -> None:
    script = Script()

    async def initialize(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result(result))

    script.on["initialize"] = initialize
    with pytest.raises(error):
        await failing(script)


async def test_a_configuration_that_cannot_be_used() -> None:
    session = open_http(UpstreamConfig(url="http://u:secret@h/"), "far", Ear(), Memory(None))
    with pytest.raises(UpstreamUnavailable, match="far is configured wrongly: a user name") as caught:
        await session.run()
    assert "secret" not in str(caught.value)
    with pytest.raises(UpstreamUnavailable, match="not connected"):
        await session.request("ping", {})


# --- calls, both eras ------------------------------------------------------------------------------------------------

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.mark.covers("T-12", "T-14", "T-15", "T-24", "T-25", "T-19")
@ERAS
async def test_progress_and_logs_go_to_the_call_on_whose_stream_they_come(era: str) -> None:
    script = Script(era)
    both = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        params = request.json["params"]
        name, token = params["name"], params["_meta"]["progressToken"]
        await talk.stream()
        await talk.chunk(b": hello\n\n")
        await talk.event(log_note(name))
        await talk.event(note("notifications/progress", progressToken=token, progress=1, message=name))
        await talk.event(note("notifications/progress", progressToken=token + 1, progress=2))
        await talk.event(note("notifications/tools/list_changed"))
        if sum(request.rpc == "tools/call" for request in it.peer.requests) == 2:
            both.set()
        await both.wait()
        await talk.event(request.result({"content": [], "name": name}))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script) as it:
        ears = {"a": Ear(), "b": Ear()}

        async def one(name: str) -> None:
            assert (await it.call(name, exchange=ears[name]))["name"] == name

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "a")
            nursery.start_soon(one, "b")
        for name, ear in ears.items():
            assert ear.logs == [{"level": "info", "data": name, "logger": "far"}]
            assert ear.steps == [{"progress": 1, "message": name}]
        assert it.ear.kinds == [Kind.TOOL, Kind.TOOL]
        connections = it.peer.connections
        await it.call("a", exchange=ears["a"])
        assert it.peer.connections == connections, "a stream that ended leaves its connection to others"


@ERAS
async def test_an_error_of_the_upstream_passes_through(era: str) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        status = 400 if era == "modern" else 200
        await talk.reply(request.error(-32602, "bad argument", {"x": 1}), status=status)

    script.on["tools/call"] = call
    async with running(script) as it:
        reply = await it.call()
        assert (reply.code, reply.message, reply.data) == (-32602, "bad argument", Raw(b'{"x": 1}'))


@pytest.mark.covers("F-R-06")
@ERAS
@pytest.mark.parametrize(
    ("answer", "error", "executed"),
    [
        ({"status": 401}, UpstreamUnauthorized, Executed.NO),
        ({"status": 403}, UpstreamUnauthorized, Executed.NO),
        ({"status": 429}, Overloaded, Executed.NO),
        ({"status": 503}, Overloaded, Executed.UNKNOWN),
        ({"status": 500, "body": b"secret"}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"status": 418, "body": b"secret"}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"status": 202}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"status": 307, "Location": "/secret"}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"body": b"<html>secret", "Content_Type": "text/html"}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"body": b"secret", "Content_Type": "application/json"}, UpstreamProtocolError, Executed.UNKNOWN),
        ({"body": b"", "Content_Type": "application/json"}, UpstreamProtocolError, Executed.UNKNOWN),
    ],
)
async def test_answers_that_are_none(era: str, answer: Any, error: type[Exception], executed: Executed) -> None:
    script = Script(era)
    script.on["tools/call"] = answering(**answer)
    async with running(script) as it:
        with pytest.raises(error) as caught:
            await it.call()
        assert caught.value.executed is executed
        assert caught.value.upstream == "far"
        assert "secret" not in str(caught.value)


@pytest.mark.covers("F-R-07")
async def test_a_redirect_is_not_followed() -> None:
    async with http_peer(Script()) as other:
        script = Script()
        script.on["tools/call"] = answering(status=307, Location=other.url)
        async with running(script) as it:
            with pytest.raises(UpstreamProtocolError, match=f"redirect to http://127.0.0.1:{other.port}, which"):
                await it.call()
        assert not other.requests
        assert not other.connections


@pytest.mark.covers("F-R-05")
@ERAS
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_waited_for(era: str, status: int, autojump_clock: trio.abc.Clock) -> None:
    script = Script(era)

    async def busy(request: PeerRequest, talk: Talk) -> None:
        del script.on["tools/call"]
        await talk.reply(status=status, headers={"Retry-After": "7"})

    async with running(script) as it:
        script.on["tools/call"] = busy
        start = trio.current_time()
        assert await it.call() == TEXT
        assert 7 <= trio.current_time() - start < 8


@pytest.mark.covers("F-R-05")
async def test_retry_after_that_does_not_fit(autojump_clock: trio.abc.Clock) -> None:
    script = Script("modern")
    date = {"Date": "Sat, 21 Nov 2026 09:00:00 GMT", "Retry-After": "Sat, 21 Nov 2026 09:00:50 GMT"}
    async with running(script) as it:
        script.on["tools/call"] = answering(status=503, **{k.replace("-", "_"): v for k, v in date.items()})
        for _ in range(2):  # the second is not even sent
            with pytest.raises(Overloaded, match="50 seconds") as caught:
                await it.call(timeouts=CallTimeouts(10, 20))
            assert caught.value.retry_after_ms == pytest.approx(50_000, abs=100)
            assert caught.value.executed is Executed.NO
        assert it.peer.methods().count("tools/call") == 1
        with pytest.raises(Overloaded):
            await it.call()
        assert it.peer.methods().count("tools/call") == 3


@pytest.mark.covers("F-R-20")
@ERAS
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_response_to_something_else(era: str, streamed: bool) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        message = {"jsonrpc": "2.0", "id": request.json["id"] + 1, "result": {}}
        if streamed:
            await talk.stream()
            await talk.event(message)
        else:
            await talk.reply(message)

    script.on["tools/call"] = call
    async with running(script) as it:
        with pytest.raises(UpstreamProtocolError, match="not asked"):
            await it.call()


@pytest.mark.covers("F-R-11")
@ERAS
async def test_a_stream_that_ends_without_response(era: str) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(log_note("so far"))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script) as it:
        with pytest.raises(UpstreamProtocolError, match="without a response"):
            await it.call()


@pytest.mark.covers("F-R-10", "T-17")
@ERAS
async def test_a_stream_cut_at_every_byte(era: str) -> None:
    script = Script(era)
    cut_at = 0

    async def call(request: PeerRequest, talk: Talk) -> None:
        nonlocal cut_at
        event = b"id: 1\ndata: %b\n\n" % json.dumps(request.result({})).encode()
        if era == "legacy":
            event = event.removeprefix(b"id: 1\n")
        await talk.stream()
        await talk.chunk(event[:cut_at])
        if cut_at < len(event):
            cut_at += 1
            await talk.cut()
        else:
            await talk.end()

    script.on["tools/call"] = call
    async with running(script) as it:
        cut_at = 1
        for _ in range(40):
            with pytest.raises(UpstreamLost) as caught:
                await it.call()
            assert caught.value.executed is Executed.UNKNOWN
        cut_at = 1000
        assert await it.call() == {}


@pytest.mark.covers("F-R-08")
@ERAS
async def test_a_trickle_is_not_a_sign_of_life(era: str, autojump_clock: trio.abc.Clock) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        while True:
            await talk.chunk(b": still here\n")
            await talk.chunk(b"\n")
            await trio.sleep(1)

    script.on["tools/call"] = call
    async with running(script) as it:
        start = trio.current_time()
        with pytest.raises(DeadlineExceeded):
            await it.call(timeouts=CallTimeouts(20.5, 1000))
        assert trio.current_time() - start == pytest.approx(20.5, abs=0.1)


@pytest.mark.covers("F-R-08")
@ERAS
async def test_progress_extends_the_idle_time_up_to_the_total(era: str, autojump_clock: trio.abc.Clock) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        token = request.json["params"]["_meta"]["progressToken"]
        await talk.stream()
        for step in range(1000):
            await talk.event(note("notifications/progress", progressToken=token, progress=step))
            await trio.sleep(3)

    script.on["tools/call"] = call
    async with running(script) as it:
        start = trio.current_time()
        with pytest.raises(DeadlineExceeded):
            await it.call(timeouts=CallTimeouts(5, 100))
        assert trio.current_time() - start == pytest.approx(100, abs=0.1)


@pytest.mark.covers("T-16", "T-28", "P-6", "P-9")
@ERAS
@pytest.mark.parametrize("by", ["caller", "deadline"])
async def test_cancelling_tells_the_upstream(era: str, by: str, autojump_clock: trio.abc.Clock) -> None:
    script = Script(era)
    gone = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(log_note("started"))
        await talk.hang()
        gone.set()

    script.on["tools/call"] = call
    async with running(script) as it:
        if by == "caller":
            ear = Ear()
            async with trio.open_nursery() as nursery:

                async def one() -> None:
                    await it.call(exchange=ear)

                nursery.start_soon(one)
                await ear.heard.wait()
                nursery.cancel_scope.cancel()
        else:
            with pytest.raises(DeadlineExceeded):
                await it.call(timeouts=CallTimeouts(5, 10))
        await gone.wait()
        if era == "legacy":
            await it.peer.until(lambda: it.peer.requests[-1].rpc == "notifications/cancelled")
            called = next(request for request in it.peer.requests if request.rpc == "tools/call")
            assert it.peer.requests[-1].json["params"]["requestId"] == called.json["id"]
        else:
            await trio.sleep(1)
            assert it.peer.requests[-1].rpc == "tools/call"


@pytest.mark.covers("F-R-19")
@ERAS
@pytest.mark.parametrize(("method", "again"), [("resources/read", True), ("tools/call", False)])
async def test_what_may_be_asked_twice(era: str, method: str, again: bool) -> None:
    script = Script(era)

    async def cut(request: PeerRequest, talk: Talk) -> None:
        script.on[method] = fine
        await talk.cut()

    async def fine(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({"again": True}))

    async with running(script) as it:
        script.on[method] = cut
        operation = Operation(method, {"uri": raw("x:y"), "name": raw("n")})
        if again:
            reply = await it.session.call(operation, Ear(), TIMEOUTS)
            assert reply == Result(Raw(b'{"again": true}'))
        else:
            with pytest.raises(UpstreamLost):
                await it.session.call(operation, Ear(), TIMEOUTS)
        assert it.peer.methods().count(method) == 1 + again


@pytest.mark.covers("F-R-18")
@ERAS
async def test_a_server_that_is_gone_ends_the_session(era: str) -> None:
    script = Script(era)

    async def cut(request: PeerRequest, talk: Talk) -> None:
        it.peer.stop()
        await talk.cut()

    async with running(script) as it:
        script.on["tools/call"] = cut
        with pytest.raises(UpstreamLost):
            await it.call()
        with pytest.raises(UpstreamUnavailable, match="refused") as caught:
            await it.call()
        assert caught.value.executed is Executed.NO
        assert await it.end() is caught.value
        with pytest.raises(UpstreamUnavailable):
            await it.call()


@ERAS
async def test_calls_that_run_when_no_new_connection_is_to_be_had_may_finish(era: str) -> None:
    script = Script(era)
    release = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        it.peer.stop()
        await release.wait()
        await talk.reply(request.result(TEXT))

    async with running(script) as it, trio.open_nursery() as nursery:
        script.on["tools/call"] = call

        async def first() -> None:
            assert await it.call() == TEXT

        nursery.start_soon(first)
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "tools/call")
        with pytest.raises(UpstreamUnavailable):
            await it.call()
        await it.end()
        release.set()


# --- legacy only -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("T-34")
async def test_a_session_is_deleted_in_the_end() -> None:
    async with running(Script()) as it:
        pass
    assert it.peer.requests[-1].method == "DELETE"
    assert it.peer.requests[-1].headers["mcp-session-id"] == "session-1"


@pytest.mark.covers("T-34")
async def test_a_server_that_ignores_delete_does_not_hold_up_the_end(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    script.on["DELETE"] = hang
    async with running(script) as it:
        start = trio.current_time()
    assert trio.current_time() - start == pytest.approx(2, abs=0.1)
    assert it.peer.requests[-1].method == "DELETE"


@pytest.mark.covers("F-R-04", "T-33")
async def test_a_forgotten_session_is_renewed_once_for_fifty_calls() -> None:
    script = Script()
    async with running(script) as it:
        it.peer.requests.clear()
        script.forget()
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(it.call)
        methods = it.peer.methods()
        assert methods.count("initialize") == 1
        assert methods.count("notifications/initialized") == 1
        assert methods.count("tools/call") == 100
        assert set(it.ear.kinds) == set(Kind), "its lists may be others now"


@pytest.mark.covers("F-R-04")
async def test_a_session_that_cannot_be_renewed_ends() -> None:
    script = Script()
    async with running(script) as it:
        script.forget()
        script.on["initialize"] = answering(status=500)
        for _ in range(2):
            with pytest.raises((UpstreamProtocolError, UpstreamUnavailable)):
                await it.call()
        assert isinstance(await it.end(), UpstreamProtocolError)


@pytest.mark.covers("F-R-04")
async def test_a_session_that_is_forgotten_at_once_does_not_loop() -> None:
    script = Script()
    async with running(script) as it:
        script.on["tools/call"] = answering(status=404)
        with pytest.raises(UpstreamProtocolError) as caught:
            await it.call()
        assert caught.value.executed is Executed.NO
        assert it.peer.methods().count("initialize") == 2


async def test_the_log_level_survives_a_new_session() -> None:
    script = Script()
    level = {"level": raw("info")}

    async def set_level(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({}))

    script.on["logging/setLevel"] = set_level
    async with running(script) as it:
        await it.session.request("logging/setLevel", level)
        script.forget()
        await it.call()
        assert it.peer.methods().count("logging/setLevel") == 2


@pytest.mark.covers("T-23", "T-25", "T-27")
async def test_the_standing_stream_is_open_before_the_first_call() -> None:
    script = Script()

    async def listen(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(note("notifications/resources/list_changed"))
        await talk.event(log_note("hello"))
        await talk.event(b"not json")
        await talk.event({"jsonrpc": "2.0", "id": 1, "result": {}})
        await talk.event([note("notifications/prompts/list_changed")])
        await talk.hang()

    script.on["GET"] = listen
    async with running(script) as it:
        assert it.peer.methods()[-1] == "GET"
        assert it.peer.requests[-1].headers["accept"] == "text/event-stream"
        while len(it.ear.kinds) < 3:
            await it.ear.heard.wait()
        assert it.ear.kinds == [Kind.RESOURCE, Kind.TEMPLATE, Kind.PROMPT]
        assert it.ear.logs == [{"level": "info", "data": "hello", "logger": "far"}]


@pytest.mark.covers("T-23")
async def test_a_server_that_does_not_answer_the_get_holds_up_nothing(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    script.on["GET"] = hang
    async with running(script) as it:
        assert trio.current_time() < 1
        assert await it.call() == TEXT


@pytest.mark.covers("T-29", "T-31", "F-R-14")
async def test_the_standing_stream_comes_back(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    opened: list[tuple[float, str]] = []

    async def listen(request: PeerRequest, talk: Talk) -> None:
        opened.append((trio.current_time(), request.headers.get("last-event-id", "")))
        await talk.stream()
        if len(opened) == 1:
            await talk.event(note("notifications/tools/list_changed"), id="7", retry=0)
            await talk.cut()
        elif len(opened) == 2:
            await talk.event(note("notifications/tools/list_changed"), id="8", retry=4000)
            await talk.end()
        else:
            await talk.hang()

    script.on["GET"] = listen
    async with running(script) as it:
        await it.peer.until(lambda: len(opened) == 3)
        (first, _), (second, resumed), (third, again) = opened
        assert (resumed, again) == ("7", "8")
        assert second - first == pytest.approx(1, abs=0.1), "retry: 0 is read as a second"
        assert third - second == pytest.approx(4, abs=0.1)


@pytest.mark.covers("F-P-15")
async def test_a_gap_in_the_standing_stream_means_that_everything_may_have_changed(
    autojump_clock: trio.abc.Clock,
) -> None:
    script = Script()
    opened = 0

    async def listen(request: PeerRequest, talk: Talk) -> None:
        nonlocal opened
        opened += 1
        await talk.stream()
        await (talk.hang() if opened > 1 else talk.cut())

    script.on["GET"] = listen
    async with running(script) as it:
        await it.ear.heard.wait()
        assert set(it.ear.kinds) == set(Kind)


@pytest.mark.covers("F-R-04")
@pytest.mark.parametrize("status", [404, 400])
async def test_the_standing_stream_notices_that_the_server_was_restarted(
    status: int, autojump_clock: trio.abc.Clock
) -> None:
    script = Script()
    opened: list[str] = []

    async def listen(request: PeerRequest, talk: Talk) -> None:
        opened.append(request.headers["mcp-session-id"])
        if len(opened) == 2:
            await talk.reply(status=status)
            return
        await talk.stream()
        await (talk.cut() if len(opened) == 1 else talk.hang())

    script.on["GET"] = listen
    async with running(script) as it:
        await it.peer.until(lambda: len(opened) == 3)
        assert opened == ["session-1", "session-1", "session-2"]
        assert await it.call() == TEXT


async def test_the_standing_stream_gives_up_when_the_server_is_gone(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    now = trio.Event()

    async def listen(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await now.wait()
        it.peer.stop()
        await talk.cut()

    script.on["GET"] = listen
    async with running(script) as it:
        now.set()
        assert isinstance(await it.end(), UpstreamUnavailable)
        assert it.ear.endings == 1


@pytest.mark.covers("T-31", "F-R-10")
async def test_a_broken_stream_is_resumed_where_it_broke(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    resumed: list[str] = []
    asked: PeerRequest

    async def call(request: PeerRequest, talk: Talk) -> None:
        nonlocal asked
        asked = request
        await talk.stream()
        await talk.event(b"", id="p-0", retry=2000)
        await talk.event(log_note("one"), id="p-1")
        await talk.chunk(b"id: p-2\ndata: " + json.dumps(log_note("two")).encode())
        await talk.cut()

    async def resume(request: PeerRequest, talk: Talk) -> None:
        resumed.append(request.headers["last-event-id"])
        await talk.stream()
        if len(resumed) == 1:
            await talk.event(log_note("two"), id="p-2")
            await talk.end()  # polling: closed, yet unfinished
        elif len(resumed) == 2:
            await talk.cut()
        else:
            await talk.event(asked.result({"done": True}), id="p-3")
            await talk.end()

    async with running(script) as it:
        script.on |= {"tools/call": call, "GET": resume}
        ear = Ear()
        start = trio.current_time()
        assert await it.call(exchange=ear) == {"done": True}
        assert resumed == ["p-1", "p-2", "p-2"]
        assert [entry["data"] for entry in ear.logs] == ["one", "two"]
        assert trio.current_time() - start == pytest.approx(6, abs=0.2)
        assert it.peer.methods().count("tools/call") == 1


@pytest.mark.covers("F-R-10")
@pytest.mark.parametrize("how", ["refused", "cut"])
async def test_a_stream_that_cannot_be_resumed_is_lost(how: str, autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(b"", id="p-0")
        await talk.cut()

    async def resume(request: PeerRequest, talk: Talk) -> None:
        if how == "refused":
            await talk.reply(status=400)
        else:
            await talk.stream()
            await talk.cut()

    async with running(script) as it:
        script.on |= {"tools/call": call, "GET": resume}
        with pytest.raises(UpstreamLost) as caught:
            await it.call()
        assert caught.value.executed is Executed.UNKNOWN
        tries = sum("last-event-id" in request.headers for request in it.peer.requests)
        assert tries == (1 if how == "refused" else 3)


@pytest.mark.covers("T-31", "F-R-08")
async def test_polling_ends_with_the_idle_time(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(b"", id="p-0")
        await talk.end()

    async def resume(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.end()

    async with running(script) as it:
        script.on |= {"tools/call": call, "GET": resume}
        with pytest.raises(DeadlineExceeded):
            await it.call(timeouts=CallTimeouts(20, 1000))


@pytest.mark.covers("F-R-14")
@pytest.mark.parametrize(
    "stream",
    [
        b"data: @\r\rdata: x\r\r",
        b"\xef\xbb\xbfdata: @\n\n",
        b"id: a\0b\nevent: message\nretry: never\nretry: 0\ndata: @\n\n",
        b": \n\n" * 10_000 + b"data:@\n\n",
        b"event: other\ndata: {\n\ndata\n\ndata: @\n\n",
        b"data: {\ndata: @2\n\n",
    ],
    ids=["cr", "bom", "nul id", "comments", "others", "two lines"],
)
async def test_odd_but_legal_streams(stream: bytes) -> None:
    script = Script()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        message = json.dumps(request.result({})).encode()
        await talk.chunk(stream.replace(b"@2", message[1:]).replace(b"@", message))

    script.on["tools/call"] = call
    async with running(script) as it:
        assert await it.call() == {}


@pytest.mark.covers("F-R-14")
async def test_an_endless_event() -> None:
    script = Script()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        while True:
            await talk.chunk(b"data: " + b"x" * 60_000 + b"\n")

    script.on["tools/call"] = call
    async with running(script) as it:
        with pytest.raises(UpstreamProtocolError, match="too large"):
            await it.call()


@pytest.mark.parametrize("streamed", [True, False])
async def test_batches_are_taken_from_any_legacy_server(streamed: bool) -> None:
    script = Script(version="2025-03-26")

    async def call(request: PeerRequest, talk: Talk) -> None:
        batch = [log_note("in a batch"), request.result({"ok": 1})]
        if streamed:
            await talk.stream()
            await talk.event(batch)
            await talk.end()
        else:
            await talk.reply(batch)

    script.on["tools/call"] = call
    async with running(script) as it:
        ear = Ear()
        assert await it.call(exchange=ear) == {"ok": 1}
        assert ear.logs[0]["data"] == "in a batch"


async def test_questions_of_the_upstream_are_answered() -> None:
    script = Script()
    answers: dict[Any, Any] = {}
    done = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event({"jsonrpc": "2.0", "id": "a", "method": "ping"})
        await talk.event({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {}})
        await done.wait()
        await talk.event(request.result({}))
        await talk.end()

    async def answered(request: PeerRequest, talk: Talk) -> None:
        answers[request.json["id"]] = request.json
        await talk.reply(status=202)
        if len(answers) == 2:
            done.set()

    script.on |= {"tools/call": call, "response": answered}
    async with running(script) as it:
        assert await it.call() == {}
        assert answers["a"] == {"jsonrpc": "2.0", "id": "a", "result": {}}
        assert answers[2]["error"]["code"] == -32601


async def test_a_flood_of_questions_is_bounded() -> None:
    script = Script()
    release = trio.Event()

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        for number in range(500):
            await talk.event({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await talk.event(request.result({}))
        await talk.end()

    async def answered(request: PeerRequest, talk: Talk) -> None:
        await release.wait()
        await talk.reply(status=202)

    script.on |= {"tools/call": call, "response": answered}
    async with running(script) as it:
        assert await it.call() == {}
        await it.peer.until(lambda: it.peer.methods().count("POST") == 16)
        release.set()


@pytest.mark.covers("F-R-09")
async def test_an_idle_server_is_pinged(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    async with running(script) as it:
        await trio.sleep(130)
        assert "ping" in it.peer.methods()
        script.forget()
        await trio.sleep(100)
        assert it.peer.methods().count("initialize") == 2, "the ping found out that the session is gone"


async def test_a_server_that_does_not_answer_a_ping_is_given_up(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    script.on["ping"] = hang
    async with running(script) as it:
        assert "does not answer a ping" in str(await it.end())


async def test_a_session_id_that_cannot_be_sent_back_is_refused() -> None:
    script = Script()

    async def initialize(request: PeerRequest, talk: Talk) -> None:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}}
        await talk.reply(request.result(result), headers={"Mcp-Session-Id": "caf\u00e9"})

    script.on["initialize"] = initialize
    with pytest.raises(UpstreamProtocolError, match="session id"):
        await failing(script)


# --- modern only -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("H-1", "H-2", "H-3", "H-6", "H-17", "B-10", "T-11", "T-18")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "caf\u00e9"}, "=?base64?Y2Fmw6k=?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///x"}, "file:///x"),
        ("completion/complete", {"ref": {}}, None),
    ],
)
async def test_modern_requests_say_everything_twice(method: str, params: dict[str, Any], name: str | None) -> None:
    async with running(Script("modern")) as it:
        meta = {"traceparent": raw("00-x"), "io.modelcontextprotocol/x": raw(1)}
        operation = Operation(method, {key: raw(value) for key, value in params.items()}, meta)
        await it.session.call(operation, Ear(), TIMEOUTS)
        request = it.peer.requests[-1]
        assert request.headers["mcp-protocol-version"] == MODERN
        assert request.headers["mcp-method"] == method
        assert request.headers.get("mcp-name") == name
        assert "mcp-session-id" not in request.headers
        sent = request.json["params"]["_meta"]
        assert sent["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert sent["io.modelcontextprotocol/clientCapabilities"] == {}
        assert sent["io.modelcontextprotocol/clientInfo"]["name"] == "hubd"
        assert sent["io.modelcontextprotocol/logLevel"] == "debug"
        assert sent["traceparent"] == "00-x"


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


REGION = {"type": "string", "x-mcp-header": "Region"}


@pytest.mark.covers("H-9", "H-16", "C-19")
async def test_arguments_are_mirrored_as_the_latest_schema_says(caplog: pytest.LogCaptureFixture) -> None:
    script = Script("modern")
    tools = [tool("t", region=REGION, n={"type": "integer"}), tool("bad", x={"type": "array", "x-mcp-header": "X"})]

    async def list_(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({"tools": tools, "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}))

    script.on["tools/list"] = list_
    async with running(script) as it:

        async def listed() -> list[str]:
            reply = await it.session.request("tools/list", {})
            assert isinstance(reply, Result)
            value = json.loads(bytes(reply.value))
            assert value["ttlMs"] == 5
            return [entry["name"] for entry in value["tools"]]

        async def mirrored(**arguments: Any) -> str | None:
            await it.call("t", arguments)
            return it.peer.requests[-1].headers.get("mcp-param-region")

        assert await mirrored(region="eu") is None, "without a schema there is no header"
        assert await listed() == ["t"]
        assert "bad of far is left out" in caplog.text
        assert await mirrored(region="eu") == "eu"
        assert await mirrored(region="a\r\nB: c") == "=?base64?YQ0KQjogYw==?="
        assert await mirrored(region=None) is None
        assert await mirrored() is None
        tools[:] = [tool("t", region={"type": "string"})]
        assert await listed() == ["t"]
        assert await mirrored(region="eu") is None


@pytest.mark.covers("C-20")
@pytest.mark.parametrize("heals", [True, False])
async def test_a_header_mismatch_refetches_the_tools_and_tries_once_more(heals: bool) -> None:
    script = Script("modern")

    async def call(request: PeerRequest, talk: Talk) -> None:
        if heals and request.headers.get("mcp-param-region") == "eu":
            await talk.reply(request.result(TEXT))
        else:
            await talk.reply(request.error(-32020, "Mcp-Param-Region is missing"), status=400)

    async def list_(request: PeerRequest, talk: Talk) -> None:
        if "cursor" in request.json["params"]:
            await talk.reply(request.result({"tools": [tool("t", region=REGION)]}))
        else:
            await talk.reply(request.result({"tools": [], "nextCursor": ""}))

    script.on |= {"tools/call": call, "tools/list": list_}
    async with running(script) as it:
        reply = await it.call("t", {"region": "eu"})
        assert reply == TEXT if heals else (isinstance(reply, Failure) and reply.code == -32020)
        assert it.peer.methods() == ["server/discover", "tools/call", "tools/list", "tools/list", "tools/call"]
        assert it.ear.kinds == [Kind.TOOL]
        ids = [request.json["id"] for request in it.peer.requests if request.rpc == "tools/call"]
        assert len(set(ids)) == 2, "an id is never used twice"


@pytest.mark.covers("V-12")
@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_modern_server_that_became_another_ends_the_session(status: int) -> None:
    script = Script("modern")
    async with running(script) as it:
        script.on["tools/call"] = answering(status=status)
        with pytest.raises(UpstreamProtocolError):
            await it.call()
        assert str(status) in str(await it.end())


async def test_an_error_without_id_answers_a_modern_request() -> None:
    script = Script("modern")
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"odd"}}'
    script.on["tools/call"] = answering(status=400, body=body, Content_Type="application/json")
    async with running(script) as it:
        reply = await it.call()
        assert reply.code == -32600


@pytest.mark.covers("B-9")
async def test_requests_of_a_modern_server_are_ignored() -> None:
    script = Script("modern")

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        await talk.event(request.result({}))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script) as it:
        assert await it.call() == {}
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert it.peer.methods() == ["server/discover", "tools/call"]
