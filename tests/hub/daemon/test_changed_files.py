"""A daemon that is a real process, and files that change beneath it: what it does, and what it leaves alone."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import psutil
import pytest

from hub.control.client import ControlClient
from hub.control.methods import RELOAD, STATUS
from hub.daemon.logs.forms import LINE_BYTES
from tests.support.attached import DEMO, INITIALIZE, Host, Post, hubd, upstream
from tests.support.processes import HUBD, Hub, free_port, own_directories, running, running_hub

ECHO = {"tools": ["echo"]}
SMALL_LOG_BYTES = 500
SMALL_LOG = f"""if True:
    import runpy
    from hub.shim import start_daemon
    start_daemon.LOG_BYTES = {SMALL_LOG_BYTES}
    runpy.run_module("hub", run_name="__main__", alter_sys=True)
"""
LISTED = "notifications/tools/list_changed"


def slow(file):
    """A server whose tool `slow` answers when `file` is gone."""
    return {"tools": ["echo", "slow"], "on": {"tools/call:slow": [["await_gone", str(file)], ["serve"]]}}


@contextlib.contextmanager
def controls(hub):
    with ControlClient(hub.config.parent / "run" / "hubd" / "control.sock") as client:
        yield client


def reload(hub):
    """Have the files read; what came of it. When this returns they are in effect, whoever noticed them first."""
    with controls(hub) as client:
        return client.request_both(RELOAD)[0]


def status(hub):
    with controls(hub) as client:
        return client.request_both(STATUS)[0]


def pids(hub):
    return {each["name"]: each["pid"] for each in status(hub)["upstreams"]}


class Attached(Host):
    """A host that has shaken hands, and keeps what it was told meanwhile."""

    def __init__(self, hub, **preamble):
        super().__init__(hub, **preamble)
        self.heard = []
        self._last = 0
        self.request("initialize", INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.request("tools/list", {})

    def begin(self, method, params):
        self._last += 1
        self.ask(self._last, method, params)
        return self._last

    def end(self, id):
        while True:
            message = self.receive()
            assert message is not None, "the hub hung up"
            if "method" in message:
                self.heard.append(message["method"])
            elif message["id"] == id:
                return message

    def request(self, method, params):
        return self.end(self.begin(method, params))

    def call(self, name, arguments=None):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})

    def names(self):
        return sorted(tool["name"] for tool in self.request("tools/list", {})["result"]["tools"])

    def hear_lists(self, times=1):
        """Wait until it has been told so often that lists changed."""
        while self.heard.count(LISTED) < times:
            message = self.receive()
            assert message is not None, "the hub hung up"
            if "method" in message:
                self.heard.append(message["method"])


def is_gone(pid):
    """Whether the process ends soon, or has."""
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(60)
    return not psutil.pid_exists(pid)


def is_fine(answer):
    return "result" in answer and not answer["result"].get("isError")


def rename_over(file, text):
    draft = file.with_name("draft")
    draft.write_text(text)
    draft.rename(file)


@pytest.mark.covers("F-C-07", "F-C-05", "F-C-04", "I-7")
def test_what_is_added_comes_and_what_is_removed_goes(tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    with running_hub(tmp_path, upstream("a", slow(gate)) + upstream("b", ECHO)) as hub, Attached(hub) as host:
        before = pids(hub)
        running = host.begin("tools/call", {"name": "a__slow", "arguments": {}})
        rename_over(hub.config, upstream("a", slow(gate)) + upstream("c", ECHO))
        host.hear_lists(2)  # one for what went, one for what came
        assert host.names() == ["a__echo", "a__slow", "c__echo"]
        assert is_fine(host.call("c__echo"))
        assert "configuration" in json.dumps(host.call("b__echo"))
        assert is_gone(before["b"])
        gate.unlink()
        assert is_fine(host.end(running))
        after = pids(hub)
        hub.config.write_text("# another comment\n" + hub.config.read_text())
        assert reload(hub)["changed"] is False
        assert pids(hub) == after
        assert after["a"] == before["a"]
        hub.config.write_text("drian_s = 1\n" + hub.config.read_text())
        assert 'did you mean "drain_s"?' in hubd(hub, "reload").stderr
        assert host.heard.count(LISTED) == 2


@pytest.mark.covers("F-C-02", "I-7")
def test_what_cannot_be_used_changes_nothing_and_is_shown_until_it_can(tmp_path):
    good = upstream("a", ECHO) + upstream("b", ECHO)
    with running_hub(tmp_path, good) as hub, Attached(hub) as host:
        before = pids(hub)
        hub.config.write_text(good.replace("[upstreams.b]", "[upstreams.b"))
        assert "line 5" in reload(hub)["problem"]
        done = hubd(hub, "reload")
        assert done.returncode == 78
        assert "line 5" in done.stderr
        assert "line 5" in status(hub)["config"]["problem"]
        wrong = [
            (good + "timeouts = 3\n", "timeouts"),
            (good.replace("[upstreams.b]", "[upstreams.A]"), "taken"),
            (good + "env = { TOKEN = '${NOT_SET_ANYWHERE}' }\n", "NOT_SET_ANYWHERE"),
        ]
        for text, says in wrong:
            hub.config.write_text(text)
            assert says in reload(hub)["problem"]
            assert is_fine(host.call("a__echo"))
        hub.config.write_text(good)
        assert reload(hub)["problem"] is None
        assert status(hub)["config"]["problem"] is None
        assert hubd(hub, "reload").returncode == 0
        assert pids(hub) == before
        assert host.heard == []


@pytest.mark.covers("F-C-03")
def test_half_a_file_is_no_file_and_no_file_is_not_no_upstreams(tmp_path):
    table = upstream("a", ECHO)
    lines = table.splitlines(keepends=True)
    text = "".join([lines[0], *lines[2:], lines[1].rstrip("\n")])  # the command comes last, so that no part is whole
    with running_hub(tmp_path, text) as hub, Attached(hub) as host:
        before = pids(hub)
        for length in range(0, len(text), 7):
            hub.config.write_text(text[:length])
            assert reload(hub)["problem"], text[:length]
        hub.config.unlink()
        assert "hubd.toml" in reload(hub)["problem"]
        hub.config.mkdir()
        assert reload(hub)["problem"]
        hub.config.rmdir()
        os.mkfifo(hub.config)
        assert reload(hub)["problem"]
        hub.config.unlink()
        assert is_fine(host.call("a__echo"))
        hub.config.write_text(text)
        assert reload(hub)["problem"] is None
        assert pids(hub) == before
        assert host.heard == []


@pytest.mark.covers("F-D-04")
def test_signals(tmp_path):
    with running_hub(tmp_path, upstream("a", ECHO)) as hub, Attached(hub) as host:
        for number in (signal.SIGUSR1, signal.SIGPIPE, signal.SIGHUP):
            assert hub.process.signalled(number) is None
        hub.config.write_text(upstream("a", ECHO) + upstream("b", ECHO))
        for _ in range(20):
            hub.process.signalled(signal.SIGHUP, patience_s=0.01)
        host.hear_lists()
        assert host.names() == ["a__echo", "b__echo"]
        assert hub.process.stop() == 0


@pytest.mark.covers("F-C-09", "F-C-02")
def test_another_address_is_bound_before_the_old_one_is_left(tmp_path):
    gate = tmp_path / "gate"
    gate.touch()
    first, second = free_port(), free_port()
    table = upstream("a", slow(gate)) + upstream("b", ECHO)

    def text(port):
        return f'listen = "127.0.0.1:{port}"\nauth = "none"\n{table}'

    env = own_directories(tmp_path)
    file = tmp_path / "hubd.toml"
    file.write_text(text(first))
    argv = [HUBD, "serve", "--config", file]
    with running(argv, tmp_path / "hubd.log", env=env, cwd=tmp_path, forked=True) as process:
        url = process.wait_for(r"https?://[^\s\"]+/mcp")[0]
        hub = Hub(url, None, env, file, process)
        for tool in ("a__echo", "b__echo"):
            assert Post(hub, tool, {}).answer()[0] == 200
        before = pids(hub)
        running_call = Post(hub, "a__slow", {})
        file.write_text(text(second))
        assert reload(hub)["problem"] is None
        moved = Hub(f"http://127.0.0.1:{second}/mcp", None, env, file, process)
        assert Post(moved, "b__echo", {}).answer()[0] == 200
        with pytest.raises(ConnectionRefusedError):
            Post(hub, "b__echo", {})
        gate.unlink()
        assert running_call.answer()[0] == 200
        with socket.create_server(("127.0.0.1", first)):
            file.write_text(text(first))
            assert "cannot listen" in reload(hub)["problem"]
            assert Post(moved, "b__echo", {}).answer()[0] == 200
        file.write_text(text(second).replace('"none"', '"token"'))
        assert reload(hub)["problem"] is None
        assert Post(moved, "b__echo", {}).answer()[0] == 401
        token = hubd(hub, "token").stdout.strip()
        assert Post(moved, "b__echo", {}, token=token).answer()[0] == 200
        assert pids(hub) == before


@pytest.mark.covers("F-C-06", "I-7")
def test_one_that_cannot_be_replaced_goes_on(tmp_path):
    first = 'replace = "start-first"\n'
    with running_hub(tmp_path, upstream("a", ECHO) + first) as hub, Attached(hub) as host:
        before = pids(hub)
        hub.config.write_text(upstream("a", {"start": [["exit", 3]]}) + first)
        assert reload(hub)["problem"] is None
        while not status(hub)["upstreams"][0]["stale_config"]:
            assert is_fine(host.call("a__echo"))
        assert is_fine(host.call("a__echo"))
        assert "still runs with its old settings" in hubd(hub, "status").stdout
        assert pids(hub) == before
        hub.config.write_text(upstream("a", {"tools": ["echo", "more"]}) + first)
        assert reload(hub)["problem"] is None
        host.hear_lists()
        assert is_fine(host.call("a__more"))
        while status(hub)["upstreams"][0]["stale_config"]:
            assert is_fine(host.call("a__more"))
        assert is_gone(before["a"])


@pytest.mark.covers("F-C-06", "I-7")
def test_a_server_is_changed_for_another_without_a_gap(tmp_path):
    """Two real servers over HTTP: hubs, whose upstreams have bare names."""
    for name in ("one", "two", "outer"):
        (tmp_path / name).mkdir()
    bare = upstream("a", ECHO) + 'prefix = ""\n'
    with (
        running_hub(tmp_path / "one", bare, auth="none") as one,
        running_hub(tmp_path / "two", bare, auth="none") as two,
        running_hub(tmp_path / "outer", f"[upstreams.web]\nurl = '{one.url}'\n") as hub,
        Attached(hub) as host,
        Attached(hub) as other,
    ):
        stop, failed = threading.Event(), []

        def keep_calling():
            while not stop.is_set():
                answer = other.call("web__echo")
                if not is_fine(answer):
                    failed.append(answer)

        thread = threading.Thread(target=keep_calling)
        thread.start()
        try:
            for target in (two, one, two):
                hub.config.write_text(f"[upstreams.web]\nurl = '{target.url}'\n")
                assert reload(hub)["problem"] is None
                while status(hub)["upstreams"][0]["stale_config"]:
                    assert is_fine(host.call("web__echo"))
        finally:
            stop.set()
            thread.join(60)
        assert failed == []
        one.process.stop()
        assert is_fine(host.call("web__echo"))


@pytest.mark.covers("F-C-11", "F-C-06")
def test_a_rotated_secret_restarts_only_what_uses_it(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("one")
    secret.chmod(0o600)
    shown = {"tools": ["show"], "on": {"tools/call:show": [["environment"]]}}
    text = upstream("a", shown) + f"env = {{ TOKEN = '${{file:{secret}}}' }}\n" + upstream("b", ECHO)
    with running_hub(tmp_path, text) as hub, Attached(hub) as host:
        before = pids(hub)
        assert '\\"TOKEN\\": \\"one\\"' in json.dumps(host.call("a__show"))
        secret.write_text("two")
        assert reload(hub)["problem"] is None
        assert '\\"TOKEN\\": \\"two\\"' in json.dumps(host.call("a__show"))
        after = pids(hub)
        assert (after["a"] == before["a"], after["b"] == before["b"]) == (False, True)
        secret.unlink()
        assert reload(hub)["problem"]
        assert pids(hub) == after


def test_a_hub_that_found_nothing_takes_what_comes(tmp_path):
    env = own_directories(tmp_path)
    argv = [HUBD, "serve", "--listen", "127.0.0.1:0"]
    with running(argv, tmp_path / "hubd.log", env=env, cwd=tmp_path, forked=True) as process:
        url = process.wait_for(r"https?://[^\s\"]+/mcp")[0]
        file = tmp_path / "xdg_config_home" / "hubd" / "hubd.toml"
        hub = Hub(url, None, env, tmp_path / "hubd.toml", process)
        with Attached(hub) as host:
            assert "demo__add" in host.names()
            file.parent.mkdir()
            file.write_text(upstream("a", ECHO))
            host.hear_lists(2)
            assert host.names() == ["a__echo"]
            assert status(hub)["config"]["files"] == [str(file)]
            file.unlink()
            assert "gone" in reload(hub)["problem"]
            assert host.names() == ["a__echo"]


def test_one_that_serves_a_single_host_follows_its_file_as_well(tmp_path):
    file = tmp_path / "hubd.toml"
    file.write_text(DEMO)
    with running(
        [HUBD, "serve", "--stdio", "--config", file], tmp_path / "log", env=own_directories(tmp_path), forked=True
    ) as hub:

        def say(**message):
            hub.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        say(id=1, method="initialize", params=INITIALIZE)
        hub.wait_for(r'"id":1\b')
        say(method="notifications/initialized")
        say(id=2, method="tools/list", params={})
        hub.wait_for(r"demo__add")
        file.write_text(DEMO + upstream("a", ECHO))
        hub.wait_for(LISTED)
        say(id=3, method="tools/list", params={})
        hub.wait_for(r"a__echo")


def test_the_log_goes_on_in_a_new_file(tmp_path):
    """That of a hub which a shim started, in the state directory."""
    env = own_directories(tmp_path)
    state = tmp_path / "xdg_state_home" / "hubd"
    state.mkdir(mode=0o700)
    log = state / "hubd.log"
    file = tmp_path / "hubd.toml"
    file.write_text(upstream("a", ECHO))
    with running(
        [HUBD, "serve", "--config", file, "--listen", "127.0.0.1:0"], log, env=env, cwd=tmp_path, forked=True
    ) as process:
        process.wait_for(r"https?://[^\s\"]+/mcp")
        log.rename(state / "hubd.log.1")
        process.signalled(signal.SIGUSR1)
        hub = Hub("", None, env, file, process)
        with Attached(hub):
            file.write_text(upstream("b", ECHO))
            assert reload(hub)["problem"] is None
        assert process.stop() == 0
        assert "added b" in log.read_text()
        assert "added b" not in (state / "hubd.log.1").read_text()


@pytest.mark.covers("F-P-23", "F-D-04")
def test_the_log_of_a_running_hub_is_put_aside_once_it_is_large(tmp_path):
    env = own_directories(tmp_path)
    state = tmp_path / "xdg_state_home" / "hubd"
    state.mkdir(mode=0o700)
    log, aside = state / "hubd.log", state / "hubd.log.1"
    file = tmp_path / "hubd.toml"
    file.write_text(upstream("a", ECHO))
    argv = [sys.executable, "-c", SMALL_LOG, "serve", "--config", file, "--listen", "127.0.0.1:0"]
    with running(argv, log, env=env, cwd=tmp_path) as process:
        process.wait_for(r"https?://[^\s\"]+/mcp")
        hub = Hub("", None, env, file, process)
        with Attached(hub):
            for name in "bcde":
                file.write_text(upstream(name, ECHO))
                assert reload(hub)["problem"] is None
        assert process.stop() == 0
        assert "added e" in aside.read_text() + log.read_text()
        assert 0 < log.stat().st_size <= SMALL_LOG_BYTES + LINE_BYTES
        assert SMALL_LOG_BYTES < aside.stat().st_size <= SMALL_LOG_BYTES + LINE_BYTES


# --- what is not there at the start -----------------------------------------------------------------------------------


def states(hub):
    return {each["name"]: each["state"] for each in status(hub)["upstreams"]}


LACKING = "env = { TOKEN = '${NOT_SET_ANYWHERE}' }\n"


@pytest.mark.covers("F-C-02", "F-C-11", "I-2")
def test_an_upstream_whose_variable_is_missing_at_the_start_is_left_out_until_it_is_there(tmp_path):
    text = upstream("a", ECHO) + upstream("b", ECHO) + LACKING + "[profiles.p]\ntools = ['a__*', '*__query']\n"
    own = tmp_path / "hubd.env"
    with running_hub(tmp_path, text) as hub, Attached(hub) as host:
        assert host.names() == ["a__echo"]
        assert states(hub)["b"] == "unresolved"
        shown = " ".join(hubd(hub, "status").stdout.split())
        assert f"{hub.config}, line 9: upstreams.b.env.TOKEN: the variable NOT_SET_ANYWHERE is not set" in shown
        assert f"in {own} for instance, the server is started within seconds" in shown
        assert "mean no tool" not in shown, "it may be a tool of b"
        assert "NOT_SET_ANYWHERE is not set" in hubd(hub, "call", "b__echo").stderr
        assert "NOT_SET_ANYWHERE is not set" in hubd(hub, "restart", "b").stderr
        before = pids(hub)["a"]
        own.write_text("NOT_SET_ANYWHERE=1\n")
        host.hear_lists()
        assert host.names() == ["a__echo", "b__echo"]
        assert "'*__query'" in hubd(hub, "status").stdout
        assert pids(hub)["a"] == before
        assert reload(hub)["problem"] is None
        own.write_text("OTHER=1\n")  # now there is something to keep
        assert "NOT_SET_ANYWHERE" in reload(hub)["problem"]
        assert is_fine(host.call("b__echo"))


@pytest.mark.covers("F-C-02")
def test_a_server_that_lacks_a_variable_keeps_nothing_else_from_being_changed_unless_it_runs(tmp_path):
    text = upstream("b", ECHO) + LACKING
    off = upstream("d", ECHO) + LACKING
    with running_hub(tmp_path, text) as hub:
        hub.config.write_text(text + upstream("a", ECHO))
        assert reload(hub)["problem"] is None
        assert (list(states(hub)), states(hub)["b"]) == (["a", "b"], "unresolved")
        hub.config.write_text(text + upstream("a", ECHO) + upstream("c", ECHO) + LACKING + f"{off}disabled = true\n")
        told = reload(hub)
        assert told["problem"] is None
        assert "c is not started until its references can be resolved" in str(told["warnings"])
        assert (states(hub)["c"], states(hub)["d"]) == ("unresolved", "disabled")
        hub.config.write_text(text + upstream("a", ECHO) + off)
        assert reload(hub)["problem"] is None
        assert list(states(hub)) == ["a", "b", "d"]
        assert states(hub)["d"] == "unresolved"
        hub.config.write_text(text + upstream("a", ECHO) + LACKING)
        assert "upstreams.a.env.TOKEN" in reload(hub)["problem"]
        hub.config.write_text(upstream("a", ECHO))
        assert reload(hub)["problem"] is None
        assert list(states(hub)) == ["a"]


@pytest.mark.covers("F-C-01", "F-H-23")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("token = '${NOT_SET_ANYWHERE}'\n", "token: the variable NOT_SET_ANYWHERE is not set"),
        ("[upstreams.a]\ncommand = 'sh'\nargs = ['${']\n", "write `$${` for a plain `${`"),
        ("[upstreams.a]\ncommand = 'sh'\nargs = ['${NOT_SET_ANYWHERE}']\nera = 'x'\n", "1 more problem"),
    ],
)
def test_a_host_is_told_which_configuration_the_hub_refuses_to_start_with(tmp_path, text, says):
    env = own_directories(tmp_path)
    (config := tmp_path / "xdg_config_home" / "hubd" / "hubd.toml").parent.mkdir(mode=0o700)
    config.write_text(text)
    done = subprocess.run([HUBD, "connect"], env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.PIPE)
    assert done.returncode == 78
    assert f"hubd connect: the hub did not start: {config}, line" in done.stderr
    assert says in done.stderr
    assert "the hub does not start until that is right: correct it there, or by `hubd edit`" in done.stderr
