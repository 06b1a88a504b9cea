"""A hub that hangs: every command says so, with its process, and `hubd stop --force` ends it."""

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from hub.cli.background_hub import force_stop
from hub.cli.context import Output, UsageError
from hub.control.client_errors import HubNotRunning
from hub.daemon.bind_unix import bind_unix, take_lock
from tests.support.attached import ASK, DEMO, children, ended, hubd, ready, upstream
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, running, running_hub

COMMANDS = (
    "status",
    "status --json",
    "start",
    "stop",
    "tools",
    "tools --cost",
    "call demo__echo text=x",
    "read demo://x",
    "logs",
    "logs -f",
    "restart demo",
    "reload",
    "cache",
    "cache clear",
    "auth demo",
    "auth --status",
    "env demo",
    "profiles",
    "profile suggest work",
    "add other -- true",
    "setup --yes --no-service",
    "doctor",
)


@pytest.fixture
def hung(tmp_path):
    config = Path(tmp_path / "xdg_config_home", "hubd", "hubd.toml")
    config.parent.mkdir(parents=True)
    config.write_text(DEMO)
    with running_hub(tmp_path, DEMO) as hub:
        with ready(hub):
            hub.process.signalled(signal.SIGSTOP)
        yield hub
        hub.process.signalled(signal.SIGCONT)


def test_every_command_says_that_the_hub_hangs_and_what_to_do(hung, tmp_path):
    said = f"the hub (process {hung.process.pid}) hangs: it takes connections and does not answer"
    with (
        ThreadPoolExecutor(len(COMMANDS)) as pool,
        running([HUBD, "connect"], tmp_path / "connect", env=hung.env, merged=True, forked=True) as host,
    ):
        host.write(json.dumps(ASK).encode() + b"\n")
        runs = {words: pool.submit(run_hubd, words.split(), hung.env) for words in COMMANDS}
        outputs = {words: run.result() for words, run in runs.items()}
        host.wait_for(rf"^hubd connect: the hub \(process {hung.process.pid}\) hangs: .* `hubd stop --force` ends it")
        hung.process.signalled(signal.SIGCONT)
        _, answer = sorted(host.wait_for('^hubd connect: the hub goes on|"jsonrpc"').string for _ in range(2))
        assert json.loads(answer)["id"] == ASK["id"], "nothing is lost if it goes on"
    for words, done in outputs.items():
        assert said in done.stdout + done.stderr, done
        assert "`hubd stop --force`" in done.stdout + done.stderr, done
        assert done.returncode == (1 if words == "doctor" else 69), done
    told = json.loads(outputs["status --json"].stdout)
    assert (told["hub"], told["pid"], told["error"]["code"]) == ("hangs", hung.process.pid, 69)


def test_the_own_log_of_a_hub_that_hangs_is_read_from_its_file(hung):
    file = Path(hung.env["XDG_STATE_HOME"], "hubd", "hubd.log")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("its last words\n")
    done = hubd(hung, "logs", "hub", "-n", "1")
    assert (done.returncode, done.stdout.split("  ", 1)[1]) == (0, "stderr  its last words\n")
    told = " ".join(done.stderr.split())
    assert told.startswith(f"hubd: the hub (process {hung.process.pid}) hangs: ")
    assert "`hubd stop --force`" in told
    assert told.endswith(f"hubd: note: the hub hangs; it left this in {file}")
    done = hubd(hung, "logs", "hub", "--json")
    assert (done.returncode, json.loads(done.stdout)["text"]) == (0, "its last words")
    assert "`hubd stop --force`" in done.stderr


def test_a_hub_that_hangs_is_stopped_in_order_by_force(hung):
    servers = children(hung)
    assert servers
    done = hubd(hung, "stop", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"stopped the hub (process {hung.process.pid}): it ended in order\n"
    assert hung.process.exit_code() == 0
    assert ended(servers)
    assert hubd(hung, "status").returncode == 69
    assert hubd(hung, "stop", "--force").returncode == 69
    assert "started; it listens" in hubd(hung, "start").stdout
    assert hubd(hung, "stop", "--force").stdout == "stopped\n"


def test_an_import_does_not_guess_the_files_of_a_hub_that_hangs_and_an_install_needs_them_not(hung):
    path = Path(hung.env["HOME"], ".kiro", "settings", "mcp.json")
    path.parent.mkdir(parents=True)
    path.write_text(text := '{"mcpServers": {"a": {"command": "true"}}}')
    done = hubd(hung, "import", "kiro", "--yes")
    assert (done.returncode, path.read_text()) == (69, text)
    assert "hangs" in done.stderr
    done = hubd(hung, "install", "kiro")
    assert (done.returncode, list(json.loads(path.read_text())["mcpServers"])) == (0, ["a", "hub"])


@pytest.mark.alone  # another hub would kill them first
def test_a_hub_that_does_not_end_is_killed_with_its_servers(tmp_path, monkeypatch, capsys):
    stays = tmp_path / "pid"
    with running_hub(tmp_path, upstream("bad", {"start": [["fork", str(stays)]]})) as hub:
        with ready(hub):
            servers = [*children(hub), psutil.Process(int(stays.read_text()))]
        hub.process.signalled(signal.SIGSTOP)
        monkeypatch.setattr("hub.cli.background_hub.SIGNALS", ((signal.SIGKILL, 60.0),))
        force_stop(Path(hub.env["XDG_RUNTIME_DIR"], "hubd", "control.sock"), Output(json=False))
        assert hub.process.exit_code() == -signal.SIGKILL
    said = capsys.readouterr().out
    assert said.startswith(
        f"stopped the hub (process {hub.process.pid}): it was killed, since it did not end by itself; "
    )
    assert ended(servers)


def test_a_process_that_does_not_listen_for_the_hub_is_left_alone(tmp_path):
    """As in a container that shares the directory: the pid in the lock means another process there."""
    control = tmp_path / "control.sock"
    made = subprocess.run(["sh", "-c", "sleep 60 >&- 2>&- & echo $!"], capture_output=True, text=True, check=True)
    other = psutil.Process(int(made.stdout))  # no child of this one
    try:
        with bind_unix(control), take_lock(tmp_path / "hubd.lock"):
            (tmp_path / "hubd.lock").write_text(f"{other.pid}\n")
            with pytest.raises(UsageError, match=f"process {os.getpid()} listens on .* names process {other.pid}"):
                force_stop(control, Output(json=False))
        assert other.is_running()
        with pytest.raises(HubNotRunning):
            force_stop(control, Output(json=False))
        assert other.is_running()
    finally:
        other.kill()
