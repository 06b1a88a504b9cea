"""What `hubd import --disable-originals` takes out of hosts, and `hubd uninstall --restore-originals` puts back."""

import json
import stat
import tomllib
from pathlib import Path

import pytest

from tests.support import host_commands
from tests.support.host_commands import contents, hubd, told
from tests.support.host_homes import HOMES


@pytest.fixture
def home(tmp_path):
    return host_commands.home(tmp_path)


def test_originals_are_turned_off_or_taken_out(home):
    hosts = ("cline", "claude-desktop", "codex", "goose")
    hubd(home, "import", "--secrets", "keep", "--disable-originals", "--force", "*", "--without-hub", *hosts)
    cline = json.loads((home[0] / HOMES["cline"].path).read_text())["mcpServers"]
    assert cline["fetch"]["disabled"] is True
    assert json.loads((home[0] / HOMES["claude-desktop"].path).read_text())["mcpServers"] == {}
    assert "enabled = false" in (home[0] / HOMES["codex"].path).read_text()
    goose = (home[0] / HOMES["goose"].path).read_text()
    assert goose == HOMES["goose"].text.replace(
        "reporting copy\n    enabled: true", "reporting copy\n    enabled: false"
    )
    assert "hubd has it as fetch" in hubd(home, "import", "cline")
    config = home[0] / ".config" / "hubd" / "imported" / "cline.toml"
    assert "mcp-server-fetch" in config.read_text()


@pytest.mark.parametrize("hub_first", [True, False])
def test_a_home_is_as_it_was_once_originals_are_restored(home, hub_first):
    before = contents(home)
    disabling = ("import", "--secrets", "keep", "--disable-originals", "--force", "*")
    if hub_first:
        hubd(home, "install", "--all")
        hubd(home, *disabling)
    else:
        hubd(home, *disabling, "--without-hub")
        hubd(home, "install", "--all")
    taken = contents(home)
    assert b"server-filesystem" not in taken["claude-desktop"]
    records = Path(home[1]["XDG_STATE_HOME"], "hubd", "originals.json")
    assert "ghp_" in records.read_text()
    assert stat.S_IMODE(records.stat().st_mode) == 0o600
    shown = hubd(home, "uninstall", "--all", "--restore-originals", "--dry-run")
    assert "ghp_" not in shown
    assert contents(home) == taken
    hubd(home, "uninstall", "--all", "--restore-originals")
    assert contents(home) == before
    assert "ghp_" not in records.read_text()


def test_whatever_hubd_does_meanwhile_originals_are_restored_as_they_were(home):
    before = contents(home)
    hubd(home, "install", "--all", "--http")
    hubd(home, "import", "--secrets", "keep", "--disable-originals", "--force", "*")
    hubd(home, "install", "--all")
    taken = contents(home)
    hubd(home, "uninstall", "--all")
    assert all(b"connect" not in text for text in contents(home).values())
    assert b"server-filesystem" not in contents(home)["claude-desktop"]
    hubd(home, "install", "--all")
    assert {id for id, text in contents(home).items() if text != taken[id]} == set()
    hubd(home, "uninstall", "--all")
    hubd(home, "uninstall", "--all", "--restore-originals")
    assert contents(home) == before


def test_the_comment_of_a_server_leaves_and_comes_back_with_it(home):
    vscode = home[0] / HOMES["vscode"].path
    before = vscode.read_bytes()
    hubd(home, "install", "vscode")
    hubd(home, "import", "vscode", "--disable-originals", "--force", "*")
    text = vscode.read_text()
    assert "// public" not in text
    assert "/* remote ones */" not in text
    assert "// Shared with the team, see wiki" in text
    hubd(home, "uninstall", "vscode", "--restore-originals")
    assert vscode.read_bytes() == before


