"""A request that is sent on to another hub, and its answer on the way back."""

import contextlib
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from hub.fleet import proxy as module
from hub.fleet.proxy import CONGESTED_PROXY_BYTES, FORWARDED, LOOK_S, SILENCE_S, Forwarder, HubGone, Misdirected
from hub.net.look_after_connections import HttpRequest, HttpServer
from tests.support.fleet_house import Fleet
from tests.support.http_client import Client, post
from tests.support.http_fakes import ALICE, Answered


async def yes():
    return True


class Other:
    """Another hub, of which only the socket is real: it says what it is told to say."""

    def __init__(self, nursery):
        self.requests = []
        self.connections = []
        self._nursery = nursery
        self.ended = trio.Event()

    async def open(self, work):
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        self.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"

        async def serve(stream):
            client = Client(stream)
            head = (await client.until(b"\r\n\r\n")).decode()
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
            body = await client.exactly(int(fields.get("content-length", 0)))
            self.requests.append((head.split("\r\n")[0], fields, body))
            self.connections.append(stream)
            await work(stream)
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                assert not await stream.receive_some(1)
            self.ended.set()

        await self._nursery.start(trio.serve_listeners, serve, [listener])
        return self


def saying(data, *, close=False):
    async def say(stream):
        await stream.send_all(data)
        if close:
            await stream.aclose()

    return say


def reply_of(body, status="200 OK", *fields):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def asking(body=b"{}", method="POST", **headers):
    return HttpRequest(method, "/mcp/files", {name.replace("_", "-"): value for name, value in headers.items()}, body)


async def send(other, request=None, answered=None, is_there=yes):
    answered = answered or Answered()
    forwarder = Forwarder()
    try:
        await forwarder.send(getattr(other, "url", other), request or asking(), answered, is_there)
    finally:
        forwarder.close()
    return answered


async def test_what_is_sent_on_and_what_comes_back(nursery, mock_clock):
    other = await Other(nursery).open(saying(reply_of(b"[1]", "404 Not Found", "X-A: b", "Retry-After: 3", "Date: x")))
    headers = {"authorization": "Bearer t", "mcp_session_id": "s", "content_type": "application/json", "x_mine": "1"}
    hops = {"host": "hub", "connection": "keep-alive, X-Mine", "origin": "http://hub", "accept_encoding": "gzip"}
    answered = await send(other, asking(b'{"a":1}', **headers, **hops, content_length="9", transfer_encoding="chunked"))
    first, fields, body = other.requests[0]
    assert (first, body) == ("POST /mcp/files HTTP/1.1", b'{"a":1}')
    assert fields.pop("user-agent").startswith("hubd/")
    assert fields == {
        "host": other.url.removeprefix("http://"),
        "accept-encoding": "identity",
        "authorization": "bearer t",
        "mcp-session-id": "s",
        "content-type": "application/json",
        "content-length": "7",
        FORWARDED: "1",
    }
    assert (answered.status, answered.body) == (404, b"[1]")
    assert answered.headers == {"x-a": "b", "retry-after": "3"}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_methods_without_a_body(nursery, method, mock_clock):
    other = await Other(nursery).open(saying(reply_of(b"")))
    answered = await send(other, asking(b"", method))
    assert answered.status == 200
    assert other.requests[0][0] == f"{method} /mcp/files HTTP/1.1"
    assert "content-length" not in other.requests[0][1]


async def test_events_are_passed_on_as_they_come(nursery, mock_clock):
    go = trio.Event()

    async def work(stream):
        await stream.send_all(EVENTS + chunk(b"data: 1\n\nda"))
        await go.wait()
        await stream.send_all(chunk(b"ta: 2\n\n") + chunk(b""))

    other, answered = await Other(nursery).open(work), Answered()
    async with trio.open_nursery() as sending:
        sending.start_soon(send, other, None, answered)
        while not answered.events:
            await answered.arrived.wait()
        assert [data for _, data in answered.events] == [b"1"]
        go.set()
    assert [data for _, data in answered.events] == [b"1", b"2"]
    assert answered.complete.is_set()
    assert not answered.was_cut


