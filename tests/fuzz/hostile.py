"""A hostile upstream: hostile.py SEED [--http]. It connects properly, lists one tool, and damages its answers to calls.

Over stdio a burst of damaged lines precedes every proper answer. Over HTTP every other answer is one damaged body, as
JSON or as a stream; only every other, since several invalid answers in a row make the hub pause. Its URL is printed.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mutation import damaged

BURST = 20
EVENT = b"id: 1\nretry: 10\nevent: message\ndata: %b\n\n"
"""A short retry time, since the hub tries to resume a stream that ends without an answer."""


def sound(message: dict) -> dict | None:
    """The proper answer to a request; None for a notification."""
    method = message.get("method")
    if "id" not in message or method is None:
        return None
    answers = {
        "initialize": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        },
        "ping": {},
        "tools/list": {"tools": [{"name": "call", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "sound"}]},
    }
    if method not in answers:
        error = {"code": -32601, "message": "Method not found"}
        return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": answers[method]}


def seeds(id: object, token: object) -> list[bytes]:
    """Messages of a server during a call, before they are damaged."""
    said = [
        {
            "jsonrpc": "2.0",
            "id": id,
            "result": {"content": [{"type": "text", "text": "hi \U0001f600"}], "isError": False},
        },
        {"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no", "data": {"a": [1, 2, {"b": None}]}}},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": {"x": "y"}}},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
        {"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
    ]
    return [json.dumps(each).encode() for each in said]


def serve_stdio(seed: int) -> None:
    for number, line in enumerate(sys.stdin.buffer):
        message = json.loads(line)
        out = b""
        if message.get("method") == "tools/call":
            token = message["params"].get("_meta", {}).get("progressToken")
            for each in damaged(seeds("another", token), BURST, seed + number):
                out += each.replace(b"\n", b" ") + b"\n"
        answer = sound(message)
        if answer is not None:
            out += json.dumps(answer).encode() + b"\n"
        sys.stdout.buffer.write(out)
        sys.stdout.buffer.flush()


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP with a session, damaged only for calls."""

    protocol_version = "HTTP/1.1"
    seed = 0
    calls = 0
    number = 0

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("method") == "tools/call":
            Handler.calls += 1
            if Handler.calls % 2:
                self._answer_badly(message)
                return
        answer = sound(message)
        if answer is None:
            self._send(202, "application/json", b"")
        else:
            self._send(200, "application/json", json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._send(405, "text/plain", b"")

    def do_DELETE(self) -> None:
        self._send(200, "text/plain", b"")

    def _answer_badly(self, message: dict) -> None:
        Handler.number += 1
        token = message["params"].get("_meta", {}).get("progressToken")
        bodies = seeds(message["id"], token)
        stream = Handler.number % 2 == 0
        if stream:
            bodies = [b"".join(EVENT % body for body in [*bodies[2:5], first]) for first in bodies[:2]]
        (body,) = damaged(bodies, 1, self.seed + Handler.number)
        self._send(200, "text/event-stream" if stream else "application/json", body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def serve_http(seed: int) -> None:
    Handler.seed = seed
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}/mcp\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    (serve_http if "--http" in sys.argv else serve_stdio)(int(sys.argv[1]))
