"""`hubd setup` with ten hosts and real server processes, without a terminal."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.processes import HUBD, running
from tests.support.setup_home import WORKING, SetupHome
from tests.support.unauthorized_server import unauthorized_server


@pytest.fixture
def home(tmp_path):
    with unauthorized_server() as url:
        home = SetupHome(tmp_path, sentry=url)
        yield home
        subprocess.run([HUBD, "stop"], env=home.env, capture_output=True, check=False, timeout=60)


def by_host(told):
    """What was done with each server of each host."""
    return {(each["host"], each["server"]): each for each in told["servers"]}


@pytest.mark.covers("FH-1")
def test_what_works_goes_through_the_hub_and_all_else_stays_with_its_host(home):
    home.fetch()
    before = home.contents()
    told = home.told("setup", "--yes", "--no-service")
    found = by_host(told)
    for host, names in WORKING.items():
        for name in names:
            assert found[host, name]["did"] == "works", found[host, name]
    assert found["claude-code", "sentry"]["did"] == "sign-in needed"
    assert found["claude-desktop", "Linear"]["did"] == "does not work"
    assert "ModuleNotFoundError" in found["claude-desktop", "Linear"]["why"]
    assert found["codex", "figma"]["did"] == "left"
    after = home.contents()
    assert all(b"connect" in text for text in after.values())
    assert b"sentry" in after["claude-code"]
    assert b"Linear" in after["claude-desktop"]
    assert b"server-filesystem" not in after["claude-desktop"]
    assert b'"disabled": true,\n      "timeout": 60,\n      "type": "stdio"' in after["cline"], "it is turned off there"
    status = home.told("status")
    assert {each["state"] for each in status["upstreams"]} == {"connected"}
    assert told["hub"] == "background"

    assert "All is well" in home.run("setup", "--yes", "--no-service")
    assert home.contents() == after
    assert told["undo"] == "hubd uninstall --all --restore-originals"
    home.run(*str(told["undo"]).split()[1:])
    assert home.contents() == before


@pytest.mark.covers("FH-1")
def test_a_dry_run_tries_the_servers_and_writes_nothing(home):
    home.fetch()
    before = home.contents()
    said = home.run("setup", "--dry-run")
    assert "What would be written" in said
    assert home.contents() == before
    assert not (home.home / ".config" / "hubd").exists()
    assert "no hub is running" in home.run("status", code=69)


@pytest.mark.covers("FH-1")
def test_without_a_terminal_it_says_what_to_pass(home):
    said = home.run("setup", code=2)
    assert "pass --yes to take the defaults, or --dry-run" in said


@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_servers_are_tried_leaves_everything_as_it_was(home, tmp_path, number):
    before = home.contents()
    with running([HUBD, "setup", "--yes", "--no-service"], tmp_path / "log", env=home.env, merged=True) as process:
        process.wait_for("Trying")
        hub = psutil.Process(process.pid)
        children = wait_for_children(hub)
        process.signalled(number)
        assert process.exit_code() == 130
        assert "nothing was changed" in "".join(process.said)
    psutil.wait_procs([each for each, _ in children], timeout=30)
    assert not any(child.is_running() for child, _ in children)
    assert home.contents() == before
    assert not (home.home / ".config" / "hubd").exists()
    (configuration,) = {Path(words[words.index("--config") + 1]) for _, words in children if "--config" in words}
    assert not configuration.parent.exists()


def wait_for_children(process):
    """The private hub and its servers, with their command lines, once some are started."""
    for _ in range(100_000):
        with contextlib.suppress(psutil.NoSuchProcess):
            children = [(child, child.cmdline()) for child in process.children(recursive=True)]
            if len(children) > 3:
                return children
        os.sched_yield()
    raise AssertionError("no servers were started")