async def test_a_host_that_leaves_ends_the_request(nursery, mock_clock):
    other, answered = await Other(nursery).open(saying(EVENTS + chunk(b"data: 1\n\n"))), Answered()
    async with trio.open_nursery() as sending:
        sending.start_soon(send, other, None, answered)
        while not answered.events:
            await answered.arrived.wait()
        answered.leave()
    await other.ended.wait()


async def test_a_host_that_leaves_before_there_is_an_answer(nursery, mock_clock):
    asked = trio.Event()

    async def work(stream):
        asked.set()

    other, answered = await Other(nursery).open(work), Answered()
    async with trio.open_nursery() as sending:
        sending.start_soon(send, other, None, answered)
        await asked.wait()
        answered.leave()
    assert answered.started
    await other.ended.wait()


async def test_a_hub_that_ends_in_the_middle_of_a_stream_cuts_the_host_off(nursery, mock_clock):
    other = await Other(nursery).open(saying(EVENTS + chunk(b"data: 1\n\n"), close=True))
    answered = await send(other)
    assert answered.was_cut
    assert [data for _, data in answered.events] == [b"1"]


async def test_a_stream_that_is_silent_for_too_long_is_cut(nursery, autojump_clock):
    other = await Other(nursery).open(saying(EVENTS + chunk(b": \n\n")))
    began = trio.current_time()
    assert (await send(other)).was_cut
    assert trio.current_time() - began == pytest.approx(SILENCE_S, abs=1)


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (b"", True),
        (b"HTTP/1.1 200 OK\r\nContent-Le", True),
        (reply_of(b"whole")[:-2], True),
        (b"SSH-2.0-OpenSSH\r\n\r\n", True),
        (reply_of(b"{}", "503 Service Unavailable", "Hubd-Stopping: 1"), False),
    ],
)
async def test_a_hub_that_ended_before_it_answered(nursery, data, sent, mock_clock):
    other = await Other(nursery).open(saying(data, close=True))
    answered = Answered()
    with pytest.raises(HubGone) as found:
        await send(other, None, answered)
    assert found.value.sent is sent
    assert not answered.started
    assert answered.on_gone is None


async def test_a_hub_that_is_not_there(nursery, mock_clock):
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    await listener.aclose()
    for each in (url, "ftp://nonsense"):
        with pytest.raises(HubGone) as found:
            await send(each)
        assert not found.value.sent


async def test_a_hub_that_hangs_is_given_up_when_nobody_sees_it(nursery, autojump_clock):
    async def hang(stream):
        pass

    there = [True, True, False]
    other = await Other(nursery).open(hang)

    async def is_there():
        return there.pop(0)

    began = trio.current_time()
    with pytest.raises(HubGone) as found:
        await send(other, is_there=is_there)
    assert found.value.sent
    assert trio.current_time() - began == pytest.approx(3 * LOOK_S, abs=1)


async def test_a_hub_that_has_nothing_to_do_with_it(nursery, mock_clock):
    other = await Other(nursery).open(saying(reply_of(b"{}", "421 Misdirected Request")))
    with pytest.raises(Misdirected):
        await send(other)


class Slow(Answered):
    """A host that takes what it is sent when it wants to."""

    def __init__(self):
        super().__init__()
        self.takes = trio.Event()

    def write(self, data, *, vital=False):
        assert vital
        super().write(data, vital=vital)
        self.queued_bytes += len(data)

    async def drained(self):
        await self.takes.wait()
        self.queued_bytes = 0


async def test_no_more_is_read_than_a_host_takes(nursery, mock_clock):
    async def work(stream):
        await stream.send_all(EVENTS)
        for _ in range(32):
            await stream.send_all(chunk(b"data: %b\n\n" % (b"x" * CONGESTED_PROXY_BYTES)))
        await stream.send_all(chunk(b""))

    other, answered = await Other(nursery).open(work), Slow()
    async with trio.open_nursery() as sending:
        sending.start_soon(send, other, None, answered)
        while answered.queued_bytes <= CONGESTED_PROXY_BYTES:
            await answered.arrived.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answered.queued_bytes <= 2 * CONGESTED_PROXY_BYTES
        answered.takes.set()
    assert len(answered.events) == 32


