"""The daemon when things go wrong: nothing outlives it, of many there is one, and it says what it did about it."""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.attached import DEMO, INITIALIZE, SCRIPTED, Post, children, ended, hubd, ready, upstream
from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.looking import servers, until, until_connected
from tests.support.processes import HUBD, Hub, own_directories, running, running_hub
from tests.support.restarts import TICK


def pid_in(file):
    return psutil.Process(int(file.read_text()))


def leaving(file, *how):
    """A server whose tool `leave` leaves a grandchild behind."""
    return upstream("scripted", {"on": {"tools/call:leave": [["fork", str(file), *how], ["serve"]]}})


def leave(host):
    host.ask(5, "tools/call", {"name": "scripted__leave"})
    assert "result" in host.receive()


@contextlib.contextmanager
def on_stdio(directory, config):
    """`hubd serve --stdio`, and a function to ask it."""
    env = own_directories(directory)
    (file := directory / "stdio.toml").write_text(config)
    with running(
        [HUBD, "serve", "--stdio", "--config", file], directory / "stdio.log", env=env, forked=True
    ) as process:

        def ask(id, method, params):
            process.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
            process.wait_for(rf'"id":{id}\b')

        ask(0, "initialize", INITIALIZE)
        ask(1, "tools/list", {})
        yield process, ask


# --- nothing outlives the hub -----------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-20", "I-8", "F-D-01")
@pytest.mark.parametrize("how", [(False, False), (True, False), (True, True)], ids=["group", "session", "bare"])
def test_a_hub_that_is_stopped_leaves_nothing_whatever_its_children_did(tmp_path, how):
    with running_hub(tmp_path, leaving(file := tmp_path / "pid", *how)) as hub, ready(hub) as host:
        leave(host)
        grandchild = pid_in(file)
        assert grandchild.ppid() == hub.process.pid, "it was adopted"
        left = children(hub)
        assert grandchild in left
        os.kill(hub.process.pid, signal.SIGTERM)
        assert hub.process.exit_code() == 0
        assert not any(psutil.pid_exists(process.pid) for process in left)


@pytest.mark.covers("F-P-20", "I-12")
def test_what_was_adopted_is_reaped_while_the_hub_runs(tmp_path):
    with running_hub(tmp_path, leaving(file := tmp_path / "pid", True, True, True)) as hub, ready(hub) as host:
        for _ in range(5):
            leave(host)
            assert not pid_in_any_state(file)
        assert [process.status() for process in children(hub)].count(psutil.STATUS_ZOMBIE) == 0


def pid_in_any_state(file):
    """Whether it is still there after a moment."""
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(int(file.read_text()))
        with contextlib.closing(os.fdopen(pidfd)):
            assert select.select([pidfd], [], [], 20)[0]
        while psutil.pid_exists(int(file.read_text())):
            pass  # it is being reaped
    return False


@pytest.mark.alone  # every hub ends what belongs to dead ones
@pytest.mark.covers("F-D-03", "M-05", "I-8")
@pytest.mark.parametrize("next_one", ["serve", "serve --stdio"])
@pytest.mark.parametrize("setsid", [False, True])
def test_whatever_a_killed_hub_left_is_gone_after_any_hub_s_start(tmp_path, next_one, setsid):
    """The killed one was on stdio, and nobody remembers it."""
    with on_stdio(tmp_path, leaving(file := tmp_path / "pid", setsid)) as (process, ask):
        ask(5, "tools/call", {"name": "scripted__leave"})
        left = psutil.Process(process.pid).children(recursive=True)
        assert pid_in(file) in left
        os.kill(process.pid, signal.SIGKILL)
        process.exit_code()
        assert pid_in(file).is_running()
        if next_one == "serve":
            with running_hub(tmp_path / "e", DEMO):
                assert ended(left)
        else:
            with on_stdio(tmp_path, DEMO):
                assert ended(left)


@pytest.mark.covers("F-D-03", "I-8")
def test_a_start_leaves_the_children_of_living_hubs_alone(tmp_path):
    with running_hub(tmp_path / "a", DEMO) as hub, ready(hub), on_stdio(tmp_path, DEMO) as (process, _):
        kept = [*children(hub), *psutil.Process(process.pid).children(recursive=True)]
        assert len(kept) >= 2
        with running_hub(tmp_path / "b", DEMO) as another, ready(another):
            assert all(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in kept)
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"


# --- faults of its own ------------------------------------------------------------------------------------------------

