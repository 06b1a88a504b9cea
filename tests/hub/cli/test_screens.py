"""Commands in terminals of several widths, without colours, and in pipes."""

import os
import signal
import subprocess
import sys

import pytest

from tests.support import echo_daemon, processes
from tests.support.commands import run_hubd
from tests.support.terminal import CODES, Terminal, shown, widest


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The environment of a user whose hub runs."""
    directory = tmp_path_factory.mktemp("place")
    env = processes.own_directories(directory)
    argv = [sys.executable, "-I", echo_daemon.__file__, str(directory / "starts")]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout.readline() == b"ready\n"
        yield env
        daemon.terminate()


def seen(env, command, columns, **more):
    """The output of a command in a terminal."""
    with Terminal([processes.HUBD, *command.split()], env | more, columns=columns) as terminal:
        return terminal.end()[1]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize("command", ["status", "tools", "cache"])
def test_what_is_drawn_fits(env, command, columns):
    out = seen(env, command, columns)
    assert widest(out) <= columns
    assert "demo" in out
    assert "\x1b[36mdemo" in out  # a name, in colour


@pytest.mark.parametrize(("more", "option"), [({"NO_COLOR": "1"}, ""), ({"TERM": "dumb"}, ""), ({}, " --color never")])
def test_without_colours(env, more, option):
    out = seen(env, f"status{option}", 80, **more)
    assert "demo" in out
    assert not CODES.search(out)
    assert widest(out) <= 80


def test_in_a_pipe_nothing_is_cut_or_coloured_unless_that_is_wanted(env):
    def piped(*words, **more):
        return run_hubd(words, env | more, check=True).stdout

    plain = piped("status")
    assert not CODES.search(plain)
    assert "TEMPLATES" in plain
    for words in (("--color", "always", "status"), ("status", "--color=always")):
        coloured = piped(*words)
        assert CODES.sub("", coloured) == plain
        assert coloured != plain
    assert widest(piped("status", COLUMNS="60")) <= 60
    assert piped("tools").splitlines() == ["demo__echo  Say it back", "demo__fail  -"]


def test_tools_are_counted_for_people(env):
    assert seen(env, "tools", 80, NO_COLOR="1").splitlines()[-1] == "2 tools"


def test_status_is_shown_again_until_ctrl_c(env):
    with Terminal([processes.HUBD, "status", "--watch"], env, columns=60) as terminal:
        first = terminal.wait_for("odd name")
        again = terminal.wait_for("odd name", first)
        terminal.resize(100)
        terminal.wait_for("odd name", again)
        terminal.type("\x03")
        code, out = terminal.end()
    assert code == 130
    assert "Traceback" not in out
    assert shown(out).rstrip().endswith("warning: odd name")
    assert out.endswith("\n")


def test_status_is_printed_again_in_a_pipe(env):
    argv = [processes.HUBD, "status", "--watch", "0.1", "--json"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout.readline() == watch.stdout.readline()
        os.kill(watch.pid, signal.SIGINT)
    assert watch.returncode == 130


@pytest.mark.parametrize("seconds", ["0", "soon", "-1", "1e9"])
def test_status_is_shown_again_after_seconds_alone(env, seconds):
    done = run_hubd(["status", f"--watch={seconds}"], env)
    assert (done.returncode, "expected seconds such as 5" in done.stderr) == (2, True)


# --- help -------------------------------------------------------------------------------------------------------------


def words_of(*words, env, code):
    done = run_hubd(words, env)
    assert done.returncode == code, done.stderr
    return done.stdout or done.stderr


def test_hubd_alone_prints_a_page(env):
    page = words_of(env=env, code=2).splitlines()
    assert len(page) <= 25
    listed = [line.split()[0] for line in page if line.startswith("    ")]
    assert {"status", "add", "doctor", "start", "logs", "call"} <= set(listed)
    known = words_of("help", env=env, code=0)
    assert all(f"\n    {name} " in known for name in listed)


def test_help_of_a_command(env):
    for words in (("cache", "clear"), ("status",), ()):
        assert words_of("help", *words, env=env, code=0) == words_of(*words, "--help", env=env, code=0)
    connect = words_of("help", "connect", env=env, code=0)
    assert connect.strip() == words_of("connect", "--help", env=env, code=0).strip()
    assert {"--host", "--upstream", "--profile", "--project"} <= set(connect.split())
    assert 'did you mean "status"' in words_of("help", "stauts", env=env, code=2)
    assert words_of("-v", env=env, code=0) == words_of("version", env=env, code=0)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_fits(env, columns):
    known = words_of("help", env=env, code=0).partition("hubd help COMMAND")[0]
    commands = [line.split()[0] for line in known.splitlines() if line.startswith("    ") and line[4:5].islower()]
    assert len(commands) > 25
    for command in ("", *commands[:: 6 if columns != 80 else 1]):
        out = words_of("help", *command.split(), env=env | {"COLUMNS": str(columns)}, code=0)
        assert widest(out) <= columns, command
    assert widest(words_of(env=env | {"COLUMNS": str(columns)}, code=2)) <= max(80, columns)
