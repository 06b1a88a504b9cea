"""An MCP server that costs next to nothing, so that a gateway before it is what is measured.

    upstream.py stdio --name NAME
    upstream.py http --name NAME --port PORT [--certificate FILE]

Revisions up to 2025-11-25. Tools: `echo` returns its `text`, grown to `size` characters if that is more; `wait` never
answers; fillers. A message is decoded once, its text stays JSON, and answers are bytes put together. HTTP is read by
hand, since requests come from gateways that we chose. It prints a line once it listens.
"""

import argparse
import asyncio  # noqa: TID251 - its callbacks cost less than any task
import contextlib
import os
import secrets
import ssl

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

FILLERS = 18
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


class Arguments(Struct):
    """The arguments of `echo`."""

    text: Raw = Raw(b'""')
    size: int = 0


class Params(Struct):
    """The parameters that some method here reads."""

    name: str = ""
    protocolVersion: str = ""
    arguments: Arguments | UnsetType = UNSET


class Message(Struct):
    """A request or a notification."""

    method: str = ""
    id: Raw | UnsetType = UNSET
    params: Params | UnsetType = UNSET


decode = msgspec.json.Decoder(Message).decode


def _tool(name: str, description: str, **properties: str) -> dict[str, object]:
    schema = {"type": "object", "properties": {key: {"type": type} for key, type in properties.items()}}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = msgspec.json.encode(
    [
        _tool("echo", "Return text.", text="string", size="integer"),
        _tool("wait", "Never answer."),
        *(
            _tool(f"tool_{number:02}", "A sentence or two on when to use it. " * 5, query="string", path="string")
            for number in range(FILLERS)
        ),
    ]
)


class Server:
    """The answers to messages, whatever carries them."""

    def __init__(self, name: str) -> None:
        self._info = msgspec.json.encode({"name": name, "version": "1"})

    def answer(self, data: bytes) -> bytes | None:
        """The reply to this message, which is empty for a notification; None: there will be none."""
        message = decode(data)
        if message.id is UNSET:
            return b""
        params = message.params or Params()
        match message.method:
            case "tools/call":
                return _call(message.id, params)
            case "tools/list":
                return _result(message.id, b'{"tools":%s}' % TOOLS)
            case "initialize":
                revision = params.protocolVersion if params.protocolVersion in REVISIONS else REVISIONS[-1]
                return _result(
                    message.id,
                    b'{"protocolVersion":"%s","capabilities":{"tools":{"listChanged":true}},"serverInfo":%s}'
                    % (revision.encode(), self._info),
                )
            case "ping":
                return _result(message.id, b"{}")
            case "resources/list" | "resources/templates/list" | "prompts/list" as method:
                member = {"resources/templates/list": "resourceTemplates"}.get(method, method.partition("/")[0])
                return _result(message.id, b'{"%s":[]}' % member.encode())
            case _:
                return _error(message.id, b'{"code":-32601,"message":"Method not found"}')


def _call(id: Raw, params: Params) -> bytes | None:
    if params.name == "echo":
        arguments = params.arguments or Arguments()
        text = bytes(arguments.text)
        missing = arguments.size - (len(text) - 2)
        if missing > 0:
            text = text[:-1] + b"x" * missing + b'"'
        parts = (b'{"jsonrpc":"2.0","id":', id, b',"result":{"content":[{"type":"text","text":', text, b"}]}}")
        return b"".join(parts)
    return None if params.name == "wait" else _error(id, b'{"code":-32602,"message":"Unknown tool"}')


def _result(id: Raw, result: bytes) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"result":', result, b"}"))


def _error(id: Raw, error: bytes) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"error":', error, b"}"))


def serve_stdio(server: Server) -> None:
    """Answer all requests of one read with one write, until standard input ends."""
    parts: list[bytes] = []
    while data := os.read(0, 1 << 20):
        parts.append(data)
        if b"\n" not in data:
            continue
        *lines, rest = b"".join(parts).split(b"\n")
        parts = [rest]
        answers = [answer for line in lines if line and (answer := server.answer(line))]
        view = memoryview(b"\n".join([*answers, b""])) if answers else memoryview(b"")
        while view:
            view = view[os.write(1, view) :]


class HttpConnection(asyncio.Protocol):
    """A connection that is kept alive; bodies have a length, or come in chunks."""

    def __init__(self, server: Server, sessions: set[bytes]) -> None:
        self._server = server
        self._sessions = sessions
        self._buffer = bytearray()
        self._missing = 0
        """A body of known length is not looked at before it is whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._missing -= len(data)
        while self._buffer and self._missing <= 0 and (request := self._next_request()):
            self._handle(*request)

    def _next_request(self) -> tuple[bytes, bytes] | None:
        """A head and its body, off the buffer; None: it is not whole yet."""
        buffer = self._buffer
        start = buffer.find(b"\r\n\r\n") + 4
        if start < 4:
            return None
        head = bytes(buffer[: start - 2]).lower()
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            body, end = _join_chunks(buffer, start)
            if body is None:
                return None
        else:
            end = start + int(_field(head, b"content-length") or 0)
            if len(buffer) < end:
                self._missing = end - len(buffer)
                return None
            body = bytes(memoryview(buffer)[start:end])
        del buffer[:end]
        return head, body

    def _handle(self, head: bytes, body: bytes) -> None:
        session = _field(head, b"mcp-session-id")
        fields = b""
        if head.startswith(b"get "):  # the stream of a session, on which nothing is said
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            return
        if head.startswith(b"delete "):
            self._sessions.discard(session)
            return self._respond(b"200 OK")
        if not session and b'"initialize"' in body[:4096]:
            session = secrets.token_hex(16).encode()
            self._sessions.add(session)
            fields = b"Mcp-Session-Id: %s\r\n" % session
        if session not in self._sessions:
            return self._respond(b"404 Not Found" if session else b"400 Bad Request")
        answer = self._server.answer(body)
        if answer is not None:
            self._respond(b"200 OK" if answer else b"202 Accepted", answer, fields)

    def _respond(self, status: bytes, body: bytes = b"", fields: bytes = b"") -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
        self._transport.write(head % (status, fields, len(body)) + body)


def _field(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b":")
    return rest.partition(b"\r\n")[0].strip() if found else b""


def _join_chunks(buffer: bytearray, at: int) -> tuple[bytes | None, int]:
    """The body in chunks that begins there, and its end; None: it is not whole yet."""
    parts: list[bytes] = []
    while (line := buffer.find(b"\r\n", at)) >= 0:
        size = int(buffer[at:line].partition(b";")[0], 16)
        start, at = line + 2, line + 4 + size
        if len(buffer) < at:
            break
        if not size:
            return b"".join(parts), at
        parts.append(bytes(buffer[start : start + size]))
    return None, 0


async def serve_http(server: Server, port: int, certificate: str | None) -> None:
    """Listen on this port of the loopback interface, with TLS if there is a certificate."""
    tls = None
    if certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
    sessions: set[bytes] = set()
    listener = await asyncio.get_running_loop().create_server(
        lambda: HttpConnection(server, sessions), "127.0.0.1", port, backlog=1024, ssl=tls
    )
    print("listening", flush=True)  # noqa: T201
    await listener.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--certificate")
    arguments = parser.parse_args()
    server = Server(arguments.name)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        if arguments.transport == "stdio":
            serve_stdio(server)
        else:
            asyncio.run(serve_http(server, arguments.port, arguments.certificate))


if __name__ == "__main__":
    main()
