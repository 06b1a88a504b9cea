"""A scripted HTTP server on loopback: raw trio sockets, so that every byte of an answer is the test's own.

A test gives a handler `async (request, talk) -> None`; `talk` has the steps: `reply`, `stream`, `event`, `raw`, `cut`,
`hang`. Everything received is recorded in `peer.requests`. A handler that returns without closing keeps the connection
alive for the next request, unless it says otherwise.
"""

import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


@dataclass
class PeerRequest:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The number of its connection, from 0."""

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, "" if there is none."""
        message = self.json
        return message.get("method", "") if isinstance(message, dict) else ""

    def result(self, value: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": self.json["id"], "result": value}

    def error(self, code: int, message: str = "no", data: Any = None) -> dict[str, Any]:
        error = {"code": code, "message": message} | ({"data": data} if data is not None else {})
        return {"jsonrpc": "2.0", "id": self.json["id"], "error": error}


class Talk:
    """The steps of one answer."""

    def __init__(self, stream: trio.abc.Stream, number: int) -> None:
        self._stream = stream
        self.number = number
        self.closed = False

    @property
    def socket(self) -> trio.socket.SocketType:
        transport = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        assert isinstance(transport, trio.SocketStream)
        return transport.socket

    async def raw(self, data: bytes) -> None:
        """Send exactly these bytes."""
        await self._stream.send_all(data)

    async def reply(
        self,
        message: Any = None,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> None:
        """Send a whole answer with a Content-Length."""
        if body is None:
            body = b"" if message is None else json.dumps(message, separators=(",", ":")).encode()
        fields = ({"Content-Type": "application/json"} if body else {}) | (headers or {})
        await self.raw(head(status, {**fields, "Content-Length": str(len(body))}) + body)

    async def stream(self, headers: dict[str, str] | None = None) -> None:
        """Send the head of a chunked event stream."""
        fields = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"} | (headers or {})
        await self.raw(head(200, fields))

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, message: Any, *, id: str | None = None, retry: int | None = None) -> None:
        """Send one event in a chunk of its own; bytes as they are."""
        data = message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()
        lines = [b"id: %b" % id.encode()] if id is not None else []
        lines += [b"retry: %d" % retry] if retry is not None else []
        await self.chunk(b"\n".join([*lines, b"data: " + data, b"", b""]))

    async def end(self) -> None:
        """Send the last chunk."""
        await self.raw(b"0\r\n\r\n")

    async def close(self) -> None:
        """Close the connection in good order."""
        self.closed = True
        await self._stream.aclose()

    async def cut(self) -> None:
        """Reset the connection."""
        self.closed = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    async def gone(self) -> None:
        """Wait until the client has closed."""
        try:
            while await self._stream.receive_some(4096):
                pass
        except trio.BrokenResourceError:
            pass
        self.closed = True

    async def hang(self) -> None:
        """Send nothing more until the client leaves."""
        await self.gone()


Handler = Callable[[PeerRequest, Talk], Awaitable[None]]


def head(status: int, fields: dict[str, str]) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@dataclass
class HttpPeer:
    """The running server."""

    handler: Handler
    port: int = 0
    scheme: str = "http"
    host: str = "127.0.0.1"
    requests: list[PeerRequest] = field(default_factory=list)
    connections: int = 0
    arrived: trio.Event = field(default_factory=trio.Event)
    accepting: trio.CancelScope = field(default_factory=trio.CancelScope)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/mcp"

    def stop(self) -> None:
        """Accept no more connections; open ones stay."""
        self.accepting.cancel()

    def methods(self) -> list[str]:
        """The methods of requests, in order: the JSON-RPC method of a POST, else the HTTP method."""
        return [request.rpc or request.method for request in self.requests]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a request that makes `condition` true."""
        while not condition():
            await self.arrived.wait()

    async def serve(self, stream: trio.abc.Stream) -> None:
        number, self.connections = self.connections, self.connections + 1
        buffer = b""
        talk = Talk(stream, number)
        try:
            while not talk.closed:
                got = await _read_request(stream, buffer, number)
                if got is None:
                    break
                request, buffer = got
                self.requests.append(request)
                self.arrived.set()
                self.arrived = trio.Event()
                await self.handler(request, talk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        finally:
            await trio.aclose_forcefully(stream)


async def _read_request(stream: trio.abc.Stream, buffer: bytes, number: int) -> tuple[PeerRequest, bytes] | None:
    while b"\r\n\r\n" not in buffer:
        data = await stream.receive_some(65536)
        if not data:
            return None
        buffer += bytes(data)
    start, _, rest = buffer.partition(b"\r\n\r\n")
    first, *lines = start.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(headers) == len(lines), f"a header is sent twice: {lines}"
    length = int(headers.get("content-length", 0))
    while len(rest) < length:
        data = await stream.receive_some(65536)
        if not data:
            return None
        rest += bytes(data)
    return PeerRequest(method, target, headers, rest[:length], number), rest[length:]


@asynccontextmanager
async def http_peer(
    handler: Handler, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[HttpPeer]:
    """Run `handler` on a port the kernel chooses, until the block ends."""
    peer = HttpPeer(handler, scheme="https" if tls else "http", host=host)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    peer.port = listeners[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        if tls is None:
            await peer.serve(stream)
            return
        secure = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            await secure.do_handshake()
        except trio.BrokenResourceError:
            return
        await peer.serve(secure)

    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            with peer.accepting:
                await trio.serve_listeners(serve, listeners, handler_nursery=nursery)

        nursery.start_soon(accept)
        yield peer
        nursery.cancel_scope.cancel()


class Script:
    """A handler that behaves like an MCP server; `on[...]` replaces its answer to one JSON-RPC or HTTP method.

    `era` legacy: `initialize` makes a new session id each time, other requests without the current one get 404, GET
    is 405. `era` modern: `server/discover`; everything else is up to `on`.
    """

    def __init__(
        self, era: str = "legacy", *, version: str = "", session: bool = True, capabilities: Any = None
    ) -> None:
        self.era = era
        self.version = version or ("2025-11-25" if era == "legacy" else "2026-07-28")
        self.capabilities = {"tools": {"listChanged": True}, "logging": {}} if capabilities is None else capabilities
        self.with_session = session
        self.sessions = 0
        self.on: dict[str, Handler] = {}

    @property
    def session_id(self) -> str:
        return f"session-{self.sessions}"

    def forget(self) -> None:
        """Forget the session, as after a restart."""
        self.sessions += 100

    async def __call__(self, request: PeerRequest, talk: Talk) -> None:
        method = request.rpc or ("response" if request.method == "POST" else request.method)
        known = not self.with_session or request.headers.get("mcp-session-id") == self.session_id
        if self.era == "legacy" and self.sessions and method != "initialize" and not known:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}
            return await talk.reply(error, status=404)
        if method in self.on:
            return await self.on[method](request, talk)
        if method == "initialize" and self.era == "legacy":
            self.sessions += 1
            result = {
                "protocolVersion": self.version,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "far", "version": "1"},
            }
            headers = {"Mcp-Session-Id": self.session_id} if self.with_session else {}
            return await talk.reply(request.result(result), headers=headers)
        if method == "server/discover" and self.era == "modern":
            return await talk.reply(
                request.result(
                    {
                        "resultType": "complete",
                        "supportedVersions": [self.version],
                        "capabilities": self.capabilities,
                        "ttlMs": 0,
                        "cacheScope": "private",
                    }
                )
            )
        if method.startswith("notifications/") or method == "response":
            return await talk.reply(status=202)
        if method == "DELETE":
            return await talk.reply(status=200)
        if method == "GET":
            return await talk.reply(status=405)
        if method == "tools/call":
            return await talk.reply(request.result({"content": [{"type": "text", "text": "called"}]}))
        if method == "ping":
            return await talk.reply(request.result({}))
        await talk.reply(request.error(-32601, "Method not found"), status=404 if self.era == "modern" else 200)
