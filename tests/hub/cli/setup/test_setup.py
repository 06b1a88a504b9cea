"""`hubd setup` with ten hosts and real server processes, without a terminal."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.processes import HUBD, running
from tests.support.setup_home import WORKING, SetupHome
from tests.support.unauthorized_server import unauthorized_server


@pytest.fixture
def home(tmp_path):
    with unauthorized_server() as url:
        home = SetupHome(tmp_path, sentry=url)
        yield home
        run_hubd(["stop"], home.env)


SIGNALS = (signal.SIGINT, signal.SIGTERM)
UNITS = ("hubd.socket", "hubd.service")


def by_host(told):
    """What was done with each server of each host."""
    return {(each["host"], each["server"]): each for each in told["servers"]}


@pytest.mark.covers("FH-1")
def test_what_works_goes_through_the_hub_and_all_else_stays_with_its_host(home):
    home.fetch()
    before = home.contents()
    told = home.told("setup", "--yes", "--no-service")
    found = by_host(told)
    for host, names in WORKING.items():
        for name in names:
            assert found[host, name]["did"] == "works", found[host, name]
    assert found["claude-code", "sentry"]["did"] == "sign-in needed"
    assert found["claude-desktop", "Linear"]["did"] == "does not work"
    assert found["codex", "figma"]["did"] == "left"
    after = home.contents()
    assert all(b"connect" in text for text in after.values())
    assert b"sentry" in after["claude-code"]
    assert b"Linear" in after["claude-desktop"]
    assert b"server-filesystem" not in after["claude-desktop"]
    assert b'"disabled": true,\n      "timeout": 60,\n      "type": "stdio"' in after["cline"], "it is turned off there"
    status = home.told("status")
    assert {each["state"] for each in status["upstreams"]} == {"connected"}, (
        "what stays with its host is not in the hub"
    )
    assert told["hub"] == "background"

    again = home.run("setup", "--yes", "--no-service")
    assert "All is well: nothing to change" in again
    assert "`hubd import claude-code --server sentry` and `hubd auth sentry`" in " ".join(again.split())
    assert "Not connected" not in again
    assert home.contents() == after
    assert told["undo"] == "hubd uninstall --all --restore-originals"
    home.run(*str(told["undo"]).split()[1:])
    assert home.contents() == before


@pytest.mark.covers("FH-1")
def test_a_dry_run_tries_the_servers_and_writes_nothing(home):
    home.fetch()
    before = home.contents()
    said = home.run("setup", "--dry-run")
    assert "What would be written" in said
    assert home.contents() == before
    assert not (home.home / ".config" / "hubd").exists()
    assert "no hub is running" in home.run("status", code=69)


@pytest.mark.covers("FH-1")
def test_what_is_left_to_the_user_is_said(home):
    """Rules of Claude Code that name tools, and servers of single folders."""
    home.fetch()
    entry = '{"command": "uvx", "args": ["mcp-server-time==2025.7.1"]}'
    text = home.paths["claude-code"].read_text().replace('"sentry": {', f'"time": {entry},\n    "sentry": {{')
    folder = home.home / "shop"
    folder.mkdir()
    home.paths["claude-code"].write_text(text.replace("/home/me/shop", str(folder)))
    (home.home / ".claude").mkdir()
    (home.home / ".claude" / "settings.json").write_text('{"permissions": {"deny": ["mcp__time__get_current_time"]}}')
    said = home.run("setup", "--dry-run")
    assert "deny: mcp__time__get_current_time -> mcp__hub__time__get_current_time" in said
    assert "hubd import claude-code --project ~/shop" in said


@pytest.mark.covers("FH-1")
def test_without_a_terminal_it_says_what_to_pass(home):
    said = home.run("setup", code=2)
    assert "pass --yes to take the defaults, or --dry-run" in said


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("number", draw(1, SIGNALS))
def test_an_interruption_while_servers_are_tried_leaves_everything_as_it_was(home, tmp_path, number):
    before = home.contents()
    with running([HUBD, "setup", "--yes", "--no-service"], tmp_path / "log", env=home.env, merged=True) as process:
        process.wait_for("Trying")
        hub = psutil.Process(process.pid)
        children = wait_for_children(hub)
        process.signalled(number)
        process.wait_for("nothing was changed")
        assert process.exit_code() == 130
    psutil.wait_procs([each for each, _ in children], timeout=30)
    assert not any(child.is_running() for child, _ in children)
    assert home.contents() == before
    assert not (home.home / ".config" / "hubd").exists()
    (configuration,) = {Path(words[words.index("--config") + 1]) for _, words in children if "--config" in words}
    assert not configuration.parent.exists()


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_what_a_killed_setup_has_left_is_removed_by_the_next_one(home, tmp_path):
    with running([HUBD, "setup", "--yes", "--no-service"], tmp_path / "log", env=home.env, merged=True) as process:
        process.wait_for("Trying")
        children = wait_for_children(psutil.Process(process.pid))
        process.signalled(signal.SIGKILL)
        assert process.exit_code() == -signal.SIGKILL
    (configuration,) = {Path(words[words.index("--config") + 1]) for _, words in children if "--config" in words}
    assert configuration.parent.exists()
    psutil.wait_procs([each for each, _ in children], timeout=60)
    home.fetch()
    home.run("setup", "--dry-run")
    assert not configuration.parent.exists()


SIGNALLED_AFTER_A_WRITE = """\
import os, signal, sys
from config import atomic_writes

