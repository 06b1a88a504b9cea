"""What only legacy sessions have: ids, renewal, the standing stream, resumption, questions."""

import json
from typing import Any

import pytest
import trio

from hub.link.hub_errors import (
    DeadlineExceeded,
    Executed,
    ResultTooLarge,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
)
from hub.link.rate_limits import MESSAGES_PER_S, TURN, TURN_BYTES
from hub.wire.http.sse import SseParser
from hub.wire.jsonrpc import Failure, Notification, Request, raw
from hub.wire.mcp import Kind
from tests.support.http_fixture import TEXT, Ear, answering, failing, log_note, note, running
from tests.support.http_peer import PeerRequest, Script, Talk
from tests.support.steps import counting
from upstreams.session_contract import CallTimeouts, SessionTerms
from upstreams.transports.http import answer_stream
from upstreams.transports.http import standing_stream as http_listen
from upstreams.transports.http.answer_stream import PIECE_BYTES
from upstreams.transports.http.legacy import MAX_QUESTIONS, LegacyHttp


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
            with pytest.raises(UpstreamUnavailable, match="no new one: far answered with HTTP status 500"):
                await it.call()
        assert isinstance(await it.end(), UpstreamProtocolError)


@pytest.mark.covers("F-R-04", "I-3")
@pytest.mark.parametrize("at", ["initialize", "notifications/initialized", "logging/setLevel"])
async def test_a_caller_that_leaves_during_a_renewal_spoils_nothing(at: str) -> None:
    script = Script()
    reached, release = trio.Event(), trio.Event()

    async def set_level(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({}))

    async def wait(request: PeerRequest, talk: Talk) -> None:
        del script.on[at]
        reached.set()
        await release.wait()
        await script(request, talk)

    async with running(script) as it:
        script.on["logging/setLevel"] = set_level
        await it.session.request("logging/setLevel", {"level": raw("info")})
        script.forget()
        script.on[at] = wait
        async with trio.open_nursery() as nursery:
            nursery.start_soon(it.call)
            await reached.wait()
            nursery.cancel_scope.cancel()
        release.set()
        assert await it.call() == TEXT
        with trio.fail_after(60):
            while set(it.ear.kinds) != set(Kind):
                await it.ear.heard.wait()
        for method in ("initialize", "notifications/initialized", "logging/setLevel"):
            assert it.peer.methods().count(method) == 2


@pytest.mark.covers("F-R-04")
async def test_calls_that_wait_for_a_renewal_that_fails_were_not_executed(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    async with running(script) as it:
        script.forget()
        script.on["initialize"] = hang
        failures: list[UpstreamUnavailable] = []

        async def one() -> None:
            with pytest.raises(UpstreamUnavailable, match="opened no new one within 20 seconds") as caught:
                await it.call()
            failures.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        assert len(set(map(id, failures))) == 3
        assert all(failure.executed is Executed.NO for failure in failures)
        assert isinstance(await it.end(), UpstreamLost)


@pytest.mark.covers("F-R-04")
async def test_a_session_that_is_forgotten_at_once_does_not_loop() -> None:
    script = Script()
    async with running(script) as it:
        script.on["tools/call"] = answering(status=404)
        with pytest.raises(UpstreamProtocolError) as caught:
            await it.call()
        assert caught.value.executed is Executed.NO
        assert it.peer.methods().count("initialize") == 2


@pytest.mark.covers("F-R-04")
async def test_a_400_may_mean_that_the_session_is_forgotten() -> None:
    script = Script()
    async with running(script) as it:
        script.on["tools/call"] = answering(status=400)
        with pytest.raises(UpstreamProtocolError, match="400"):
            await it.call()
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "ping")
        del script.on["tools/call"]
        assert await it.call() == TEXT, "the session was good"
        script.on |= {"tools/call": answering(status=400), "ping": answering(status=400)}
        with pytest.raises(UpstreamProtocolError, match="400"):
            await it.call()
        assert "400" in str(await it.end())


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
async def test_odd_but_legal_streams(stream: bytes, autojump_clock: trio.abc.Clock) -> None:
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
        with pytest.raises(ResultTooLarge) as caught:
            await it.call()
        assert caught.value.executed is Executed.UNKNOWN, "it need not have been the answer"


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
    ear = Ear()
    ear.answer = Failure(-32601, "the host has not declared it")
    async with running(script) as it:
        assert await it.call(exchange=ear) == {}
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
        await it.peer.until(lambda: it.peer.methods().count("POST") == MAX_QUESTIONS)
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