def test_uninstall_says_what_is_still_out(home):
    before = contents(home)
    hubd(home, "install", "claude-desktop", "cline")
    hubd(home, "import", "claude-desktop", "cline", "--disable-originals", "--force", "*")
    said = hubd(home, "uninstall", "claude-desktop", "cline")
    assert "2 servers that `hubd import --disable-originals` took out of Claude Desktop are still out; put them" in said
    assert "1 server that `hubd import --disable-originals` took out of Cline is still out; put it back with" in said
    assert "`hubd uninstall claude-desktop --restore-originals`" in said
    said = hubd(home, "uninstall", "claude-desktop", "--restore-originals")
    assert "back: filesystem, Linear" in said
    assert contents(home)["claude-desktop"] == before["claude-desktop"]
    assert contents(home)["cline"] != before["cline"]
    assert "Claude Desktop" not in hubd(home, "uninstall", "--all").replace("Claude Desktop: the hub is not in", "")
    (done,) = told(home, "uninstall", "cline", "--restore-originals")["hosts"]
    assert (done["did"], done["restored"]) == ("restored", ["fetch"])
    assert contents(home) == before


def test_what_was_taken_out_is_not_forgotten_where_it_cannot_be_read(home):
    """It is known nowhere else: hosts keep what they have until somebody has looked."""
    hubd(home, "install", "cline", "claude-desktop")
    hubd(home, "import", "claude-desktop", "--disable-originals", "--force", "*")
    records = Path(home[1]["XDG_STATE_HOME"], "hubd", "originals.json")
    kept = records.read_bytes()
    damaged = kept.replace(b'"off"', b'"of')
    records.write_bytes(damaged)
    before = contents(home)
    for command in (
        ("import", "cline", "--disable-originals", "--force", "*"),
        ("uninstall", "--all", "--restore-originals"),
    ):
        assert "originals.json: cannot be understood" in hubd(home, *command, code=1)
        assert (records.read_bytes(), contents(home)) == (damaged, before)
    records.write_bytes(kept)
    assert "back: filesystem, Linear" in hubd(home, "uninstall", "claude-desktop", "--restore-originals")


def test_what_was_edited_by_hand_meanwhile_stays(home):
    path = home[0] / HOMES["claude-desktop"].path
    hubd(home, "install", "claude-desktop")
    hubd(home, "import", "claude-desktop", "--disable-originals", "--force", "*")
    mine = json.loads(path.read_text())
    mine["mcpServers"]["Linear"] = {"command": "mine"}
    mine["globalShortcut"] = "Alt+X"
    path.write_text(json.dumps(mine, indent=4))
    hubd(home, "uninstall", "claude-desktop", "--restore-originals")
    servers = json.loads(HOMES["claude-desktop"].text)["mcpServers"]
    found = json.loads(path.read_text())
    assert found == {
        "globalShortcut": "Alt+X",
        "mcpServers": {"Linear": {"command": "mine"}, "filesystem": servers["filesystem"]},
    }
    path.unlink()
    assert "absent" in json.dumps(told(home, "uninstall", "claude-desktop", "--restore-originals"))


def test_a_file_that_is_gone_is_not_made_anew(home):
    path = home[0] / HOMES["copilot"].path
    hubd(home, "install", "copilot")
    hubd(home, "import", "copilot", "--disable-originals", "--force", "*")
    path.unlink()
    assert '"time" is not put back' in hubd(home, "uninstall", "copilot", "--restore-originals", code=1)
    assert not path.exists()


def test_a_host_without_the_hub_keeps_its_servers(home):
    before = contents(home)
    hubd(home, "install", "cursor")
    said = hubd(home, "import", "cursor", "zed", "--secrets", "keep", "--disable-originals", "--force", "*", code=1)
    assert "Zed does not have the hub, so its servers are left enabled: run `hubd install zed`, then this again" in said
    assert contents(home)["zed"] == before["zed"]
    assert "docker" not in (home[0] / HOMES["cursor"].path).read_text()
    assert "imported as sqlite" in said


