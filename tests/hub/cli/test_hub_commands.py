"""`hubd logs`, `restart` and `status` with a real daemon and real processes: what shows of an upstream in trouble."""

import json
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import looking
from tests.support.attached import hubd
from tests.support.processes import HUBD, running, running_hub
from tests.support.restarts import TICK

SCRIPTED = Path(__file__).parents[2] / "support" / "scripted.py"
PATIENCE_S = 60


def toml(name, script, **settings):
    """A server that does what `script` says, as a table of a hubd.toml."""
    args = json.dumps(["-I", "-S", str(SCRIPTED), json.dumps(script)])
    more = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return f"[upstreams.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n{more}"


def of(hub, name):
    """The row of an upstream in `hubd status --json`."""
    done = hubd(hub, "status", "--json")
    assert done.returncode == 0, done.stderr
    return next(each for each in json.loads(done.stdout)["upstreams"] if each["name"] == name)


def until(hub, name, condition):
    """Its row, once it is as wanted."""
    return looking.until(hub.env, lambda rows: condition(rows[name]))[name]


def until_told(hub, name, text, times):
    """What its log says, once it says `text` so often: a process ends a moment after its server is idle."""
    for _ in range(round(PATIENCE_S / looking.LOOK_S)):
        told = hubd(hub, "logs", name).stdout
        if told.count(text) >= times:
            return told
        TICK.wait(looking.LOOK_S)
    raise AssertionError(told)


