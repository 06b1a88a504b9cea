"""`hubd install`, `uninstall` and `import` as commands, in a home directory with every host."""

import json
import os
import pty
import stat
import subprocess
import threading
from pathlib import Path

import host_homes
import pytest
from host_homes import HOMES
from processes import HUBD, own_directories, running

from config.hosts.directories import carried


@pytest.fixture
def home(tmp_path):
    """A home directory with every host; the environment of commands there."""
    env = own_directories(tmp_path) | {"HOME": str(tmp_path / "me"), "PATH": "/usr/bin:/bin"}
    env["XDG_CONFIG_HOME"] = str(tmp_path / "me" / ".config")
    host_homes.write(tmp_path / "me")
    return tmp_path / "me", env


def hubd(home, *arguments, code=0):
    directory, env = home
    argv = [HUBD, *map(str, arguments)]
    done = subprocess.run(
        argv, env=env, cwd=directory, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def contents(home):
    return {id: (home[0] / kept.path).read_bytes() for id, kept in HOMES.items()}


def test_into_all_hosts_and_out_again(home):
    before = contents(home)
    listed = hubd(home, "install")
    assert all(id in listed for id in HOMES)
    assert "yes" not in listed
    shown = hubd(home, "install", "--all", "--dry-run")
    assert shown.count("+++") == len(HOMES)
    assert "ghp_" not in shown
    assert contents(home) == before
    hubd(home, "install", "--all")
    installed = contents(home)
    assert all(installed[id] != before[id] for id in HOMES)
    again = hubd(home, "install", "--all")
    assert again.count("is already in") == len(HOMES)
    assert contents(home) == installed
    assert str(HUBD) in (home[0] / HOMES["cursor"].path).read_text()
    assert hubd(home, "install").count(" yes ") == len(HOMES)
    hubd(home, "uninstall", "--all")
    assert contents(home) == before


def test_what_is_refused_comes_with_what_to_paste(home):
    path = home[0] / HOMES["goose"].path
    path.write_text("extensions: {a: {cmd: x}}\n")
    said = hubd(home, "install", "goose", "cursor", code=1)
    assert "written in one line, with brackets" in said
    assert "extensions:\n  hub:\n    enabled: true" in said
    assert path.read_text() == "extensions: {a: {cmd: x}}\n"
    assert b"connect" in contents(home)["cursor"]


def test_wrong_usage(home):
    assert 'did you mean "cursor"?' in hubd(home, "install", "curser", code=2)
    assert "name hosts, or write --all" in hubd(home, "uninstall", code=2)
    assert "there is no directory" in hubd(home, "install", "cursor", "--project", "nowhere", code=2)
    assert "has no file for projects" in hubd(home, "install", "goose", "--project", ".", code=2)


def test_with_the_url_and_the_token(home):
    said = hubd(home, "install", "--http", "cursor", "claude-desktop")
    token = hubd(home, "token").strip()
    entry = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]["hub"]
    assert entry == {"url": "http://127.0.0.1:8765/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    assert "Claude Desktop takes no URLs" in said
    assert "now hold the hub's token" in said
    assert token not in hubd(home, "install", "--http", "gemini", "--dry-run")
    assert "updated" in hubd(home, "install", "cursor")
    hubd(home, "uninstall", "--all")
    assert contents(home)["cursor"].decode() == HOMES["cursor"].text


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ('listen = "0.0.0.0:9000"\nbehind_tls_proxy = true\n', "http://127.0.0.1:9000/mcp"),
        (
            'listen = "10.0.0.5:9000"\nbehind_tls_proxy = true\nallowed_hosts = ["hub.example.com:443"]\n',
            "https://hub.example.com/mcp",
        ),
    ],
)
def test_the_url_is_one_that_the_host_can_use(home, tmp_path, settings, url):
    (config := tmp_path / "hubd.toml").write_text(settings)
    hubd(home, "install", "--http", "cursor", "--config", config)
    entry = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]["hub"]
    assert entry["url"] == url
    config.write_text('listen = "10.0.0.5:9000"\nbehind_tls_proxy = true\n')
    said = hubd(home, "install", "--http", "cursor", "--config", config, code=2)
    assert 'write allowed_hosts = ["NAME:443"]' in said


