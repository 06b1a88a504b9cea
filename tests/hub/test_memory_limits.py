"""What hosts make the hub hold is bounded, all of them together: bodies, answers, lines, what is kept and parked."""

import json
import socket
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from hub.daemon.process_memory import WORTH_BYTES, is_worthwhile, keep_trim
from hub.downstream.http.event_stream import EventStream
from hub.link.channel import ChannelClosed, LineDropped, OutboxFull
from hub.link.line_channel import EDGE_BYTES, LineReader
from hub.link.memory_budget import FREE_BYTES, PATIENCE_S, Budget
from hub.link.outbox import Outbox
from hub.wire.mcp import L4
from hub.wire.salvage_ids import id_at_edges
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, a_house
from tests.support.http_client import get, post, serving

MIB = 1 << 20
LARGE = 200_000


def begun(size=LARGE, sent=150_000):
    """The beginning of a request with a large body."""
    whole = post(b"x" * size)
    return whole[: len(whole) - size + sent]


@pytest.fixture
def budget():
    return Budget(1_000_000)


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-5", "F-H-11")
async def test_unfinished_bodies_are_bounded(budget, mock_clock):
    async with serving(budget=budget) as served:
        clients = [await served.connect() for _ in range(20)]
        for client in clients:
            await client.send(begun())
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert budget.highest <= 750_000
        assert budget.used >= 450_000, "who is refused gives back what he had at once"
        refused = [client for client in clients if client.received or budget.refused]
        assert len(refused) == 20
        answer = await clients[-1].answer()
        error = json.loads(answer.body)["error"]
        assert (answer.status, answer.headers["retry-after"], error["data"]["hub"]) == (503, "1", "overloaded")
        assert error["data"]["executed"] == "no"
        assert (await served.ask(post(b"small"))).body == b"small", "what needs no room goes on"


@pytest.mark.covers("I-5", "F-H-11")
async def test_a_body_that_is_late_gives_way(budget, mock_clock):
    async def handle(request, response):
        response.reply(200, b"ok")

    async with serving(handle, budget=budget) as served:
        slow = [await served.connect() for _ in range(5)]
        for client in slow:
            await client.send(begun())
            await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(PATIENCE_S + 1)
        assert (await served.ask(post(b"x" * LARGE))).status == 200
        assert (await slow[0].answer()).status == 408
        assert budget.evicted == 2


@pytest.mark.covers("I-5")
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_is_held_until_it_is_answered(budget, chunked):
    inside, go_on = trio.Event(), trio.Event()

    async def handle(request, response):
        inside.set()
        await go_on.wait()
        response.reply(200)

    async with serving(handle, budget=budget) as served:
        client = await served.connect()
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        await client.send(head + b"%x\r\n%b\r\n0\r\n\r\n" % (LARGE, b"x" * LARGE) if chunked else post(b"x" * LARGE))
        await inside.wait()
        assert LARGE <= budget.used <= LARGE + 200
        go_on.set()
        assert (await client.answer()).status == 200
        await trio.testing.wait_all_tasks_blocked()
        assert budget.used == 0


async def test_small_requests_are_not_counted(budget, monkeypatch):
    monkeypatch.setattr("hub.link.memory_budget.Account.take", lambda *_: pytest.fail("it is small"))
    async with serving(budget=budget) as served:
        client = await served.connect()
        assert (await client.ask(post(b"x" * (FREE_BYTES - 1000)))).status == 200


# --- answers ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(budget, size):
    async def handle(request, response):
        response.reply(200, b"x" * size)

    async with serving(handle, budget=budget) as served:
        yield served


@pytest.mark.covers("I-5", "F-H-04")
async def test_unread_answers_are_bounded(mock_clock):
    budget = Budget(80 * MIB)
    async with answering(budget, 15 * MIB) as served:
        clients = [await served.connect() for _ in range(8)]
        for client in clients:
            await client.send(get())
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert budget.highest <= 60 * MIB
        answer = await clients[-1].answer()
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["data"]["hub"], error["data"]["executed"]) == (503, "overloaded", "yes")
        mock_clock.jump(PATIENCE_S + 1)
        await clients[-1].send(get())  # those that have not read for so long give way
        assert len((await clients[-1].answer()).body) == 15 * MIB
        assert budget.evicted >= 1


@pytest.mark.covers("I-5")
async def test_an_answer_beyond_a_connections_share_is_refused(budget):
    async with answering(budget, 300_000) as served:
        client = await served.connect()
        assert (await client.ask(get())).status == 503
        assert (await client.ask(get())).status == 503, "the connection is as good as before"


@pytest.mark.covers("I-5")
async def test_an_outbox_holds_what_it_queues(budget):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
    account = budget.account("me")
    async with trio.open_nursery() as nursery:
        outbox = Outbox(stream, nursery, lambda: None, account=account)
        outbox.put(b"x" * 240_000)
        assert 0 < account.used <= outbox.queued_bytes < 240_000
        with pytest.raises(OutboxFull):
            outbox.put(b"x" * 250_000)
        before = outbox.queued_bytes
        outbox.put(b"x" * 1000)
        assert outbox.queued_bytes == before + 1000
        assert account.used == outbox.queued_bytes - FREE_BYTES
        outbox.close()
        assert budget.used == 0
        theirs.close()
        await stream.aclose()


# --- lines ------------------------------------------------------------------------------------------------------------


async def lines_of(budget, *chunks):
    ours, theirs = trio.testing.memory_stream_pair()
    account = budget.account("me")
    reader = LineReader(theirs, limit_bytes=1 << 20, account=account)
    found = []
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def write():
            for chunk in chunks:
                await ours.send_all(chunk)
                await trio.testing.wait_all_tasks_blocked()
            await ours.send_eof()

        while True:
            try:
                found.append(await reader.receive())
            except LineDropped as lost:
                found.append(lost.edges)
            except ChannelClosed:
                return found


