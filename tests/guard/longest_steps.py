"""The longest step of a hub's loop under floods of expensive values, as a table on standard output.

Each value reaches the hub as the arguments of a call, over HTTP and over the unix socket, and as the result of one,
from a server over stdio and from one over HTTP. Run it on an idle machine: `make steps`.
"""

import contextlib
import http.client
import json
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.processes import Process, own_directories, running
from upstreams.transports.http.client import MAX_BODY_BYTES

HERE = Path(__file__).parent
MIB = 1 << 20
ROUNDS = 3
SERVER = """
import json, sys
from tests.guard.longest_steps import answer
for line in sys.stdin.buffer:
    if said := answer(json.loads(line)):
        sys.stdout.buffer.write(said + b"\\n")
        sys.stdout.buffer.flush()
"""


def _string(character: str, size: int) -> bytes:
    body = character.encode("utf-8", "surrogatepass")
    return b'"' + body * ((size - 2) // len(body)) + b'"'


def _members(size: int, separator: str) -> bytes:
    count = size // (14 + len(separator) * 2)
    return ("{" + f",{separator}".join(f'"k{at:07}":{separator}1' for at in range(count)) + "}").encode()


def _list(item: bytes, size: int) -> bytes:
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


MAKERS: dict[str, Callable[[int], bytes]] = {
    "letters": lambda size: _string("a", size),
    "letters beyond ASCII": lambda size: _string("é", size),
    "line separators": lambda size: _string("\u2028", size),
    "next to line separators": lambda size: _string("\u200b\x84", size),
    "escaped surrogates": lambda size: _string(r"\ud800", size),
    "escaped letters": lambda size: _string(r"\u0041", size),
    "members": lambda size: _members(size, ""),
    "members with spaces": lambda size: _members(size, " "),
    "empty objects": lambda size: _list(b"{}", size),
    "empty lists with spaces": lambda size: _list(b"[ ] ", size),
    "numbers": lambda size: _list(b"1", size),
    "short strings": lambda size: _list(b'"\xc3\xa9"', size),
    "nested lists": lambda size: _list(b"[" * 60 + b"]" * 60, size),
    "objects of one member": lambda size: _list(b'{"a":"b"}', size),
}
SIZES = {"3.9 MiB": int(3.9 * MIB), "7.9 MiB": int(7.9 * MIB), "15 MiB": 15 * MIB}
VALUES: dict[str, tuple[Callable[[Any], bytes], Any]] = {
    f"{size}: {name}": (make, count) for size, count in SIZES.items() for name, make in MAKERS.items()
}


def answer(message: dict[str, Any]) -> bytes:
    """The answer of a server: the result of a call holds the named value. None for a notification."""
    if "id" not in message:
        return b""
    match message["method"]:
        case "initialize":
            about = {"name": "big", "version": "1"}
            told = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
            body = json.dumps(told).encode()
        case "tools/list":
            body = b'{"tools":[{"name":"big","inputSchema":{"type":"object"}}]}'
        case "tools/call":
            name = message["params"]["arguments"]["value"]
            make, size = VALUES.get(name if isinstance(name, str) else "", (str.encode, "{}"))
            made = make(size)
            body = b'{"content":[],"structuredContent":{"value":' + made + b"}}"
        case _:
            body = b"{}"
    return b'{"jsonrpc":"2.0","id":' + json.dumps(message["id"]).encode() + b',"result":' + body + b"}"


class Answers(BaseHTTPRequestHandler):
    """The same server over HTTP."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200 if body else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, *args: object) -> None:
        pass


def _call(id: int, tool: str, value: bytes) -> bytes:
    front = f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"value":'
    return front.encode() + value + b"}}}"


class HttpHost:
    """A host over HTTP."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=120)
        self._headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        self.ask(INITIALIZE)

    def ask(self, message: bytes) -> None:
        try:
            self._connection.request("POST", "/mcp", message, self._headers)
            answer = self._connection.getresponse()
            answer.read()
        except OSError:  # it is refused before it has come
            self._connection.close()
            return
        if session := answer.headers.get("mcp-session-id"):
            self._headers["mcp-session-id"] = session


class LineHost:
    """A host over the unix socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")
        self._socket.sendall(b'{"hubd":1}\n')
        self.ask(INITIALIZE)

    def ask(self, message: bytes) -> None:
        self._socket.sendall(message.replace(b"\n", b" ") + b"\n")
        while not self._file.readline().startswith((b'{"jsonrpc":"2.0","id":', b'{"jsonrpc":"2.0","error":')):
            pass


INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "steps", "version": "1"},
        },
    }
).encode()


def longest(process: Process) -> tuple[float, str]:
    """The longest step since the last question."""
    process.signalled(signal.SIGUSR2, patience_s=0)
    told = json.loads(process.wait_for(r'^{"ms".*')[0])
    return told["ms"], told["task"]


def say(name: str, *columns: str) -> None:
    """Print a line of the table."""
    sys.stdout.write(f"{name:34}" + "".join(f"{column:>12}" for column in columns) + "\n")
    sys.stdout.flush()


def main(directory: Path, wanted: str) -> None:
    """Measure all values whose name contains `wanted`."""
    env = own_directories(directory)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    script = directory / "server.py"
    script.write_text(SERVER)
    path = HERE.parent.parent
    config = directory / "hubd.toml"
    config.write_text(
        f'[upstreams.lines]\ncommand = "{sys.executable}"\nargs = ["{script}"]\nenv = {{ PYTHONPATH = "{path}" }}\n'
        f'[upstreams.http]\nurl = "http://127.0.0.1:{server.server_port}/mcp"\n'
    )
    argv = [sys.executable, HERE / "timed_hub.py", "--config", config, "--listen", "127.0.0.1:0", "--auth", "none"]
    with running(argv, directory / "log", env=env, cwd=directory) as process:
        url = process.wait_for(r"http://[^\s\"]+/mcp")[0]
        hosts = {"HTTP": HttpHost(url), "lines": LineHost(Path(env["XDG_RUNTIME_DIR"], "hubd", "hubd.sock"))}
        for tool in ("lines__big", "http__big"):
            hosts["HTTP"].ask(_call(1, tool, b'""'))
        say("milliseconds", "HTTP host", "line host", "line server", "HTTP server")
        for name, (make, size) in VALUES.items():
            if wanted not in name:
                continue
            value = make(size)
            found: list[tuple[float, str]] = []
            small = json.dumps(name).encode()
            floods = [(host, _call(2, "lines__big", value)) for host in hosts.values()]
            if size < MAX_BODY_BYTES:
                floods += [(hosts["lines"], _call(3, tool, small)) for tool in ("lines__big", "http__big")]
            for host, message in floods:
                longest(process)
                for _ in range(ROUNDS):
                    host.ask(message)
                found.append(longest(process))
            say(name, *(str(ms) for ms, _ in found))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        main(Path(made), " ".join(sys.argv[1:]))
