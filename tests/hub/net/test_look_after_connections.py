"""The HTTP server over real sockets: order, limits, time limits, streams, hosts that leave, drain."""

import copy
import errno
import gc
import itertools
import json
import logging
import os
import select
import socket
import sys
from contextlib import ExitStack, contextmanager

import pytest
import trio
import trio.testing

from hub.link.call_interface import Identity
from hub.linux.socket_watch import TURN
from hub.net import open_connections
from hub.net.admit_connection import UnadmittedConnection
from hub.net.http_connection import Connection
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import BURST, FEW, HttpLimits, HttpServer
from hub.net.open_connections import ANSWER_EVERY_S, ANSWERED_TOGETHER, AT_ONCE
from tests.support import http_client
from tests.support.http_client import allow, echo, get, post, serving
from tests.support.steps import wakes_within


@pytest.fixture(params=["at once", "later"], autouse=True)
def answers(request, monkeypatch):
    """Whether a handler returns when it has answered, or before that."""
    if request.param == "later":
        monkeypatch.setattr(sys.modules[__name__], "serving", serving_later)


def serving_later(handler=echo, *args, **options):
    """`serving`, with a handler that returns at once, and answers afterwards."""

    async def handle(request, response):
        scope, request = trio.CancelScope(), copy.copy(request)

        async def run():
            with scope:
                await handler(request, response)
            response.close_stream()
            response.end()

        response.answer_later(scope.cancel)
        trio.lowlevel.spawn_system_task(run)

    return http_client.serving(handle, *args, **options)


DENIED = EarlyReply(401, b'{"no":1}', (("WWW-Authenticate", "Bearer"),))


def deny(request):
    return DENIED


def by_user(request):
    """A guard that believes what it is told."""
    request.identity = Identity(request.headers.get("x-user", ""), "host")


class Waiter:
    """A handler that opens a stream, or not, and waits until its host is gone or it is told to go on."""

    def __init__(self, *, stream: bool = False) -> None:
        self.stream = stream
        self.started = trio.Event()
        self.gone = trio.Event()
        self.go_on = trio.Event()
        self.calls = 0

    async def handle(self, request, response) -> None:
        def left() -> None:
            self.calls += 1
            self.gone.set()

        response.when_gone(left)
        if self.stream:
            response.open_stream()
        self.started.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until, self.gone, nursery)
            nursery.start_soon(self._until, self.go_on, nursery)
        if not self.stream:
            response.reply(200, b"done")

    async def _until(self, event: trio.Event, nursery: trio.Nursery) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()


# --- requests and replies ---------------------------------------------------------------------------------------------


async def test_echo_and_keep_alive():
    async with serving() as served:
        client = await served.connect()
        for body in (b"x" * 200_000, b"", b"hello"):
            answer = await client.ask(post(body))
            assert (answer.status, answer.body) == (200, body)
            assert answer.headers["content-length"] == str(len(body))
            assert answer.headers.get("content-type") == ("application/json" if body else None)
            assert "date" in answer.headers
            assert "connection" not in answer.headers
        assert (len(served.server.state.connections), served.server.state.running) == (1, 0)


async def test_what_the_handler_sees():
    seen = []

    async def handle(request, response):
        seen.append((request, request.body))
        response.reply(202, headers=[("Mcp-Session-Id", "s")])

    async with serving(handle) as served:
        answer = await served.ask(post(b"{}", "Accept: a", "ACCEPT: b", target="/mcp/x?q=1"))
    assert (answer.status, answer.headers["mcp-session-id"], answer.body) == (202, "s", b"")
    ((request, body),) = seen
    assert (request.method, request.path, request.query, body) == ("POST", "/mcp/x", "q=1", b"{}")
    assert request.headers == {"host": "localhost", "content-length": "2", "accept": "a, b"}


async def test_remembered_heads_are_not_shared():
    async def handle(request, response):
        assert "mark" not in request.headers
        request.headers["mark"] = "x"
        response.reply(200, request.headers["content-length"].encode())

    async with serving(handle) as served:
        client = await served.connect()
        for size in (0, 3, 3, 1000):
            assert (await client.ask(post(b"a" * size))).body == b"%d" % size


@pytest.mark.covers("F-H-12")
async def test_pipelined_requests_are_answered_in_order_one_at_a_time():
    running = 0

    async def handle(request, response):
        nonlocal running
        running += 1
        assert running == 1
        await trio.sleep(0.01 if request.body < b"5" else 0)
        running -= 1
        response.reply(200, request.body)

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(b"".join(post(b"%d" % n) for n in range(9)) + get("Connection: close"))
        assert [(await client.answer()).body for _ in range(9)] == [b"%d" % n for n in range(9)]
        assert (await client.answer()).headers["connection"] == "close"
        await client.closed()


