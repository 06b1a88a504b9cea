"""What answers of servers over HTTP make the hub hold is counted in the common budget while they are read."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from hub.link.hub_errors import Executed, HubError, Overloaded, UpstreamLost
from hub.link.memory_budget import FREE_BYTES, Account, Budget
from tests.support.http_fixture import config_for, run
from tests.support.http_peer import Handler, HttpPeer, PeerRequest, Script, Talk, head, http_peer
from tests.support.steps import counting
from upstreams.session_contract import Session
from upstreams.transports.connect_to_url import parse_url
from upstreams.transports.http.client import HttpClient, HttpReply
from upstreams.transports.http.poster import CONTENT, Poster
from upstreams.transports.http.sse_transport import SseChannel

LIMIT = 1_000_000
SENT = 200_000
LEAST = SENT * 9 // 10 - FREE_BYTES
"""What of it is counted at least: line ends and names of fields are not kept."""
LINES = b"data:abcd\n" * 20_000
KINDS = pytest.mark.parametrize("kind", ["sized", "chunked", "event", "lines"])


@asynccontextmanager
async def poster_of(handler: Handler) -> AsyncIterator[tuple[Poster, Budget, HttpPeer]]:
    budget = Budget(LIMIT)
    async with http_peer(handler) as peer:
        client = HttpClient("far", parse_url(peer.url), account=budget.account("upstream far"))
        try:
            yield Poster(client), budget, peer
        finally:
            client.close()


async def begin(talk: Talk, kind: str) -> None:
    """The first `SENT` bytes of an answer that is to have more."""
    if kind == "sized":
        await talk.raw(head(200, {"Content-Type": "application/json", "Content-Length": "8000000"}) + b" " * SENT)
    elif kind == "chunked":
        await talk.stream({"Content-Type": "application/json"})
        for _ in range(20):
            await talk.chunk(b" " * (SENT // 20))
    else:
        await talk.stream()
        await talk.chunk(b"data: " + b"x" * SENT if kind == "event" else LINES)


async def ask(poster: Poster) -> None:
    with await poster.post(CONTENT, b"{}") as reply:
        await poster.read(reply, 1, lambda message: None)


@KINDS
@pytest.mark.covers("I-5", "F-R-14")
async def test_a_begun_answer_is_counted_until_its_call_is_cancelled(kind: str, autojump_clock: trio.abc.Clock) -> None:
    async def half(request: PeerRequest, talk: Talk) -> None:
        await begin(talk, kind)
        await talk.hang()

    async with poster_of(half) as (poster, budget, _), trio.open_nursery() as nursery:
        nursery.start_soon(ask, poster)
        await trio.sleep(10)
        assert LEAST <= budget.used <= SENT
        nursery.cancel_scope.cancel()
    assert budget.used == 0
    assert budget.highest <= SENT


@KINDS
@pytest.mark.covers("I-5", "F-R-14")
async def test_a_begun_answer_is_counted_until_its_connection_ends(kind: str) -> None:
    async def cut(request: PeerRequest, talk: Talk) -> None:
        await begin(talk, kind)
        await trio.testing.wait_all_tasks_blocked(0.01)
        await talk.close()

    async with poster_of(cut) as (poster, budget, _):
        with pytest.raises(UpstreamLost):
            await ask(poster)
        assert LEAST <= budget.highest <= SENT
        assert budget.used == 0


@KINDS
@pytest.mark.covers("I-5", "F-R-14")
async def test_answers_beyond_what_there_is_room_for_are_dropped(kind: str, autojump_clock: trio.abc.Clock) -> None:
    async def half(request: PeerRequest, talk: Talk) -> None:
        await begin(talk, kind)
        await talk.hang()

    refused: list[Overloaded] = []

    async def refusable(poster: Poster) -> None:
        try:
            await ask(poster)
        except Overloaded as error:
            refused.append(error)

    async with poster_of(half) as (poster, budget, _), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(refusable, poster)
        await trio.sleep(10)
        assert LEAST <= budget.highest <= LIMIT // 4
        assert len(refused) == budget.refused >= 18
        assert len(poster.client._active) == 20 - len(refused), "their connections are closed at once"
        assert {error.executed for error in refused} == {Executed.YES}
        assert {error.upstream for error in refused} == {"far"}
        nursery.cancel_scope.cancel()
    assert budget.used == 0


@pytest.mark.parametrize("form", ["json", "events"])
@pytest.mark.parametrize("size", [10, SENT])
@pytest.mark.covers("I-5")
async def test_a_whole_answer_holds_nothing_once_it_is_read(
    form: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(request: PeerRequest, talk: Talk) -> None:
        answer = request.result({"content": [{"type": "text", "text": "x" * size}]})
        if form == "json":
            return await talk.reply(answer)
        await talk.stream()
        await talk.event(answer)
        await talk.end()

    script = Script(capabilities={"tools": {}})
    script.on["tools/call"] = call
    budget = Budget()
    async with http_peer(script) as peer, trio.open_nursery() as nursery:
        session = await nursery.start(partial(run, config_for(peer, era="legacy"), budget=budget))
        with counting() as steps:
            steps.count(monkeypatch, Account, "take")
            steps.count(monkeypatch, Account, "give")
            steps.count(monkeypatch, HttpReply, "hold")
            for _ in range(3):
                reply = await session.request("tools/call", {})
        assert len(bytes(reply.value)) > size
        assert budget.used == 0
        if size == SENT:
            assert budget.highest > SENT // 2
        else:
            assert (budget.highest, steps.total) == (0, 0), "a small answer costs no call of the budget"
        nursery.cancel_scope.cancel()


@pytest.mark.covers("I-5", "F-P-14")
async def test_messages_of_the_one_stream_wait_in_it_and_not_in_the_inbox(autojump_clock: trio.abc.Clock) -> None:
    sizes = [100_000] * 12 + [1_000] * 40

    async def say(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        for size in sizes:
            await talk.event(b"x" * size)
        await talk.end()

    async with poster_of(say) as (poster, budget, _):
        reply = await poster.client.request("GET")
        channel = SseChannel(poster, poster.answer_stream(reply), "/")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            got: list[int] = []
            while len(got) < len(sizes):
                await trio.testing.wait_all_tasks_blocked(0.01)
                waiting = channel._messages.statistics().current_buffer_used
                assert sum(sizes[len(got) : len(got) + waiting - 1]) <= FREE_BYTES
                assert budget.used <= 200_000
                got.append(len(await channel.receive()))
        assert got == sizes
        assert 80_000 < budget.highest <= 200_000
        assert budget.used == 0


@pytest.mark.covers("I-5")
async def test_an_answer_that_came_whole_leaves_its_connection_to_others() -> None:
    """There is no room for its one event, which is known only when nothing more is to come."""

    async def whole(request: PeerRequest, talk: Talk) -> None:
        event = b"data: " + b"x" * 40_000 + b"\n\n"
        await talk.raw(head(200, {"Content-Type": "text/event-stream", "Content-Length": str(len(event))}) + event)

    async with poster_of(whole) as (poster, budget, peer):
        other = budget.account("another")
        assert other.take(LIMIT // 4, 0)
        budget.limit = LIMIT // 4
        for _ in range(2):
            with pytest.raises(Overloaded):
                await ask(poster)
        assert budget.used == other.used
        assert peer.connections == 1


@pytest.mark.covers("I-5", "T-39")
async def test_the_one_stream_ends_with_a_message_that_there_is_no_room_for() -> None:
    """Nobody can tell what was lost, so the session is over, and a new one may do better."""
    streams: list[Talk] = []

    async def old(request: PeerRequest, talk: Talk) -> None:
        if request.method == "GET":
            streams.append(talk)
            await talk.stream()
            await talk.chunk(b"event: endpoint\ndata: /messages\n\n")
            return await talk.hang()
        await talk.reply(status=202)
        if request.rpc == "initialize":
            facts = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "o", "version": "1"}}
            await streams[-1].event(request.result(facts))
        elif request.rpc == "tools/call":
            await streams[-1].chunk(b"data: " + b"x" * 300_000)

    budget = Budget(LIMIT)
    ends: list[tuple[type[HubError], str, Executed]] = []
    over = trio.Event()
    async with http_peer(old) as peer, trio.open_nursery() as nursery:

        async def run_to_the_end(*, task_status: trio.TaskStatus[Session]) -> None:
            try:
                await run(config_for(peer, transport="sse"), budget=budget, task_status=task_status)
            except HubError as error:
                ends.append((type(error), str(error), error.executed))
                over.set()

        session = await nursery.start(run_to_the_end)
        with pytest.raises(UpstreamLost):
            await session.request("tools/call", {})
        await over.wait()
        nursery.cancel_scope.cancel()
    assert [(kind, executed) for kind, _, executed in ends] == [(Overloaded, Executed.YES)]
    assert "holds too much" in ends[0][1]
    assert budget.used == 0
    assert 0 < budget.highest <= LIMIT // 4