def test_what_the_hub_does_not_start_stays_on_in_the_host(home):
    before = contents(home)
    hubd(home, "install", "cursor")
    hubd(home, "import", "cursor", "--secrets", "reference")
    said = hubd(home, "import", "cursor", "--disable-originals", "--force", "notes", code=1)
    assert "hubd has it as github, disabled" in said
    why = "the hub has it as github, which is disabled; run `hubd enable github`"
    assert f'Cursor: "github" left enabled: {why}' in said
    found = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]
    assert found["github"] == json.loads(before["cursor"])["mcpServers"]["github"]
    assert "notes" not in found


@pytest.mark.parametrize("ends", ["", "sys.exit(1)"])
def test_what_the_host_s_own_program_took_out_comes_back(home, tmp_path, ends):
    """Also if the program did it and then failed."""
    path = home[0] / HOMES["claude-code"].path
    (programs := tmp_path / "bin").mkdir()
    (program := programs / "claude").write_text(
        "#!/usr/bin/env python3\n"
        "import json, sys\n"
        f"path = {str(path)!r}\n"
        "document = json.load(open(path))\n"
        "servers = document['mcpServers']\n"
        "if sys.argv[2] == 'remove':\n"
        "    del servers[sys.argv[5]]\n"
        "else:\n"
        "    servers[sys.argv[5]] = json.loads(sys.argv[6])\n"
        "json.dump(document, open(path, 'w'), indent=2)\n"
        f"if sys.argv[2] == 'remove' and 'sentry' in sys.argv: {ends or 'pass'}\n"
    )
    program.chmod(0o755)
    home[1]["PATH"] = f"{programs}:/usr/bin:/bin"
    hubd(home, "install", "claude-code")
    hubd(home, "import", "claude-code", "--disable-originals", "--force", "*", code=bool(ends))
    assert set(json.loads(path.read_text())["mcpServers"]) == {"hub"}
    said = hubd(home, "uninstall", "claude-code", "--restore-originals")
    assert "back: sentry" in said
    assert json.loads(path.read_text()) == json.loads(HOMES["claude-code"].text)


def test_a_server_that_no_host_has_any_longer_is_said_when_it_is_removed(home):
    assert "any longer" not in hubd(home, "add", "plain", "--", "plain") + hubd(home, "remove", "plain")
    taking = ("import", "--secrets", "keep", "--disable-originals", "--force", "*", "--without-hub")
    hubd(home, *taking, "claude-desktop", "cline")
    said = " ".join(hubd(home, "remove", "filesystem").split())
    assert "no host starts filesystem any longer: it was taken out of Claude Desktop." in said
    assert "`hubd uninstall claude-desktop --restore-originals`" in said
    said = " ".join(hubd(home, "remove", "fetch").split())
    assert "it was taken out of Cline" in said, "it is turned off there, which is as good"


def test_a_server_that_a_host_still_has_is_removed_without_a_word_of_hosts(home):
    text = json.loads(HOMES["claude-desktop"].text)
    (home[0] / HOMES["kiro"].path).write_text(json.dumps({"mcpServers": text["mcpServers"]}))
    taking = ("import", "--secrets", "keep", "--disable-originals", "--force", "*", "--without-hub")
    hubd(home, *taking, "claude-desktop")
    assert "any longer" not in hubd(home, "remove", "filesystem")


def test_a_server_with_a_twin_in_the_hub_was_lost_by_no_host(home):
    taking = ("import", "--secrets", "keep", "--disable-originals", "--force", "*", "--without-hub")
    hubd(home, *taking, "claude-desktop")
    config = home[0] / ".config" / "hubd" / "hubd.toml"
    taken = tomllib.loads((config.parent / "imported" / "claude-desktop.toml").read_text())["upstreams"]["filesystem"]
    words = (f"{name} = {json.dumps(taken[name])}" for name in ("command", "args"))
    config.write_text("\n".join(["[upstreams.twin]", *words, ""]))
    assert "any longer" not in hubd(home, "remove", "twin")
    assert "any longer" in " ".join(hubd(home, "remove", "filesystem").split())
