"""`hubd top` of a real hub in a real terminal."""

import pytest
from rich.cells import cell_len

from tests.support.attached import DEMO, hubd, upstream
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running, running_hub
from tests.support.terminal import Terminal
from tests.support.tmux import Tmux

pytestmark = pytest.mark.covers("SEE-4")
HEADS = r"^  SERVER +STATE +/MIN +FAILED +P50 +P95 +BUSY\* +LAST ERROR$"


def test_servers_and_what_runs_are_seen_as_it_goes_on(tmp_path):
    config = upstream("github", {"on": {"tools/call:hang": [], "tools/call:die": [["exit", 3]]}})
    config += upstream("db", {"start": [["stderr", "Error: no such host\n"], ["exit", 1]]})
    with running_hub(tmp_path, config) as hub, Tmux(tmp_path, [HUBD, "top"], hub.env) as top:
        top.see(HEADS)
        lines = top.see(r"^db: db exited with status 1 before it could be used: Error: no such host$")
        assert lines[0].startswith("hubd ")
        with running([HUBD, "call", "github__hang"], tmp_path / "call", env=hub.env, forked=True):
            lines = top.see(r"^RUNNING  [0-9a-f]{8}  \S+ +github__hang  [0-9.]+ m?s$")
            assert lines[2].split()[:3] == [">", "github", "connected"], "what is busy comes first"
            assert " 1 running " in lines[0]
            top.resize(44, 12)
            lines = top.see(r"^  SERVER +STATE +P95", gone="BUSY")
            assert max(map(cell_len, lines)) <= 44
            top.resize(120, 40)
            top.see(HEADS)
        top.see(HEADS, gone="RUNNING")
        assert hubd(hub, "call", "github__die").returncode == 1
        top.see(r"github +\S+ .* upstream_lost \d+ s ago|github exited")
        top.press("c")
        top.see(r"github__die .* upstream_lost\?")
        top.press("h")
        top.see(r"^HOST +PROFILE|^no hosts attached", gone="the last calls")
        top.press("?")
        top.see("^Enter +the log of the server")
        top.press("Escape")
        top.see(HEADS)
        top.press("s")
        top.see(r"FAILED\*")
        top.press("s", "s", "s", "s")
        top.see(r"SERVER +STATE")
        top.press("Up", "Up", "Up")
        top.see("^> db ")
        top.press("Enter")
        top.see("^log of db$")
        top.see("stderr +Error: no such host")
        top.press("Escape")
        top.see("^> db ")
        top.press("r")
        top.see("^restart db\\? y restarts it")
        top.press("n")
        top.see("^q quit  s sort")
        top.press("p")
        top.see("^PAUSED  q quit")
        top.press("r", "y")
        top.see("^PAUSED  restarting db$")
        top.press("p")
        hub.process.stop()
        top.see("the hub has stopped|the hub stopped|no hub is running")
        top.press("q")
        top.see("^ended with 0$")


def test_it_needs_a_terminal_and_gives_it_back(tmp_path):
    env = own_directories(tmp_path)
    text = "hubd top needs a terminal; for a pipe use: hubd status --watch --json"
    done = run_hubd(["top"], env)
    assert (done.returncode, text in done.stderr) == (1, True)
    with Terminal([HUBD, "top"], env) as terminal:
        code, said = terminal.end()
        assert (code, "no hub is running" in said) == (69, True)
    with running_hub(tmp_path, DEMO) as hub:
        for name in ("dumb", "nonsense"):
            with Terminal([HUBD, "top"], {**hub.env, "TERM": name}) as terminal:
                code, said = terminal.end()
                assert (code, text in said) == (1, True), said
        with Terminal([HUBD, "top"], hub.env) as terminal:
            before = terminal.first_attributes
            terminal.wait_for("SERVER|no servers")
            assert terminal.attributes() != before
            terminal.type("\x03")
            code, said = terminal.end()
            assert (code, "Traceback" in said) == (130, False)
            assert terminal.attributes() == before