def test_claude_code_s_own_program_changes_its_file(home, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "claude"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/calls\n')
    program.chmod(0o755)
    home[1]["PATH"] = f"{programs}:/usr/bin:/bin"
    before = contents(home)["claude-code"]
    assert "would run" in hubd(home, "install", "claude-code", "--dry-run")
    hubd(home, "install", "claude-code")
    *words, entry = (tmp_path / "calls").read_text().splitlines()
    assert words == ["mcp", "add-json", "-s", "user", "hub"]
    started = {"type": "stdio", "command": str(HUBD), "args": ["connect", "--host", "claude-code"]}
    assert json.loads(entry) == started | {"env": carried(home[1], home[0])}
    assert contents(home)["claude-code"] == before

    path = home[0] / HOMES["claude-code"].path
    path.write_text(json.dumps({"mcpServers": {"hub": json.loads(entry)}}))  # as the program would have
    (tmp_path / "calls").unlink()
    assert "is already in" in hubd(home, "install", "claude-code")
    hubd(home, "uninstall", "claude-code")
    assert (tmp_path / "calls").read_text().split() == ["mcp", "remove", "-s", "user", "hub"]

    program.write_text("#!/bin/sh\necho no such server; exit 3\n")
    assert "failed: no such server" in hubd(home, "uninstall", "claude-code", code=1)


def test_in_a_project(home):
    project = home[0] / "shop"
    project.mkdir()
    hubd(home, "install", "cursor", "claude-code", "--project", project)
    assert sorted(path.name for path in project.iterdir()) == [".cursor", ".mcp.json"]
    hubd(home, "uninstall", "--all", "--project", project)
    assert list(project.iterdir()) == []


def test_a_host_of_the_desktop_finds_the_hub_of_the_shell(home):
    directory, env = home
    path = directory / HOMES["cursor"].path
    said = hubd(home, "install", "cursor")
    assert "the entries name the directories of this shell's hub: HUBD_RUNTIME_DIR, XDG_STATE_HOME" in said
    entry = json.loads(path.read_text())["mcpServers"]["hub"]
    assert entry["env"] == {
        "HUBD_RUNTIME_DIR": f"{env['XDG_RUNTIME_DIR']}/hubd",
        "XDG_STATE_HOME": env["XDG_STATE_HOME"],
    }
    (directory / ".config" / "hubd").mkdir(mode=0o700)
    (directory / ".config" / "hubd" / "hubd.toml").write_text('listen = "127.0.0.1:0"\nauth = "none"\n')
    with running([HUBD, "serve"], directory / "hubd.log", env=env, cwd=directory) as process:
        process.wait_for(r"https?://")
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "a host of the desktop", "version": "1"},
        }
        host = subprocess.Popen(
            [entry["command"], *entry["args"]],
            env={"HOME": str(directory), "PATH": "/usr/bin:/bin", **entry["env"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
        )
        host.stdin.flush()
        assert b'"hubd"' in host.stdout.readline()
        (attached,) = json.loads(hubd(home, "status", "--json"))["hosts"]
        assert attached["label"] == "cursor"
        host.communicate(timeout=60)
    env["HUBD_RUNTIME_DIR"] = str(directory / "another")
    found = json.loads(hubd(home, "doctor", "--json", code=1))
    assert any("leads to another hub than this shell's: HUBD_RUNTIME_DIR differs" in each["what"] for each in found)


# --- for programs -----------------------------------------------------------------------------------------------------


def told(home, *arguments, code=0):
    """The one object that a command prints."""
    directory, env = home
    argv = [HUBD, *map(str, arguments), "--json"]
    done = subprocess.run(argv, env=env, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert bool(done.stderr) == bool(code)
    return json.loads(done.stdout)


def test_programs_are_told_what_was_installed(home):
    before = contents(home)
    path = str(home[0] / HOMES["cursor"].path)
    listed = {each["host"]: each for each in told(home, "install")["hosts"]}
    assert listed["cursor"] == {"host": "cursor", "title": "Cursor", "file": path, "hub": "no"}
    tried = told(home, "install", "cursor", "zed", "--dry-run")
    assert contents(home) == before
    assert [(each["host"], each["did"], each["backup"]) for each in tried["hosts"]] == [
        ("cursor", "added", None),
        ("zed", "added", None),
    ]
    done = told(home, "install", "cursor", "zed")
    assert (tried["dry_run"], done["dry_run"]) == (True, False)
    (cursor, _) = done["hosts"]
    assert cursor["file"] == path
    assert Path(cursor["backup"]).read_bytes() == before["cursor"]
    assert cursor["diff"] == tried["hosts"][0]["diff"]
    assert '+\t\t\t"command": ' in cursor["diff"]
    assert "ghp_" not in cursor["diff"]
    assert [each["did"] for each in told(home, "install", "cursor")["hosts"]] == ["unchanged"]
    gone = told(home, "uninstall", "cursor", "zed", "kiro")["hosts"]
    assert [each["did"] for each in gone] == ["removed", "removed", "absent"]
    assert contents(home) == before


def test_programs_are_told_what_was_refused_beside_what_was_done(home):
    (home[0] / HOMES["goose"].path).write_text("extensions: {a: {cmd: x}}\n")
    (home[0] / HOMES["zed"].path).write_bytes(b"\xff")
    found = told(home, "install", "goose", "zed", "cursor", code=1)
    goose, zed, cursor = found["hosts"]
    assert [each["did"] for each in (goose, zed, cursor)] == ["refused", "refused", "added"]
    assert "written in one line" in goose["why"]
    assert "extensions:\n  hub:\n" in goose["by_hand"]
    assert found["error"]["code"] == 1
    assert "Goose: " in found["error"]["message"]
    assert "Zed: " in found["error"]["message"]


def test_programs_are_told_what_was_imported(home):
    assert "secrets" in told(home, "import", "cursor", code=2)["error"]["message"]
    tried = told(home, "import", "cursor", "copilot", "--secrets", "keep", "--dry-run")
    assert not (home[0] / ".config" / "hubd").exists()
    done = told(home, "import", "cursor", "copilot", "--secrets", "keep")
    assert {(each["host"], each["server"], each["did"], each["name"]) for each in done["servers"]} >= {
        ("cursor", "github", "taken", "github"),
        ("copilot", "time", "taken", "time"),
    }
    files = {"cursor.toml", "copilot.toml"}
    assert {os.path.basename(each["file"]) for each in done["files"]} == files
    assert [each["diff"] for each in done["files"]] == [each["diff"] for each in tried["files"]]
    assert all(each["backup"] is None and "\n+[upstreams." in each["diff"] for each in done["files"])
    assert "ghp_" not in json.dumps(done)
    assert any("--disable-originals" in note for note in done["notes"])
    again = told(home, "import", "copilot", "--disable-originals", "--without-hub")
    assert [each["did"] for each in again["servers"]] == ["known"]
    (copilot,) = again["files"]
    assert Path(copilot["backup"]).read_text() == HOMES["copilot"].text


def test_programs_are_told_of_a_host_that_has_no_file(home):
    (home[0] / HOMES["kiro"].path).unlink()
    found = told(home, "import", "kiro")
    assert (found["servers"], found["files"], found["dry_run"]) == ([], [], False)
    assert any("there is no file of it" in note for note in found["notes"])


# --- import -----------------------------------------------------------------------------------------------------------


def test_import_asks_before_it_takes_secrets(home):
    said = hubd(home, "import", code=2)
    assert "github (Cursor): env.GITHUB_PERSONAL_ACCESS_TOKEN" in said
    assert "--secrets keep, reference or skip" in said
    assert not (home[0] / ".config" / "hubd").exists()


def test_import_writes_a_file_for_each_host(home):
    before = contents(home)
    shown = hubd(home, "import", "--dry-run", "--secrets", "keep")
    assert "ghp_" not in shown
    assert not (home[0] / ".config" / "hubd").exists()
    said = hubd(home, "import", "--secrets", "keep")
    assert "ghp_" not in said
    assert "--disable-originals" in said
    imported = home[0] / ".config" / "hubd" / "imported"
    assert {path.stem for path in imported.iterdir()} == {id for id in HOMES if HOMES[id].servers}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in imported.iterdir())
    assert contents(home) == before
    hubd(home, "validate")
    again = hubd(home, "import")
    assert "taken as" not in again
    assert "hubd has it as linear" in again


def test_a_server_of_two_hosts_is_taken_once(home):
    windsurf = json.loads(HOMES["cline"].text)
    (home[0] / HOMES["windsurf"].path).write_text(json.dumps(windsurf))
    said = hubd(home, "import", "--dry-run", "windsurf", "cline")
    assert "taken as fetch" in said
    assert "same as fetch" in said


def test_originals_are_turned_off_or_taken_out(home):
    hosts = ("cline", "claude-desktop", "codex", "goose")
    hubd(home, "import", "--secrets", "keep", "--disable-originals", "--without-hub", *hosts)
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
    disabling = ("import", "--secrets", "keep", "--disable-originals")
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
    hubd(home, "import", "--secrets", "keep", "--disable-originals")
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


def test_the_hub_itself_is_never_taken_over(home):
    hubd(home, "install", "cursor", "zed", "--http")
    servers = told(home, "import", "cursor", "zed", "--secrets", "keep")["servers"]
    assert {each["server"] for each in servers} == {"github", "notes", "sqlite", "mcp-server-context7"}


def test_uninstall_says_what_is_still_out(home):
    before = contents(home)
    hubd(home, "install", "claude-desktop", "cline")
    hubd(home, "import", "claude-desktop", "cline", "--disable-originals")
    said = hubd(home, "uninstall", "claude-desktop", "cline")
    assert "2 servers that `hubd import --disable-originals` took out of Claude Desktop are still out; put them" in said
    assert "1 server that `hubd import --disable-originals` took out of Cline is still out; put it back with" in said
    assert "`hubd uninstall claude-desktop --restore-originals`" in said
    said = hubd(home, "uninstall", "claude-desktop", "--restore-originals")
    assert "back: filesystem, Linear" in said
    assert contents(home)["claude-desktop"] == before["claude-desktop"]
    assert contents(home)["cline"] != before["cline"]
    assert "Claude Desktop" not in hubd(home, "uninstall", "--all").replace("Claude Desktop: is not in", "")
    (done,) = told(home, "uninstall", "cline", "--restore-originals")["hosts"]
    assert (done["did"], done["restored"]) == ("restored", ["fetch"])
    assert contents(home) == before


def test_what_was_taken_out_is_not_forgotten_where_it_cannot_be_read(home):
    """It is known nowhere else: hosts keep what they have until somebody has looked."""
    hubd(home, "install", "cline", "claude-desktop")
    hubd(home, "import", "claude-desktop", "--disable-originals")
    records = Path(home[1]["XDG_STATE_HOME"], "hubd", "originals.json")
    kept = records.read_bytes()
    damaged = kept.replace(b'"off"', b'"of')
    records.write_bytes(damaged)
    before = contents(home)
    for command in (("import", "cline", "--disable-originals"), ("uninstall", "--all", "--restore-originals")):
        assert "originals.json: cannot be understood" in hubd(home, *command, code=1)
        assert (records.read_bytes(), contents(home)) == (damaged, before)
    records.write_bytes(kept)
    assert "back: filesystem, Linear" in hubd(home, "uninstall", "claude-desktop", "--restore-originals")


def test_what_was_edited_by_hand_meanwhile_stays(home):
    path = home[0] / HOMES["claude-desktop"].path
    hubd(home, "install", "claude-desktop")
    hubd(home, "import", "claude-desktop", "--disable-originals")
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
    hubd(home, "import", "copilot", "--disable-originals")
    path.unlink()
    assert '"time" is not put back' in hubd(home, "uninstall", "copilot", "--restore-originals", code=1)
    assert not path.exists()


def test_a_host_without_the_hub_keeps_its_servers(home):
    before = contents(home)
    hubd(home, "install", "cursor")
    said = hubd(home, "import", "cursor", "zed", "--secrets", "keep", "--disable-originals", code=1)
    assert "Zed does not have the hub, so its servers stay on: run `hubd install zed`, then this again" in said
    assert contents(home)["zed"] == before["zed"]
    assert "docker" not in (home[0] / HOMES["cursor"].path).read_text()
    assert "taken as sqlite" in said


def test_what_the_hub_does_not_start_stays_on_in_the_host(home):
    before = contents(home)
    hubd(home, "install", "cursor")
    hubd(home, "import", "cursor", "--secrets", "reference")
    said = hubd(home, "import", "cursor", "--disable-originals", code=1)
    assert "hubd has it as github, disabled" in said
    assert 'Cursor: "github" stays on: the hub has it as github, which is disabled; run `hubd enable github`' in said
    found = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]
    assert found["github"] == json.loads(before["cursor"])["mcpServers"]["github"]
    assert "notes" not in found


def test_what_the_host_s_own_program_took_out_comes_back(home, tmp_path):
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
    )
    program.chmod(0o755)
    home[1]["PATH"] = f"{programs}:/usr/bin:/bin"
    hubd(home, "install", "claude-code")
    hubd(home, "import", "claude-code", "--disable-originals")
    assert set(json.loads(path.read_text())["mcpServers"]) == {"hub"}
    said = hubd(home, "uninstall", "claude-code", "--restore-originals")
    assert "back: sentry" in said
    assert json.loads(path.read_text()) == json.loads(HOMES["claude-code"].text)


