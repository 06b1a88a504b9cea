"""Requests of guests that need no task: what they are, and what a connection does that has none."""

import pytest
import trio
import trio.testing

from hub.link.memory_budget import FREE_BYTES
from hub.net.http_connection import LARGE_READ_BYTES, READ_BYTES
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import HttpLimits
from tests.support.begun_tasks import counted_tasks
from tests.support.cycles import left_by
from tests.support.http_client import get, post, serving, settle


class AtOnce:
    """A handler that answers at once, or is told to wait, or answers when it is told to."""

    def __init__(self) -> None:
        self.seen = []
        self.open = []
        self.cancelled = []

    def handle(self, request, response):
        self.seen.append(request.body)
        if request.path == "/fault":
            raise ValueError("a fault")
        if request.path == "/wait":
            return self.wait(request.body, response)
        if request.path == "/later":
            response.answer_later(lambda: self.cancel(response))
            self.open.append((request.body, response))
            return None
        if request.path != "/silent":
            response.reply(200, b"%d" % len(request.body) if request.path == "/size" else request.body)
        return None

    async def wait(self, body, response):
        await trio.lowlevel.checkpoint()
        response.reply(200, body)

    def cancel(self, response) -> None:
        self.cancelled.append(response)
        response.end()

    def answer(self) -> None:
        body, response = self.open.pop(0)
        response.reply(200, body)
        response.end()


@pytest.fixture
def handler():
    return AtOnce()


@pytest.fixture
async def served(handler):
    async with serving(handler.handle) as served:
        yield served


@pytest.fixture
async def tasks():
    with counted_tasks() as tasks:
        yield tasks


async def test_no_task_for_a_request_that_comes_in_pieces(served, tasks):
    client = await served.connect()
    chunked = b"POST /size HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    tasks.begun = 0
    for request in (post(b"abc", target="/size"), chunked):
        await client.trickle(request)
        assert (await client.answer()).body == b"3"
    assert tasks.begun == 0


BODIES = [b"", b"x", b"x" * FREE_BYTES, b"x" * READ_BYTES, b"x" * (2 * READ_BYTES), b"x" * (4 * LARGE_READ_BYTES)]


@pytest.mark.parametrize("body", BODIES, ids=[str(len(body)) for body in BODIES])
async def test_no_task_for_what_is_answered_at_once(served, tasks, body):
    client = await served.connect()
    tasks.begun = 0
    for _ in range(3):
        assert (await client.ask(post(body, target="/size"))).body == b"%d" % len(body)
    await settle()
    assert tasks.begun == 0


@pytest.mark.parametrize(
    "body", [b"x" * 10, b"x" * FREE_BYTES, b"x" * 5 * FREE_BYTES], ids=["small", "free", "charged"]
)
async def test_no_task_for_a_body_that_comes_in_pieces(served, tasks, body):
    client = await served.connect()
    await client.ask(post(b"first"))
    tasks.begun = 0
    data = post(body)
    end = data.index(b"\r\n\r\n") + 4
    for at, to in ((0, end), (end, end + 1), (end + 1, len(data))):
        await client.send(data[at:to])
        await settle()
    assert (await client.answer()).body == body
    assert tasks.begun == 0


@pytest.mark.parametrize("target", ["/wait", "/later"])
async def test_the_next_request_needs_no_task_again(served, handler, tasks, target):
    client = await served.connect()
    await client.send(post(b"1", target=target))
    await settle()
    if handler.open:
        handler.answer()
    assert (await client.answer()).body == b"1"
    await settle()
    tasks.begun = 0
    assert (await client.ask(post(b"2"))).body == b"2"
    assert tasks.begun == 0


@pytest.mark.parametrize("cut", [1, 10, -1])
async def test_a_head_in_pieces(served, cut):
    client = await served.connect()
    await client.ask(post(b"first"))
    data = get() if cut < 0 else post(b"body")
    await client.send(data[:cut])
    await settle()
    await client.send(data[cut:])
    assert (await client.answer()).body == (b"" if cut < 0 else b"body")


async def test_requests_that_come_together(served, handler):
    client = await served.connect()
    await client.send(post(b"1") + post(b"2", target="/wait") + post(b"3") + post(b"4" * READ_BYTES) + post(b"5"))
    for body in (b"1", b"2", b"3", b"4" * READ_BYTES, b"5"):
        assert (await client.answer()).body == body
    assert served.server.state.running == 0


async def test_a_request_that_comes_too_early_waits(served, handler):
    client = await served.connect()
    await client.send(post(b"1", target="/later"))
    await settle()
    await client.send(post(b"2"))
    await settle()
    assert handler.seen == [b"1"]
    handler.answer()
    assert [(await client.answer()).body for _ in range(2)] == [b"1", b"2"]


@pytest.mark.covers("F-P-14")
@pytest.mark.parametrize("first", [True, False])
async def test_a_body_that_does_not_come(autojump_clock, handler, first):
    limits = HttpLimits(body_timeout_s=5, header_timeout_s=5, keepalive_idle_s=60)
    async with serving(handler.handle, limits=limits) as served:
        client = await served.connect()
        if not first:
            await client.ask(post(b"first"))
        data = post(b"x" * 100)
        began = trio.current_time()
        await client.send(data[:-50])
        assert (await client.answer()).status == 408
        assert trio.current_time() - began < 10
        await client.closed()


