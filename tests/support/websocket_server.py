"""A WebSocket server on a port of this machine, by wsproto: each connection does as a test says, or leads to a process
that follows a script (`scripted.py`), as bridges lead to servers over stdio."""

import json
import ssl
import subprocess
import sys
from collections import deque
from pathlib import Path

import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, RejectConnection, Request, TextMessage

SCRIPTED = Path(__file__).with_name("scripted.py")


class WebSocketPeer:
    """The server's side of one connection, whose handshake is done."""

    def __init__(self, stream, connection, request):
        self.stream = stream
        self.request = request
        self._connection = connection
        self._events = deque()

    async def send(self, event):
        await self.stream.send_all(self._connection.send(event))

    async def send_bytes(self, data):
        """Send bytes that need not be frames."""
        await self.stream.send_all(data)

    async def receive(self):
        """The next event; None: the connection has ended."""
        while not self._events:
            try:
                data = await self.stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self._connection.receive_data(data)
            self._events += self._connection.events()
        return self._events.popleft()

    async def message(self):
        """The next message, decoded."""
        text = ""
        while True:
            event = await self.receive()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return json.loads(text)

    async def tell(self, message, *, frames=1):
        """Send a message, in so many frames."""
        text = json.dumps({"jsonrpc": "2.0", **message})
        size = -(-len(text) // frames)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        for number, piece in enumerate(pieces, 1):
            await self.send(TextMessage(piece, message_finished=number == len(pieces)))

    async def shake_hands(self):
        """Be a server of the handshake era with one tool, until the client has said that it is ready."""
        while (message := await self.message())["method"] != "notifications/initialized":
            if message["method"] == "initialize":
                info = {"name": "ws", "version": "1"}
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
                await self.tell({"id": message["id"], "result": result})
            else:
                await self.tell({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})


class WebSocketServer:
    """A server whose connections are served by `serve`. `refuse`: statuses that answer the first handshakes."""

    def __init__(self, serve, *, subprotocol="mcp", refuse=(), headers=(), tls=None):
        self._serve = serve
        self._subprotocol = subprotocol
        self._refuse = list(refuse)
        self._headers = list(headers)
        self._tls = tls
        self.requests = []
        self.closed = []
        """Codes by which clients have closed connections."""
        self.url = ""

    async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        self.url = f"{'wss' if self._tls else 'ws'}://127.0.0.1:{port}/mcp"
        await trio.serve_listeners(self._connection, [listener], task_status=task_status)

    async def _connection(self, stream):
        if self._tls is not None:
            stream = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
        try:
            async with stream:
                await self._converse(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError):
            pass

    async def _converse(self, stream):
        connection = WSConnection(ConnectionType.SERVER)
        peer = WebSocketPeer(stream, connection, None)
        peer.request = await peer.receive()
        if not isinstance(peer.request, Request):
            return
        self.requests.append(peer.request)
        if self._refuse:
            refusal = RejectConnection(status_code=self._refuse.pop(0), headers=self._headers)
            await peer.send(refusal)
            return
        await peer.send(AcceptConnection(subprotocol=self._subprotocol))
        await self._serve(peer)
        with trio.move_on_after(5):
            while (event := await peer.receive()) is not None:
                if isinstance(event, CloseConnection):
                    self.closed.append(int(event.code))
                    break


def lead_to_process(script):
    """A `serve` that leads each connection to a process of its own; its end closes the connection (1011)."""

    async def serve(peer):
        argv = [sys.executable, "-I", "-S", str(SCRIPTED), json.dumps(script)]
        process = await trio.lowlevel.open_process(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pass_down, peer, process, nursery.cancel_scope)
                rest = b""
                async for data in process.stdout:
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        await peer.send(TextMessage(line.decode()))
                await peer.send(CloseConnection(1011, "the process ended"))
                nursery.cancel_scope.cancel()
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    return serve


async def _pass_down(peer, process, scope):
    text = ""
    while isinstance(event := await peer.receive(), TextMessage):
        text += event.data
        if event.message_finished:
            line, text = text, ""
            try:
                await process.stdin.send_all(line.encode() + b"\n")
            except trio.BrokenResourceError:
                return
    scope.cancel()