@pytest.mark.covers("F-H-12")
async def test_a_peer_that_pipelines_does_not_starve_others():
    async with serving() as served:
        greedy, other = await served.connect(), await served.connect()
        await greedy.ask(post())
        await other.ask(post())
        order = []

        async def read(client, count, name):
            for _ in range(count):
                await client.answer()
                order.append(name)

        await greedy.send(post(b"g") * 500)
        await other.send(post(b"o"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, greedy, 500, "greedy")
            nursery.start_soon(read, other, 1, "other")
        assert order.index("other") < 500


@pytest.mark.parametrize("fields", [(), ("Expect: 100-continue",)])
async def test_bytewise(fields):
    async with serving() as served:
        client = await served.connect()
        data = post(b"hello", *fields)
        await client.trickle(data[:-5])
        if fields:
            assert (await client.answer()).status == 100
        await client.trickle(data[-5:] + get())
        assert (await client.answer()).body == b"hello"
        assert (await client.answer()).body == b""


async def test_chunked_request():
    async with serving() as served:
        client = await served.connect()
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = b"3\r\nabc\r\n0\r\n\r\n"
        assert (await client.ask(head + body + post(b"next"))).body == b"abc"
        assert (await client.answer()).body == b"next"
        await client.trickle(head + body)
        assert (await client.answer()).body == b"abc"


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies_both_ways(chunked):
    body = bytes(range(256)) * (32 << 10)  # 8 MiB
    data = post(body)
    if chunked:
        data = (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n800000\r\n%b\r\n0\r\n\r\n" % body
        )
    async with serving() as served:
        client = await served.connect()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, data + get())
            assert (await client.answer()).body == body
            assert (await client.answer()).body == b""


async def test_no_body_where_there_must_be_none():
    async def handle(request, response):
        response.reply(405 if request.method == "HEAD" else 204, b"text" if request.method == "HEAD" else b"")

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" + get())
        head = await client.head()
        assert (head.status, head.headers["content-length"]) == (405, "4")
        other = await client.answer()
        assert other.status == 204
        assert "content-length" not in other.headers


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_a_body_in_pieces_is_one_body(method):
    async def handle(request, response):
        response.reply(200, (b"one ", memoryview(b"two"), b"." * 100_000))

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(method + b" / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await (client.head() if method == b"HEAD" else client.answer())
        assert (head.status, head.headers["content-length"]) == (200, "100007")
        assert method == b"HEAD" or head.body == b"one two" + b"." * 100_000


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-10", "F-H-10")
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 8000, 431),
        (b"GET /" + b"a" * 40_000, 414),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", 411),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000000000\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"a" * 1001, 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", 417),
    ],
)
async def test_refusals_close(data, status):
    limits = HttpLimits(max_request_body=1000, header_timeout_s=60, linger_s=60)  # thousands of steps take their time
    async with serving(limits=limits) as served:
        for step in (len(data), 7):
            client = await served.connect()
            with trio.fail_after(30):
                for at in range(0, len(data), step):
                    try:
                        await client.send(data[at : at + step])
                    except trio.BrokenResourceError:
                        break
                answer = await client.answer()
                assert (answer.status, answer.headers["connection"]) == (status, "close")
                assert answer.body.startswith(b'{"jsonrpc":"2.0","error":{"code":-32600,')
                await client.stream.send_eof()
                await client.closed()
        await served.settled()


@pytest.mark.covers("F-H-10")
@pytest.mark.parametrize("coding", ["Content-Length: 5", "Transfer-Encoding: chunked"])
async def test_a_body_that_ends_early(coding):
    async with serving() as served:
        client = await served.connect()
        await client.send(f"POST / HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n3\r\na".encode())
        await client.stream.send_eof()
        assert (await client.answer()).status == 400
        await client.closed()


async def test_a_head_that_ends_early_is_nothing():
    async with serving() as served:
        client = await served.connect()
        await client.send(b"GET / HTTP/1.1\r\nHost")
        await client.stream.send_eof()
        await client.closed()


@pytest.mark.covers("SEC-03")
async def test_the_guard_comes_before_the_body_and_100_continue():
    async def handle(request, response):
        raise AssertionError("the guard said no")

    async with serving(handle, deny) as served:
        for data in (
            post(b"", "Expect: 100-continue").replace(b"Length: 0", b"Length: 9"),
            post(b"").replace(b"Length: 0", b"Length: 999999999999"),
            post(b"{}"),
        ):
            client = await served.connect()
            answer = await client.ask(data)
            assert (answer.status, answer.body, answer.headers["connection"]) == (401, DENIED.body, "close")
            assert answer.headers["www-authenticate"] == "Bearer"
            await client.stream.send_eof()
            await client.closed()
        await served.settled()


@pytest.mark.covers("F-H-10")
@pytest.mark.parametrize("guard", [deny, allow])
async def test_an_unread_body_does_not_eat_the_refusal(guard):
    async with serving(guard=guard, limits=HttpLimits(max_request_body=1000)) as served:
        client = await served.connect()
        await client.send(post(b"x" * (6 << 20)))
        assert (await client.answer()).status in (401, 413)
        await client.closed()


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-11")
async def test_a_silent_connection_is_closed(autojump_clock):
    async with serving() as served:
        began = trio.current_time()
        client = await served.connect()
        await client.closed()
        assert 10 <= trio.current_time() - began <= 12.1


