"""A hub that is killed: what hosts see of the next one, while its upstreams have not even started."""

import contextlib
import http.client
import json
import time

import pytest

from tests.support.attached import INITIALIZE, Host, hubd
from tests.support.restarts import Gate, a_run, demo, kill, state, wait_until_written

TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}


class Session:
    """A legacy host over HTTP; each request has a connection of its own."""

    def __init__(self):
        self.id = None
        self.hub = None

    def post(self, message, *, session=None):
        """The status and the message that a message is answered with."""
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.id is not None:
            headers["Mcp-Session-Id"] = session or self.id
        connection = http.client.HTTPConnection(self.hub.url.split("/")[2], timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/mcp", json.dumps(message), headers)
            response = connection.getresponse()
            text = response.read().decode()
        self.id = response.headers.get("Mcp-Session-Id", self.id)
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:") and len(line) > 6]
        return response.status, json.loads(lines[-1] if lines else text or "null")

    def ask(self, method, **params):
        status, message = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert status == 200, message
        return message["result"]


def states(hub):
    return {row["name"]: row["state"] for row in json.loads(hubd(hub, "status", "--json").stdout)["upstreams"]}


@pytest.mark.covers("F-D-03", "G-18", "T-33", "F-H-14")
def test_a_kill_is_hardly_noticed(tmp_path):
    gate = Gate(tmp_path / "gate")
    host = Session()
    with a_run(tmp_path, demo(gate)) as host.hub:
        port = int(host.hub.url.split(":")[2].split("/")[0])
        host.ask("initialize", **INITIALIZE)
        assert host.post({"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202
        tools = host.ask("tools/list")
        assert len(tools["tools"]) > 3
        host.ask("logging/setLevel", level="warning")
        host.ask("resources/subscribe", uri="demo://counter")
        wait_until_written(state(host.hub, "sessions.json"), "demo://counter", "warning")
        wait_until_written(state(host.hub, "catalogue", "demo.json"))
        wait_until_written(state(host.hub, "memory.json"), "eras", "claims")
        kill(host.hub)
    gate.shut()
    started = time.perf_counter()
    with a_run(tmp_path, demo(gate), port) as host.hub:
        heard = time.perf_counter()
        assert host.ask("tools/list") == tools
        answered = time.perf_counter()
        assert states(host.hub) == {"demo": "connecting"}
        (row,) = json.loads(hubd(host.hub, "status", "--json").stdout)["hosts"]
        assert (row["version"], row["host"], row["transport"]) == ("2025-11-25", "test", "http")
        with Host(host.hub) as line:  # a host that is new to it
            line.ask(0, "initialize", INITIALIZE)
            line.receive()
            line.ask(1, "tools/list", {})
            assert line.receive()["result"] == tools
        for foreign in (host.id[:-1] + "AB"[host.id[-1] == "A"], "x" * 40):
            assert host.post(TOOLS, session=foreign)[0] == 404
        assert states(host.hub) == {"demo": "connecting"}
        gate.open()
        assert "is now 1" in host.ask("tools/call", name="demo__touch", arguments={})["content"][0]["text"]
        assert states(host.hub) == {"demo": "connected"}
        assert host.ask("tools/list") == tools
    print(f"started in {heard - started:.3f} s, first list after {answered - heard:.3f} s")  # noqa: T201