@pytest.mark.covers("I-5")
async def test_a_line_for_which_there_is_no_room_is_dropped(budget):
    begin, end = b'{"id":7,' + b"a" * EDGE_BYTES, b"z" * EDGE_BYTES
    chunks = [b"one\n" + begin, *[b"x" * 50_000] * 10, end + b"\ntwo\nthree", b"\n"]
    assert set(await lines_of(budget, *chunks)) == {b"one", b"two", (begin[:EDGE_BYTES], end), b"three"}
    assert budget.used == 0
    assert budget.highest <= 250_000


@pytest.mark.covers("I-5")
async def test_a_line_is_held_until_its_end(budget):
    line = b"x" * 200_000
    assert await lines_of(budget, line[:100_000], line[100_000:], b"\n") == [line]
    assert (budget.used, budget.highest) == (0, 200_000 - FREE_BYTES)


@pytest.mark.parametrize(
    ("message", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":8}}', 7),
        (b'{ "id" : "a", "jsonrpc": "2.0", "params": {"id":8} }', "a"),
        (b'{"method":"m","params":{"id":8},"jsonrpc":"2.0","id":7}', 7),
        (b'{"method":"m","params":{"id":8},"id":7,"jsonrpc":"2.0"}', 7),
        (b'{"method":"m","params":{"a":1,"id":8}}', None),
        (b'{"params":{"x":"\\"id\\":5}"}}', None),
    ],
)
def test_the_id_at_the_edges(message, id):
    assert id_at_edges(message, message) == id


@pytest.mark.covers("I-5")
async def test_a_request_over_lines_that_has_no_room_is_refused_by_its_id(autojump_clock):
    async with a_house({"files": FakeUpstream()}) as house:
        house.hub.budget.limit = 1_000_000
        host = await house.host("lines", L4)
        large = {"name": "files__echo", "arguments": {"text": "x" * 400_000}}
        answer = await host.ask("tools/call", large)
        assert (answer["error"]["data"]["hub"], answer["error"]["data"]["executed"]) == ("overloaded", "no")
        assert "result" in await host.ask("tools/call", {"name": "files__echo"})
        assert "result" in await host.ask("tools/call", {"name": "files__echo", "arguments": {"text": "x" * 100_000}})
        assert house.hub.budget.used == 0


# --- what is kept and parked ------------------------------------------------------------------------------------------


@pytest.mark.covers("I-5")
def test_what_is_kept_of_streams_is_counted():
    budget = Budget(1_000_000)
    account = budget.account("me")
    stream = EventStream("a1", primed=False, account=account)

    async def fill():
        for _ in range(40):
            stream.send(b'"%b"' % (b"x" * 10_000))

    trio.run(fill)
    assert 0 < account.used <= 250_000
    assert abs(account.used - stream.bytes_kept) <= 1024
    trio.run(forget, stream)
    assert budget.used == 0


async def forget(stream):
    stream.forget()


@pytest.mark.covers("I-5")
async def test_what_is_parked_is_counted(autojump_clock):
    fake = FakeUpstream()

    async def ask(message, conversation):
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = {"mode": "form", "message": "Name?", "requestedSchema": schema}
        await conversation.ask("elicitation/create", question)
        return {"content": []}

    fake.on["tools/call"] = ask
    alone = {"files": {"session_mode": "per_host"}}
    async with a_house({"files": fake}, upstreams=alone) as house:
        host = await house.host("http", "2026-07-28", identity=ALICE, capabilities={"elicitation": {"form": {}}})
        call = {"name": "files__echo", "arguments": {"text": "x" * 50_000}}
        answer = await host.ask("tools/call", call)
        assert answer["result"]["resultType"] == "input_required"
        assert 50_000 < house.hub.budget.used < 60_000
        await trio.sleep(house.hub.config.park_ttl_s + 10)
        assert house.hub.budget.used == 0


# --- giving memory back -----------------------------------------------------------------------------------------------


def test_memory_is_given_back_when_more_was_let_go_than_is_held():
    budget = Budget()
    account = budget.account()
    assert account.take(WORTH_BYTES, 0)
    assert not is_worthwhile(budget, 0)
    account.give(WORTH_BYTES)
    assert is_worthwhile(budget, 0)
    assert not is_worthwhile(budget, budget.released)
    assert account.take(WORTH_BYTES + 1, 0)
    assert not is_worthwhile(budget, 0)


async def test_giving_memory_back(monkeypatch, autojump_clock):
    calls = []
    monkeypatch.setattr("hub.daemon.process_memory.trimmer", lambda: calls.append)

    async def at_once(work, *arguments, **options):
        work(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    budget = Budget()
    account = budget.account()
    running = {"a call"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_trim, budget, lambda: len(running))
        await trio.sleep(35)
        assert calls == []
        account.take(WORTH_BYTES, 0)
        account.give(WORTH_BYTES)
        await trio.sleep(2.5)
        assert calls == [], "not while a call runs"
        running.clear()
        await trio.sleep(2.5)
        assert calls == [0], "once for what was let go"
        await trio.sleep(35)
        assert calls == [0]
        running.add("a call that goes on")
        account.take(WORTH_BYTES, 0)
        account.give(WORTH_BYTES)
        await trio.sleep(35)
        assert calls == [0, 0], "a busy hub does it, too, after a while"
        nursery.cancel_scope.cancel()


async def test_giving_memory_back_where_there_is_no_call_for_it(monkeypatch):
    monkeypatch.setattr("hub.daemon.process_memory.trimmer", lambda: None)
    await keep_trim(Budget(), int)