async def test_connections_are_used_again_and_hubs_are_counted(nursery, monkeypatch, mock_clock):
    monkeypatch.setattr(module, "MAX_HUBS", 2)
    served = []

    async def handle(request, response):
        served.append(request)
        response.reply(200, b"{}")

    forwarder = Forwarder()
    for _ in range(3):
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(HttpServer(handle, lambda request: None).serve, listeners)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        for _ in range(2):
            await forwarder.send(url, asking(), Answered(), yes)
    assert (len(forwarder._clients), forwarder.forwarded) == (2, 6)
    forwarder.sweep()
    forwarder.close()
    nursery.cancel_scope.cancel()


# --- what it means for a session --------------------------------------------------------------------------------------


async def a_dying_owner(nursery, data=b""):
    """A fleet, whose hub `a` is registered where something dies at each request."""
    fleet = Fleet(nursery)
    a, b = await fleet.start("a"), await fleet.start("b")
    fleet.grow_old()
    host = b.turn(await a.host())
    other = await Other(nursery).open(saying(data, close=True))
    a.membership.change_url(other.url)
    await a.membership.renew()
    b.membership.forget(a.durable.run_id)
    return b, host


async def test_a_call_that_may_have_been_carried_out_is_not_carried_out_again(nursery, mock_clock):
    b, host = await a_dying_owner(nursery)
    answered = await host.call("echo", 9)
    assert answered.status == 200
    assert answered.last["id"] == 9
    assert answered.last["result"]["isError"]
    facts = next(iter(answered.last["result"]["_meta"].values()))
    assert (facts["hub"], facts["executed"]) == ("hub_lost", "unknown")
    assert b.router.seen == []
    assert len(b.endpoint.sessions) == 0, "one connection that broke does not say that a hub is gone"


async def test_what_does_no_harm_twice_is_carried_out_here(nursery, mock_clock):
    b, host = await a_dying_owner(nursery)
    answered = await host.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert answered.last == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert len(b.endpoint.sessions) == 1


async def test_a_call_that_was_not_taken_is_carried_out_here(nursery, mock_clock):
    b, host = await a_dying_owner(nursery, reply_of(b"{}", "503 Service Unavailable", "Hubd-Stopping: 1"))
    assert (await host.call("echo")).last["result"]["content"] == [{"type": "text", "text": "echo"}]
    assert [request.method for _, request in b.router.seen] == ["tools/call"]
    assert host.identity == ALICE


async def test_that_a_proxy_lost_the_other_hub_does_not_say_that_it_did_nothing(nursery, mock_clock):
    b, host = await a_dying_owner(nursery, reply_of(b"connection reset", "503 Service Unavailable"))
    assert (await host.call("echo")).status == 503
    assert b.router.seen == []
    assert len(b.endpoint.sessions) == 0


# --- over real connections on both sides ------------------------------------------------------------------------------


@asynccontextmanager
async def a_chain(nursery, work):
    """A client of a hub that sends everything on to another one."""
    other = await Other(nursery).open(work)
    forwarder = Forwarder()

    async def handle(request, response):
        await forwarder.send(other.url, request, response, yes)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    await nursery.start(HttpServer(handle, lambda request: None).serve, listeners)
    client = Client(await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1]))
    yield other, client
    await client.stream.aclose()
    forwarder.close()
    nursery.cancel_scope.cancel()


async def test_a_broken_stream_has_no_proper_end(nursery, mock_clock):
    async with a_chain(nursery, saying(EVENTS + chunk(b"data: 1\n\n"), close=True)) as (_, client):
        await client.send(post(b"{}"))
        assert (await client.head()).headers["content-type"] == "text/event-stream"
        assert await client.chunk() == b"data: 1\n\n"
        await client.closed()


async def test_a_whole_stream_leaves_the_connection_usable(nursery, mock_clock):
    whole = EVENTS + chunk(b"data: 1\n\n") + chunk(b"")
    async with a_chain(nursery, saying(whole, close=True)) as (_, client):
        for _ in range(2):
            answer = await client.ask(post(b"{}"))
            assert (answer.status, answer.body) == (200, b"data: 1\n\n")


async def test_a_host_that_closes_ends_the_request_there(nursery, mock_clock):
    async with a_chain(nursery, saying(EVENTS + chunk(b"data: 1\n\n"))) as (other, client):
        await client.send(post(b"{}"))
        await client.head()
        await client.chunk()
        client.reset()
        await other.ended.wait()