number, place = int(sys.argv[1]), sys.argv[2]
replaced, once = atomic_writes.replace_file, [None]


def then_a_signal(path, *rest, **named):
    backup = replaced(path, *rest, **named)
    if once and str(path).endswith(place):
        once.clear()
        print("written:", path, flush=True)
        os.kill(os.getpid(), number)
    return backup


atomic_writes.replace_file = then_a_signal  # before the command's modules take it

from hub.cli.main import main

sys.exit(main(["setup", "--yes", "--no-service"]))
"""
"""The command, which gets a signal after its first write of a file whose path ends like this."""


def interrupted_after(home, place, number):
    """What setup says that gets a signal between two writes."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED_AFTER_A_WRITE, str(int(number)), place],
        env=home.env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert f"{place}\n" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 130, done.stdout + done.stderr
    return done.stderr


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize(("place", "number"), draw(1, ["imported/cline.toml", "imported/kiro.toml"], SIGNALS))
def test_an_interruption_between_writes_of_the_hubs_files_leaves_everything_as_it_was(home, place, number):
    home.fetch()
    before = home.contents()
    assert "interrupted; everything is as it was" in interrupted_after(home, place, number)
    assert home.contents() == before
    assert not home.hub_files()
    assert "no hub is running" in home.run("status", code=69)


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("number", draw(1, SIGNALS))
def test_an_interruption_between_writes_of_hosts_files_changes_all_of_them(home, number):
    home.fetch()
    place = "/".join(home.paths["cursor"].parts[-2:])
    assert "interrupted; everything was written" in interrupted_after(home, place, number)
    after = home.contents()
    assert all(b"connect" in text for text in after.values())
    assert b"server-filesystem" not in after["claude-desktop"]
    assert "nothing to change" in home.run("setup", "--yes", "--no-service")
    assert home.contents() == after


def wait_for_children(process):
    """The private hub and its servers, with their command lines, once some are started."""
    for _ in range(100_000):
        with contextlib.suppress(psutil.NoSuchProcess):
            children = [(child, child.cmdline()) for child in process.children(recursive=True)]
            if len(children) > 3:
                return children
        os.sched_yield()
    raise AssertionError("no servers were started")


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_files_that_cannot_be_read_are_left_alone_and_named(home):
    """Broken, not UTF-8, huge, a directory, a link to nothing, a link in a circle: the other hosts get the hub."""
    home.fetch()
    home.paths["cursor"].write_text('{"mcpServers": {')
    home.paths["gemini"].write_bytes(b'{"mcpServers": {"x": {"command": "\xff"}}}')
    with home.paths["junie"].open("wb") as huge:
        huge.truncate(64 << 20)
    home.paths["kiro"].unlink()
    home.paths["kiro"].mkdir()
    home.paths["copilot"].unlink()
    home.paths["copilot"].symlink_to("nowhere")
    home.paths["cline"].unlink()
    home.paths["cline"].symlink_to(home.paths["cline"])
    whole = home.paths["codex"].with_name("elsewhere.toml")
    home.paths["codex"].rename(whole)
    home.paths["codex"].symlink_to(whole)
    before = {host: path.read_bytes() for host, path in home.paths.items() if path.is_file()}

    said = home.run("setup", "--yes", "--no-service")
    for title, why in (
        ("Cursor", "is not JSON"),
        ("Gemini CLI", "is not UTF-8 text"),
        ("Junie", "is larger than"),
        ("Kiro", "cannot be read"),
    ):
        assert f"{title}: ~/" in said
        assert why in said
    assert "Done: 3 servers through the hub" in said
    assert home.paths["codex"].is_symlink()
    assert b"connect" in whole.read_bytes()
    for host in ("cursor", "gemini", "junie"):
        assert home.paths[host].read_bytes() == before[host]
    home.run("uninstall", "claude-desktop", "claude-code", "codex", "opencode", "vscode", "--restore-originals")
    for host in ("claude-desktop", "claude-code", "codex", "opencode"):
        assert home.paths[host].read_bytes() == before[host]