@pytest.mark.covers("F-P-28")
async def test_a_server_that_answers_calls_but_no_ping_is_not_given_up(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    script.on["ping"] = hang
    async with running(script) as it:
        assert it.session.is_pinged
        await trio.sleep(300)
        assert it.peer.methods().count("ping") > 2
        assert it.session.silent_s == pytest.approx(210, abs=35)
        assert it.ear.notes == ["does not answer pings; its session is kept"]
        assert await it.call() == TEXT
        assert it.session.silent_s is None
        assert not it.over
        assert it.peer.methods().count("initialize") == 1


@pytest.mark.covers("F-R-09", "F-P-04")
async def test_a_server_that_answers_neither_pings_nor_calls_is_given_up(autojump_clock: trio.abc.Clock) -> None:
    script = Script()

    async def hang(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    script.on |= {"ping": hang, "tools/call": hang}
    async with running(script) as it:
        await trio.sleep(120)
        with pytest.raises(DeadlineExceeded):
            await it.call()
        assert "neither pings nor calls" in str(await it.end())


async def test_without_ping_s_nothing_is_pinged(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    async with running(script, terms=SessionTerms(ping_s=0)) as it:
        await trio.sleep(1000)
        assert not it.session.is_pinged
        assert it.peer.methods().count("ping") == 0


@pytest.mark.covers("F-R-06")
async def test_a_server_that_answers_five_calls_in_a_row_with_nonsense_is_given_up() -> None:
    script = Script()
    script.on["tools/call"] = answering(status=500)
    async with running(script) as it:
        for _ in range(4):
            with pytest.raises(UpstreamProtocolError):
                await it.call()
        del script.on["tools/call"]
        assert await it.call() == TEXT
        script.on["tools/call"] = answering(body=b"<html>", Content_Type="text/html")
        for _ in range(5):
            assert not it.over
            with pytest.raises(UpstreamProtocolError):
                await it.call()
        assert "5 calls in a row failed" in str(await it.end())


@pytest.mark.covers("F-R-01")
@pytest.mark.parametrize("all_of_it", [True, False])
async def test_credentials_that_are_refused_for_everything_end_the_session(all_of_it: bool) -> None:
    script = Script()
    script.on["tools/call"] = answering(status=401)
    if all_of_it:
        script.on["ping"] = answering(status=401)
    async with running(script) as it:
        failures = []

        async def one() -> None:
            with pytest.raises(UpstreamUnauthorized) as caught:
                await it.call()
            failures.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        assert all(failure.executed is Executed.NO for failure in failures)
        await it.peer.until(lambda: it.peer.methods().count("ping") == 1)
        assert it.peer.methods().count("tools/call") == 50, "none of them was repeated"
        if all_of_it:
            assert isinstance(await it.end(), UpstreamUnauthorized)
        else:
            del script.on["tools/call"]
            assert await it.call() == TEXT


@pytest.mark.covers("F-R-03")
async def test_access_that_is_denied_says_nothing_of_the_session() -> None:
    script = Script()
    script.on["tools/call"] = answering(status=403)
    async with running(script) as it:
        with pytest.raises(UpstreamUnauthorized):
            await it.call()
        del script.on["tools/call"]
        assert await it.call() == TEXT
        assert it.peer.methods().count("ping") == 0


@pytest.mark.covers("F-R-05")
async def test_a_server_that_is_too_busy_for_a_ping_is_not_given_up(autojump_clock: trio.abc.Clock) -> None:
    script = Script()
    script.on["ping"] = answering(status=429)
    async with running(script) as it:
        await trio.sleep(200)
        assert it.peer.methods().count("ping") > 1
        script.on["ping"] = answering(status=503, Retry_After="60")
        await trio.sleep(200)
        assert not it.over
        assert await it.call() == TEXT


async def test_a_session_id_that_cannot_be_sent_back_is_refused() -> None:
    script = Script()

    async def initialize(request: PeerRequest, talk: Talk) -> None:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}}
        await talk.reply(request.result(result), headers={"Mcp-Session-Id": "caf\u00e9"})

    script.on["initialize"] = initialize
    with pytest.raises(UpstreamProtocolError, match="session id"):
        await failing(script)


# --- floods -----------------------------------------------------------------------------------------------------------

FLOODS = {
    "notifications": b'data: {"jsonrpc":"2.0","method":"n"}\n\n',
    "answers": b'data: {"jsonrpc":"2.0","id":9999,"result":{}}\n\n',
    "pings": b'data: {"jsonrpc":"2.0","id":"a","method":"ping"}\n\n',
    "no messages": b"data: 1\n\n",
    "other events": b"event: other\ndata: 1\n\n",
    "batches": b"data: [%b]\n\n" % b",".join([b'{"jsonrpc":"2.0","method":"n"}'] * 100),
    "comments": b": x\n",
    "blank lines": b"\n",
    "blank lines of another kind": b"\r",
    "ids": b"id: 1\n",
    "empty events": b"data:\n\n",
    "lines with data": b"event: x\n" + b"data:a\n" * 320 + b"\n",
}
IN_EACH = {"batches": 100, "lines with data": 6} | dict.fromkeys(
    ("empty events", "comments", "blank lines", "blank lines of another kind", "ids"), 0.1
)


@pytest.mark.covers("F-P-14", "F-R-14", "F-P-07")
@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("on", ["GET", "tools/call"])
async def test_a_flood_of_events_is_read_in_turns_and_no_faster_than_it_should(
    flood: str,
    on: str,
    autojump_clock: trio.abc.Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if on == "tools/call" and flood in ("answers", "no messages"):
        pytest.skip("ends the call at once")
    script, times = Script(version="2025-03-26"), int(3 * MESSAGES_PER_S / IN_EACH.get(flood, 1))

    async def say(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.chunk(FLOODS[flood] * times)
        await talk.event(note("notifications/resources/list_changed"))
        await talk.event(request.result({})) if on == "tools/call" else await talk.hang()

    script.on[on] = say
    began = trio.current_time()
    with counting() as steps:
        steps.count(monkeypatch, SseParser, "_take_line")
        steps.count(monkeypatch, answer_stream, "decode")
        steps.count(monkeypatch, http_listen, "decode")
        async with running(script) as it:
            if on == "tools/call":
                await it.call()
            while Kind.RESOURCE not in it.ear.kinds:
                await it.ear.heard.wait()
            assert trio.current_time() - began > 1.8
    assert steps.total > times
    assert steps.most <= PIECE_BYTES + 2 * TURN
    assert len([each for each in caplog.records if each.name == "upstreams.transports.http.legacy"]) < 10


@pytest.mark.covers("F-P-14")
@pytest.mark.parametrize("kind", ["notifications/message", "elicitation/create"])
@pytest.mark.parametrize("on", ["GET", "tools/call", "tools/call as JSON"])
async def test_the_parts_of_a_large_batch_are_read_in_turns(
    on: str, kind: str, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, heard = Script(version="2025-03-26"), []
    parts = [note(kind, x=number, y="y" * 30_000) for number in range(100)]
    if kind == "elicitation/create":
        parts = [{"id": number, **part} for number, part in enumerate(parts)]

    async def say(request: PeerRequest, talk: Talk) -> None:
        batch = [*parts, note("notifications/resources/list_changed")]
        if on == "tools/call as JSON":
            return await talk.reply([*batch, request.result({})])
        await talk.stream()
        await talk.event(batch)
        await talk.event(request.result({})) if on == "tools/call" else await talk.hang()

    deliver = LegacyHttp.deliver

    def hear(self: LegacyHttp, message: Request | Notification, *of: Any) -> None:
        heard.append(message.params.get("x"))
        deliver(self, message, *of)

    monkeypatch.setattr(LegacyHttp, "deliver", hear)
    script.on[on.split(" ")[0]] = say
    with counting() as steps:
        steps.count(monkeypatch, answer_stream, "decode")
        steps.count(monkeypatch, http_listen, "decode")
        async with running(script) as it:
            if on != "GET":
                await it.call()
            while Kind.RESOURCE not in it.ear.kinds:
                await it.ear.heard.wait()
    assert steps.total > 100
    assert steps.most_bytes <= TURN_BYTES + 2 * 31_000
    assert [bytes(each or b"") for each in heard if each] == [b"%d" % number for number in range(100)], "in order"