BROKEN = """if True:
    import sys, trio
    from hub.daemon import serve as daemon
    from hub.daemon.served_configuration import ServeOptions
    where, stdio, *arguments = sys.argv[1:]

    class Broken(daemon.Hub):
        async def run(self, *, task_status=trio.TASK_STATUS_IGNORED):
            if where == "start":
                raise ZeroDivisionError("a bug")
            async with trio.open_nursery() as nursery:
                await nursery.start(super().run)
                await self.supervisor.settled.wait()
                if where == "settled":
                    raise ZeroDivisionError("a bug")
                task_status.started()
                await trio.sleep(0.2)
                if where == "group":
                    nursery.start_soon(trio.sleep, "a bug")
                    nursery.start_soon(trio.sleep, "another")
                else:
                    raise trio.TrioInternalError("a bug of trio's")

    daemon.Hub = Broken
    from pathlib import Path
    options = ServeOptions(config=Path(arguments[0]), listen="127.0.0.1:0", stdio=bool(stdio))
    sys.exit(daemon.run_serve(options))
"""


@pytest.mark.covers("F-D-14", "I-8")
@pytest.mark.parametrize(("where", "stdio"), draw(3, ["start", "settled", "group", "internal"], ["", "stdio"]))
def test_a_fault_that_nothing_can_deal_with_stops_the_hub_in_order(tmp_path, where, stdio):
    script = {"start": [["fork", str(tmp_path / "pid"), True, True]]}
    (config := tmp_path / "hubd.toml").write_text(upstream("scripted", script))
    env = own_directories(tmp_path)
    argv = [sys.executable, "-I", "-c", BROKEN, where, stdio, config]
    with running(argv, tmp_path / "log", env=env) as process:
        assert process.exit_code() == 70
        assert "stopped because of a bug" in process.tail()
    if where != "start":
        assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert not list(Path(env["XDG_RUNTIME_DIR"]).rglob("*.sock"))


WITHOUT_INOTIFY = ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"', "sh"]
"""A namespace of its own, so that nobody else is without them."""


