"""Pages: HTTP answers of the rig's own servers, and the start of such a server."""

import http.server
import json
import socket
import ssl
import sys
import threading
from typing import ClassVar

HTML = "text/html"
LIMIT_B = 1_000_000
"""Bodies are read up to this length."""


class Pages(http.server.BaseHTTPRequestHandler):
    """One request; `route` answers it by `say`."""

    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float] = 60

    def log_message(self, *_: object) -> None:
        """Nothing: what tests want to know is in `/_rig/log`."""

    def say(
        self, status: int, body: object = None, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        """Answer. `body`: text as it is, anything else as JSON, None: none."""
        data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        common = {"Content-Type": kind, "Content-Length": str(len(data)), "Cache-Control": "no-store"}
        for name, value in {**common, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def body(self) -> bytes:
        return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), LIMIT_B))

    def do_GET(self) -> None:
        self.route("GET")

    def do_HEAD(self) -> None:
        self.route("HEAD")

    def do_POST(self) -> None:
        self.route("POST")

    def do_DELETE(self) -> None:
        self.route("DELETE")

    def do_OPTIONS(self) -> None:
        self.route("OPTIONS")

    def route(self, method: str) -> None:
        raise NotImplementedError


class Server(http.server.ThreadingHTTPServer):
    """A server that does not wait for its connections when it ends."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Nothing: clients hang up whenever they like."""


def listen(port: int = 0) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0: one of the kernel's choice."""
    return socket.create_server(("127.0.0.1", port), backlog=256)


def serve(listener: socket.socket, pages: type[Pages], tls: ssl.SSLContext | None = None) -> None:
    """Serve these pages at the listener, in threads, until the process ends."""
    address = listener.getsockname()
    server = Server(address, pages, bind_and_activate=False)
    server.socket.close()
    server.socket = tls.wrap_socket(listener, server_side=True) if tls else listener
    server.server_name, server.server_port = address
    threading.Thread(target=server.serve_forever, daemon=True).start()


def announce(**facts: object) -> None:
    """Say in one line of JSON that it listens, then stay until the process is ended."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    threading.Event().wait()