def test_what_was_removed_does_not_come_back_by_itself(home):
    hubd(home, "import", "claude-desktop")
    path = home[0] / ".config" / "hubd" / "imported" / "claude-desktop.toml"
    hubd(home, "remove", "linear")
    assert "mcp-remote" not in path.read_text()
    said = hubd(home, "import", "claude-desktop")
    assert "edited since" not in said
    assert "hubd has it as filesystem" in said
    assert "you removed it; `hubd import claude-desktop --again` takes it all the same" in " ".join(said.split())
    assert "[upstreams.linear]" not in path.read_text()
    other = json.dumps({"mcpServers": {"tickets": json.loads(HOMES["claude-desktop"].text)["mcpServers"]["Linear"]}})
    (home[0] / HOMES["kiro"].path).write_text(other)
    assert "you removed it" in hubd(home, "import", "kiro"), "it is the same server, whatever another host calls it"
    hubd(home, "import", "claude-desktop", "--again")
    assert "[upstreams.linear]" in path.read_text()
    assert "hubd has it as linear" in hubd(home, "import", "claude-desktop", "kiro")
    for name in ("linear", "filesystem"):
        hubd(home, "remove", name)
    hubd(home, "validate")
    assert "taken as" not in hubd(home, "import", "claude-desktop")


