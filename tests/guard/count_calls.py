"""The cost of a plain call, counted in the hub's own process: `count(mode, directory)` for each mode of `MODES`.

A plain call is a `tools/call` of a few bytes that one server over stdio answers at once. Callers go in step: all send,
then all wait for their answers.
"""

import json
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.support.processes import Process, own_directories, running

HERE = Path(__file__).parent
CALLS = 640
WARM_UP = 256
RUNS = 3


class Mode(NamedTuple):
    """The carrier of hosts, and the number of concurrent calls."""

    transport: str
    era: str
    in_flight: int


MODES = {
    "HTTP legacy, 1 at a time": Mode("http", "legacy", 1),
    "HTTP legacy, 64 at a time": Mode("http", "legacy", 64),
    "HTTP modern, 1 at a time": Mode("http", "modern", 1),
    "unix socket, 1 at a time": Mode("unix", "legacy", 1),
    "unix socket, 64 at a time": Mode("unix", "legacy", 64),
}


class Cost(NamedTuple):
    """The cost of one plain call and the cyclic garbage of a whole run, the least of all runs."""

    calls: float
    system: float
    cycles: int


class Host(Protocol):
    """The callers of one host."""

    def round(self) -> None:
        """One call of each caller."""

    def close(self) -> None:
        """Hang up."""


INFO = {"name": "counter", "version": "1"}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _request(id: int, method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, separators=(",", ":")).encode()


def _initialize() -> bytes:
    return _request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO})


def _call(id: int, era: str, server: str) -> bytes:
    params: dict[str, object] = {"name": f"{server}__echo", "arguments": {"text": "hello"}}
    if era == "modern":
        params["_meta"] = MODERN_META
    return _request(id, "tools/call", params)


class UnixHost:
    """A program on the unix socket whose calls share one connection."""

    def __init__(self, path: str, in_flight: int, server: str = "echo") -> None:
        self._in_flight = in_flight
        self._server = server
        self._id = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._socket.settimeout(60)
        self._file = self._socket.makefile("rb")
        self._socket.sendall(_initialize() + b"\n")
        self._file.readline()
        self._socket.sendall(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def round(self) -> None:
        first, self._id = self._id + 1, self._id + self._in_flight
        self._socket.sendall(b"".join(_call(id, "legacy", self._server) + b"\n" for id in range(first, self._id + 1)))
        waiting = set(range(first, self._id + 1))
        while waiting:
            answer = json.loads(self._file.readline())
            assert answer["result"]["content"], answer
            waiting.remove(answer["id"])

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class HttpHost:
    """Callers with a connection each, of one legacy session or of none."""

    def __init__(self, port: int, token: str, era: str, in_flight: int, server: str = "echo") -> None:
        self._era = era
        self._server = server
        self._id = 0
        fields = ["POST /mcp HTTP/1.1", f"Host: localhost:{port}", f"Authorization: Bearer {token}"]
        fields += ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
        self._fields = fields
        self._sockets = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(in_flight)]
        self._files = [connection.makefile("rb") for connection in self._sockets]
        if era == "legacy":
            self._send(0, _initialize())
            session, _ = self._receive(0)
            self._fields += [f"Mcp-Session-Id: {session}", "Mcp-Protocol-Version: 2025-11-25"]
            self._send(0, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            self._receive(0)
        else:
            self._fields += ["Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", f"Mcp-Name: {server}__echo"]

    def ask(self, method: str, params: dict[str, object]) -> bytes:
        """The body of the answer to one request of the first caller."""
        self._id += 1
        self._send(0, _request(self._id, method, params))
        return self._receive(0)[1]

    def round(self) -> None:
        for at in range(len(self._sockets)):
            self._id += 1
            self._send(at, _call(self._id, self._era, self._server))
        for at in range(len(self._sockets)):
            _, body = self._receive(at)
            assert b"hello" in body, body

    def close(self) -> None:
        for file, connection in zip(self._files, self._sockets, strict=True):
            file.close()
            connection.close()

    def _send(self, at: int, body: bytes) -> None:
        head = "\r\n".join([*self._fields, f"Content-Length: {len(body)}", "", ""])
        self._sockets[at].sendall(head.encode() + body)

    def _receive(self, at: int) -> tuple[str, bytes]:
        file = self._files[at]
        status = file.readline()
        assert status.split()[1].startswith(b"2"), status
        fields = {}
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            fields[name.decode().lower()] = value.strip().decode()
        return fields.get("mcp-session-id", ""), file.read(int(fields.get("content-length", "0")))


@contextmanager
def hub(
    directory: Path, *program: str, server: Sequence[str] = (), names: Sequence[str] = ("echo",)
) -> Iterator[tuple[dict[str, str], Process]]:
    """A hub in `directory`, one that counts, or `program serve`, with servers of these `names` and these arguments."""
    config = directory / "hubd.toml"
    args = json.dumps(["-I", "-S", str(HERE / "echo_server.py"), *server])
    each = f"command = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n"
    config.write_text("".join(f"[upstreams.{name}]\n{each}" for name in names))
    env = own_directories(directory)
    start = [*program, "serve"] if program else [sys.executable, HERE / "counted_hub.py"]
    argv = [*start, "--config", config, "--listen", "127.0.0.1:0"]
    with running(argv, directory / "hubd.log", env=env, cwd=directory) as process:
        yield env, process


def count(mode: Mode, directory: Path) -> Cost:
    """Run `CALLS` plain calls, `RUNS` times, through a hub of its own in `directory`."""
    with hub(directory) as (env, process):
        port = int(process.wait_for(r"https?://[^\s\"]+:(\d+)/mcp")[1])
        token = Path(env["XDG_STATE_HOME"], "hubd", "token").read_text().strip()
        if mode.transport == "unix":
            host: Host = UnixHost(f"{env['XDG_RUNTIME_DIR']}/hubd/hubd.sock", mode.in_flight)
        else:
            host = HttpHost(port, token, mode.era, mode.in_flight)
        with closing(host):
            for _ in range(WARM_UP // mode.in_flight):
                host.round()
            found = [_run(host, process, CALLS // mode.in_flight) for _ in range(RUNS)]
    calls = CALLS // mode.in_flight * mode.in_flight
    return Cost(
        min(run["calls"] for run in found) / calls,
        min(run["system"] for run in found) / calls,
        min(run["cycles"] for run in found),
    )


def _run(host: Host, process: Process, rounds: int) -> dict[str, int]:
    process.signalled(signal.SIGUSR2, patience_s=0)
    process.wait_for("^counting$")
    for _ in range(rounds):
        host.round()
    process.signalled(signal.SIGUSR2, patience_s=0)
    found: dict[str, int] = json.loads(process.wait_for(r"^\{.*\}$")[0])
    return found


def main() -> None:
    """Print the present cost of each mode."""
    import tempfile

    for name, mode in MODES.items():
        with tempfile.TemporaryDirectory() as directory:
            cost = count(mode, Path(directory))
        print(f"{name:28} {cost.calls:7.1f} calls {cost.system:6.2f} system calls {cost.cycles:4d} in cycles")  # noqa: T201


if __name__ == "__main__":
    main()
