"""Ctrl-C at a terminal before the yes of `hubd setup`, where it waits for nobody: searching, and showing changes.

At its questions, and while servers are tried: `test_setup_journey`.
"""

import platform
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.processes import HUBD
from tests.support.restarts import TICK
from tests.support.setup_home import SetupHome
from tests.support.terminal import Terminal

CTRL_C, CTRL_S = "\x03", "\x13"
WRITE = {"x86_64": "1", "aarch64": "64"}
"""The number of the system call, by machine."""
QUESTION = r"Write this\?.*d shows the changes\] "
HELD = """
import importlib, os, signal, sys
from hub.cli.main import main

def held(*_, **__):
    until, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    print("it is held here", flush=True)
    while True:
        os.read(until, 1)

module, name = sys.argv[1].rsplit(".", 1)
setattr(importlib.import_module(module), name, held)
sys.exit(main(["setup", "--no-service"]))
"""
"""The command, which never comes back from the function of this name. A sleep would be too little: a signal that comes
just before it begins is acted on when it ends."""
SEARCHING = {
    "its own configuration": "config.loading.assemble.load_all",
    "hosts": "hub.cli.hosts.choose_hosts.choose_hosts",
    "the servers of a host": "config.hosts.host_servers.survey",
    "what is imported already": "config.hosts.write_import_to_files.plan_files",
}
"""What it reads before it tries anything, and by which function."""


@pytest.fixture
def home(tmp_path):
    home = SetupHome(tmp_path)
    home.fetch()
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # else it takes another for its sockets
        home.env["TMPDIR"] = short
        yield home


def nothing_is_left(home, screen, before):
    """It has ended by Ctrl-C: nothing is written, no directory is left, and the terminal is as it was."""
    screen.see("interrupted; nothing was changed")
    attributes, contents = before
    code, output = screen.end()
    assert code == 130
    assert "Traceback" not in output
    assert output.rfind("\x1b[?25l") <= output.rfind("\x1b[?25h"), "the cursor is shown"
    assert screen.attributes() == attributes
    assert home.contents() == contents
    assert not home.hub_files()
    assert list(Path(home.env["TMPDIR"]).iterdir()) == []


@pytest.mark.in_turn(3)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("what", SEARCHING)
def test_while_it_reads(home, what):
    with Terminal([sys.executable, "-c", HELD, SEARCHING[what]], home.env, columns=100) as screen:
        before = screen.first_attributes, home.contents()
        screen.see("it is held here")
        screen.type(CTRL_C)
        nothing_is_left(home, screen, before)


@pytest.fixture
def asked(home):
    """A setup of one host that has come to its question, and how the terminal and the files were before."""
    with Terminal([HUBD, "setup", "opencode", "--no-service"], home.env, columns=100) as screen:
        before = screen.first_attributes, home.contents()
        screen.see(QUESTION)
        yield screen, before


@pytest.mark.in_turn(3)
@pytest.mark.covers("FH-1")
def test_at_the_question_below_the_changes(home, asked):
    screen, before = asked
    screen.type("d\n")
    screen.see(r"^\+.*connect")
    screen.see(QUESTION)
    screen.type(CTRL_C)
    nothing_is_left(home, screen, before)


@pytest.mark.in_turn(3)
@pytest.mark.covers("FH-1")
def test_while_the_changes_are_written_to_a_terminal_that_takes_nothing(home, asked):
    """As when a person has stopped the output to read, with Ctrl-S."""
    screen, before = asked
    screen.type(CTRL_S)
    screen.type("d\n")
    until_it_writes(screen.process.pid)
    screen.type(CTRL_C)
    nothing_is_left(home, screen, before)
    assert "connect" not in screen.text.rpartition("Write this?")[2]


def until_it_writes(pid):
    """Until the process waits in a system call that writes to its terminal."""
    for _ in range(1200):
        words = Path(f"/proc/{pid}/syscall").read_text().split()
        if words[0] == WRITE[platform.machine()] and int(words[1], 16) in (1, 2):
            return
        TICK.wait(0.05)
    raise AssertionError(f"it waits elsewhere: {words}")