def test_what_signs_in_stays_as_it_is(home):
    said = " ".join(hubd(home, "import", "claude-desktop").split())
    assert "Linear of Claude Desktop: stays behind mcp-remote, which can sign in to it; the hub cannot do that" in said
    text = (home[0] / ".config" / "hubd" / "imported" / "claude-desktop.toml").read_text()
    assert 'args = ["-y", "mcp-remote@latest", "https://mcp.linear.app/mcp"]' in text


def test_the_servers_of_single_folders_are_named(home):
    shop = home[0] / "shop"
    shop.mkdir()
    path = home[0] / HOMES["claude-code"].path
    path.write_text(path.read_text().replace("/home/me/shop", str(shop)))
    before = path.read_text()
    said = hubd(home, "import", "claude-code")
    assert "note: 1 server of ~/shop: `hubd import claude-code --project ~/shop`\n" in said
    hubd(home, "import", "claude-code", "--project", shop)
    assert "~/shop" not in hubd(home, "import", "claude-code")
    hubd(home, "install", "claude-code")
    installed = path.read_text()
    hubd(home, "import", "claude-code", "--project", shop, "--disable-originals")
    assert "--ro" not in path.read_text()
    assert "--project " in hubd(home, "uninstall", "claude-code", "--project", shop)
    hubd(home, "uninstall", "claude-code", "--project", shop, "--restore-originals")
    hubd(home, "uninstall", "claude-code", "--restore-originals")
    assert path.read_text() == before != installed


