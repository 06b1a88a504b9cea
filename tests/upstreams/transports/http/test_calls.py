"""Calls over Streamable HTTP, in both eras, against a scripted server."""

import json
from typing import Any

import pytest
import trio
from msgspec import Raw

from hub.link.call_interface import Operation
from hub.link.hub_errors import (
    DeadlineExceeded,
    Executed,
    Overloaded,
    ResultTooLarge,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from hub.wire.jsonrpc import Result, raw
from hub.wire.mcp import Kind
from tests.support.http_fixture import ERAS, TEXT, TIMEOUTS, Ear, answering, log_note, note, running
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer
from upstreams.session_contract import CallTimeouts


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
        assert (reply.code, reply.message, reply.data) == (-32602, "bad argument", Raw(b'{"x":1}'))


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


@pytest.mark.covers("F-R-01", "F-R-03", "F-R-05")
@ERAS
@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (401, {}, UpstreamUnauthorized),
        (403, {}, UpstreamUnauthorized),
        (429, {"Retry-After": "0"}, Overloaded),
        (503, {"Retry-After": "0"}, Overloaded),
    ],
)
async def test_a_status_says_more_than_a_body_that_answers(
    era: str, status: int, headers: dict[str, str], error: type[Exception]
) -> None:
    script = Script(era)

    async def refuse(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.error(-32001, "secret"), status=status, headers=headers)

    script.on["tools/call"] = refuse
    async with running(script) as it:
        with pytest.raises(error) as caught:
            await it.call()
        assert caught.value.executed is Executed.NO
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
            with pytest.raises(Overloaded, match="in 50 s") as caught:
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


@pytest.mark.covers("F-R-13")
@ERAS
async def test_an_answer_that_is_too_large_was_executed(era: str) -> None:
    script = Script(era)

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({"content": [{"type": "text", "text": "x" * (8 << 20)}]}))

    script.on["tools/call"] = call
    async with running(script) as it:
        with pytest.raises(ResultTooLarge, match="far has more than 8388608 bytes") as caught:
            await it.call()
        assert caught.value.facts() == {
            "hub": "result_too_large",
            "executed": "yes",
            "retryable": False,
            "upstream": "far",
        }


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
            assert reply == Result(Raw(b'{"again":true}'))
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
        assert str(await it.end()) == str(caught.value)
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
