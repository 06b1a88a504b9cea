"""`hubd install` and `uninstall` as commands, in a home directory with every host."""

import json
import subprocess
from pathlib import Path

import pytest

from config.hosts.hub_entries import variables_to_carry
from tests.support import host_commands
from tests.support.host_commands import contents, hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD, running


@pytest.fixture
def home(tmp_path):
    return host_commands.home(tmp_path)


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


def test_a_file_that_cannot_be_read_and_that_hubd_never_wrote_hinders_no_uninstall(home):
    path, text = home[0] / HOMES["gemini"].path, '{"mcpServers": {"github": }'
    hubd(home, "install", "--all")
    path.write_text(text)
    assert "which cannot be read" not in hubd(home, "uninstall", "gemini", code=1), "it is recorded"
    (Path(home[1]["XDG_STATE_HOME"]) / "hubd" / "installed.json").unlink()
    said = hubd(home, "uninstall", "--all")
    assert f"the hub is not in {path}, which cannot be read and was left as it is: " in said
    path.write_text('{"mcpServers": {"hub": }')
    hubd(home, "uninstall", "--all", code=1)
    assert path.read_text() == '{"mcpServers": {"hub": }'


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


ISSUER = '[[access.issuers]]\nname = "team"\nissuer = "https://id.example"\n'
TEAM = 'listen = "10.0.0.5:9000"\nbehind_tls_proxy = true\nallowed_hosts = ["hub.example.com:443"]\n'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('auth = "none"\n', None),
        (f'auth = "oauth"\n{ISSUER}', "hosts sign in at https://id.example"),
        (f'auth = "oauth"\n{TEAM}{ISSUER}', "hosts sign in at https://id.example"),
        (f'auth = "proxy"\n{TEAM}[access.proxy]\nheader = "X-P"\npeer_uid = [0]\n', "the proxy says who comes"),
    ],
)
def test_no_token_is_written_where_it_is_not_what_opens_the_hub(home, tmp_path, settings, said):
    (config := tmp_path / "hubd.toml").write_text(settings)
    printed = hubd(home, "install", "--http", "cursor", "--config", config)
    entry = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]["hub"]
    assert entry.keys() == {"url"}
    assert "hubd token new" in printed if said else "hub's token" not in printed
    assert (said or "") in printed


def test_the_hub_s_own_machine_has_its_token_where_people_sign_in_elsewhere(home, tmp_path):
    settings = f'auth = "oauth"\n[access]\nresource = "https://hub.example.com/mcp"\n{ISSUER}'
    (config := tmp_path / "hubd.toml").write_text(settings)
    assert "now hold the hub's token" in hubd(home, "install", "--http", "cursor", "--config", config)
    entry = json.loads((home[0] / HOMES["cursor"].path).read_text())["mcpServers"]["hub"]
    assert entry["headers"] == {"Authorization": f"Bearer {hubd(home, 'token').strip()}"}


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
    assert json.loads(entry) == started | {"env": variables_to_carry(home[1], home[0])}
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
    assert (
        "the entries name the directories of this shell's hub: HUBD_RUNTIME_DIR, XDG_STATE_HOME, XDG_DATA_HOME" in said
    )
    entry = json.loads(path.read_text())["mcpServers"]["hub"]
    assert entry["env"] == {
        "HUBD_RUNTIME_DIR": f"{env['XDG_RUNTIME_DIR']}/hubd",
        "XDG_STATE_HOME": env["XDG_STATE_HOME"],
        "XDG_DATA_HOME": env["XDG_DATA_HOME"],
    }
    (directory / ".config" / "hubd").mkdir(mode=0o700)
    (directory / ".config" / "hubd" / "hubd.toml").write_text('listen = "127.0.0.1:0"\nauth = "none"\n')
    with running([HUBD, "serve"], directory / "hubd.log", env=env, cwd=directory, forked=True) as process:
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


# --- for programs -----------------------------------------------------------------------------------------------------


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