def test_trust_says_which_hosts_start_a_project_s_servers_anyway(home):
    (shop := home[0] / "shop").mkdir()
    (shop / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "sh"}}}')
    said = hubd(home, "trust", shop, "--yes")
    assert "Claude Code and Copilot CLI and Warp start what .mcp.json names by themselves, so it runs twice" in said
    found = json.loads(hubd((shop, home[1]), "doctor", "--json", code=1))
    assert [each["fix"] for each in found if each["check"] == "double"] == [
        f"move it to {shop}/.hubd.toml, which is for hubd alone, or run `hubd untrust {shop}`"
    ]
    (shop / ".mcp.json").rename(shop / ".hubd.toml")
    (shop / ".hubd.toml").write_text('[upstreams.db]\ncommand = "sh"\n')
    assert "runs twice" not in hubd(home, "trust", shop, "--yes")


def test_a_trial_says_that_secrets_will_be_asked_for(home):
    said = hubd(home, "import", "cursor", "--dry-run")
    assert "github (Cursor): env.GITHUB_PERSONAL_ACCESS_TOKEN" in said
    assert "It is shown as if they were kept; an import without --secrets asks" in said
    assert "It is shown as if" not in hubd(home, "import", "cursor", "--dry-run", "--secrets", "skip")


def test_why_a_server_is_disabled_stands_below_the_table(home):
    said = hubd(home, "import", "codex")
    assert "Codex  figma     taken as figma, disabled\n" in said
    assert "\nfigma of Codex: disabled: the variable FIGMA_OAUTH_TOKEN is not set" in said
    assert max(map(len, said.partition("wrote ")[0].splitlines())) <= 100
    assert "hubd has it as figma, disabled" in hubd(home, "import", "codex")
    again = {each["server"]: each["disabled"] for each in told(home, "import", "codex")["servers"]}
    assert again == {"context7": False, "figma": True}


