"""Malformed input at every entry point of a running hub: it answers or hangs up, and serves all others as before.

`HUBD_FUZZ` is the number of inputs per entry point (`make fuzz`: 10 000).
"""

import http.client
import json
import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.fuzz.mutation import damaged
from tests.support.processes import HUBD, running, running_hub
from tests.support.restarts import TICK

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
HOSTILE = Path(__file__).parent / "hostile.py"
ANSWER_S = 60
PATIENCE = 2_000
"""Checks, `PAUSE_S` apart, while connections to a server lie idle, which they may for half a minute."""
PAUSE_S = 0.02
AT_ONCE = 16
BURST = 20
GROWTH_MB = 40
"""A leak of a task, buffer or parsed message per input would pass this at 10 000 inputs, a warm allocator does not."""

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
META = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}, "progressToken": "p"}


def request(method, id=1, **params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


MESSAGES = [
    json.dumps(message).encode()
    for message in (
        request("tools/call", name="demo__echo", arguments={"text": "x \U0001f600"}, _meta=META),
        request("tools/list", _meta=META),
        request("server/discover", _meta=META),
        request("resources/read", uri="demo://welcome", _meta=META),
        request("completion/complete", ref={"type": "ref/prompt", "name": "demo__explain"}, argument={"name": "topic"}),
        request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "f", "version": "1"}),
        request("prompts/get", name="demo__explain", arguments={"topic": "t"}),
        request("ping"),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        [request("ping", 1), request("ping", 2)],
    )
]


def post(body, path="/mcp", extra=b""):
    return (
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n%bContent-Length: %d\r\n\r\n%b"
    ) % (path.encode(), extra, len(body), body)


MODERN_HEADERS = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: demo__echo\r\n"
HTTP_SEEDS = [
    *(post(body) for body in MESSAGES),
    post(MESSAGES[0], extra=MODERN_HEADERS),
    post(MESSAGES[1], "/mcp/demo", b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"),
    post(MESSAGES[5], extra=b"Mcp-Session-Id: nonsense\r\nLast-Event-ID: 3\r\n"),
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAccept: text/event-stream\r\nMcp-Session-Id: x\r\n\r\n",
    b"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nMcp-Session-Id: x\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nContent-Type: application/json\r\n"
    b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n3\r\n1}\n\r\n0\r\n\r\n',
]


class Door:
    """A hub under fire, and how it looked before."""

    def __init__(self, hub):
        self.hub = hub
        self.process = psutil.Process(hub.process.pid)
        self.port = urlsplit(hub.url).port
        self.check()
        self.files = self.process.num_fds()
        self.memory = self.process.memory_info().rss

    def ask(self, method, **params):
        """A sound modern request on a connection of its own; the whole answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
        }
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        try:
            connection.request("POST", "/mcp", json.dumps(request(method, **params, _meta=META)), headers)
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        return json.loads(data[-1] if data else text)

    def check(self):
        """The hub is there and serves a sound host."""
        answer = self.ask("tools/call", name="demo__echo", arguments={"text": "still here"})
        assert answer["result"]["content"][0]["text"] == "still here"

    def check_nothing_is_left(self, idle=0):
        """No connection but some to a server that are `idle`, no running call, no memory to speak of is left behind."""
        self.check()
        status = subprocess.run(
            [HUBD, "status", "--json"], env=self.hub.env, capture_output=True, timeout=30, check=True
        )
        upstreams = json.loads(status.stdout)["upstreams"]
        assert {entry["name"]: entry["in_flight"] for entry in upstreams} == {entry["name"]: 0 for entry in upstreams}
        most = self.files + 8 + idle  # a server that is just being started has five, a connection one
        for _ in range(PATIENCE):
            if self.process.num_fds() <= most:
                break
            self.check()
            TICK.wait(PAUSE_S)
        assert self.process.num_fds() <= most
        assert (self.process.memory_info().rss - self.memory) >> 20 < GROWTH_MB
        assert "Traceback" not in self.hub.process.log.read_text(errors="replace")


@pytest.fixture
def door(tmp_path):
    """A hub with the demo server and a hostile one over stdio and over HTTP."""
    with running([sys.executable, HOSTILE, "1", "--http"], tmp_path / "hostile.log") as server:
        url = server.wait_for(r"http://\S+")[0]
        config = f"""
            [upstreams.demo]
            command = {json.dumps(sys.executable)}
            args = ["-I", "-m", "upstreams.demo"]
            [upstreams.pipe]
            command = {json.dumps(sys.executable)}
            args = [{json.dumps(str(HOSTILE))}, "1"]
            era = "legacy"
            [upstreams.web]
            url = {json.dumps(url)}
            transport = "http"
            era = "legacy"
        """
        with running_hub(tmp_path, config, auth="none") as hub:
            yield Door(hub)


def hear_out(connection):
    """Read until the other side has said everything, or hung up."""
    try:
        while connection.recv(1 << 16):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass


@pytest.mark.covers("M-09", "M-10", "M-11", "M-12", "SEC-10")
def test_fuzz_http(door):
    own = str(door.port).encode()
    bodies = (post(body, extra=MODERN_HEADERS) for body in damaged(MESSAGES[:1], COUNT // 2, seed=3))
    for number, data in enumerate([*damaged(HTTP_SEEDS, COUNT // 2), *bodies]):
        with socket.create_connection(("127.0.0.1", door.port), timeout=ANSWER_S) as connection:
            try:
                connection.sendall(data.replace(b"PORT", own))
                connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError, OSError):
                continue
            try:
                hear_out(connection)
            except TimeoutError:
                pytest.fail(f"input {number} was neither answered nor refused: {data!r}")
    door.check_nothing_is_left()


@pytest.mark.covers("M-09", "M-10", "M-11", "M-12")
def test_fuzz_unix_socket(door):
    path = next(Path(door.hub.env["XDG_RUNTIME_DIR"]).rglob("hub*.sock"))
    inputs = list(damaged([b'{"hubd":1,"host":"fuzz"}', *MESSAGES], COUNT))
    dice = random.Random(2)
    while inputs:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.settimeout(ANSWER_S)
            burst = [dice.choice(MESSAGES)] + [inputs.pop() for _ in range(min(len(inputs), dice.randint(1, BURST)))]
            try:
                connection.sendall(b"\n".join(burst) + b"\n")
                connection.shutdown(socket.SHUT_WR)
                hear_out(connection)
            except (BrokenPipeError, ConnectionResetError):
                pass
            except TimeoutError:
                pytest.fail(f"the hub did not hang up after {burst!r}")
    door.check_nothing_is_left()


@pytest.mark.covers("M-09", "M-10", "M-11", "M-12")
def test_fuzz_upstream_stdout(door):
    for _ in range(max(1, COUNT // BURST)):
        answer = door.ask("tools/call", name="pipe__call", arguments={})
        assert answer["result"]["content"][0]["text"] == "sound"
    door.check_nothing_is_left()


@pytest.mark.covers("M-09", "M-10", "M-11", "M-12")
def test_fuzz_upstream_http_body(door):
    # Side by side: a stream that ends early is resumed after a while.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in pool.map(lambda _: door.ask("tools/call", name="web__call", arguments={}), range(2 * COUNT)):
            assert "result" in answer or "error" in answer
    door.check_nothing_is_left(idle=AT_ONCE)