@pytest.mark.covers("FH-1")
def test_where_no_file_can_be_read_nothing_is_done_and_that_is_a_failure(home):
    (file := home.paths["cursor"]).write_text('{"mcpServers": {')
    told = home.told("setup", "cursor", "--yes", "--no-service", code=1)
    error = told["error"]["message"]
    assert error.startswith(f"{file}: is not JSON")
    assert error.endswith("; mend that, then run this again; nothing was changed")
    assert not home.hub_files()
    assert "no hub is running" in home.run("status", code=69)


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_a_host_that_cannot_get_the_hub_keeps_its_servers_and_the_hub_does_not_have_them(home):
    home.fetch()
    own = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything", "only-here"]}
    home.paths["cursor"].write_text(json.dumps({"mcpServers": {"only-here": own, "hub": {"command": "other"}}}))
    before = home.paths["cursor"].read_bytes()
    told = home.told("setup", "--yes", "--no-service")
    found = by_host(told)["cursor", "only-here"]
    assert (found["did"], found["name"]) == ("left", None)
    assert 'it has an entry "hub" that does not start hubd' in found["why"]
    assert home.paths["cursor"].read_bytes() == before
    assert "only-here" not in [each["name"] for each in home.told("status")["upstreams"]]


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_with_nothing_on_the_path_all_servers_stay_with_their_hosts(home):
    home.env["PATH"] = ""
    before = home.contents()
    told = home.told("setup", "--yes", "--no-service")
    assert {each["did"] for each in told["servers"]} <= {"does not work", "sign-in needed", "left"}
    after = home.contents()
    assert all(b"connect" in text for text in after.values())
    assert b"server-filesystem" in after["claude-desktop"]
    home.run("uninstall", "--all", "--restore-originals")
    assert home.contents() == before


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_a_file_that_cannot_be_written_keeps_its_servers(home):
    home.fetch()
    folder = home.paths["opencode"].parent
    home.paths["opencode"].chmod(0o400)
    folder.chmod(0o500)
    before = home.contents()
    try:
        said = home.run("setup", "--yes", "--no-service", code=1)
        assert "OpenCode: " in said
        assert "opencode.json: cannot be written: Permission denied; it was left as it is" in said
        assert home.paths["opencode"].read_bytes() == before["opencode"]
        assert b"connect" in home.paths["codex"].read_bytes()
        assert "OpenCode keeps everything: does not have the hub" in said
    finally:
        folder.chmod(0o700)


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("place", draw(1, [".config", ".local/state"]))
def test_a_directory_of_the_hub_that_cannot_be_made_leaves_everything_as_it_was(home, place):
    home.fetch()
    before = home.contents()
    folder = home.home / place
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o500)
    try:
        said = home.run("setup", "--yes", "--no-service", code=1)
    finally:
        folder.chmod(0o700)
    assert "Permission denied" in said.splitlines()[-1]
    assert f"{folder}/hubd/" in said.splitlines()[-1]
    assert said.count("nothing will be remembered") == (place == ".local/state")
    assert home.contents() == before
    assert not home.hub_files()
    assert home.told("secret", "ls")["secrets"] == []
    assert "no hub is running" in home.run("status", code=69)


@pytest.mark.covers("FH-1")
def test_a_home_without_hosts_is_told_so(tmp_path):
    home = SetupHome(tmp_path)
    for path in home.home.iterdir():
        subprocess.run(["rm", "-r", path], check=True)
    assert "no hosts are found on this machine" in home.run("setup", "--yes", code=1)


