"""`hubd import` as a command, in a home directory with every host."""

import json
import os
import pty
import re
import stat
import subprocess
import threading
import tomllib
from pathlib import Path

import pytest

from tests.support import host_commands
from tests.support.host_commands import contents, hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD, running

OTHER = 54321
"""The number of a user who is not this one."""


@pytest.fixture
def home(tmp_path):
    return host_commands.home(tmp_path)


def test_import_asks_before_it_takes_secrets(home):
    said = hubd(home, "import", code=2)
    assert "github (Cursor): env.GITHUB_PERSONAL_ACCESS_TOKEN" in said
    assert "--secrets store, keep, reference or skip" in said
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
    assert "imported as" not in again
    assert "hubd has it as linear" in again


def test_secrets_are_moved_to_the_store_and_their_servers_stay_on(home):
    home[1]["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    held = {"command": "x", "args": ["--api-key", "hunter2-hunter2"]}
    (home[0] / HOMES["zed"].path).write_text(json.dumps({"context_servers": {"argument": held}}))
    before = contents(home)
    shown = hubd(home, "import", "--dry-run", "--secrets", "store")
    assert "would be kept as by `hubd secret set`: GITHUB_GITHUB_PERSONAL_ACCESS_TOKEN" in shown
    said = hubd(home, "import", "--secrets", "store", "--yes")
    assert "kept in a file only you can read" in said
    imported = home[0] / ".config" / "hubd" / "imported"
    text = "".join(path.read_text() for path in imported.iterdir())
    assert "${secret:GITHUB_GITHUB_PERSONAL_ACCESS_TOKEN}" in text
    assert "${secret:ARGUMENT_ARG_1}" in text
    for place in (shown, said, text, hubd(home, "secret", "ls"), hubd(home, "config", "--effective")):
        assert not re.search(r"ghp_|hunter2", place)
    tables = tomllib.loads((imported / "cursor.toml").read_text())["upstreams"]
    assert "disabled" not in tables["github"]
    assert contents(home) == before
    again = hubd(home, "import", "--secrets", "store")
    assert "imported as" not in again
    assert "hubd has it as argument" in again


def test_two_accounts_are_two_servers_also_when_their_secrets_were_moved(home):
    home[1]["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    pg = {"command": "npx", "args": ["-y", "pg"]}
    gh = {"url": "https://gh.example/mcp"}
    servers = {f"pg-{name}": {**pg, "env": {"DATABASE_URL": f"postgres://u:hunter2@{name}/x"}} for name in ("a", "b")}
    servers |= {f"gh-{name}": {**gh, "headers": {"Authorization": f"Bearer hunter2-{name}"}} for name in ("a", "b")}
    (home[0] / HOMES["cursor"].path).write_text(json.dumps({"mcpServers": servers}))
    said = told(home, "import", "cursor", "--secrets", "store", "--yes")
    assert {each["name"]: each["did"] for each in said["servers"]} == dict.fromkeys(servers, "taken")
    again = told(home, "import", "cursor")
    assert {each["server"]: (each["did"], each["name"]) for each in again["servers"]} == {
        name: ("known", name) for name in servers
    }
    hubd(home, "secret", "rm", "--force", "PG_A_DATABASE_URL")
    unsure = told(home, "import", "cursor", "--disable-originals", "--without-hub", "--dry-run", code=1)
    assert {each["did"] for each in unsure["servers"]} == {"known"}
    why = "the hub has it as pg-a, but cannot read the values of its variables now, so they may differ"
    assert next(each["why"] for each in unsure["stay"] if each["server"] == "pg-a") == why
    assert "hunter2" not in json.dumps([said, again, unsure])


def test_secrets_that_are_to_be_set_say_where(home):
    said = hubd(home, "import", "cursor", "--secrets", "reference", "--yes")
    assert "disabled until GITHUB_PERSONAL_ACCESS_TOKEN is set in ~/.config/hubd/hubd.env" in " ".join(said.split())
    text = (home[0] / ".config" / "hubd" / "imported" / "cursor.toml").read_text()
    assert "# Disabled until GITHUB_PERSONAL_ACCESS_TOKEN is set in ~/.config/hubd/hubd.env" in text


def test_a_server_of_two_hosts_is_taken_once(home):
    windsurf = json.loads(HOMES["cline"].text)
    (home[0] / HOMES["windsurf"].path).write_text(json.dumps(windsurf))
    said = hubd(home, "import", "--dry-run", "windsurf", "cline")
    assert "imported as fetch" in said
    assert "duplicate of fetch" in said


def test_a_choice_of_tools_is_kept_and_what_two_hosts_chose_is_joined(home):
    choices = {"windsurf": {"disabledTools": ["rm", "mv"]}, "kiro": {"disabledTools": ["mv", "ls"]}, "cursor": {}}
    for host, choice in choices.items():
        servers = {"files": {"command": "files", **choice}, f"only-{host}": {"command": host, **choice}}
        (home[0] / HOMES[host].path).write_text(json.dumps({"mcpServers": servers}))
    said = told(home, "import", "windsurf", "kiro")["servers"]
    assert [each["why"] for each in said if each["server"] == "files"] == [
        "its tools are those of Windsurf and Kiro together",
        "its tools are those of Windsurf and Kiro together",
    ]
    imported = tomllib.loads((home[0] / ".config" / "hubd" / "imported" / "windsurf.toml").read_text())["upstreams"]
    assert imported["files"]["tools"] == ["!mv"]
    assert imported["only-windsurf"]["tools"] == ["!rm", "!mv"]
    (later,) = (each for each in told(home, "import", "cursor")["servers"] if each["server"] == "files")
    assert "hubd offers fewer tools of it than Cursor did" in later["why"]
    (file,) = home[0].parent.rglob("had_before.json")
    kept = json.loads(file.read_text())["files"]
    assert [each["tools"] for had in kept.values() for each in had] == [
        {"files": ["!rm", "!mv"], "only-windsurf": ["!rm", "!mv"]},
        {"files": ["!mv", "!ls"], "only-kiro": ["!mv", "!ls"]},
        {"files": ["*"], "only-cursor": ["*"]},
    ]
    hubd(home, "validate")


def test_the_hub_itself_is_never_taken_over(home):
    hubd(home, "install", "cursor", "zed", "--http")
    servers = told(home, "import", "cursor", "zed", "--secrets", "keep")["servers"]
    assert {each["server"] for each in servers} == {"github", "notes", "sqlite", "mcp-server-context7"}


def test_what_was_removed_does_not_come_back_by_itself(home):
    hubd(home, "import", "claude-desktop")
    path = home[0] / ".config" / "hubd" / "imported" / "claude-desktop.toml"
    hubd(home, "remove", "linear")
    assert "linear.app" not in path.read_text()
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
    assert "imported as" not in hubd(home, "import", "claude-desktop")


def test_what_mcp_remote_signs_in_to_is_taken_by_its_url(home):
    said = " ".join(hubd(home, "import", "claude-desktop").split())
    assert "Linear of Claude Desktop: is reached at its URL, without mcp-remote" in said
    text = (home[0] / ".config" / "hubd" / "imported" / "claude-desktop.toml").read_text()
    assert 'url = "https://mcp.linear.app/mcp"' in text


def test_the_servers_of_each_of_several_folders_are_named(home):
    folders = {str(home[0] / name): {"mcpServers": {name: {"command": name}}} for name in ("shop", "site")}
    for folder in folders:
        Path(folder).mkdir()
    (home[0] / HOMES["claude-code"].path).write_text(json.dumps({"mcpServers": {}, "projects": folders}))
    said = hubd(home, "import", "claude-code")
    for name in ("shop", "site"):
        assert f"{name} of the folder ~/{name} stays with Claude Code" in said


def test_the_servers_of_single_folders_are_named(home):
    shop = home[0] / "shop"
    shop.mkdir()
    path = home[0] / HOMES["claude-code"].path
    path.write_text(path.read_text().replace("/home/me/shop", str(shop)))
    before = path.read_text()
    said = hubd(home, "import", "claude-code")
    assert "hubd import claude-code --project ~/shop --server " in said
    hubd(home, "import", "claude-code", "--project", shop)
    assert "~/shop" not in hubd(home, "import", "claude-code")
    hubd(home, "install", "claude-code")
    installed = path.read_text()
    hubd(home, "import", "claude-code", "--project", shop, "--disable-originals", "--force", "*")
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
    home[1]["COLUMNS"] = "80"
    said = hubd(home, "import", "codex")
    assert "Codex  figma     imported as figma, disabled\n" in said
    assert "\nfigma of Codex: disabled: the variable FIGMA_OAUTH_TOKEN is not set" in said
    assert max(map(len, said.partition("wrote ")[0].splitlines())) <= 80
    assert "hubd has it as figma, disabled" in hubd(home, "import", "codex")
    again = {each["server"]: each["disabled"] for each in told(home, "import", "codex")["servers"]}
    assert again == {"context7": False, "figma": True}


def test_after_an_import_the_hub_belongs_into_the_hosts(home):
    assert "cannot reach the hub yet: `hubd install copilot zed` puts it" in hubd(home, "import", "copilot", "zed")
    hubd(home, "install", "copilot", "zed")
    assert "cannot reach" not in hubd(home, "import", "copilot", "zed")


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
    assert "imported as good" in said
    assert "expected an address" in said
    hubd(home, "validate")


@pytest.mark.covers("I-3")
def test_one_bad_entry_costs_no_other(home):
    entries = {
        "before": {"command": "a"},
        "escape": {"command": "b\x1b[31m", "args": ["\x7f", "\x9b"], "env": {"A\x1b": "\u202e"}},
        "na\x1bme": {"command": "c"},
        "half": {"command": "d\ud800"},
        "null": {"command": "e", "args": [None]},
        "infinite": {"command": "f", "args": ["1e400"]},
        "after": {"command": "g"},
    }
    text = json.dumps({"mcpServers": entries}).replace('"1e400"', "1e400")
    (home[0] / HOMES["cursor"].path).write_text(text)
    said = " ".join(hubd(home, "import", "cursor").split())
    file = home[0] / ".config" / "hubd" / "imported" / "cursor.toml"
    upstreams = tomllib.loads(file.read_text())["upstreams"]
    assert list(upstreams) == ["before", "escape", "na-me", "after"]
    assert upstreams["escape"]["command"] == "b\x1b[31m"
    assert upstreams["escape"]["env"] == {"A\x1b": "\u202e"}
    assert all(character.isprintable() or character == "\n" for character in file.read_text())
    for name in ("null", "infinite"):
        assert f"{name} of Cursor" in said.partition("it cannot be written as TOML")[0]
    assert "half of Cursor: it holds half a character" in said
    hubd(home, "validate")


def test_an_unreadable_file_keeps_nothing_else_from_being_taken(home):
    (home[0] / HOMES["kiro"].path).write_text("{")
    said = hubd(home, "import", "kiro", "copilot", code=1)
    assert "is not JSON" in said
    assert "imported as time" in said


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
    with running([HUBD, "serve"], directory / "hubd.log", env=env, cwd=directory, forked=True) as process:
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


# --- for programs -----------------------------------------------------------------------------------------------------


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
    again = told(home, "import", "copilot", "--disable-originals", "--force", "*", "--without-hub")
    assert [each["did"] for each in again["servers"]] == ["known"]
    (copilot,) = again["files"]
    assert Path(copilot["backup"]).read_text() == HOMES["copilot"].text


def test_programs_are_told_of_a_host_that_has_no_file(home):
    (home[0] / HOMES["kiro"].path).unlink()
    found = told(home, "import", "kiro")
    assert (found["servers"], found["files"], found["dry_run"]) == ([], [], False)
    assert any("there is no file of it" in note for note in found["notes"])


def test_a_url_that_is_none_stops_neither_import_nor_doctor(home):
    entries = {
        "odd": {"command": "npx", "args": ["mcp-remote", "https://[::x/mcp"]},
        "hubd": {"url": "https://[::x/mcp"},
        "sound": {"command": "g"},
    }
    (home[0] / HOMES["cursor"].path).write_text(json.dumps({"mcpServers": entries}))
    said = hubd(home, "import", "cursor")
    assert "sound" in said
    file = home[0] / ".config" / "hubd" / "imported" / "cursor.toml"
    assert "sound" in tomllib.loads(file.read_text())["upstreams"]
    hubd(home, "doctor", code=1)


# --- whose files they are ---------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-50", "F-C-10")
@pytest.mark.parametrize("whose", ["open to all", "of another user"])
def test_files_that_others_could_have_written_are_passed_over(home, whose):
    path = home[0] / HOMES["cursor"].path
    if whose == "open to all":
        path.chmod(0o666)
    elif os.geteuid() == 0:
        os.chown(path, OTHER, OTHER)
    else:
        pytest.skip("only root can give a file away")
    said = told(home, "import", "cursor", "cline", "--secrets", "keep", code=1)
    assert f"{path}: " in said["error"]["message"]
    assert "it decides which commands hubd runs" in said["error"]["message"]
    assert {each["host"] for each in said["servers"]} == {"cline"}
    assert [path.stem for path in (home[0] / ".config/hubd/imported").iterdir()] == ["cline"]


@pytest.mark.covers("F-C-10", "F-D-06", "SEC-62")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act in the home of another user")
def test_root_makes_nothing_in_the_home_of_another_user(home):
    del home[1]["XDG_STATE_HOME"]
    for path in (home[0], *home[0].rglob("*")):
        os.chown(path, OTHER, OTHER)
    before = sorted(home[0].rglob("*"))
    for command in (("token",), ("install", "cursor"), ("install", "--all"), ("import", "cursor", "--secrets", "keep")):
        said = hubd(home, *command, code=1)
        assert f"belongs to another user (uid {OTHER}); run this as that user" in said
    assert sorted(home[0].rglob("*")) == before