def has_ended(pid):
    """Whether a process is over, if perhaps not waited for."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.covers("F-P-02", "F-P-23", "SEC-61", "I-9")
def test_logs_show_and_follow_what_a_server_says_and_what_becomes_of_it(tmp_path):
    script = {
        "start": [["stderr", "starting with hunter2\n"]],
        "on": {"tools/call:die": [["stderr", "bye\n"], ["exit", 3]]},
    }
    config = toml("talker", script) + '[upstreams.talker.env]\nKEY = "hunter2"\n'
    config += '[upstreams.off]\ncommand = "none"\ndisabled = true\n'
    with running_hub(tmp_path, config) as hub:
        until(hub, "talker", lambda row: row["state"] == "connected")
        done = hubd(hub, "logs", "talker")
        assert done.returncode == 0
        lines = [
            re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (\w+) +(.*)", line) for line in done.stdout.splitlines()
        ]
        found = [line.groups() for line in lines if line]
        assert len(found) == len(lines)
        assert ("state", "connecting") in found
        assert ("stderr", "starting with ***") in found
        assert any(kind == "state" and text.startswith("connected: ") for kind, text in found)
        assert hubd(hub, "logs", "talker", "-n", "1").stdout.count("\n") == 1
        assert "hunter2" not in hub.process.tail() + done.stdout

        with running(
            [HUBD, "logs", "talker", "-f", "-n", "1"], tmp_path / "follow", env=hub.env, forked=True
        ) as follower:
            follower.wait_for(r"^\d{4}-")  # it follows
            with running(
                [HUBD, "logs", "talker", "-f", "--json"], tmp_path / "json", env=hub.env, forked=True
            ) as other:
                other.wait_for('"text": "connecting"')
                assert hubd(hub, "call", "talker__die").returncode == 1
                follower.wait_for(r"stderr  bye$")
                follower.wait_for(r"exit    exited with status 3$")
                follower.wait_for(r"state   next attempt in \d")
                follower.wait_for(r"state   connected: ")
                record = json.loads(other.wait_for(".*next attempt.*")[0])
                assert record["kind"] == "state"
            assert follower.signalled(signal.SIGINT, patience_s=PATIENCE_S) == 130

        row = of(hub, "talker")
        assert row["restarts"] == 1
        assert (row["last_exit"]["code"], row["last_exit"]["signal"]) == (3, None)
        assert row["last_exit"]["said"] == ["starting with ***", "bye"]
        assert row["health"] == "ok"

        done = hubd(hub, "logs", "nobody")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no server nobody; there are: talker, off" in done.stderr
        assert "expected a number of lines such as 50, not few" in hubd(hub, "logs", "talker", "-n", "few").stderr
        off = hubd(hub, "logs", "off")
        assert (off.returncode, off.stdout) == (0, "")
        assert "no log of off" in off.stderr


def test_logs_of_the_hub_and_all_servers_by_time(tmp_path):
    config = toml("one", {"start": [["stderr", "hello of one\n"]]}) + toml(
        "other", {"start": [["stderr", "hello of two\n"]]}
    )
    with running_hub(tmp_path, config) as hub:
        for name in ("one", "other"):
            until(hub, name, lambda row: row["state"] == "connected")
        lines = hubd(hub, "logs").stdout.splitlines()
        assert lines == sorted(lines, key=lambda line: line[:19])
        assert {line.split()[2] for line in lines} == {"hub", "one", "other"}
        assert any(re.search(r"one +stderr +hello of one$", line) for line in lines)
        assert not any(re.search(r"hub +.*hello of", line) for line in lines), "each line once"
        own = hubd(hub, "logs", "hub").stdout.splitlines()
        assert {line.split()[2] for line in own} <= {"info", "warning", "error"}
        assert len(hubd(hub, "logs", "-n", "3").stdout.splitlines()) == 3
        record = json.loads(hubd(hub, "logs", "--json").stdout.splitlines()[0])
        assert record["name"] in ("hub", "one", "other")
        with running([HUBD, "logs", "-f", "-n", "0"], tmp_path / "follow", env=hub.env, forked=True) as follower:
            with running([HUBD, "logs", "-f", "-n", "1"], tmp_path / "other", env=hub.env, forked=True) as other:
                other.wait_for("^20")
                for name in ("one", "other"):
                    assert hubd(hub, "restart", name).returncode == 0
                other.wait_for(r"one +state +restarted by command")
                other.wait_for(r"hub +info +other restarted by command")
                other.wait_for(r"other +stderr +hello of two")
            assert follower.signalled(signal.SIGINT, patience_s=PATIENCE_S) == 130


def test_a_stack_trace_is_in_the_hubs_log_once(tmp_path):
    said = "Error: boom 17\n" + "    at f (x.js:17)\n" * 20
    script = {"start": [["stderr", said], ["exit", 3]]}
    with running_hub(tmp_path, toml("broken", script) + "restart = { attempts = 3 }\n") as hub:
        until(hub, "broken", lambda row: row["state"] == "failed")
        log = hub.process.log.read_text()
        assert log.count("Error: boom") == 1
        assert log.count("lines as of its last process; `hubd logs broken` shows them") >= 2
        assert hubd(hub, "logs", "broken").stdout.count("Error: boom") >= 3
        assert "| Error: boom 17" in hubd(hub, "status").stdout


@pytest.mark.covers("F-P-07")
def test_what_is_no_server_is_called_so(tmp_path):
    config = '[upstreams.talk]\ncommand = "sh"\nargs = ["-c", "echo Welcome; cat >/dev/null; exit 1"]\n'
    with running_hub(tmp_path, config + "timeouts = { start = 5, probe = 0.3 }\nrestart = { attempts = 1 }\n") as hub:
        row = until(hub, "talk", lambda row: row["state"] == "failed")
        assert row["last_error"].endswith("not MCP, see `hubd logs`: is it a server?")
        assert "sent what is not a message: Welcome\n" in hubd(hub, "logs", "talk").stdout


def test_stop_returns_when_the_process_has_ended(tmp_path):
    with running_hub(tmp_path, toml("quiet", {})) as hub:
        until(hub, "quiet", lambda row: row["state"] == "connected")
        processes = [hub.process.pid, *(each.pid for each in psutil.Process(hub.process.pid).children(recursive=True))]
        assert hubd(hub, "stop").returncode == 0
        ended = [has_ended(pid) for pid in processes]
        assert len(ended) > 1
        assert all(ended)


def test_the_end_of_the_hub_ends_a_follower(tmp_path):
    with (
        running_hub(tmp_path, toml("quiet", {})) as hub,
        running([HUBD, "logs", "quiet", "-f"], tmp_path / "follow", env=hub.env, forked=True) as follower,
    ):
        follower.wait_for("connected")
        assert hubd(hub, "stop").returncode == 0
        assert follower.exit_code(patience_s=PATIENCE_S) == 69


@pytest.mark.covers("F-P-01", "F-P-27", "I-3")
def test_a_server_that_cannot_start_shows_as_a_crash_loop_then_as_failed(tmp_path):
    script = {"start": [["stderr", "no module\n"], ["exit", 1]]}
    config = toml("broken", script) + "restart = { attempts = 3 }\n" + toml("good", {})
    with running_hub(tmp_path, config) as hub:
        row = until(hub, "broken", lambda row: row["state"] == "failed")
        assert row["failures"] == 3
        assert row["last_exit"]["how"] == "exited with status 1"
        assert row["last_exit"]["said"] == ["no module"]
        shown = hubd(hub, "status").stdout
        assert "retried every 5 min, and when its settings change; `hubd restart broken` retries now" in shown
        assert "| no module" in shown
        assert hubd(hub, "call", "good__echo").returncode == 0


def test_a_lazy_server_costs_no_process_until_it_is_called(tmp_path):
    config = toml("sleepy", {}, start="lazy", idle_stop_s=0.3)
    with running_hub(tmp_path, config) as hub:
        row = until(hub, "sleepy", lambda row: row["state"] == "idle")
        assert (row["pid"], row["counts"]["tools"], row["restarts"], row["last_exit"]) == (None, 1, 0, None)
        assert "sleepy__echo" in hubd(hub, "tools").stdout
        assert hubd(hub, "call", "sleepy__echo").returncode == 0
        until_told(hub, "sleepy", "stopped: exited with status 0", 2)
        assert hubd(hub, "restart", "sleepy").returncode == 0
        told = until_told(hub, "sleepy", "stopped: exited with status 0", 3)
        assert told.count("idle: nobody has needed it for 0.3 s") == 3
        assert told.count("stopped: exited with status 0") == 3
        assert "restarted by command" in told
    with running_hub(tmp_path, config) as hub:  # now it is known what it offers
        assert "sleepy__echo" in hubd(hub, "tools").stdout
        row = of(hub, "sleepy")
        assert (row["state"], row["pid"]) == ("idle", None)
        assert "connecting" not in hubd(hub, "logs", "sleepy").stdout
        assert hubd(hub, "call", "sleepy__echo").returncode == 0