@pytest.mark.covers("FH-1")
def test_a_second_run_takes_up_what_was_added_since(home):
    home.fetch()
    home.run("setup", "--yes", "--no-service")
    text = home.paths["codex"].read_text()
    added = '\n[mcp_servers.late]\ncommand = "npx"\nargs = ["-y", "server-everything", "--late"]\n'
    home.paths["codex"].write_text(text + added)
    told = home.told("setup", "--yes", "--no-service")
    assert by_host(told)["codex", "late"]["did"] == "works"
    assert told["hub"] == "running"
    assert {each["name"]: each["state"] for each in home.told("status")["upstreams"]}["late"] == "connected"
    assert "enabled = false" in home.paths["codex"].read_text().partition("[mcp_servers.late]")[2]


def systemctl(home, script):
    """A stand-in of systemd; its calls, one on each line of the file."""
    calls = home.directory / "calls"
    path = home.directory / "bin" / "systemctl"
    path.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{script}\n')
    path.chmod(0o700)
    return calls


@pytest.mark.covers("FH-1")
def test_where_systemd_runs_the_hub_becomes_its_service(home):
    home.fetch()
    calls = systemctl(home, "exit 0")
    told = home.told("setup", "--yes")
    assert told["hub"] == "service"
    assert "--user enable hubd.socket hubd.service" in calls.read_text()
    assert (home.home / ".config" / "systemd" / "user" / "hubd.service").is_file()
    assert b"connect" in home.contents()["codex"]


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_a_service_that_does_not_start_leaves_everything_as_it_was(home):
    home.fetch()
    before = home.contents()
    systemctl(home, 'case "$*" in *restart*) echo "it is broken" >&2; exit 1 ;; esac')
    said = home.run("setup", "--yes", code=1)
    assert "it is broken; everything is as it was" in said
    assert home.contents() == before
    assert not home.hub_files()
    assert not (home.home / ".config" / "systemd").exists()
    assert home.told("secret", "ls")["secrets"] == []


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_a_stopped_service_is_as_it_was_if_it_does_not_start(home):
    home.fetch()
    units = home.home / ".config" / "systemd" / "user"
    units.mkdir(parents=True)
    before = {units / name: f"# as by `hubd service install`: {name}\n".encode() for name in UNITS}
    for path, text in before.items():
        path.write_bytes(text)
    show = 'case "$*" in *show*) echo UnitFileState=enabled; echo ActiveState=inactive ;; *restart*) exit 1 ;; esac'
    calls = systemctl(home, show)
    home.run("setup", "--yes", code=1)
    assert {path: path.read_bytes() for path in units.iterdir()} == before
    assert "disable" not in calls.read_text()
    assert calls.read_text().splitlines()[-2:] == ["--user stop hubd.service hubd.socket", "--user daemon-reload"]


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_what_others_wrote_meanwhile_survives_the_undo(home):
    """A file that was changed, and one that was made, after setup wrote it."""
    home.fetch()
    folder = home.home / ".config" / "hubd"
    script = f'case "$*" in *restart*) echo "MINE=1" >> {folder}/hubd.env; exit 1 ;; esac'
    systemctl(home, script)
    said = home.run("setup", "--yes", code=1)
    (kept,) = home.hub_files()
    assert kept.read_text().endswith("MINE=1\n")
    assert f"{kept} could not be put back: it was changed meanwhile, and left as it is" in said


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_an_error_before_hosts_are_changed_leaves_everything_as_it_was(home):
    home.fetch()
    before = home.contents()
    (home.home / ".local" / "state" / "hubd" / "had_before.json").mkdir(parents=True)
    said = home.run("setup", "--yes", "--no-service", code=1)
    assert "had_before.json: cannot be read" in said
    assert "Done" not in said
    assert home.contents() == before
    assert not home.hub_files()
    assert home.told("secret", "ls")["secrets"] == []
    home.run("status", code=69)


@pytest.mark.in_turn(5)
@pytest.mark.covers("FH-1")
def test_entries_of_single_servers_that_install_made_stay(home):
    home.fetch()
    home.run("setup", "--yes", "--no-service", "codex", "copilot")
    home.run("install", "codex", "--each", "--yes")
    before = home.paths["codex"].read_bytes()
    assert b"--upstream" in before
    home.run("setup", "--yes", "--no-service", "codex")
    assert home.paths["codex"].read_bytes() == before
