"""A real host over Streamable HTTP whose hub is killed and started again under it."""

import json
import socket
import threading
from pathlib import Path

import pytest

from tests.real.tcp_relay import TcpRelay
from tests.support.processes import PYTHON_1, running
from tests.support.restarts import TICK, Gate, a_run, demo, kill, state, wait_until_written

SURVIVOR = Path(__file__).parent / "hosts" / "survivor.py"


class Front(TcpRelay):
    """Takes connections while there is no hub, as the socket of a service manager does; the SDK tries only once."""

    def _carry(self, client: socket.socket, number: int) -> None:
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except ConnectionRefusedError:
                TICK.wait(0.05)
        super()._carry(client, number)


class Survivor:
    """The host, told what to do."""

    def __init__(self, process):
        self._process = process
        process.wait_for("ready")

    def tell(self, line):
        self._process.write(line.encode() + b"\n")
        return json.loads(self._process.wait_for(".+")[0])

    def hear(self, method):
        """Wait for a notification of this method; what came before it and its params."""
        others = []
        while (note := self.tell("heard"))["method"] != method:
            others.append(note["method"])
        return others, note.get("params")


@pytest.mark.covers("F-D-03", "G-18", "N-17", "T-33")
def test_a_session_with_its_subscription_outlives_the_hub(tmp_path):
    gate = Gate(tmp_path / "gate")
    front = Front()
    config = f'allowed_hosts = ["{front.address}"]\n' + demo(gate)
    try:
        with a_run(tmp_path, config) as hub:
            front.port = int(hub.url.split(":")[2].split("/")[0])
            argv = [PYTHON_1, SURVIVOR, f"http://{front.address}/mcp"]
            with running(argv, tmp_path / "host.log") as process:
                live_through(Survivor(process), hub, front, gate, tmp_path, config)
    finally:
        front.stop()


def live_through(host, hub, front, gate, directory, config):
    tools, id = host.tell("tools"), host.tell("id")
    assert "demo__touch" in tools
    assert host.tell("subscribe demo://counter") == {}
    host.tell("call demo__touch")
    host.hear("notifications/resources/updated")
    host.hear("notifications/resources/list_changed")
    assert host.tell("call demo__touch")  # the counter's lists are what they were
    wait_until_written(state(hub, "sessions.json"), "demo://counter")
    wait_until_written(state(hub, "catalogue", "demo.json"))
    kill(hub)
    gate.shut()
    with a_run(directory, config, front.port) as hub:
        assert host.tell("tools") == tools
        assert host.tell("id") == id
        threading.Thread(target=gate.open, daemon=True).start()
        assert "is now 1" in host.tell("call demo__touch")["content"][0]["text"]
        _, params = host.hear("notifications/resources/updated")
        assert params == {"uri": "demo://counter"}
        host.tell("call demo__touch")
        _, params = host.hear("notifications/resources/updated")
        assert params == {"uri": "demo://counter"}
        assert host.tell("id") == id
