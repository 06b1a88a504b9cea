"""`hubd start`: the hub in the background, once, by its service where there is one."""

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories
from tests.support.terminal import Terminal


class Home:
    """A user's directories, and commands there."""

    def __init__(self, directory):
        self.directory = directory
        self.env = own_directories(directory)
        config = Path(self.env["XDG_CONFIG_HOME"], "hubd")
        config.mkdir(parents=True)
        self.main = config / "hubd.toml"
        self.main.write_text('listen = "127.0.0.1:0"\n[upstreams.a]\ncommand = "true"\nenabled = false\n')

    def run(self, *words, code=0, **env):
        done = run_hubd(words, self.env | env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    yield home
    run_hubd(["stop"], home.env)


def test_it_starts_once_and_says_where_it_listens(home):
    first = home.run("start")
    status = json.loads(home.run("ls", "--json"))
    where = f"it listens on {status['listen']['url']} and {status['listen']['socket']}\n"
    assert first == f"started; {where}"
    assert home.run("up") == f"the hub runs already; {where}"
    told = json.loads(home.run("start", "--json"))
    assert (told["started"], told["url"]) == (False, status["listen"]["url"])
    assert [json.loads(home.run(name, "--json"))["version"] for name in ("list", "ps")] == [told["version"]] * 2
    assert home.run("down") == "stopped\n"
    told = json.loads(home.run("start", "--json"))
    assert (told["started"], told["by"]) == (True, "command")


def test_the_log_of_the_last_hub_is_shown_where_none_runs(home):
    home.run("logs", code=69)
    home.run("start")
    home.run("stop")
    (directory,) = Path(home.env["XDG_STATE_HOME"]).iterdir()
    with (directory / "hubd.log").open("a") as file:
        file.write("Traceback of an interpreter\n")
    said = home.run("logs", "-n", "2").splitlines()
    assert said[0].endswith("  info    stopped")
    assert said[1].endswith("  stderr  Traceback of an interpreter")
    assert said[2].startswith("hubd: note: no hub is running; the last one left this in ")
    (record,) = home.run("logs", "hub", "--json", "-n", "1").splitlines()
    assert (json.loads(record)["name"], json.loads(record)["kind"]) == ("hub", "stderr")
    home.run("logs", "-f", code=69)
    home.run("logs", "a", code=69)
    (directory / "hubd.log").unlink()
    os.mkfifo(directory / "hubd.log")
    home.run("logs", code=69)


def test_it_does_not_end_with_the_terminal(home):
    with Terminal([HUBD, "start"], home.env) as terminal:
        code, out = terminal.end()
    assert code == 0
    assert out.startswith("started; ")
    assert "no hosts attached" in home.run("status")


def test_a_configuration_that_cannot_be_used_is_78(home):
    home.main.write_text("[upstreams.a\n")
    said = home.run("start", code=78)
    assert "hubd.toml" in said
    assert "no hub is running" in home.run("status", code=69)


def systemctl(home, script):
    """A stand-in for systemctl, and the unit that says that there is a service."""
    bin = home.directory / "bin"
    bin.mkdir()
    calls = home.directory / "calls"
    bin.joinpath("systemctl").write_text(f'#!/bin/sh\necho "$@" >>{shlex.quote(str(calls))}\n{script}\n')
    bin.joinpath("systemctl").chmod(0o755)
    units = home.main.parents[1] / "systemd" / "user"
    units.mkdir(parents=True)
    units.joinpath("hubd.service").write_text("[Service]\n")
    home.env["PATH"] = f"{bin}:/usr/bin:/bin"
    return calls


def test_an_installed_service_starts_it(home):
    # As its socket unit does, the stand-in listens at once.
    calls = systemctl(home, f'case "$*" in *" start "*) {shlex.quote(str(HUBD))} connect </dev/null;; esac')
    assert home.run("start").startswith("started the service; it listens on ")
    assert "--user start hubd.socket hubd.service" in calls.read_text().splitlines()
    calls.unlink()
    assert home.run("start").startswith("the hub runs already; ")
    assert not calls.exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no bus >&2; exit 1", "`systemctl --user` does not work here"),
        ('case "$*" in *" start "*) echo masked >&2; exit 1;; esac', "the service cannot be started"),
    ],
)
def test_without_a_manager_it_starts_all_the_same(home, script, reason):
    systemctl(home, script)
    said = home.run("start")
    assert said.startswith("started; ")
    assert reason in said
    assert "the hub is started without it" in said
