"""Sandboxes of a real hub: its servers run in them, see nothing of its secrets, and status says how they run."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.hub.daemon.test_secrets import command, rows, until
from tests.support.processes import running_hub
from tests.support.sandboxes import use_bubblewrap

LOOKS = """
import os, runpy, sys
def read(path):
    try:
        with open(path, "rb") as file:
            return f"{len(file.read())} bytes"
    except OSError as error:
        return error.strerror
for path in sys.argv[1:]:
    print(path, read(path), file=sys.stderr, flush=True)
print("my home has", sorted(os.listdir(os.environ["HOME"])), file=sys.stderr, flush=True)
sys.argv = sys.argv[:1]
runpy.run_module("upstreams.demo", run_name="__main__")
"""


@pytest.fixture
def bubblewrap(monkeypatch):
    use_bubblewrap(monkeypatch)


def server(name, directory, *paths, sandbox='"auto"'):
    args = json.dumps(["-I", str(directory / "looks.py"), *map(str, paths)])
    head = f"[upstreams.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {args}\n"
    return f"{head}sandbox = {sandbox}\n"


@pytest.mark.covers("BOX-10", "BOX-11", "BOX-12")
def test_servers_run_in_sandboxes_and_see_no_secret_of_the_hub(tmp_path, bubblewrap):
    (tmp_path / "looks.py").write_text(LOOKS)
    (tmp_path / "hubd.env").write_text("SECRET=s3cret\n")
    variables = tmp_path / "hubd.env"
    here = str(Path(__file__).parents[3])
    looking = (variables,)
    config = server("plain", tmp_path, *looking)
    shown = json.dumps([str(tmp_path / "looks.py"), here])
    config += server("home", tmp_path, *looking, sandbox=f'{{ preset = "own-home", read = {shown} }}')
    config += server("open", tmp_path, *looking, sandbox='"off"')
    config += server("never", tmp_path, sandbox='{ preset = "own-home", read = ["/nowhere"] }')
    with running_hub(tmp_path, config) as hub:
        names = ("plain", "home", "open")
        until(lambda: all(rows(hub)[name]["state"] == "connected" for name in names))
        until(lambda: rows(hub)["never"]["state"] == "failed")
        found = rows(hub)
        assert [found[name]["sandbox"]["preset"] for name in names] == ["shield", "own-home", "off"]
        assert "/nowhere is not there: make it, or take it out" in found["never"]["last_error"]
        said = {name: command(hub, "logs", name) for name in names}
        assert f"{variables} {variables.stat().st_size} bytes" in said["open"]
        for name in ("plain", "home"):
            assert f"{variables} {variables.stat().st_size} bytes" not in said[name]
        assert "my home has []" in said["home"]


@pytest.mark.covers("BOX-10")
def test_without_bubblewrap_status_says_so(tmp_path, monkeypatch):
    (tmp_path / "looks.py").write_text(LOOKS)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\necho 'bwrap: no permissions' >&2\nexit 1\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with running_hub(tmp_path, server("plain", tmp_path)) as hub:
        until(lambda: rows(hub)["plain"]["state"] == "connected")
        assert rows(hub)["plain"]["sandbox"]["preset"] == "off"
        assert "no sandbox: plain, since bubblewrap does not work here: bwrap: no permissions" in command(hub, "status")
