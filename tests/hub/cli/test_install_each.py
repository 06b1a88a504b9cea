"""`hubd install --each`: one entry for each server under its own name; they come, serve, and go without a trace."""

import json
import sys

import pytest

from config.editing.text import serverfile
from config.hosts.known_hosts import all_hosts
from tests.support import host_commands
from tests.support.attached import INITIALIZE
from tests.support.host_commands import contents, hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD, running

SERVERS = """listen = "127.0.0.1:0"
[upstreams.clock]
command = {python}
args = ["-I", "-m", "upstreams.demo"]
[upstreams.files]
command = "files"
[upstreams.off]
command = "off"
disabled = true
"""


@pytest.fixture
def home(tmp_path):
    found = host_commands.home(tmp_path)
    config = found[0] / ".config" / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text(SERVERS.format(python=json.dumps(sys.executable)))
    return found


def entries(home, host):
    return serverfile.entries(all_hosts()[host].shape, (home[0] / HOMES[host].path).read_bytes().decode())


def test_each_server_has_an_entry_in_every_host_and_leaves_no_trace(home):
    before = contents(home)
    hubd(home, "install", "--all", "--each")
    for host in HOMES:
        found = entries(home, host)
        assert {"clock", "files"} <= found.keys(), host
        assert not {"hub", "off"} & found.keys()
        assert "--upstream" in json.dumps(found["clock"])
    installed = contents(home)
    assert {each["did"] for each in told(home, "install", "--all", "--each")["hosts"]} == {"unchanged"}
    assert {each["hub"] for each in told(home, "install")["hosts"]} == {"each"}
    assert contents(home) == installed
    hubd(home, "uninstall", "--all")
    assert contents(home) == before
    assert {each["hub"] for each in told(home, "install")["hosts"]} == {"no"}


def test_one_way_takes_the_place_of_the_other(home):
    config = home[0] / ".config" / "hubd" / "hubd.toml"
    config.write_text(config.read_text().replace(":0", ":8765"))
    before = contents(home)
    hubd(home, "install", "--all")
    once = contents(home)
    hubd(home, "install", "--all", "--each")
    assert all("hub" not in entries(home, host) for host in HOMES)
    hubd(home, "install", "--all")
    assert contents(home) == once
    hubd(home, "install", "--all", "--each", "--http")
    assert entries(home, "cursor")["clock"]["url"].endswith("/mcp/clock")
    hubd(home, "uninstall", "--all")
    assert contents(home) == before


def test_a_server_that_is_gone_loses_its_entry(home):
    before = contents(home)
    hubd(home, "install", "--each", "cursor", "goose", "codex", "continue")
    hubd(home, "remove", "files")
    hubd(home, "install", "--each", "cursor", "goose", "codex", "continue")
    assert all({"clock", "files"} & entries(home, host).keys() == {"clock"} for host in ("cursor", "goose", "codex"))
    hubd(home, "uninstall", "--all")
    assert contents(home) == before


def test_an_entry_of_that_name_that_is_not_ours_stays_and_is_named(home):
    path = home[0] / HOMES["kiro"].path
    path.write_text('{"mcpServers": {"files": {"command": "mine"}}}')
    found = told(home, "install", "kiro", "--each")
    assert any(note.startswith(f'Kiro: "files" in {path} is not the hub\'s, so it stays') for note in found["notes"])
    assert entries(home, "kiro")["files"] == {"command": "mine"}
    assert "connect" in entries(home, "kiro")["clock"]["args"]
    hubd(home, "uninstall", "kiro")
    assert path.read_text() == '{"mcpServers": {"files": {"command": "mine"}}}'


@pytest.mark.covers("FH-11")
def test_a_server_keeps_the_name_that_its_host_had_for_it(home):
    before = contents(home)
    hubd(home, "import", "claude-desktop", "--disable-originals", "--without-hub", "--force", "*")
    assert entries(home, "claude-desktop") == {}
    hubd(home, "install", "claude-desktop", "--each")
    found = entries(home, "claude-desktop")
    assert {"filesystem", "Linear", "clock", "files"} == found.keys()
    assert found["Linear"]["args"] == ["connect", "--upstream", "linear", "--host", "claude-desktop"]
    hubd(home, "install", "claude-desktop")
    assert entries(home, "claude-desktop").keys() == {"hub"}
    hubd(home, "install", "claude-desktop", "--each")
    hubd(home, "uninstall", "claude-desktop", "--restore-originals")
    assert contents(home) == before


def test_an_entry_reaches_its_server_under_the_server_s_own_tool_names(home, tmp_path):
    hubd(home, "install", "cursor", "--each")
    entry = entries(home, "cursor")["clock"]
    with running([entry["command"], *entry["args"]], tmp_path / "host.log", env=home[1], cwd=home[0]) as host:
        for id, method, params in ((1, "initialize", INITIALIZE), (2, "tools/list", {})):
            host.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
        listed = json.loads(host.wait_for(r'.*"id":2\b.*')[0])
    hubd(home, "stop")
    names = {tool["name"] for tool in listed["result"]["tools"]}
    assert names
    assert not any("__" in name for name in names)


def test_without_servers_there_is_nothing_to_put_there(home):
    (home[0] / ".config" / "hubd" / "hubd.toml").write_text('[upstreams.off]\ncommand = "x"\ndisabled = true\n')
    assert "the hub has no servers yet" in hubd(home, "install", "cursor", "--each", code=2)
    assert HUBD.exists()