@pytest.mark.covers("F-P-14")
async def test_a_body_that_comes_slowly_has_its_time(autojump_clock, handler):
    limits = HttpLimits(body_timeout_s=5, body_bytes_per_s=10)
    async with serving(handler.handle, limits=limits) as served:
        client = await served.connect()
        data = post(b"x" * 100)
        await client.send(data[:-100])
        for _ in range(10):
            await client.send(b"x" * 10)
            await trio.sleep(1)
        assert (await client.answer()).body == b"x" * 100


async def test_an_idle_connection_is_closed(autojump_clock, handler):
    async with serving(handler.handle, limits=HttpLimits(keepalive_idle_s=5)) as served:
        client = await served.connect()
        await client.ask(post(b"1"))
        await client.closed()


@pytest.mark.parametrize("size", [100, 2 * FREE_BYTES])
async def test_a_body_that_is_cut_off(served, handler, size):
    client = await served.connect()
    await client.ask(post(b"first"))
    await client.send(post(b"x" * size)[:-1])
    await settle()
    await client.stream.send_eof()
    assert (await client.answer()).status == 400
    assert handler.seen == [b"first"]


async def test_who_ends_its_side_with_the_request_is_answered(served):
    client = await served.connect()
    await client.ask(post(b"first"))
    await client.send(post(b"1"))
    await client.stream.send_eof()
    assert (await client.answer()).body == b"1"
    await client.closed()


async def test_who_ends_its_side_while_it_waits_is_answered(served, handler):
    client = await served.connect()
    await client.send(post(b"1", target="/later"))
    await client.stream.send_eof()
    await settle()
    handler.answer()
    assert (await client.answer()).body == b"1"
    await client.closed()


@pytest.mark.parametrize("target", ["/fault", "/silent"])
async def test_a_fault_ends_its_connection_alone(served, caplog, target):
    client, other = await served.connect(), await served.connect()
    await other.ask(post(b"1"))
    assert (await client.ask(post(b"x", target=target))).status == 500
    await client.closed()
    assert (await other.ask(post(b"2"))).body == b"2"
    assert served.server.state.running == 0


async def test_a_guard_that_refuses_or_has_to_ask(handler):
    async def find():
        await trio.lowlevel.checkpoint()
        return None

    def guard(request):
        return {"/no": EarlyReply(401, b"no"), "/ask": find}.get(request.path)

    async with serving(handler.handle, guard) as served:
        client = await served.connect()
        for target in ("/", "/ask", "/"):
            assert (await client.ask(post(b"x", target=target))).body == b"x"
        assert (await client.ask(post(b"x", target="/no"))).status == 401
        await client.closed()


async def test_a_drain_closes_what_has_no_task(served, handler):
    idle, waiting = await served.connect(), await served.connect()
    await idle.ask(post(b"1"))
    await waiting.send(post(b"2", target="/later"))
    await settle()
    served.nursery.start_soon(served.server.drain)
    await settle()
    assert (await idle.ask(post(b"3"))).status == 503
    handler.answer()
    answer = await waiting.answer()
    assert (answer.body, answer.headers["connection"]) == (b"2", "close")
    await waiting.closed()
    await served.finished.wait()


async def test_the_end_of_the_server_cancels_what_has_no_task(served, handler):
    client = await served.connect()
    await client.send(post(b"1", target="/later"))
    await settle()
    served.scope.cancel()
    await served.finished.wait()
    assert len(handler.cancelled) == 1
    await client.closed()


async def test_nothing_is_left(handler):
    async with serving(handler.handle) as served:
        client = await served.connect()

        async def once():
            for body in (b"1", b"x" * 2 * READ_BYTES):
                await client.send(post(body)[:-1])
                await settle()
                await client.send(body[-1:])
                assert (await client.answer()).body == body
                await client.send(post(body, target="/later"))
                await settle()
                handler.answer()
                assert (await client.answer()).body == body
            handler.seen.clear()

        await once()
        assert await left_by(once, objects=True) == {}


async def test_a_host_that_sends_without_end_does_not_keep_others_waiting(served):
    greedy, other = await served.connect(), await served.connect()
    for client in (greedy, other):
        await client.ask(post(b"first"))
    answers = []

    async def ask(client, count):
        for _ in range(count):
            await client.answer()
            answers.append(client)

    served.nursery.start_soon(greedy.send, post(b"x") * 500)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, greedy, 500)
        for _ in range(5):
            await other.send(post(b"y"))
            await ask(other, 1)
    assert answers[-20:] == [greedy] * 20


async def test_no_task_begins_when_the_server_ends(handler):
    """What comes in the step in which the server has ended, but not closed its connections, is left alone."""
    async with serving(handler.handle) as served:
        clients = [await served.connect() for _ in range(50)]
        for client in clients:
            await client.ask(post(b"first"))
        for at, client in enumerate(clients):
            await client.send(post(b"1", target="/wait") if at % 2 else b"POST")
        served.scope.cancel()
        await served.finished.wait()
    assert served.server.state.connections == {}
