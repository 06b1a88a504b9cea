"""The daemon as a process: who gets in, how it stops, what it leaves behind (nothing)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from processes import HUBD, Process, own_directories, running, running_hub

from config.schema import DEFAULT_LISTEN

SCRIPTED = Path(__file__).parent.parent / "scripted.py"
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def upstream(name, script):
    """A table of hubd.toml for a scripted server."""
    args = json.dumps([str(SCRIPTED), json.dumps(script)])
    return f"[upstreams.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\nera = 'legacy'\n"


class Host:
    """A program on the unix socket, as the shim would connect it."""

    def __init__(self, hub, **preamble):
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.settimeout(20)
            self._socket.connect(f"{hub.env['XDG_RUNTIME_DIR']}/hubd/hubd.sock")
            self._file = self._socket.makefile("rb")
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
    """A host whose hub has settled."""
    with Host(hub) as host:
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        host.ask(1, "tools/list", {})
        assert host.receive()["id"] == 1
        yield host


def children(hub):
    return psutil.Process(hub.process.pid).children(recursive=True)


def ended(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not alive


@pytest.mark.covers("SEC-16", "I-3")
def test_a_host_that_asks_for_what_is_not_there_is_told_and_hurts_nobody(tmp_path):
    with running_hub(tmp_path, upstream("scripted", {})) as hub:
        for preamble, word in (({"upstream": "nope"}, "nope"), ({"profile": "work"}, "work")):
            for _ in range(20):
                with Host(hub, **preamble):
                    pass  # gone before it can be told
            with Host(hub, **preamble) as stranger:
                assert word in stranger.receive()["error"]["message"]
                assert stranger.receive() is None
        with Host(hub, profile="default", upstream="scripted") as polite:
            polite.ask(1, "initialize", INITIALIZE)
            assert polite.receive()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.covers("F-H-04")
def test_a_host_that_reads_late_gets_all_its_large_answers(tmp_path):
    script = {"on": {"tools/call:big": [["big", 4_000_000]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        for id in range(2, 12):
            host.ask(id, "tools/call", {"name": "scripted__big"})
        assert sorted(host.receive()["id"] for _ in range(10)) == list(range(2, 12))


@pytest.mark.covers("F-D-01")
def test_a_stop_waits_for_calls_of_hosts_on_the_socket(tmp_path):
    (held := tmp_path / "held").touch()
    script = {"on": {"tools/call:slow": [["await_gone", str(held)], ["serve"]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__slow"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3, "the call was sent before"
        os.kill(hub.process.pid, signal.SIGTERM)
        held.unlink()
        assert host.receive()["id"] == 2
        assert host.receive() is None
        assert hub.process.stop() == 0


@pytest.mark.covers("F-D-02", "I-8")
def test_a_second_signal_ends_the_waiting_and_the_children(tmp_path):
    script = {"start": [["deafen"]], "on": {"tools/call:stuck": [["hang"]]}}
    with running_hub(tmp_path, upstream("scripted", script)) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__stuck"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3
        left = children(hub)
        assert left
        os.kill(hub.process.pid, signal.SIGTERM)
        with contextlib.suppress(ConnectionError):  # the listener is closed once the first signal has been heard
            while True:
                with Host(hub):
                    pass
        os.kill(hub.process.pid, signal.SIGTERM)
        assert host.receive() is None
        assert hub.process.stop(patience_s=20) == 0
        assert ended(left)


@pytest.mark.covers("F-D-03", "M-05", "I-8")
def test_what_a_killed_hub_left_behind_is_gone_after_the_next_start(tmp_path):
    config = upstream("scripted", {"on": {"tools/call:stuck": [["hang"]]}})
    with running_hub(tmp_path, config) as hub, ready(hub) as host:
        host.ask(2, "tools/call", {"name": "scripted__stuck"})
        host.ask(3, "ping", {})
        assert host.receive()["id"] == 3
        left = children(hub)
        assert left
        os.kill(hub.process.pid, signal.SIGKILL)
        assert host.receive() is None
        assert all(process.is_running() for process in left), "it hangs, so it does not notice"
        with running_hub(tmp_path, config) as next_hub, ready(next_hub):
            assert ended(left)


@pytest.mark.covers("F-D-09", "F-C-01")
def test_a_hub_that_cannot_start_says_why_and_what_to_do(tmp_path):
    with running_hub(tmp_path, upstream("scripted", {})) as hub:
        again = subprocess.run([HUBD, "serve"], env=hub.env, capture_output=True, text=True, timeout=30, check=False)
        assert again.returncode == 75
        assert "already running" in again.stderr
        other = own_directories(tmp_path / "other")
        address = hub.url.split("/")[2]
        taken = [HUBD, "serve", "--listen", address]
        done = subprocess.run(taken, env=other, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 69
        assert f"cannot listen on {address}" in done.stderr
    (broken := tmp_path / "broken.toml").write_text("[upstreams.x]\ncomand = 'x'\n")
    argv = [HUBD, "serve", "--config", broken]
    done = subprocess.run(argv, env=other, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 78
    assert "broken.toml, line 2" in done.stderr
    assert "command" in done.stderr


def test_a_taken_port_that_nobody_chose_is_no_reason_not_to_start(tmp_path):
    env = own_directories(tmp_path)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # or someone else has it already
            stack.enter_context(socket.create_server(("127.0.0.1", int(DEFAULT_LISTEN.rpartition(":")[2]))))
        with running([HUBD, "serve"], tmp_path / "log", env=env) as process:
            url = process.wait_for(r"hubd listens on (\S+)")[1]
            assert DEFAULT_LISTEN not in url
            assert DEFAULT_LISTEN in process.tail()


def test_a_hub_starts_though_nobody_reads_what_it_says(tmp_path):
    env = own_directories(tmp_path)
    argv = ["sh", "-c", f"exec {HUBD} serve --listen 127.0.0.1:0 >&-"]
    process = Process(argv, tmp_path / "log", env=env)
    try:
        status = [HUBD, "status", "--json"]
        while (done := subprocess.run(status, env=env, capture_output=True, timeout=30, check=False)).returncode == 69:
            assert process._popen.poll() is None, process.tail()
        assert json.loads(done.stdout)["upstreams"][0]["name"] == "demo"
    finally:
        assert process.stop() == 0
