"""Whatever goes wrong with a connection, nothing of it is left when it is gone, without any help of the collector."""

import pytest
import trio

from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import HttpLimits
from tests.support.cycles import left_by
from tests.support.http_client import get, post, serving

HALF = post(b"x" * 300_000)[:-100_000]
CHUNKED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"

FAULTS = {
    "nothing is wrong": post(b"x" * 300_000),
    "a head that never ends": b"POST /mcp HTTP/1.1\r\n",
    "no head": b"nonsense\r\n\r\n",
    "a head with a control": b"POST / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n",
    "a head that h11 refuses": b"POST / HTTP/1.1\r\nHost: a\r\nHost : b\r\n\r\n",
    "a body that is cut off": HALF,
    "a chunked body that is cut off": CHUNKED + b"40000\r\n" + b"x" * 100_000,
    "a chunked body that is malformed": CHUNKED + b"5\r\nabcdefgh\r\n",
    "a body that is too large": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    "no length": b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


async def leave(served, client):
    """Have the client go, and the server notice."""
    client.stream.socket.close()
    served.clients.remove(client)
    await served.settled()


@pytest.mark.covers("I-12", "I-5")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_connection_leaves_nothing(fault):
    async with serving(limits=HttpLimits(linger_s=0.01)) as served:

        async def once():
            client = await served.connect()
            await client.send(FAULTS[fault])
            await trio.testing.wait_all_tasks_blocked(0.001)
            await leave(served, client)

        assert await left_by(once, objects=True) == {}


@pytest.mark.covers("I-12", "F-H-11")
async def test_a_request_that_is_too_slow_leaves_nothing(autojump_clock):
    async with serving(limits=HttpLimits(body_timeout_s=1)) as served:

        async def once():
            client = await served.connect()
            await client.send(HALF)
            assert (await client.answer()).status == 408
            await leave(served, client)

        assert await left_by(once, objects=True) == {}


@pytest.mark.covers("I-12")
async def test_a_host_that_leaves_before_its_answer_leaves_nothing():
    gone = trio.Event()

    async def handle(request, response):
        nonlocal gone
        gone = trio.Event()
        response.when_gone(gone.set)
        response.open_stream()
        await gone.wait()

    async with serving(handle) as served:

        async def once():
            client = await served.connect()
            await client.send(get())
            await client.head()
            await leave(served, client)

        assert await left_by(once, objects=True) == {}


@pytest.mark.covers("I-12", "F-H-04")
async def test_a_reader_that_does_not_read_leaves_nothing():
    async def handle(request, response):
        response.reply(200, b"x" * (8 << 20))

    async with serving(handle) as served:

        async def once():
            client = await served.connect()
            await client.send(get())
            await trio.testing.wait_all_tasks_blocked(0.001)
            await leave(served, client)

        assert await left_by(once, 20, objects=True) == {}


@pytest.mark.covers("I-12")
async def test_who_is_refused_leaves_nothing():
    async with serving(guard=lambda request: EarlyReply(401, b"{}")) as served:

        async def once():
            client = await served.connect()
            assert (await client.ask(get())).status == 401
            await leave(served, client)

        assert await left_by(once, objects=True) == {}


@pytest.mark.covers("I-12")
async def test_a_handler_that_fails_leaves_nothing(caplog):
    async def handle(request, response):
        raise KeyError(request.body)

    async with serving(handle) as served:

        async def once():
            client = await served.connect()
            assert (await client.ask(post(b"x" * 100_000))).status == 500
            await leave(served, client)
            caplog.clear()

        assert await left_by(once, objects=True) == {}


@pytest.mark.covers("I-12", "I-5")
async def test_an_idle_connection_holds_no_body():
    held = []

    class Body(bytes):
        def __del__(self):
            held.remove(id(self))

    async def handle(request, response):
        request.body = Body(request.body)
        held.append(id(request.body))
        response.reply(200)

    async with serving(handle) as served:
        client = await served.connect()
        await client.ask(post(b"x" * 300_000))
        await trio.testing.wait_all_tasks_blocked()
        assert not held
