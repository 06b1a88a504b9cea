"""Programs on the hub's unix socket and over HTTP, for tests of a hub that is a real process."""

import contextlib
import http.client
import json
import socket
import sys
from pathlib import Path

import psutil

from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from tests.support.commands import run_hubd

SCRIPTED = Path(__file__).parent / "scripted.py"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ASK = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
DEMO = f"[upstreams.demo]\ncommand = {json.dumps(sys.executable)}\nargs = ['-I', '-m', 'upstreams.demo']\n"


def upstream(name, script):
    """A table of hubd.toml for a scripted server."""
    args = json.dumps([str(SCRIPTED), json.dumps(script)])
    return f"[upstreams.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n"


class Host:
    """A program on the unix socket, as the shim would connect it."""

    def __init__(self, hub, **preamble):
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(f"{hub.env['XDG_RUNTIME_DIR']}/hubd/hubd.sock")  # with a timeout, a full backlog fails
            self._socket.settimeout(60)
            self._file = self._socket.makefile("rb")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused; it has said why
                self.send({"hubd": 1, **preamble})
        except OSError:
            self._socket.close()
            raise

    def send(self, message):
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self):
        line = self._file.readline()
        return json.loads(line) if line else None

    def ask(self, id, method, params):
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
        self._socket.close()


@contextlib.contextmanager
def ready(hub):
    """A host that has had its handshake and the first list of tools."""
    with Host(hub) as host:
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        host.ask(1, "tools/list", {})
        assert host.receive()["id"] == 1
        yield host


def hubd(hub, *arguments, stdin=""):
    """Run a command; returns its output and exit code."""
    return run_hubd(map(str, arguments), hub.env, input=stdin)


def said(hub, *words, code=0):
    """What a command says to people, on standard output or, if it is to fail, on standard error."""
    done = hubd(hub, *words)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


class Post:
    """A tool call of a modern host over HTTP; `answer` waits for status and message."""

    def __init__(self, hub, tool, arguments, *, token=None, query="", meta=None, headers=None, **more):
        meta = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}, **(meta or {})}
        params = {"name": tool, "arguments": arguments, "_meta": meta, **more}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call",
            "Mcp-Name": tool,
            **(headers or {}),
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._connection = http.client.HTTPConnection(hub.url.split("/")[2], timeout=60)
        self._connection.request("POST", f"/mcp{query}", body, headers)

    def answer(self):
        with contextlib.closing(self._connection):
            response = self._connection.getresponse()
            text = response.read().decode()
        events = [line for line in text.splitlines() if line.startswith("data:")]
        return response.status, json.loads(events[-1].removeprefix("data:") if events else text)


def last_record(hub, kind, *words):
    """The last record that `hubd audit query` shows, once it is of this kind: it is written a moment after what it is
    about."""
    while True:
        lines = hubd(hub, "audit", "query", *words, "--json").stdout.splitlines()
        if lines and (record := json.loads(lines[-1]))["k"] == kind:
            return record


def wait_until_it_stops_accepting(hub):
    with contextlib.suppress(ConnectionError, FileNotFoundError):
        while True:
            with Host(hub):
                pass


def children(hub):
    return psutil.Process(hub.process.pid).children(recursive=True)


def ended(processes):
    _, alive = psutil.wait_procs(processes, timeout=60)
    return not alive