def test_after_an_import_the_hub_belongs_into_the_hosts(home):
    assert "cannot reach the hub yet: `hubd install copilot zed` puts it" in hubd(home, "import", "copilot", "zed")
    hubd(home, "install", "copilot", "zed")
    assert "cannot reach" not in hubd(home, "import", "copilot", "zed")


def test_diffs_are_shown_as_the_files_are(home):
    said = hubd(home, "install", "vscode", "codex", "--dry-run")
    assert '+\t\t"hub": {\n' in said
    hubd(home, "uninstall", "codex")
    (home[0] / HOMES["codex"].path).write_text(
        '[mcp_servers.a]\nurl = "https://x"\nbearer_token_env_var = "MY_TOKEN"\n'
    )
    assert 'bearer_token_env_var = "MY_TOKEN"' in hubd(home, "install", "codex", "--dry-run")


def test_every_host_says_what_it_needs_to_see_the_hub(home):
    said = hubd(home, "install", "--all")
    lines = [line for line in said.splitlines() if ": added to " in line]
    assert len(lines) == len(HOMES)
    assert all("restart" in line or "reload" in line or "start" in line.rpartition(";")[2] for line in lines), lines


def test_the_files_of_a_project_are_listed(home):
    (project := home[0] / "shop").mkdir()
    said = hubd(home, "install", "--project", project)
    assert str(project / ".mcp.json") in said
    assert ".codeium" not in said
    assert f"hubd install --project {project} NAME" in said


