"""One command at a time that moves servers between hosts and the hub, with real processes."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.processes import HUBD
from tests.support.setup_home import SCRIPTED, SERVERS, SetupHome
from tests.support.terminal import Terminal


@pytest.fixture
def home(tmp_path):
    """One host with two servers, which need secrets."""
    home = SetupHome(tmp_path)
    for host in home.paths.keys() - {"cursor"}:
        home.paths.pop(host).unlink()
    script = json.dumps(SERVERS["server-everything"])
    servers = {
        name: {
            "command": "python3",
            "args": ["-I", "-S", str(SCRIPTED), script, name],
            "env": {"API_KEY": f"hunter2-{name}"},
        }
        for name in ("one", "two")
    }
    home.paths["cursor"].write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "bin" / "python3").symlink_to(os.path.realpath("/usr/bin/python3"))
    yield home
    run_hubd(["stop"], home.env)


@pytest.fixture
def asked(home):
    """A setup that sits at its question."""
    with Terminal([HUBD, "setup", "cursor", "--no-service"], home.env, columns=200) as screen:
        screen.see("Move them")
        screen.type("\n")
        screen.see(r"Write this\?")
        yield screen


SECOND = [
    "setup cursor --yes --no-service",
    "import cursor --secrets store --yes",
    "uninstall cursor --restore-originals --yes",
]


@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("command", draw(1, SECOND))
def test_what_another_setup_plans_is_waited_for_and_then_refused(home, asked, command):
    """Whoever came first keeps its secrets, and its servers run."""
    before = home.contents()
    said = home.run(*command.split(), code=1)
    assert f"Waiting for `hubd setup` (pid {asked.process.pid}) ..." in said
    assert f"(pid {asked.process.pid}) is at work; finish or end it, then run this again" in " ".join(said.split())
    assert home.contents() == before
    assert home.told("secret", "ls")["secrets"] == []
    home.run("setup", "cursor", "--dry-run")
    asked.type("\n")
    asked.see("Done: 2 servers through the hub")
    assert asked.end()[0] == 0
    assert {each["name"] for each in home.told("secret", "ls")["secrets"]} == {"ONE_API_KEY", "TWO_API_KEY"}
    assert {each["state"] for each in home.told("status")["upstreams"]} == {"connected"}


@pytest.mark.covers("FH-1")
def test_a_killed_command_leaves_its_turn_and_its_drafts_to_the_next_one(home, asked):
    os.kill(asked.process.pid, signal.SIGKILL)
    asked.process.wait()
    state, configuration = (Path(home.env[each], "hubd") for each in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"))
    (state / "backups").mkdir(mode=0o700, exist_ok=True)
    (configuration / "imported").mkdir(mode=0o700, parents=True, exist_ok=True)
    drafts = [
        home.paths["cursor"].with_name(".mcp.json.0123abcd.new"),
        state / "backups" / "mcp.json.20260102-030405.0123abcd.new",
        *(state / f"{name}.json.0123abcd.new" for name in ("originals", "secrets", "installed")),
        *(configuration / f"{name}.0123abcd.new" for name in ("hubd.toml", "hubd.env", "imported/cursor.toml")),
    ]
    for draft in drafts:
        draft.write_text("hunter2")
    (other := state / "other.new").write_text("mine")
    home.run("uninstall", "cursor", "--restore-originals", "--yes")
    assert not [draft for draft in drafts if draft.exists()]
    assert other.exists()
