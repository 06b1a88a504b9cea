"""`hubd import --project`: a project's servers go into its own file, and count there once they are allowed."""

import contextlib
import json
import sys
import tomllib

import pytest

from tests.support import host_commands
from tests.support.attached import INITIALIZE, Host
from tests.support.host_commands import hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import Hub

DEMO = {"command": sys.executable, "args": ["-I", "-m", "upstreams.demo"]}


@pytest.fixture
def home(tmp_path):
    """A home with a project that two hosts have servers for, and a hub that listens anywhere."""
    found = host_commands.home(tmp_path)
    config = found[0] / ".config/hubd/hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('listen = "127.0.0.1:0"\nauth = "none"\n[upstreams.taken]\ncommand = "true"\ndisabled = true\n')
    shop = found[0] / "shop"
    (shop / ".cursor").mkdir(parents=True)
    servers = {
        "taken": {"command": "db", "cwd": f"{shop}/data"},
        "env": {"command": "sh", "env": {"API_TOKEN": "hunter2hunter2"}},
    }
    (shop / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": servers}))
    local = {
        "mcpServers": {"sentry": {"url": "https://mcp.sentry.dev/mcp"}},
        "projects": {str(shop): {"mcpServers": {"clock": DEMO}}},
    }
    (found[0] / HOMES["claude-code"].path).write_text(json.dumps(local))
    yield found
    with contextlib.suppress(AssertionError):
        hubd(found, "stop")


def in_project(home):
    return tomllib.loads((home[0] / "shop/.hubd.toml").read_text())["upstreams"]


@pytest.mark.covers("FH-13")
def test_servers_of_a_project_are_written_to_its_file_and_the_users_to_the_users(home):
    shop = home[0] / "shop"
    found = told(home, "import", "claude-code", "cursor", "--project", shop, "--secrets", "keep")
    servers = in_project(home)
    assert servers["clock"] == DEMO, "the directory of the file is that of the project"
    assert servers["env"] == {"command": "sh", "env": {"API_TOKEN": "hunter2hunter2"}}
    assert servers["taken-cursor"] == {"command": "db", "cwd": "data"}, "the user's server of that name is another one"
    assert servers.keys() == {"clock", "env", "taken-cursor"}
    imported = home[0] / ".config/hubd/imported"
    assert tomllib.loads((imported / "claude-code.toml").read_text())["upstreams"].keys() == {"sentry"}
    assert "hunter2" not in json.dumps(found)
    assert any("`hubd trust ~/shop`" in note for note in found["notes"])
    assert (shop / ".hubd.toml").stat().st_mode & 0o777 == 0o600
    again = told(home, "import", "claude-code", "cursor", "--project", shop)
    assert again["files"] == []
    assert "~/shop" not in hubd(home, "import", "claude-code")


def test_what_stands_in_the_file_stays(home):
    path = home[0] / "shop/.hubd.toml"
    mine = '# ours\n[upstreams.clock]  # by hand\ncommand = "mine"\n[upstreams.taken]\nstart = "lazy"'
    path.write_text(mine)
    hubd(home, "import", "claude-code", "--project", home[0] / "shop")
    assert path.read_text().startswith(f"{mine}\n\n# From ")
    assert in_project(home)["clock"] == {"command": "mine"}
    assert in_project(home)["clock-claude-code"] == DEMO
    path.write_text("[upstreams.clock\n")
    said = " ".join(hubd(home, "import", "claude-code", "--project", home[0] / "shop").split())
    assert "clock of Claude Code in" in said
    assert "skipped" in said
    assert path.read_text() == "[upstreams.clock\n"


def test_it_is_taken_out_of_the_host_when_it_works_there(home):
    """That can only be told while a host works in the project, and once the user has allowed its files."""
    shop, path = home[0] / "shop", home[0] / HOMES["claude-code"].path
    before = path.read_bytes()
    hubd(home, "install", "claude-code")
    arguments = ("import", "claude-code", "--project", shop, "--server", "clock", "--disable-originals", "--yes")
    found = told(home, *arguments, code=1)
    assert found["stay"][0]["why"] == f"the hub starts it for hosts that work in {shop}, and none does now"
    hubd(home, "trust", shop, "--yes")
    hub = Hub("", None, home[1], shop, None)
    with Host(hub, project=str(shop)) as host:
        host.ask(0, "initialize", INITIALIZE)
        assert host.receive()["id"] == 0
        while True:  # bounded by the time limit of the test
            rows = json.loads(hubd(home, "status", "--json"))["upstreams"]
            if any(row["name"].startswith("clock@") and row["state"] == "connected" for row in rows):
                break
        told(home, *arguments)
    assert json.loads(path.read_text())["projects"][str(shop)]["mcpServers"] == {}
    hubd(home, "uninstall", "claude-code", "--project", shop, "--restore-originals")
    hubd(home, "uninstall", "claude-code")
    assert path.read_bytes() == before