def test_a_file_that_was_edited_is_not_written_again(home):
    hubd(home, "import", "copilot")
    path = home[0] / ".config" / "hubd" / "imported" / "copilot.toml"
    path.write_text(path.read_text().replace("2025.7.1", "2025.7.2"))
    edited = path.read_text()
    said = hubd(home, "import", "copilot")
    assert "edited since: move what you changed to hubd.toml" in said
    assert path.read_text() == edited


def test_what_hubd_could_not_use_is_skipped(home):
    path = home[0] / HOMES["kiro"].path
    path.write_text('{"mcpServers": {"bad": {"url": "ftp://x"}, "good": {"url": "https://x.example/mcp"}}}')
    said = hubd(home, "import", "kiro")
    assert "taken as good" in said
    assert "expected an address" in said
    hubd(home, "validate")


def test_an_unreadable_file_keeps_nothing_else_from_being_taken(home):
    (home[0] / HOMES["kiro"].path).write_text("{")
    said = hubd(home, "import", "kiro", "copilot", code=1)
    assert "is not JSON" in said
    assert "taken as time" in said


def test_on_a_terminal_it_asks(home):
    directory, env = home
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [HUBD, "import", "cursor"],
        env=env,
        cwd=directory,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    killer = threading.Timer(60, done.kill)
    killer.start()
    os.write(ours, b"x\nr\ny\n")
    said = done.communicate()[0].decode()
    killer.cancel()
    os.close(ours)
    assert done.returncode == 0, said
    assert "[k]eep them" in said
    text = (directory / ".config" / "hubd" / "imported" / "cursor.toml").read_text()
    assert '"${GITHUB_PERSONAL_ACCESS_TOKEN}"' in text
    assert "ghp_" not in text


def test_a_running_hub_takes_up_what_was_imported(home):
    directory, env = home
    config = directory / ".config" / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('listen = "127.0.0.1:0"\nauth = "none"\n')
    with running([HUBD, "serve"], directory / "hubd.log", env=env, cwd=directory) as process:
        process.wait_for(r"https?://")
        (directory / HOMES["kiro"].path).write_text(
            '{"mcpServers": {"far": {"url": "https://x.example/mcp", "disabled": true}}}'
        )
        hubd(home, "import", "kiro")
        hubd(home, "reload")  # it does so by itself; this waits until it has
        status = json.loads(hubd(home, "status", "--json"))
        assert "far" in [upstream["name"] for upstream in status["upstreams"]]


@pytest.mark.covers("SEC-61")
def test_no_secret_is_shown_of_what_would_be_taken_out(home):
    (home[0] / HOMES["cursor"].path).write_text(
        json.dumps({"mcpServers": {"a": {"command": "sh", "args": ["-e", "API_TOKEN=hunter2"]}}}, indent=2)
    )
    for secrets in ("keep", "reference"):
        flags = ("--dry-run", "--disable-originals", "--without-hub", "--secrets", secrets)
        said = hubd(home, "import", "cursor", *flags)
        assert "-e" in said
        assert "hunter2" not in said


def test_an_import_beside_another_main_file(home, tmp_path):
    main = tmp_path / "other" / "hubd.toml"
    main.parent.mkdir()
    main.write_text('[upstreams.mine]\ncommand = "true"\n')
    said = hubd(home, "import", "zed", "--config", main, "--secrets", "keep", "--yes")
    assert (main.parent / "imported" / "zed.toml").exists(), said
    assert not (home[0] / ".config" / "hubd" / "imported").exists()
