"""Calls that are sent without a task, whose answers the reader of the connection takes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec import structs

from hub.link.call_interface import Operation
from hub.link.hub_errors import DeadlineExceeded, HubError, Overloaded, UpstreamLost, UpstreamProtocolError
from hub.link.memory_budget import Budget
from hub.wire.jsonrpc import Reply, Result, raw
from tests.support.begun_tasks import counted_tasks
from tests.support.http_fixture import ERAS, TEXT, TIMEOUTS, Ear, Fixture, note, running
from tests.support.http_peer import PeerRequest, Script, Talk, head
from upstreams.running_call import Running
from upstreams.session_contract import CallTimeouts
from upstreams.transports.http.streamable_session import StreamableSession

CALL = Operation("tools/call", {"name": raw("t")})
Outcome = Reply | HubError | None


class Begun:
    """Operations that were begun, and what became of them."""

    def __init__(self, it: Fixture) -> None:
        assert isinstance(it.session, StreamableSession)
        self.session = it.session
        self.outcomes: list[Outcome] = []
        self._news = trio.Event()

    def begin(
        self, method: str = "tools/call", *, exchange: Ear | None = None, timeouts: CallTimeouts = TIMEOUTS
    ) -> Running | None:
        params = {"uri": raw("x:y")} if method == "resources/read" else {"name": raw("t")}
        return self.session.begin(Operation(method, params), exchange or Ear(), timeouts, self._done)

    async def outcome(self) -> Any:
        """The next outcome; of a result, its value."""
        while not self.outcomes:
            await self._news.wait()
        found = self.outcomes.pop(0)
        return json.loads(bytes(found.value)) if isinstance(found, Result) else found

    async def of(self, **more: Any) -> Any:
        """The outcome of an operation that is begun now."""
        assert self.begin(**more) is not None
        assert self.outcomes == [], "not before `begin` returned"
        return await self.outcome()

    def _done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self._news.set()
        self._news = trio.Event()


@asynccontextmanager
async def begun(script: Script) -> AsyncIterator[tuple[Fixture, Begun]]:
    async with running(script, era=script.era) as it:
        yield it, Begun(it)
        assert it.session.running == {}  # type: ignore[attr-defined]


@ERAS
async def test_one_connection_serves_many_calls(era: str) -> None:
    async with begun(Script(era)) as (it, calls):
        assert await calls.of() == TEXT
        tasks, connections = trio.lowlevel.current_statistics().tasks_living, it.peer.connections
        for _ in range(10):
            assert await calls.of() == TEXT
        assert (trio.lowlevel.current_statistics().tasks_living, it.peer.connections) == (tasks, connections)


@ERAS
async def test_a_call_may_be_begun_by_who_hears_an_outcome(era: str) -> None:
    async with begun(Script(era)) as (it, calls):
        connections = it.peer.connections
        left = 5

        def again(outcome: Outcome) -> None:
            nonlocal left
            left -= 1
            if left:
                assert calls.session.begin(CALL, Ear(), TIMEOUTS, again) is not None
            else:
                calls._done(outcome)

        assert calls.session.begin(CALL, Ear(), TIMEOUTS, again) is not None
        assert await calls.outcome() == TEXT
        assert it.peer.connections == connections


@ERAS
@pytest.mark.parametrize("size", [10, 100_000, 3 << 20])
@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_comes_in_pieces(era: str, size: int, chunked: bool) -> None:
    script = Script(era)

    async def answer(request: PeerRequest, talk: Talk) -> None:
        body = json.dumps(request.result({"text": "x" * size})).encode()
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
        start = head(200, {"Content-Type": "application/json", **framing})
        for piece in (start[:20], start[20:]):
            await talk.raw(piece)
            await trio.testing.wait_all_tasks_blocked()
        for at in range(0, len(body), len(body) // 3 + 1):
            piece = body[at : at + len(body) // 3 + 1]
            await talk.raw(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await trio.testing.wait_all_tasks_blocked()
        if chunked:
            await talk.end()

    script.on["tools/call"] = answer
    async with begun(script) as (it, calls):
        connections = it.peer.connections
        for _ in range(2):
            assert await calls.of() == {"text": "x" * size}
        assert it.peer.connections == connections


@ERAS
async def test_an_answer_as_events_is_followed(era: str) -> None:
    script, ear = Script(era), Ear()

    async def answer(request: PeerRequest, talk: Talk) -> None:
        token = request.json["params"]["_meta"]["progressToken"]
        await talk.stream()
        await talk.event(note("notifications/progress", progressToken=token, progress=1))
        await talk.event(request.result(TEXT))
        await talk.end()

    async with begun(script) as (it, calls):
        script.on["tools/call"] = answer
        assert await calls.of(exchange=ear) == TEXT
        assert ear.steps == [{"progress": 1}]
        assert calls.begin() is None, "the next answer will come as events, too"
        del script.on["tools/call"]
        assert await it.call() == TEXT
        assert await calls.of() == TEXT


@ERAS
@pytest.mark.parametrize("when", ["before", "during"])
async def test_what_is_cancelled_is_told_to_nobody_but_the_upstream(era: str, when: str) -> None:
    script, gone, ear = Script(era), trio.Event(), Ear()

    async def answer(request: PeerRequest, talk: Talk) -> None:
        if when == "during":
            token = request.json["params"]["_meta"]["progressToken"]
            await talk.stream()
            await talk.event(note("notifications/progress", progressToken=token, progress=1))
        await talk.hang()
        gone.set()

    async with begun(script) as (it, calls):
        script.on["tools/call"] = answer
        call = calls.begin(exchange=ear)
        assert call is not None
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "tools/call")
        if when == "during":
            await ear.until(lambda: ear.steps)
        asked = it.peer.requests[-1].json["id"]
        call.cancel()
        call.cancel()
        await gone.wait()
        if era == "legacy":
            await it.peer.until(lambda: it.peer.requests[-1].rpc == "notifications/cancelled")
            assert it.peer.requests[-1].json["params"]["requestId"] == asked
        await trio.testing.wait_all_tasks_blocked()
        assert calls.outcomes == []


@ERAS
async def test_the_time_of_a_call_is_up(era: str, autojump_clock: trio.abc.Clock) -> None:
    script, gone = Script(era), trio.Event()

    async def answer(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()
        gone.set()

    async with begun(script) as (_, calls):
        script.on["tools/call"] = answer
        start = trio.current_time()
        assert isinstance(await calls.of(timeouts=CallTimeouts(5, 10)), DeadlineExceeded)
        assert trio.current_time() - start == pytest.approx(5)
        await gone.wait()


@pytest.mark.covers("F-R-19")
@ERAS
@pytest.mark.parametrize(("method", "again"), [("resources/read", True), ("tools/call", False)])
async def test_a_connection_ends_without_an_answer(era: str, method: str, again: bool) -> None:
    script = Script(era)

    async def cut(request: PeerRequest, talk: Talk) -> None:
        del script.on[method]
        await talk.cut()

    async with begun(script) as (it, calls):
        script.on[method] = cut
        outcome = await calls.of(method=method)
        assert isinstance(outcome, UpstreamLost) is not again
        assert it.peer.methods().count(method) == 1 + again


@ERAS
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\nContent-Type: application/json\r\n\r\n{}",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: https://elsewhere.example/\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_nonsense(era: str, answer: bytes) -> None:
    script = Script(era)

    async def reply(request: PeerRequest, talk: Talk) -> None:
        del script.on["tools/call"]
        await talk.raw(answer)

    async with begun(script) as (it, calls):
        script.on["tools/call"] = reply
        assert isinstance(await calls.of(), UpstreamProtocolError)
        assert await it.call() == TEXT


async def test_a_forgotten_session_is_renewed() -> None:
    script = Script("legacy")
    async with begun(script) as (it, calls):
        script.forget()
        assert await calls.of() == TEXT
        assert it.peer.methods().count("initialize") == 2


@ERAS
async def test_nothing_is_begun_while_the_upstream_wants_quiet(era: str, autojump_clock: trio.abc.Clock) -> None:
    script = Script(era)

    async def busy(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(status=503, headers={"Retry-After": "5"})

    async with begun(script) as (_, calls):
        script.on["tools/call"] = busy
        assert isinstance(await calls.of(timeouts=CallTimeouts(3, 3)), Overloaded)
        assert calls.begin() is None
        del script.on["tools/call"]
        await trio.sleep(6)
        assert calls.begin() is None, "there is no connection that is fresh enough"


@ERAS
async def test_without_a_connection_that_lies_idle_nothing_is_begun(era: str) -> None:
    script, release = Script(era), trio.Event()

    async def slow(request: PeerRequest, talk: Talk) -> None:
        await release.wait()
        await talk.reply(request.result(TEXT))

    async with begun(script) as (_, calls):
        script.on["tools/call"] = slow
        while calls.begin() is not None:
            pass
        release.set()
        assert await calls.outcome() == TEXT
        await trio.testing.wait_all_tasks_blocked()
        calls.outcomes.clear()


@ERAS
async def test_an_ordinary_request_takes_the_connection_of_a_reader(era: str) -> None:
    async with begun(Script(era)) as (it, calls):
        assert await calls.of() == TEXT
        connections = it.peer.connections
        for _ in range(3):
            await it.session.request("tools/list", {})
            assert await calls.of() == TEXT
        assert it.peer.connections == connections


@ERAS
async def test_a_call_outlives_a_session_that_ends_by_itself(era: str) -> None:
    script, release = Script(era), trio.Event()

    async def slow(request: PeerRequest, talk: Talk) -> None:
        await release.wait()
        await talk.reply(request.result(TEXT))

    async with begun(script) as (it, calls):
        script.on["tools/call"] = slow
        assert calls.begin() is not None
        calls.session.give_up("of a test")
        await it.end()
        release.set()
        assert await calls.outcome() == TEXT


@ERAS
async def test_a_session_that_is_closed_ends_its_calls(era: str) -> None:
    script = Script(era)

    async def slow(request: PeerRequest, talk: Talk) -> None:
        await talk.hang()

    async with running(script, era=era) as it:
        calls = Begun(it)
        script.on["tools/call"] = slow
        assert calls.begin() is not None
        await it.peer.until(lambda: it.peer.requests[-1].rpc == "tools/call")
    assert isinstance(await calls.outcome(), UpstreamLost)


@ERAS
async def test_a_request_is_sent_in_parts(era: str) -> None:
    script = Script(era)
    async with begun(script) as (it, calls):
        operation = structs.replace(CALL, params={**CALL.params, "arguments": raw({"text": "x" * (6 << 20)})})
        assert calls.session.begin(operation, Ear(), TIMEOUTS, calls._done) is not None
        assert await calls.outcome() == TEXT
        assert len(it.peer.requests[-1].body) > 6 << 20


@ERAS
async def test_a_fault_of_the_hub_ends_one_call(era: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    async with begun(Script(era)) as (it, calls):
        with monkeypatch.context() as patch:
            patch.setattr(calls.session.poster, "pick", lambda *_: 1 / 0)
            assert isinstance(await calls.of(), UpstreamProtocolError)
        assert "could not be passed on" in caplog.text
        assert await it.call() == TEXT


@ERAS
@pytest.mark.parametrize("how", ["cut off", "cancelled", "too slow", "closed", "no room"])
async def test_an_answer_that_ends_in_the_middle(era: str, how: str, autojump_clock: trio.abc.Clock) -> None:
    """Nothing of it is held any more, and its connection is closed."""
    script, begins, budget = Script(era), trio.Event(), Budget(1 << 20)
    size = (2 << 20) if how == "no room" else 100_000

    async def answer(request: PeerRequest, talk: Talk) -> None:
        if how == "no room":
            begins.set()
        await talk.raw(head(200, {"Content-Type": "application/json", "Content-Length": str(2 * size)}) + b" " * size)
        begins.set()
        if how == "cut off":
            await talk.cut()
        else:
            await talk.hang()

    async with begun(script) as (it, calls):
        client = calls.session.poster.client
        client.account = budget.account("upstream")
        script.on["tools/call"] = answer
        call = calls.begin(timeouts=CallTimeouts(5, 5))
        assert call is not None
        await begins.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        if how == "cancelled":
            call.cancel()
        elif how == "closed":
            client.close()
        if how != "cancelled":
            errors = {"too slow": DeadlineExceeded, "no room": Overloaded}
            assert isinstance(await calls.outcome(), errors.get(how, UpstreamLost))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert (budget.used, calls.outcomes) == (0, [])
        del script.on["tools/call"]
        if how != "closed":
            assert await it.call() == TEXT


@ERAS
@pytest.mark.parametrize("chunked", [False, True])
async def test_no_task_begins_for_an_answer_that_comes_in_pieces(era: str, chunked: bool) -> None:
    script = Script(era)

    async def answer(request: PeerRequest, talk: Talk) -> None:
        body = json.dumps(request.result({"text": "x" * 300_000})).encode()
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(body))}
        start = head(200, {"Content-Type": "application/json", **framing})
        for part in (start[:20], start[20:]):
            await trio.testing.wait_all_tasks_blocked()
            await talk.raw(part)
        for part in (body[:1], body[1:100_000], body[100_000:]):
            await trio.testing.wait_all_tasks_blocked()
            await talk.raw(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
        if chunked:
            await talk.end()

    async with begun(script) as (_, calls):
        script.on["tools/call"] = answer
        assert await calls.of() == {"text": "x" * 300_000}
        with counted_tasks() as tasks:
            assert await calls.of() == {"text": "x" * 300_000}
        assert tasks.begun == 0


@ERAS
async def test_a_connection_that_the_server_closes_while_it_lies_idle_is_dropped(era: str) -> None:
    script = Script(era)

    async def answer(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result(TEXT))
        await talk.close()

    async with begun(script) as (_, calls):
        script.on["tools/call"] = answer
        assert await calls.of() == TEXT
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert calls.begin() is None


@ERAS
async def test_an_event_in_vain_means_nothing(era: str) -> None:
    async with begun(Script(era)) as (_, calls):
        assert await calls.of() == TEXT
        assert calls.begin() is not None
        (call,) = calls.session.running.values()
        reader = call.sent.connection.reader  # type: ignore[attr-defined]
        for _ in range(2):
            reader.on_event(False)
            assert await calls.outcome() == TEXT
            reader.on_event(False)
            assert calls.begin() is not None
        assert await calls.outcome() == TEXT


@ERAS
async def test_a_connection_is_used_in_the_moment_in_which_its_reader_leaves_it(era: str) -> None:
    script, sent = Script(era), trio.Event()

    async def answer(request: PeerRequest, talk: Talk) -> None:
        del script.on["tools/call"]
        await talk.reply([request.result({"text": "x" * 20})])
        sent.set()

    async with begun(script) as (it, calls):
        assert await calls.of() == TEXT
        script.on["tools/call"] = answer
        assert calls.begin() is not None
        (call,) = calls.session.running.values()
        connection = call.sent.connection  # type: ignore[attr-defined]
        connection.heed(bytes=False)
        await sent.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        connections = it.peer.connections
        connection.reader.on_event(False)
        assert calls.begin() is not None
        assert sorted([str(await calls.outcome()), str(await calls.outcome())]) == sorted(
            [str({"text": "x" * 20}), str(TEXT)]
        )
        assert it.peer.connections == connections
