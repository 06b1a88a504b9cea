"""A served `HttpServer` and a plain client that sees every byte, for the tests of the HTTP side."""

import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
import trio.testing

from hub.link.memory_budget import Budget
from hub.net.http_request import EarlyReply
from hub.net.look_after_connections import Guard, Handler, HttpLimits, HttpRequest, HttpServer


def allow(request: HttpRequest) -> EarlyReply | None:
    """A guard that lets everyone in."""
    return None


async def echo(request, response) -> None:
    response.reply(200, request.body)


def post(body: bytes = b"", *fields: str, target: str = "/mcp") -> bytes:
    """A good POST."""
    lines = [f"POST {target} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def get(*fields: str, target: str = "/mcp") -> bytes:
    """A good GET."""
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


class Answer:
    """One response: status, headers with lower-case names, body."""

    def __init__(self, head: bytes) -> None:
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        assert first.startswith("HTTP/1.1 "), first
        self.status = int(first.split(" ")[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        assert len(self.headers) == len(lines), f"a header is given twice: {lines}"
        self.body = b""


class Client:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.received = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def trickle(self, data: bytes) -> None:
        """Send byte by byte; what the server answers meanwhile stays unread."""
        for at in range(len(data)):
            try:
                await self.stream.send_all(data[at : at + 1])
            except trio.BrokenResourceError:
                return

    async def _fill(self) -> None:
        data = await self.stream.receive_some(1 << 16)
        if not data:
            raise EOFError(f"closed after {self.received[:200]!r}")
        self.received += data

    async def until(self, end: bytes) -> bytes:
        """What comes up to `end`, which is included."""
        while end not in self.received:
            await self._fill()
        at = self.received.index(end) + len(end)
        found, self.received = self.received[:at], self.received[at:]
        return found

    async def exactly(self, size: int) -> bytes:
        while len(self.received) < size:
            await self._fill()
        found, self.received = self.received[:size], self.received[size:]
        return found

    async def head(self) -> Answer:
        return Answer(await self.until(b"\r\n\r\n"))

    async def answer(self) -> Answer:
        """The next response with its body."""
        answer = await self.head()
        if answer.headers.get("transfer-encoding") == "chunked":
            while part := await self.chunk():
                answer.body += part
        elif answer.status not in (100, 204):
            answer.body = await self.exactly(int(answer.headers["content-length"]))
        return answer

    async def chunk(self) -> bytes:
        """The next chunk of a stream; empty at its end."""
        size = int(await self.until(b"\r\n"), 16)
        data = await self.exactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def ask(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def closed(self) -> None:
        """Wait until the server closes; nothing else may come."""
        assert self.received == b""
        try:
            data = await self.stream.receive_some(1 << 16)
        except trio.BrokenResourceError:
            return
        assert data == b"", data

    def reset(self) -> None:
        """Leave with an RST."""
        self.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()


class Served:
    """A running server."""

    def __init__(self, server: HttpServer, port: int, nursery: trio.Nursery) -> None:
        self.server = server
        self.port = port
        self.nursery = nursery
        """Cancel it to stop the server the hard way."""
        self.clients: list[Client] = []
        self.scope = trio.CancelScope()
        """Of the server alone."""
        self.finished = trio.Event()

    async def connect(self) -> Client:
        client = Client(await trio.open_tcp_stream("127.0.0.1", self.port))
        self.clients.append(client)
        return client

    async def ask(self, data: bytes) -> Answer:
        """`data` on a connection of its own."""
        return await (await self.connect()).ask(data)

    async def run(self, listeners: Sequence[trio.SocketListener], *, task_status) -> None:
        with self.scope:
            await self.server.serve(listeners, task_status=task_status)
        self.finished.set()

    async def settled(self, connections: int = 0) -> None:
        """Wait until the server has so many connections left; without any, nothing else is left either."""
        with trio.fail_after(30):
            while len(self.server.state.connections) != connections:
                await trio.lowlevel.checkpoint()
        assert self.server.state.crowd.strangers + self.server.state.crowd.guests == connections
        assert connections or not self.server.state.streams


async def settle() -> None:
    """Wait until bytes that are on their way have arrived, and nobody has more to do."""
    await trio.testing.wait_all_tasks_blocked(0.01)


@asynccontextmanager
async def serving(
    handler: Handler = echo,
    guard: Guard = allow,
    *,
    limits: HttpLimits | None = None,
    wrap=lambda listener: listener,
    budget: Budget | None = None,
) -> AsyncIterator[Served]:
    """A server on a free loopback port."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        served = Served(HttpServer(handler, guard, limits, budget), port, nursery)
        await nursery.start(served.run, [wrap(listener)])
        try:
            yield served
        finally:
            for client in served.clients:
                client.stream.socket.close()
            nursery.cancel_scope.cancel()
