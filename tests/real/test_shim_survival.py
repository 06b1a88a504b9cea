"""A real host over `hubd connect` whose daemon is killed between its calls and during one: its session continues."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.real.test_survival import SURVIVOR, Survivor
from tests.support.attached import DEMO
from tests.support.processes import HUBD, PYTHON_1, own_directories, running


class Daemon:
    """The daemon that the shim has started, whichever it is."""

    def __init__(self, env):
        self.env = env

    @property
    def pid(self):
        return int(Path(self.env["XDG_RUNTIME_DIR"], "hubd", "hubd.lock").read_text())

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def in_flight(self):
        """How many requests of hosts it has."""
        argv = [HUBD, "status", "--json"]
        shown = subprocess.run(argv, env=self.env, capture_output=True, timeout=60, check=True)
        return sum(host["in_flight"] for host in json.loads(shown.stdout)["hosts"])


@pytest.mark.covers("F-H-22", "F-D-03", "G-17")
def test_a_session_outlives_the_daemon(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir(mode=0o700)
    config.write_text('listen = "127.0.0.1:0"\n' + DEMO)
    try:
        argv = [PYTHON_1, SURVIVOR, HUBD, "connect"]
        with running(argv, tmp_path / "host.log", env={**os.environ, **env}) as process:
            live_through(Survivor(process), process, Daemon(env))
    finally:
        subprocess.run([HUBD, "stop"], env=env, capture_output=True, timeout=60, check=False)


def live_through(host, process, daemon):
    tools = host.tell("tools")
    assert "demo__touch" in tools
    assert host.tell("subscribe demo://counter") == {}
    for _ in range(3):
        killed = daemon.pid
        daemon.kill()
        assert host.tell("tools") == tools
        assert daemon.pid != killed
        _, params = host.hear("notifications/resources/updated")
        assert params == {"uri": "demo://counter"}, "it may have changed meanwhile"
        assert "is now 1" in host.tell("call demo__touch")["content"][0]["text"]
        _, params = host.hear("notifications/resources/updated")
        assert params == {"uri": "demo://counter"}, "the subscription was made again"
    process.write(b'call demo__countdown {"from":50,"pause_s":1}\n')
    assert any(daemon.in_flight() for _ in range(200))
    daemon.kill()
    error = json.loads(process.wait_for(".+")[0])["error"]
    assert (error["code"], error["data"]["executed"]) == (-32603, "unknown")
    assert "It is not known whether it was carried out" in error["message"]
    assert host.tell("call demo__echo")
    stopped = daemon.pid
    subprocess.run([HUBD, "stop"], env=daemon.env, capture_output=True, timeout=60, check=True)
    assert host.tell("tools") == tools
    assert daemon.pid != stopped