@pytest.mark.covers("F-H-11")
async def test_a_slow_head(autojump_clock):
    async with serving() as served:
        client = await served.connect()
        began = trio.current_time()

        async def drip():
            for byte in b"POST / HTTP/1.1\r\nHost: localhost":
                await client.send(bytes([byte]))
                await trio.sleep(0.7)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (408, "close")
            assert 10 <= trio.current_time() - began <= 12.1
            nursery.cancel_scope.cancel()


@pytest.mark.covers("F-H-11")
@pytest.mark.parametrize("coding", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_a_slow_body(autojump_clock, coding):
    async with serving() as served:
        client = await served.connect()
        began = trio.current_time()
        await client.send(f"POST / HTTP/1.1\r\nHost: a\r\n{coding}\r\n\r\n32\r\n".encode())

        async def drip():
            for _ in range(40):
                await client.send(b"a")
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            assert (await client.answer()).status == 408
            assert 30 <= trio.current_time() - began <= 33
            nursery.cancel_scope.cancel()


@pytest.mark.covers("F-H-11")
async def test_a_large_body_over_a_slow_link_passes(autojump_clock):
    async with serving() as served:
        client = await served.connect()
        data = post(b"x" * (4 << 20))
        for at in range(0, len(data), 40 << 10):  # 40 KiB a second, for 103 s
            await client.send(data[at : at + (40 << 10)])
            await trio.sleep(1)
        assert (await client.answer()).status == 200


async def test_an_idle_connection_is_kept_for_a_while(autojump_clock):
    async with serving() as served:
        client = await served.connect()
        for _ in range(3):
            assert (await client.ask(post(b"a"))).status == 200
            await trio.sleep(70)
        began = trio.current_time()
        assert (await client.ask(post(b"a"))).status == 200
        await client.closed()
        assert 74 <= trio.current_time() - began <= 77


async def test_an_idle_server_sleeps_until_something_is_due(autojump_clock):
    async with serving() as served:
        await trio.sleep(1)
        assert await wakes_within(3600) == 0
        client = await served.connect()
        assert (await client.ask(post(b"a"))).status == 200
        await trio.sleep(2)
        assert await wakes_within(70) == 0
        began = trio.current_time()
        first = await client.ask(post(b"a"))
        await client.closed()
        assert trio.current_time() - began == pytest.approx(75, abs=1)
        again = await served.ask(post())
        assert first.headers["date"] <= again.headers["date"]


async def test_a_deadline_counts_from_its_request_though_the_server_slept(autojump_clock):
    waiter = Waiter(stream=True)
    async with serving(waiter.handle, limits=HttpLimits(sse_ping_s=10_000)) as served:
        client = await served.connect()
        await client.send(get())
        await client.head()
        await trio.sleep(5000)
        waiter.go_on.set()
        assert await client.chunk() == b""
        began = trio.current_time()
        await client.closed()
        assert trio.current_time() - began == pytest.approx(75, abs=1)


async def test_a_handler_may_take_long(autojump_clock):
    async def handle(request, response):
        await trio.sleep(5000)
        response.reply(200, b"late")

    async with serving(handle) as served:
        assert (await served.ask(post())).body == b"late"


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_a_stream_and_then_another_request():
    async def handle(request, response):
        if request.method == "POST":
            response.reply(200, b"{}")
            return
        response.open_stream([("Mcp-Session-Id", "s")])
        assert response.started
        for data in (b"data: 1\n\n", b"", b"data: 2\n\n"):
            response.write(data)
        response.close_stream()
        response.write(b"too late")

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(get())
        answer = await client.head()
        assert answer.headers.items() >= {
            ("content-type", "text/event-stream"),
            ("transfer-encoding", "chunked"),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
            ("mcp-session-id", "s"),
        }
        assert [await client.chunk() for _ in range(3)] == [b"data: 1\n\n", b"data: 2\n\n", b""]
        assert (await client.ask(post())).body == b"{}"


async def test_a_stream_ends_with_its_handler():
    async def handle(request, response):
        response.open_stream()
        response.write(b"data: 1\n\n")

    async with serving(handle) as served:
        client = await served.connect()
        assert (await client.ask(get())).body == b"data: 1\n\n"
        assert (await client.ask(get())).body == b"data: 1\n\n"
        assert not served.server.state.streams


@pytest.mark.covers("F-H-03")
async def test_silent_streams_are_kept_alive(autojump_clock):
    async def handle(request, response):
        response.open_stream()
        await trio.sleep(100)
        response.write(b"data: 1\n\n")
        await trio.sleep(20)

    async with serving(handle) as served:
        client = await served.connect()
        began = trio.current_time()
        await client.send(get())
        await client.head()
        for number in range(1, 7):
            assert await client.chunk() == b": \n\n"
            assert trio.current_time() - began == pytest.approx(number * 15, abs=2)
        assert await client.chunk() == b"data: 1\n\n"
        assert await client.chunk() == b": \n\n"
        assert trio.current_time() - began == pytest.approx(115, abs=2)
        assert await client.chunk() == b""


async def test_a_silent_stream_wakes_the_server_for_its_comments_only(autojump_clock):
    waiter = Waiter(stream=True)
    async with serving(waiter.handle) as served:
        client = await served.connect()
        await client.send(get())
        await client.head()
        await trio.sleep(2)
        assert await wakes_within(3600) <= 3600 / 15 + 1


async def test_a_stream_is_silent_since_its_last_event(autojump_clock):
    async def handle(request, response):
        response.open_stream()
        for _ in range(3):
            await trio.sleep(10)
            response.write(b"data: 1\n\n")
        await trio.sleep(20)

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(get())
        await client.head()
        began = trio.current_time()
        for at in (10, 20, 30):
            assert await client.chunk() == b"data: 1\n\n"
            assert trio.current_time() - began == pytest.approx(at, abs=0.1)
        assert await client.chunk() == b": \n\n"
        assert trio.current_time() - began == pytest.approx(45, abs=1.1)


# --- hosts that leave -------------------------------------------------------------------------------------------------


def _close(client):
    client.stream.socket.close()


def _shut(client):
    client.stream.socket.shutdown(socket.SHUT_WR)


def _reset(client):
    client.reset()


@pytest.mark.covers("F-H-01", "F-H-03", "M-08")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("leave", [_close, _shut, _reset])
@pytest.mark.parametrize("unread", [b"", post(b"x" * 50_000)])
async def test_a_host_that_leaves_is_noticed_at_once(stream, leave, unread):
    waiter = Waiter(stream=stream)
    async with serving(waiter.handle) as served:
        client = await served.connect()
        await client.send(post() + unread)
        await waiter.started.wait()
        leave(client)
        await waiter.gone.wait()
        assert waiter.calls == 1
        waiter.go_on.set()
        await served.settled()


async def test_when_gone_too_late_calls_at_once():
    entered, left, told = trio.Event(), trio.Event(), trio.Event()

    async def handle(request, response):
        response.when_gone(left.set)
        entered.set()
        await left.wait()
        assert response.gone
        response.when_gone(told.set)

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(post())
        await entered.wait()
        _close(client)
        await told.wait()


async def test_when_gone_calls_nothing_after_the_answer():
    answered, go_on = trio.Event(), trio.Event()
    calls = []

    async def handle(request, response):
        response.when_gone(lambda: calls.append(1))
        response.reply(200, b"x")
        answered.set()
        await go_on.wait()
        assert not response.gone

    async with serving(handle) as served:
        client = await served.connect()
        assert (await client.ask(post())).body == b"x"
        _close(client)
        await trio.sleep(0.02)
        go_on.set()
        await served.settled()
        assert not calls


async def test_an_answer_to_nobody_is_no_error(caplog):
    waiter = Waiter()
    async with serving(waiter.handle) as served:
        client = await served.connect()
        await client.send(post())
        await waiter.started.wait()
        _reset(client)
        await served.settled()
    assert not caplog.records


@pytest.mark.covers("F-H-03")
async def test_many_streams_that_leave_leave_nothing():
    open_now = 0

    async def handle(request, response):
        nonlocal open_now
        gone = trio.Event()
        response.when_gone(gone.set)
        response.open_stream()
        open_now += 1
        await gone.wait()
        open_now -= 1

    async with serving(handle, limits=HttpLimits()) as served:
        clients = [await served.connect() for _ in range(200)]
        for client in clients:
            await client.send(get())
        for client in clients:
            await client.head()
        assert open_now == 200
        for number, client in enumerate(clients):
            (_close, _reset)[number % 2](client)
        await served.settled()
        assert open_now == 0


@pytest.mark.covers("F-H-04", "M-18")
async def test_a_host_that_does_not_read_is_given_up():
    written = 0
    ended = trio.Event()
    calls = []

    async def handle(request, response):
        nonlocal written
        response.when_gone(lambda: calls.append(response.queued_bytes))
        response.open_stream()
        while not response.gone:
            assert response.queued_bytes <= (1 << 20) + 1100
            response.write(b"data: " + b"x" * 1024 + b"\n\n")
            written += 1024
            await trio.lowlevel.checkpoint()
        response.write(b"dropped")
        ended.set()

    async with serving(handle) as served:
        client = await served.connect()
        client.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        await client.send(get())
        with trio.fail_after(30):
            await ended.wait()
        assert calls == [0]
        assert written > 1 << 20
        await served.settled()


@pytest.mark.covers("F-H-04")
async def test_a_large_message_fits_behind_small_ones():
    async def handle(request, response):
        response.open_stream()
        for _ in range(700):
            response.write(b"data: " + b"x" * 1024 + b"\n\n")
        response.write(b"y" * (8 << 20))

    async with serving(handle) as served:
        assert (await served.ask(get())).body.endswith(b"\n\n" + b"y" * (8 << 20))


@pytest.mark.covers("F-H-04")
async def test_answers_wait_for_a_host_that_reads_late():
    answers = [bytes([digit]) * (4 << 20) for digit in b"0123456789"]
    written = trio.Event()

    async def handle(request, response):
        response.open_stream()
        for answer in answers:
            response.write(answer, vital=True)
        written.set()

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(get())
        await written.wait()
        assert (await client.answer()).body == b"".join(answers)


@pytest.mark.covers("F-H-04", "F-H-11")
async def test_a_host_that_stops_reading_is_given_up_after_a_while(autojump_clock):
    given_up = trio.Event()

    async def stream(request, response):
        gone = trio.Event()
        response.when_gone(gone.set)
        response.open_stream()
        response.write(b"z" * (8 << 20))
        began = trio.current_time()
        await gone.wait()
        assert 30 <= trio.current_time() - began < 40
        given_up.set()

    async with serving(stream) as served:
        client = await served.connect()
        await client.send(get())
        await given_up.wait()
        await served.settled()


# --- faults of our own ------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-16", "M-06")
async def test_a_handler_that_fails(caplog):
    async def handle(request, response):
        if request.path == "/header":
            response.reply(200, headers=[("X", "a\r\nSet-Cookie: b")])
        elif request.path == "/twice":
            response.reply(200, b"once")
            response.reply(200, b"twice")
        elif request.path == "/stream":
            response.open_stream()
            response.write(b"data: 1\n\n")
            raise ValueError("secret")
        elif request.path == "/mcp":
            response.reply(200, b"fine")
        elif request.path == "/raise":
            raise ValueError("secret")

    async with http_client.serving(handle, limits=HttpLimits(linger_s=0.01)) as served:
        steady = await served.connect()
        for path in ("/raise", "/nothing", "/header"):
            answer = await served.ask(get(target=path))
            assert (answer.status, answer.headers["connection"]) == (500, "close") or path == "/header"
            assert answer.status != 200
            reference = answer.body.decode().rpartition(" ")[2][:8]
            assert reference in caplog.text
            assert "secret" not in answer.body.decode()
            assert (await steady.ask(post())).body == b"fine"
        client = await served.connect()
        assert (await client.ask(get(target="/twice"))).body == b"once"
        await client.closed()
        client = await served.connect()
        await client.send(get(target="/stream"))
        await client.head()
        assert await client.chunk() == b"data: 1\n\n"
        await client.closed()
        assert (await steady.ask(post())).body == b"fine"
        await served.settled(1)
    assert len(caplog.records) == 5


@pytest.mark.covers("SEC-16", "M-06")
async def test_a_callback_that_fails(caplog):
    entered, told = trio.Event(), trio.Event()

    def fail() -> None:
        told.set()
        raise KeyError

    async def handle(request, response):
        if request.method == "GET":
            response.reply(200)
            return
        response.when_gone(fail)
        entered.set()
        await trio.sleep_forever()

    async with serving(handle) as served:
        client = await served.connect()
        await client.send(post())
        await entered.wait()
        _close(client)
        assert (await served.ask(get())).status == 200
        await told.wait()
    assert "host left" in caplog.text


@pytest.mark.covers("SEC-16", "M-06")
async def test_a_guard_that_fails_lets_nobody_in(caplog):
    def guard(request):
        raise KeyError

    async with serving(guard=guard) as served:
        assert (await served.ask(post())).status == 500


class Exhausted:
    """A listener out of descriptors for a while."""

    def __init__(self, listener) -> None:
        self.listener = listener
        self.socket = listener.socket
        self.failures = 20

    async def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self.listener.accept()


@pytest.mark.covers("M-07")
async def test_accepting_survives_a_lack_of_descriptors(autojump_clock, caplog):
    async with serving(wrap=Exhausted) as served:
        assert (await served.ask(post(b"x"))).body == b"x"
        assert served.server.acceptor.failures == 20
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# --- too many ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-11")
async def test_strangers_make_room():
    limits = HttpLimits(max_strangers=8)
    async with serving(limits=limits) as served:
        friend = await served.connect()
        await friend.ask(post(b"x"))
        strangers = [await served.connect() for _ in range(40)]
        for client in strangers:
            await client.send(b"POST / HTTP/1.1\r\n")
        with trio.fail_after(30):
            assert (await served.ask(post(b"x"))).body == b"x"
        assert served.server.state.crowd.strangers <= 8
        assert (await friend.ask(post(b"y"))).body == b"y"


@pytest.mark.covers("F-H-11")
async def test_a_crowd_of_honest_hosts_is_served():
    async with serving() as served:
        clients = [await served.connect() for _ in range(100)]
        with trio.fail_after(30):
            for client in clients:
                await client.send(post(b"x"))
            for client in clients:
                assert (await client.answer()).body == b"x"


@pytest.mark.covers("I-2")
async def test_a_connection_that_is_closed_reads_nothing_of_the_one_in_its_place(monkeypatch):
    """Bytes arrive in the moment in which it is closed, and its descriptor is another's by the time it is woken."""
    made, welcome = [], Connection.welcome
    monkeypatch.setattr(Connection, "welcome", lambda self, first: (made.append(self), welcome(self, first))[1])
    async with serving() as served:
        for _ in range(20):  # which task is woken first is random
            client = await served.connect()
            await client.ask(post())
            await trio.testing.wait_all_tasks_blocked()
            connection = made.pop()
            watched = os.dup(connection.fd)
            mine, other = os.pipe2(os.O_NONBLOCK)
            os.write(other, b"another's")

            async def replace(connection=connection, watched=watched, mine=mine):
                await trio.lowlevel.wait_readable(watched)
                connection.abort()
                os.dup2(mine, connection.fd)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(replace)
                await trio.testing.wait_all_tasks_blocked()
                await client.send(b"POST / HTTP/1.1")
            await trio.testing.wait_all_tasks_blocked()
            assert os.read(mine, 100) == b"another's"
            for descriptor in (watched, mine, other, connection.fd):
                os.close(descriptor)


@pytest.mark.covers("F-H-11")
async def test_the_oldest_silent_stranger_goes_at_once(autojump_clock):
    """No time passes: the newest is served while hostile ones hold every place."""
    async with serving(limits=HttpLimits(max_strangers=8)) as served:
        crowd = [await served.connect() for _ in range(8)]
        for client in crowd[:4]:
            await client.send(b"POST / HTTP/1.1\r\n")
        await trio.sleep(1)
        began = trio.current_time()
        for _ in range(10):
            assert (await served.ask(post(b"x"))).body == b"x"
        assert trio.current_time() == began
        await trio.testing.wait_all_tasks_blocked()
        now = served.server.state.crowd
        assert (now.guests, now.strangers) == (10, 7)
        await crowd[4].closed()
        for _ in range(10):
            await (await served.connect()).send(b"P")
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert served.server.state.crowd.strangers == 8
        assert (await served.ask(post(b"y"))).body == b"y"


@pytest.mark.covers("F-H-11")
async def test_a_newcomer_does_not_go_for_those_that_drip():
    """They hold every place with a byte each; who has only just come is not taken for silent."""
    async with serving(limits=HttpLimits(max_strangers=8)) as served:
        for _ in range(8):
            await (await served.connect()).send(b"P")
        await trio.testing.wait_all_tasks_blocked(0.001)
        honest = await served.connect()
        await trio.testing.wait_all_tasks_blocked(0.001)
        for _ in range(6):
            await (await served.connect()).send(b"P")
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert (await honest.ask(post(b"y"))).body == b"y"


@pytest.mark.covers("F-H-11")
async def test_a_crowd_that_drips_wakes_some_at_a_time(monkeypatch):
    read = []
    receive = os.read
    monkeypatch.setattr("hub.net.admit_connection.os.read", lambda fd, size: (read.append(fd), receive(fd, size))[1])
    steps = []

    class Steps(trio.abc.Instrument):
        def after_io_wait(self, timeout):
            steps.append(len(read))

    async with serving() as served:
        sockets = [(await served.connect()).stream.socket.fileno() for _ in range(300)]
        await trio.testing.wait_all_tasks_blocked(0.001)
        trio.lowlevel.add_instrument(Steps())
        for _ in range(3):
            for fd in sockets:  # while the loop stands still
                os.write(fd, b"P")
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(read) == 900
        assert max(after - before for before, after in itertools.pairwise(steps)) <= TURN


@pytest.mark.covers("F-H-11")
async def test_a_crowd_that_is_too_late_ends_some_at_a_time(autojump_clock, monkeypatch):
    ended = []
    expire = UnadmittedConnection.expire
    monkeypatch.setattr(UnadmittedConnection, "expire", lambda self: (ended.append(self), expire(self)))
    steps = []

    class Steps(trio.abc.Instrument):
        def after_io_wait(self, timeout):
            steps.append(len(ended))

    async with serving() as served:
        for _ in range(100):
            await served.connect()
        await trio.testing.wait_all_tasks_blocked(0.001)
        trio.lowlevel.add_instrument(Steps())
        await trio.sleep(15)
        assert len(ended) == 100
        assert max(after - before for before, after in itertools.pairwise(steps)) <= BURST


@contextmanager
def strangers(served, data, count):
    """Plain sockets that have sent `data`."""
    with ExitStack() as opened:
        crowd = [opened.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in range(count)]
        for each in crowd:
            each.sendall(data)
        yield crowd


def readable(crowd):
    return len(select.select(crowd, [], [], 0)[0])


@pytest.mark.covers("F-H-11")
@pytest.mark.parametrize("data", [post(b"x"), b"nonsense\r\n\r\n"], ids=["no token", "no request"])
async def test_a_crowd_is_refused_some_at_a_time_and_who_is_let_in_is_served_between(mock_clock, data):
    """Nobody of the crowd can come again before it was refused, so it takes a part of the time only."""
    async with serving(guard=lambda request: by_user(request) if "x-user" in request.headers else DENIED) as served:
        with strangers(served, data, AT_ONCE + 3 * ANSWERED_TOGETHER) as crowd:
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert readable(crowd) == AT_ONCE
            assert (await served.ask(post(b"y", "X-User: me"))).body == b"y", "no time has passed"
            crowd.pop().close()  # who waits may leave
            for turn in (1, 2, 3):
                mock_clock.jump(ANSWER_EVERY_S)
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert AT_ONCE + turn * ANSWERED_TOGETHER - readable(crowd) in (0, 1)
            assert readable(crowd) == len(crowd)
        mock_clock.jump(1)  # the crowd is over
        with strangers(served, data, 1) as crowd:
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert readable(crowd) == 1


@pytest.mark.covers("F-H-11")
async def test_a_crowd_that_asks_for_what_anybody_may_see_takes_turns_and_is_no_guest(mock_clock):
    """It would use up the connections of hosts, and come again as fast as the hub can answer."""

    def guard(request):
        if request.path == "/page":
            request.make_public()
        else:
            by_user(request)

    async with serving(guard=guard) as served:
        with strangers(served, get(target="/page"), AT_ONCE + ANSWERED_TOGETHER) as crowd:
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert readable(crowd) == AT_ONCE
            assert served.server.state.crowd.guests == 0
            assert (await served.ask(post(b"y", "X-User: me"))).body == b"y", "no time has passed"
            mock_clock.jump(ANSWER_EVERY_S)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert readable(crowd) == len(crowd)
        answer = await served.ask(get(target="/page"))
        assert answer.status == 200
        assert answer.headers["connection"] == "close"


@pytest.mark.covers("F-H-11")
async def test_a_request_that_waited_for_its_turn_for_too_long_is_not_carried_out(autojump_clock, monkeypatch):
    monkeypatch.setattr(open_connections, "ANSWER_EVERY_S", 60.0)
    handled = []

    async def handle(request, response):
        handled.append(request)
        response.reply(200)

    async with serving(
        handle, lambda request: setattr(request, "is_public", True), limits=HttpLimits(linger_s=120.0)
    ) as served:
        with strangers(served, get(), AT_ONCE + 1) as crowd:
            await trio.sleep(100)
            received = b"".join(each.recv(1 << 16) for each in crowd)
            assert received.count(b"HTTP/1.1 408") == 1
            assert received.count(b"HTTP/1.1 200") == len(handled) == AT_ONCE


@pytest.mark.covers("F-H-11")
async def test_strangers_that_wait_for_their_refusal_make_room_for_newcomers(mock_clock):
    limits = HttpLimits(max_strangers=AT_ONCE + 8)
    async with serving(guard=deny, limits=limits) as served:
        with strangers(served, post(b"x"), AT_ONCE + 40) as crowd:
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert served.server.state.crowd.strangers <= limits.max_strangers
            mock_clock.jump(1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert readable(crowd) >= limits.max_strangers


MOST_OBJECTS = 16
"""Objects that the collector has to look at for each stranger, with those of its task, if it had one, some 40."""


@pytest.mark.covers("F-H-11")
@pytest.mark.parametrize("data", [b"", b"POST / HT", post(b"x")], ids=["silent", "dripping", "to be refused"])
async def test_a_crowd_is_little_work_for_the_collector(mock_clock, data):
    """Its pauses, in which nobody is served, are as long as there are objects."""
    async with serving(guard=deny) as served:
        with strangers(served, post(b"x"), AT_ONCE):
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
        gc.collect()
        tasks, objects = trio.lowlevel.current_statistics().tasks_living, len(gc.get_objects())
        with strangers(served, data, 300) as crowd:
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert served.server.state.crowd.strangers == 300
            assert trio.lowlevel.current_statistics().tasks_living <= tasks + 1
            gc.collect()
            assert len(gc.get_objects()) - objects - len(crowd) <= MOST_OBJECTS * 300


@pytest.mark.covers("F-H-01")
@pytest.mark.parametrize("data", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_host_that_leaves_before_its_first_request_is_complete_is_not_waited_for(autojump_clock, data):
    async with serving() as served:
        client = await served.connect()
        began = trio.current_time()
        client.stream.socket._sock.send(data)  # both before the server looks
        client.stream.socket._sock.shutdown(socket.SHUT_WR)
        await client.closed()
        assert trio.current_time() - began < 1


@pytest.mark.covers("F-H-11")
async def test_a_crowd_is_accepted_some_at_a_time():
    """Those who connect while the loop is busy cost few steps of it."""
    async with serving() as served:
        for _ in range(FEW + 1):
            await served.connect()
        await trio.testing.wait_all_tasks_blocked(0.001)
        sockets = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(96)]  # the loop stands still
        steps = 0
        while served.server.state.crowd.strangers < FEW + 1 + 96:
            await trio.lowlevel.checkpoint()
            steps += 1
        assert steps <= 3 * 96 / BURST + 10
        for each in sockets:
            each.close()


@pytest.mark.covers("F-H-12")
async def test_the_connection_that_was_idle_longest_makes_room(autojump_clock):
    limits = HttpLimits(max_connections=4, keepalive_idle_s=1000)
    async with serving(guard=by_user, limits=limits) as served:
        clients = []
        for number in range(4):
            clients.append(await served.connect())
            await clients[-1].ask(post(b"", f"X-User: {number}"))
            await trio.sleep(2)
        await clients[0].ask(post(b"x"))
        assert (await served.ask(post(b"y"))).body == b"y"
        await clients[1].closed()
        for kept in (0, 2, 3):
            assert (await clients[kept].ask(post(b"z"))).body == b"z"


@pytest.mark.covers("F-H-12")
async def test_who_finds_no_room_is_told(autojump_clock):
    waiter = Waiter()
    async with serving(waiter.handle, limits=HttpLimits(max_connections=4)) as served:
        for _ in range(4):
            waiter.started = trio.Event()
            await (await served.connect()).send(post())
            await waiter.started.wait()
        answer = await served.ask(post())
        error = json.loads(answer.body)["error"]
        assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
        assert error["data"] == {"hub": "overloaded", "executed": "no", "retryable": True, "retryAfterMs": 1000}
        assert served.server.state.crowd.refused == 1
        waiter.go_on.set()
        await trio.testing.wait_all_tasks_blocked(0.001)
        assert (await served.ask(post())).status == 200, "they are idle now"


@pytest.mark.covers("I-2")
async def test_one_principal_has_three_quarters_idle_at_most(autojump_clock):
    async with serving(guard=by_user, limits=HttpLimits(max_connections=8, keepalive_idle_s=1000)) as served:
        other = await served.connect()
        await other.ask(post(b"", "X-User: other"))
        await trio.sleep(2)
        for _ in range(12):
            await (await served.connect()).ask(post(b"", "X-User: me"))
            await trio.sleep(2)
        assert served.server.state.crowd.guests == 7
        assert (await other.ask(post(b"o", "X-User: other"))).body == b"o"


async def test_a_connection_with_a_request_on_its_way_is_not_idle(autojump_clock):
    async with serving(guard=by_user, limits=HttpLimits(max_connections=2, keepalive_idle_s=1000)) as served:
        first, second = await served.connect(), await served.connect()
        await first.ask(post(b"", "X-User: first"))
        await second.ask(post(b"", "X-User: second"))
        await trio.sleep(2)
        third = socket.create_connection(("127.0.0.1", served.port))  # the loop stands still until all have sent
        os.write(first.stream.socket.fileno(), post(b"first"))
        third.sendall(post(b"third"))
        assert (await first.answer()).body == b"first", "it was not closed, whoever was heard first"
        await trio.lowlevel.wait_readable(third)
        assert third.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert served.server.state.crowd.guests == 2
        third.close()


@pytest.mark.covers("M-07", "F-D-07")
async def test_a_lack_of_descriptors_makes_strangers_go(autojump_clock):
    exhausted = []

    def wrap(listener):
        exhausted.append(Exhausted(listener))
        exhausted[0].failures = 0
        return exhausted[0]

    async with serving(wrap=wrap) as served:
        stranger = await served.connect()
        await trio.testing.wait_all_tasks_blocked(0.001)
        exhausted[0].failures = 1  # not of the accept that waits already, but of the next one
        await served.ask(post())
        assert (await served.ask(post(b"x"))).body == b"x"
        await stranger.closed()


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_drain():
    waiter = Waiter()
    async with serving(waiter.handle) as served:
        kept, late = await served.connect(), await served.connect()
        waiter.go_on.set()
        await late.ask(post())
        await kept.ask(post())
        waiter.go_on = trio.Event()
        busy = await served.connect()
        waiter.started = trio.Event()
        await busy.send(post())
        await waiter.started.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.server.drain)
            await trio.testing.wait_all_tasks_blocked()
            assert served.server.state.draining
            answer = await late.ask(post())
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            with pytest.raises(OSError):
                await served.connect()
            assert not served.finished.is_set()
            waiter.go_on.set()
            answer = await busy.answer()
            assert (answer.body, answer.headers["connection"]) == (b"done", "close")
        await served.finished.wait()
        await busy.closed()
        await kept.closed()


async def test_drain_of_an_idle_server():
    async with serving() as served:
        client = await served.connect()
        await client.ask(post())
        await served.server.drain()
        await served.finished.wait()
        await client.closed()


async def test_a_drain_answers_what_was_on_its_way():
    """A balancer that has just connected sends its request there, and nowhere else."""
    async with serving() as served:
        client = await served.connect()
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.server.drain)
            await trio.testing.wait_all_tasks_blocked()
            assert served.server.state.draining
            answer = await client.ask(post(b"first"))
            assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"first", "close")
        await served.finished.wait()
        await client.closed()


async def test_a_drain_answers_who_has_connected_and_was_not_yet_accepted():
    async with serving() as served:
        await trio.testing.wait_all_tasks_blocked()
        sock = socket.create_connection(
            ("127.0.0.1", served.port)
        )  # blocks, so that the server does not come to accept it
        sock.sendall(post(b"first"))
        await trio.lowlevel.checkpoint_if_cancelled()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.server.drain)
            answer = await trio.to_thread.run_sync(sock.recv, 4096)
            assert answer.startswith(b"HTTP/1.1 200")
        await served.finished.wait()
        sock.close()


async def test_drain_before_serving():
    await HttpServer(echo, allow).drain()


async def test_cancellation_closes_everything():
    waiter = Waiter(stream=True)
    async with serving(waiter.handle) as served:
        client, idle = await served.connect(), await served.connect()
        await client.send(get())
        await client.head()
        served.scope.cancel()
        await client.closed()
        await idle.closed()
        assert waiter.calls <= 1
        await served.settled()