@pytest.mark.covers("F-D-07", "F-D-13")
def test_a_user_without_inotify_instances_has_a_hub(tmp_path):
    if subprocess.run([*WITHOUT_INOTIFY, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here; tests/config/test_file_watcher.py injects the error")
    (config := tmp_path / "hubd.toml").write_text(DEMO)
    env = own_directories(tmp_path)
    argv = [*WITHOUT_INOTIFY, HUBD, "serve", "--listen", "127.0.0.1:0", "--config", config]
    with running(argv, tmp_path / "log", env=env) as process:
        url = process.wait_for(r"hubd listens on (\S+)")[1]
        hub = Hub(url, None, env, tmp_path, process)
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
        (tmp_path / "upstreams.d").mkdir()  # which has it look anew
        (tmp_path / "upstreams.d" / "more.toml").write_text("[upstreams.more]\ncommand = 'false'\n")
        until(env, lambda rows: "more" in rows)  # it is looked at now and then
        assert "cannot watch configuration files" in process.log.read_text()
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
        assert json.loads(hubd(hub, "status", "--json").stdout)["faults"] == 0


@pytest.mark.covers("F-D-12", "F-D-13")
def test_status_tells_of_faults_and_of_standing_still(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        status = json.loads(hubd(hub, "status", "--json").stdout)
        assert status["loop"].keys() == {"blocked", "longest_s"}
        assert status["faults"] == 0
        names = re.findall(r'"([^"]+)":', json.dumps(status))
        assert [name for name in names if name != name.lower()] == [], "all members are named in one way"


@pytest.mark.covers("F-D-15", "F-P-01")
def test_a_server_that_is_still_being_written_is_started_when_it_is_whole(tmp_path):
    server = tmp_path / "server"
    server.write_text(f"#!{sys.executable} -IS\n" + SCRIPTED.read_text())
    server.chmod(0o755)
    config = f"[upstreams.late]\ncommand = {json.dumps(str(server))}\nargs = ['{{}}']\n" + DEMO
    with server.open("a") as still_open, running_hub(tmp_path, config) as hub:
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
        assert "is being written; it is tried again" in servers(hub.env)["late"]["last_error"]
        still_open.close()
        until_connected(hub.env, "late")


@pytest.mark.covers("F-D-18")
def test_what_a_newer_hub_remembers_is_left_alone(tmp_path):
    """The hub starts all the same, since none of that is more than a hint."""
    state = Path(own_directories(tmp_path)["XDG_STATE_HOME"], "hubd")
    (catalogue := state / "catalogue").mkdir(mode=0o700, parents=True)
    state.chmod(0o700)
    files = {state / "memory.json": '{"format":99,"sections":{}}', catalogue / "demo.json": '{"format":99}\n{}'}
    for file, text in files.items():
        file.write_text(text)
        file.chmod(0o600)
    with running_hub(tmp_path, DEMO) as hub:
        assert hubd(hub, "call", "demo__add", "a=2", "b=40").stdout.strip() == "2 + 40 = 42"
    assert hub.process.tail().count("written by a") == 2
    for file, text in files.items():
        assert file.read_text() == text


@pytest.mark.covers("F-D-05", "F-D-06")
def test_a_hub_removes_what_killed_ones_have_not_finished(tmp_path):
    state = Path(own_directories(tmp_path)["XDG_STATE_HOME"], "hubd")
    state.mkdir(mode=0o700)
    old, young = state / "sessions.json.0123abcd.new", state / "memory.json.0123abcd.new"
    for each in (old, young):
        each.write_text("half")
    os.utime(old, (0, 0))
    with running_hub(tmp_path, DEMO):
        assert not old.exists()
        assert young.exists(), "somebody may be writing it"


@pytest.mark.covers("F-D-05", "F-D-06")
def test_a_hub_that_can_keep_nothing_serves_hosts_all_the_same(tmp_path):
    env = own_directories(tmp_path)
    (tmp_path / "xdg_state_home").rmdir()
    (tmp_path / "xdg_state_home").write_text("in the way")
    (config := tmp_path / "hubd.toml").write_text(DEMO)
    argv = [HUBD, "serve", "--config", config, "--listen", "127.0.0.1:0"]
    with running(argv, tmp_path / "log", env=env, cwd=tmp_path, forked=True) as process:
        hub = Hub(process.wait_for(r"https?://[^\s\"]+/mcp")[0], None, env, config, process)
        with ready(hub) as host:
            for id, change in ((5, ""), (6, "page_size = 9\n")):
                config.write_text(change + DEMO)
                assert hubd(hub, "reload").returncode == 0
                host.ask(id, "tools/call", {"name": "demo__add", "arguments": {"a": 2, "b": 40}})
                while (answer := host.receive()).get("id") != id:
                    pass
                assert "42" in json.dumps(answer)
                status, _ = Post(hub, "demo__add", {"a": 2, "b": 40}, token="guessed-and-guessed").answer()
                assert status == 401

        assert "nobody is let in by HTTP" in process.tail()


def test_a_hub_that_makes_way_leaves_the_sockets_of_the_next_one(tmp_path):
    with running_hub(tmp_path, DEMO) as hub:
        sock = tmp_path / "run/hubd/hubd.sock"
        sock.unlink()
        sock.write_text("of the next one")
        hub.process.stop()
        assert sock.read_text() == "of the next one"
        assert not sock.with_name("control.sock").exists()


# --- of many there is one ---------------------------------------------------------------------------------------------


@pytest.mark.in_turn(1)
@pytest.mark.covers("F-D-09")
def test_of_twenty_daemons_that_start_at_once_one_stays(tmp_path):
    env = own_directories(tmp_path)
    (config := tmp_path / "hubd.toml").write_text("[upstreams]\n")
    argv = [HUBD, "serve", "--config", config, "--listen", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        racers = [
            stack.enter_context(running(argv, tmp_path / f"log-{number}", env=env, forked=True)) for number in range(20)
        ]
        while len(left := [racer for racer in racers if racer.is_running()]) > 1:
            TICK.wait(0.01)
        [winner] = left
        winner.wait_for("hubd listens on")
        losers = [racer for racer in racers if racer is not winner]
        assert [racer.exit_code() for racer in losers] == [75] * 19
        assert all(f"already running (process {winner.pid})" in racer.tail() for racer in losers)
        assert winner.is_running()
        assert winner.stop() == 0


@pytest.mark.in_turn(1)
@pytest.mark.covers("F-D-09", "F-H-23")
def test_twenty_shims_that_start_at_once_share_one_daemon_and_its_upstreams(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"], "hubd")
    config.mkdir(mode=0o700)
    (config / "hubd.toml").write_text('listen = "127.0.0.1:0"\n' + DEMO)
    ask = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "demo__add", "arguments": {"a": 2, "b": 40}},
        },
    ]
    pipe = subprocess.PIPE
    shims = [
        subprocess.Popen([HUBD, "connect"], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(20)
    ]
    lock = Path(env["XDG_RUNTIME_DIR"], "hubd", "hubd.lock")
    try:
        for shim in shims:
            shim.stdin.write("".join(json.dumps(each) + "\n" for each in ask))
            shim.stdin.flush()
        for shim in shims:
            answers = {message["id"]: message for message in map(json.loads, [shim.stdout.readline() for _ in ask])}
            assert answers[2]["result"]["content"][0]["text"] == "2 + 40 = 42"
        daemon = psutil.Process(int(lock.read_text()))
        family = [daemon, *daemon.children(recursive=True)]
        marked = [process for process in psutil.process_iter() if _belongs_to(process, env)]
        daemons = [process for process in marked if "serve" in _argv(process)]
        demos = [process for process in marked if "upstreams.demo" in _argv(process)]
        assert daemons == [daemon]
        assert len(demos) == 1
        assert demos[0] in family
        assert "mcpServers" not in Path(env["XDG_STATE_HOME"], "hubd", "hubd.log").read_text(), "nobody is to paste"
    finally:
        for shim in shims:
            shim.communicate(timeout=30)
        run_hubd(["stop"], env)
    assert ended(family)


def _argv(process):
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def _belongs_to(process, env):
    with contextlib.suppress(psutil.Error):
        return process.environ().get("HOME") == env["HOME"]
    return False
