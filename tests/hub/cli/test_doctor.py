"""`hubd doctor`: each thing that can be wrong is found, said with its fix, and nothing else is."""

import argparse
import contextlib
import fcntl
import json
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from config.editing.text import serverfile
from config.hosts.hub_entries import KEY, http_entry, stdio_entry
from config.hosts.known_hosts import Machine, all_hosts
from config.projects import Trust, load_project
from config.settings import HubConfig
from hub.cli.checks import hosts, other_and_dead_hubs, running_hub, servers, stores, what_hub_reports
from hub.cli.checks.findings import Finding, Restrict
from hub.cli.checks.machine_state import MachineState, examine
from hub.cli.doctor import CHECKS, findings, findings_blocks, repair
from hub.cli.render.terminal import Screen
from hub.control.answers import Status
from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed, HubNotRunning
from hub.control.methods import STATUS, read
from hub.control.sign_in_messages import SignInTrial
from hub.downstream.access.token_files import HostTokens
from hub.linux import socket_tables, stray_processes
from hub.linux.socket_tables import listening_paths
from tests.support import host_homes
from tests.support.commands import run_hubd
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD, ROOT, own_directories, running


class Case:
    """A home directory, and what the checks say about it."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.hubd = home / "bin" / "hubd"
        self.program(self.hubd)
        self.config = home / ".config" / "hubd"
        self.config.mkdir(parents=True, mode=0o700)
        self.environ = {"PATH": f"{home}/bin:/usr/bin:/bin"}
        self.directory = home
        self.status: dict[str, object] | None = {"version": "1", "upstreams": []}
        self.trials: dict[str, SignInTrial] = {}
        for name, directory in (("CONFIG", ".config"), ("STATE", "state"), ("RUNTIME", "run")):
            monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", str(home / directory))
        monkeypatch.delenv("HUBD_RUNTIME_DIR", raising=False)

    def program(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def toml(self, text: str, name: str = "hubd.toml") -> Path:
        path = self.config / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)
        return path

    def host(self, id: str, text: str | None = None) -> Path:
        path = host_homes.write(self.home, id)[id]
        if text is not None:
            path.write_text(text)
        return path

    def examined(self) -> MachineState:
        known = MachineState(
            machine=Machine(self.home, self.environ),
            version="1",
            status=None if self.status is None else read(STATUS, self.status),
            directory=self.directory,
            status_at=self.status_at,
            trials=lambda: self.trials,
        )
        return examine(known, self.home, None, lambda upstream: False)

    def status_at(self, path: Path) -> Status | None:
        """What a hub says, if it has not ended meanwhile: the machine may have hubs that are none of this test's."""
        with contextlib.suppress(OSError, HubNotRunning, ControlFailed), ControlClient(path, 5) as hub:
            return hub.request(STATUS)
        return None

    def found(self, check):
        return list(check(self.examined()))

    def one(self, check):
        (finding,) = self.found(check)
        assert finding.what
        assert finding.why
        assert finding.fix
        return finding


@pytest.fixture
def case(tmp_path, monkeypatch):
    return Case(tmp_path, monkeypatch)


def test_nothing_wrong_nothing_found(case):
    case.toml('[upstreams.a]\ncommand = "sh"\n')
    entry = stdio_entry(all_hosts()["cursor"], str(case.hubd))
    case.host("cursor", json.dumps({"mcpServers": {KEY: entry}}))
    machine_wide = (other_and_dead_hubs.leftovers, other_and_dead_hubs.other_daemons)
    assert [finding for check in CHECKS if check not in machine_wide for finding in case.found(check)] == []


# --- the configuration ------------------------------------------------------------------------------------------------


def test_a_configuration_that_cannot_be_used(case):
    path = case.toml('[upstreams.a]\ncommand = "sh"\nenv = { K = "${NOT_SET}" }\n[upstreams.b]\nurl = "ftp://x"\n')
    unset, wrong = case.found(servers.configuration)
    assert f"{path}, line 3" in unset.what
    assert "the variable NOT_SET is not set" in unset.why
    assert "upstreams.b.url" in wrong.what
    assert unset.level == wrong.level == "problem"
    path = case.toml('[upstreams.a]\ncommand = "sh"\nenv = { K = "${NOT_SET}" }\n[upstreams.b]\ncommand = "/gone/b"\n')
    assert "until it is right the hub starts without a, or" in case.one(servers.configuration).why
    assert "/gone/b" in case.one(servers.commands).what, "the others are looked at all the same"


def test_the_fix_of_a_file_that_others_may_write_is_what_to_run(case):
    path = case.toml('[upstreams.a]\ncommand = "sh"\nargs = ["${run `chmod 666 /`}"]\n')
    assert case.one(servers.configuration).fix == "correct it there, or by `hubd edit`"
    path.chmod(0o666)
    assert case.one(servers.configuration).fix == f"run `chmod go-w {path}`"


def test_secrets_that_others_may_read_are_no_matter_of_this_shell(case):
    """The running hub has them, and the next one would not."""
    case.toml('[upstreams.a]\ncommand = "sh"\nenv = { K = "${secret:K}" }\n')
    case.status = {"version": "1", "upstreams": [{"name": "a", "state": "connected"}]}
    path = case.home / "state" / "hubd" / "secrets.json"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text('{"format": 1, "secrets": {}}')
    path.chmod(0o644)
    finding = case.one(servers.configuration)
    assert finding.level == "problem"
    assert finding.fix == f"run `chmod 600 {path}`, and set anew what others may have read"
    assert case.one(stores.secret_files).repair == Restrict(str(path), 0o600)
    path.rename(case.home / "elsewhere")
    path.symlink_to(case.home / "elsewhere")
    assert case.found(stores.secret_files) == [], "what a link leads to is not for hubd to change"
    path.unlink()
    case.toml('[upstreams.a]\ncommand = "sh"\nenv = { K = "${NOT_SET}" }\n')
    assert case.one(servers.configuration).level == "note"


def test_a_configuration_that_is_doubtful(case):
    case.toml('[upstreams.MyServer]\ncommand = "sh"\n')
    assert case.one(servers.configuration).level == "warning"


def test_one_server_under_two_names(case):
    case.toml(
        '[upstreams.a]\nurl = "https://x/mcp"\n[upstreams.b]\nurl = "https://x/mcp/"\n'
        '[upstreams.c]\nurl = "https://x/mcp"\ndisabled = true\n'
    )
    finding = case.one(servers.same_server_twice)
    assert finding.what == "a and b are the same server"
    assert "hubd disable b" in finding.fix


@pytest.mark.covers("POL-62")
def test_hosts_that_have_all_three_legs(case):
    flows = {"files": "private", "web": "untrusted", "mail": "outward"}
    servers_of = "".join(
        f'[upstreams.{name}]\nurl = "https://{name}"\nflow = ["{flow}"]\n' for name, flow in flows.items()
    )
    case.toml(servers_of + '[profiles.some]\nservers = ["files", "web"]\n')
    case.status = {"hosts": [{"label": "cursor"}, {"label": "codex", "profile": "some"}, {"label": "", "host": "Zed"}]}
    finding = case.one(servers.three_legs)
    assert finding.what == "Zed and cursor can read private data and untrusted text, and send something outward"
    assert finding.names == ("files", "web", "mail")
    case.toml(f'{servers_of}[policy]\ntrifecta = "ask"\n')
    assert case.found(servers.three_legs) == []


def test_commands_that_are_not_there(case):
    (case.home / "a file").write_text("")
    case.toml(
        f'[upstreams.a]\ncommand = "no-such-program"\n[upstreams.b]\ncommand = "{case.home}/a file"\n'
        f'[upstreams.c]\ncommand = "{case.home}/none"\n[upstreams.d]\ncommand = "sh"\n'
        '[upstreams.e]\ncommand = "no-such-program"\ndisabled = true\n[upstreams.f]\ncommand = "npx -y x"\n'
    )
    missing, plain, none, whole = case.found(servers.commands)
    assert "no-such-program is not found" in missing.what
    assert plain.fix == f"run `chmod +x '{case.home}/a file'`"
    assert none.what.endswith("none is not found")
    assert whole.fix == 'write command = "npx", and what follows as args = [...]'


def test_directories_that_are_not_there(case):
    case.toml(
        f'[upstreams.a]\ncommand = "sh"\ncwd = "{case.home}/none"\n[upstreams.b]\ncommand = "sh"\ncwd = "{case.home}"\n'
    )
    assert case.one(servers.working_directories).what == f"a: its cwd {case.home}/none is not a directory"


def test_commands_that_only_a_shell_finds(case):
    case.program(case.home / "bin" / "only-here")
    case.toml('[upstreams.a]\ncommand = "only-here"\n')
    finding = case.one(servers.commands)
    assert finding.level == "warning"
    assert f'command = "{case.home}/bin/only-here"' in finding.fix
    case.toml(f'[upstreams.a]\ncommand = "only-here"\nenv = {{ PATH = "{case.home}/bin" }}\n')
    assert case.found(servers.commands) == []


@pytest.mark.parametrize(
    ("words", "package"),
    [
        ("npx -y @scope/server", "@scope/server"),
        ("npx -y @scope/server@latest", "@scope/server@latest"),
        ("npx -y server@1.2.3", None),
        ("/usr/bin/npx server", "server"),
        ("uvx server", "server"),
        ("uvx server@1.0", None),
        ("uvx --from server==1.0 run", None),
        ("uvx --from server run", "server"),
        ("uv tool run server", "server"),
        ("pipx run server", "server"),
        ("uvx --from git+https://x/y@main run", None),
        ("npx ./local", None),
        ("uv run server.py", None),
        ("node server.js", None),
    ],
)
def test_packages_without_a_version(case, words, package):
    command, *args = words.split()
    case.toml(f'[upstreams.a]\ncommand = "{command}"\nargs = {json.dumps(args)}\n')
    found = case.found(servers.packages_to_pin)
    assert [finding.what.removeprefix("a: ").removesuffix(" is not pinned") for finding in found] == (
        [package] if package else []
    )


def test_addresses_where_nobody_listens(case):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as closed:
        open_port, closed_port = listener.getsockname()[1], closed.getsockname()[1]
        closed.close()
        case.toml(
            f'[upstreams.a]\nurl = "http://127.0.0.1:{open_port}/mcp"\n'
            f'[upstreams.b]\nurl = "http://127.0.0.1:{closed_port}/mcp?key=hidden"\n'
        )
        finding = case.one(servers.addresses)
    assert finding.what == f"b: http://127.0.0.1:{closed_port} cannot be reached"
    assert finding.why == "Connection refused"


def test_an_address_that_does_not_speak_tls(case):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        case.toml(f'[upstreams.a]\nurl = "https://127.0.0.1:{listener.getsockname()[1]}/mcp"\n')
        assert case.one(servers.addresses).why == "no answer within 2 s"


def test_files_that_others_may_read(case):
    path = case.toml('[upstreams.a]\ncommand = "sh"\nenv = { TOKEN = "abc123" }\n')
    assert case.found(servers.open_files) == []
    path.chmod(0o644)
    finding = case.one(servers.open_files)
    assert finding.fix == f"run `chmod 600 {path}`"
    assert "abc123" not in str(finding)
    path.write_text('[upstreams.a]\ncommand = "sh"\n')
    assert case.found(servers.open_files) == []
    state = case.home / "state" / "hubd"
    state.mkdir(parents=True)
    state.chmod(0o755)
    assert case.one(servers.open_files).fix == f"run `chmod 700 {state}`"


# --- hosts ------------------------------------------------------------------------------------------------------------


def test_servers_that_hosts_still_start(case):
    case.toml('[upstreams.docs]\nurl = "https://learn.example/api/mcp"\n')
    case.host("vscode")
    assert case.found(hosts.double_imports) == [], "as long as the hub does not serve it, the host has to"
    case.status = {"upstreams": [{"name": "docs", "state": "unauthorized"}]}
    assert case.found(hosts.double_imports) == []
    case.status = {"upstreams": [{"name": "docs", "state": "connected"}]}
    finding = case.one(hosts.double_imports)
    assert finding.what == 'VS Code starts "docs" itself, and the hub has it as docs'
    assert (finding.why, finding.fix) == (
        "it runs twice",
        "run `hubd install vscode`, then `hubd import vscode --disable-originals`",
    )
    entry = '{"servers": {"docs": {"url": "https://learn.example/api/mcp"}, "hub": {"command": "hubd"}}}'
    case.host("vscode", entry)
    finding = case.one(hosts.double_imports)
    assert "twice" in finding.why.partition(",")[2]
    assert finding.fix == "run `hubd import vscode --disable-originals`"
    case.host("vscode", '{"servers": {"docs": {"url": "https://learn.example/api/mcp", "disabled": true}}}')
    assert case.found(hosts.double_imports) == []


def test_servers_of_a_project_that_hosts_start_too(case):
    shop = case.home / "shop"
    shop.mkdir()
    (shop / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "sh"}, "web": {"command": "sh"}}}')
    case.host("claude-code")
    case.host("warp")
    case.directory = shop
    assert case.found(hosts.double_projects) == [], "nobody allowed it"
    Trust(case.home / "trust.json").allow(load_project(shop, case.environ, HubConfig()))
    finding = case.one(hosts.double_projects)
    assert finding.what == f"Claude Code and Warp start db and web of {shop}/.mcp.json, and so may the hub"
    assert f"{shop}/.hubd.toml" in finding.fix
    case.directory = case.home
    assert case.found(hosts.double_projects) == []
    (shop / ".mcp.json").rename(shop / ".hubd.toml")
    case.directory = shop
    assert case.found(hosts.double_projects) == []


@pytest.mark.parametrize("id", HOMES)
def test_a_host_without_the_hub(case, id):
    case.host(id)
    finding = case.one(hosts.entries)
    assert all_hosts()[id].title in finding.what
    assert id in finding.fix.strip("`").split()


def test_hosts_without_the_hub_take_one_line(case):
    for id in ("kiro", "cursor", "zed"):
        case.host(id)
    finding = case.one(hosts.entries)
    assert finding.what == "Cursor, Zed and Kiro do not have the hub"
    assert finding.fix == "run `hubd install cursor zed kiro`"


@pytest.mark.parametrize("id", HOMES)
def test_a_host_whose_hub_is_gone(case, id):
    path = case.host(id)
    host = all_hosts()[id]

    def with_command(command):
        text = HOMES[id].text
        path.write_text(serverfile.insert(host.shape, text, KEY, stdio_entry(host, command)).apply(text))

    def found():  # an extension's file is also a sign of its editor
        return [finding for finding in case.found(hosts.entries) if finding.fix == f"run `hubd install {id}`"]

    with_command(str(case.hubd))
    assert found() == []
    with_command("/gone/hubd")
    (finding,) = found()
    assert finding.level == "problem"
    assert "/gone/hubd, which does not exist" in finding.what
    assert finding.why == "the host reaches no server of the hub"
    with_command("hubd")
    (finding,) = found()
    assert "without a path" in finding.what


@pytest.mark.parametrize("id", HOMES)
def test_an_entry_that_leads_to_another_hub(case, id):
    path, host = case.host(id), all_hosts()[id]

    def found(variables):
        entry = stdio_entry(host, str(case.hubd), variables)
        path.write_text(serverfile.insert(host.shape, HOMES[id].text, KEY, entry).apply(HOMES[id].text))
        return [each for each in case.found(hosts.entries) if each.fix.startswith(f"run `hubd install {id}` in")]

    assert found({}) == []
    (finding,) = found({"HUBD_RUNTIME_DIR": "/elsewhere"})
    assert finding.what.endswith("leads to another hub than this shell's: HUBD_RUNTIME_DIR differs")
    case.environ |= {"HUBD_RUNTIME_DIR": "/elsewhere", "XDG_STATE_HOME": "/states"}
    (finding,) = found({})
    assert finding.what.endswith("HUBD_RUNTIME_DIR, XDG_STATE_HOME differ")
    assert found({"HUBD_RUNTIME_DIR": "/elsewhere/", "XDG_STATE_HOME": "/states", "OTHER": "x"}) == []
    assert found({"HUBD_RUNTIME_DIR": "${HOME}/run"}) == [], "nobody knows what the host makes of it"


def test_an_entry_by_url(case):
    host = all_hosts()["cursor"]
    case.toml('listen = "127.0.0.1:9999"\n')
    (case.home / "token").write_text("tttttttttttttttt\n")

    def with_url(url, token):
        case.host("cursor", json.dumps({"mcpServers": {KEY: http_entry(host, url, token)}}))

    with_url("http://127.0.0.1:9999/mcp", "tttttttttttttttt")
    assert case.found(hosts.entries) == []
    with_url("http://127.0.0.1:8765/mcp", "tttttttttttttttt")
    assert "another port" in case.one(hosts.entries).what
    case.toml('listen = "10.0.0.5:9999"\nbehind_tls_proxy = true\nallowed_hosts = ["hub.example.com:443"]\n')
    with_url("https://hub.example.com/mcp", "tttttttttttttttt")
    assert case.found(hosts.entries) == []
    with_url("https://example.com/mcp", "tttttttttttttttt")
    assert "another port" in case.one(hosts.entries).what
    with_url("http://127.0.0.1:9999/mcp", "old")
    assert "does not have the hub's token" in case.one(hosts.entries).what


ISSUER = '[[access.issuers]]\nname = "team"\nissuer = "https://id.example"\n'


@pytest.mark.parametrize(
    ("settings", "path", "needs"),
    [
        ("", "/mcp", True),
        ('auth = "none"\n', "/mcp", False),
        (f'auth = "oauth"\n{ISSUER}', "/mcp", False),
        (f'auth = "oauth"\n{ISSUER}', "/mcp/notes", False),
        (f'auth = "oauth"\n[access]\nresource = "https://hub.example/mcp"\n{ISSUER}', "/mcp", True),
        ('auth = "proxy"\n[access.proxy]\nheader = "X-Person"\npeer_uid = [0]\n', "/mcp", True),
    ],
)
def test_an_entry_without_a_token_is_wrong_where_nothing_else_opens_the_hub(case, settings, path, needs):
    case.toml(settings)
    entry = http_entry(all_hosts()["cursor"], f"http://127.0.0.1:8765{path}", None)
    case.host("cursor", json.dumps({"mcpServers": {KEY: entry}}))
    assert [found.what for found in case.found(hosts.entries)] == (
        ["Cursor: its entry does not have the hub's token"] if needs else []
    )


def test_an_entry_with_the_token_of_a_host(case):
    case.toml('[[access.tokens]]\nname = "fixed"\ntoken = "t0k3n-t0k3n-t0k3n"\n')
    folder = case.home / "state" / "hubd"
    folder.mkdir(parents=True, mode=0o700)
    made = HostTokens(folder / "tokens.json", lambda: 1e9).make("ci")
    for token, count in (("t0k3n-t0k3n-t0k3n", 0), (made, 0), ("other-token-of-16", 1)):
        entry = http_entry(all_hosts()["cursor"], "http://127.0.0.1:8765/mcp", token)
        case.host("cursor", json.dumps({"mcpServers": {KEY: entry}}))
        assert len(case.found(hosts.entries)) == count


def test_a_host_s_file_that_cannot_be_read(case):
    case.host("cursor", "{")
    assert "is not JSON" in case.one(hosts.entries).why
    case.host("cursor", '{"mcpServers": {"hub": {"command": "usb-hub"}}}')
    assert "does not start hubd" in case.one(hosts.entries).what


# --- the daemon -------------------------------------------------------------------------------------------------------


def test_no_daemon_is_only_noted(case):
    case.status = None
    assert case.one(running_hub.daemon).level == "note"


def test_a_daemon_that_had_to_listen_elsewhere(case):
    case.status = {"version": "1", "listen": {"url": "http://127.0.0.1:40001/mcp", "wanted": "127.0.0.1:8765"}}
    command = stdio_entry(all_hosts()["cursor"], str(case.hubd), {})
    by_url = http_entry(all_hosts()["cursor"], "http://127.0.0.1:8765/mcp", "t")
    kept = http_entry(all_hosts()["cursor"], "http://127.0.0.1:40001/mcp", "t")
    for entries, level in (({}, "note"), ({KEY: command}, "note"), ({KEY: kept}, "note"), ({KEY: by_url}, "warning")):
        case.host("cursor", json.dumps({"mcpServers": entries}))
        found = case.one(running_hub.daemon)
        assert found.what == "the hub listens on http://127.0.0.1:40001/mcp instead of 127.0.0.1:8765"
        assert found.level == level
        assert not any("another port" in each.what for each in case.found(hosts.entries))
    case.status["listen"] = {"url": "http://127.0.0.1:8765/mcp", "wanted": None}
    assert case.found(running_hub.daemon) == []


def test_hosts_that_are_shown_more_than_they_take(case):
    row = {"label": "windsurf", "tools": 101, "tokens": 900}
    case.status = {"version": "1", "hosts": [row, row, {"label": "unheard-of", "tools": 999}]}
    found = case.one(what_hub_reports.limits)
    assert (found.level, found.what) == ("warning", "windsurf is shown 101 tools and takes 100")
    assert "run `hubd profile suggest windsurf`" in found.fix
    assert found in findings(case.examined())
    case.status["hosts"][0]["tools"] = 100
    assert case.found(what_hub_reports.limits) == []


@pytest.mark.covers("ES-9")
def test_hosts_that_find_tools_by_searching(case):
    rows = [{"label": "windsurf", "search": True}, {"label": "cursor"}]
    case.status = {"version": "1", "hosts": rows}
    found = case.one(what_hub_reports.search_mode)
    assert (found.level, found.what) == ("note", "windsurf finds tools by searching (search mode)")
    assert found.why == "there are more tools than such a host takes"
    assert found in findings(case.examined())
    case.status["profiles"] = [{"name": "small", "search": "on"}, {"name": "other"}]
    case.status["hosts"] = [{"label": "cline", "search": True, "profile": "small"}, *rows]
    by_profile, by_number = case.found(what_hub_reports.search_mode)
    assert (by_profile.what.split()[0], by_profile.why) == ("cline", "the profile small says so")
    assert (by_number.what, by_number.why) == (found.what, found.why)
    case.status["hosts"] = rows[1:]
    assert case.found(what_hub_reports.search_mode) == []


def test_profiles_that_name_what_is_not_there(case):
    told = "profile coding: entries of its `tools` mean no tool: 'x'"
    case.status = {"version": "1", "profiles": [{"name": "coding", "warnings": [told]}, {"name": "other"}]}
    found = case.one(what_hub_reports.profiles)
    assert (found.level, found.what) == ("warning", told)
    assert found in findings(case.examined())
    case.status["profiles"] = []
    assert case.found(what_hub_reports.profiles) == []


def test_a_daemon_whose_address_another_user_holds(case):
    listen = {"url": "http://127.0.0.1:40001/mcp", "wanted": "127.0.0.1:8765", "squatted": True}
    case.status = {"version": "1", "listen": listen}
    found = case.one(running_hub.daemon)
    assert found.level == "problem"
    assert "token was replaced" in found.why
    assert "hubd install" in found.fix


def test_a_daemon_of_another_version_and_what_it_says(case):
    case.status = {
        "version": "0",
        "config": {"pending": ["listen"]},
        "upstreams": [{"name": "a", "state": "failed", "last_error": "no such file\nmore"}, {"name": "b"}],
    }
    version, pending = case.found(running_hub.daemon)
    assert "is version 0, this command is 1" in version.what
    assert pending.what.endswith("listen")


def test_servers_that_the_hub_has_given_up(case):
    case.status = {
        "version": "1",
        "upstreams": [
            {"name": "a", "state": "failed", "last_error": "It ended with exit code 1\nfirst words\nno module b\n"},
            {"name": "b", "state": "connected", "last_error": "before"},
            {"name": "c", "state": "unauthorized", "last_error": "c needs a sign-in (HTTP 401)"},
            {"name": "d", "state": "failed"},
            {"name": "e", "state": "reconnecting", "crash_loop": True, "last_error": "e exited with status 1"},
            {"name": "f", "state": "reconnecting", "crash_loop": False, "last_error": "f exited with status 1"},
        ],
    }
    failed, refused, unknown, looping = case.found(what_hub_reports.upstreams)
    assert (failed.what, failed.why) == ("a: failed", 'It ended with exit code 1; it said "no module b"')
    assert failed.fix == "see `hubd logs a`, fix the cause, then run `hubd restart a`"
    assert (refused.what, refused.level) == ("c: sign-in needed", "problem")
    assert refused.why == "c needs a sign-in (HTTP 401)"
    assert "Authorization" in refused.fix
    assert "hubd restart c" in refused.fix
    assert unknown.why == "the reason is unknown"
    assert (looping.what, looping.why) == ("e: keeps exiting", "e exited with status 1")


def test_sign_ins_that_cannot_begin(case):
    account = {"state": "needed", "command": "hubd auth NAME"}
    names = ("a", "b", "c", "d", "e")
    case.status = {
        "version": "1",
        "upstreams": [{"name": each, "state": "unauthorized", "last_error": "x", "account": account} for each in names],
    }
    case.trials = {
        "a": SignInTrial(upstream="a", problem="https://id.example lets no unknown client in."),
        "b": SignInTrial(upstream="b", problem="https://id.example answers 503 now.", is_passing=True),
        "c": SignInTrial(upstream="c"),
        "e": SignInTrial(upstream="e", problem="e wants a token and has no sign-in.", wants_token=True),
    }
    shut, away, token, good = case.found(what_hub_reports.upstreams)
    assert shut.what == "a: sign-in needed, and it cannot begin"
    assert shut.why == "https://id.example lets no unknown client in."
    assert "then run `hubd auth a`" in shut.fix
    assert away.fix == "run `hubd auth b` when that is over"
    assert (token.what, token.fix) == ("e: token needed", "run `hubd auth e`")
    assert (good.what, good.fix) == ("c and d: sign-in needed", "run `hubd auth NAME`")


def test_servers_that_wait_for_a_secret(case):
    why = "is not started: ${secret:K} has no value: there is no secret K: run `hubd secret set K`"
    case.status = {
        "version": "1",
        "upstreams": [
            {"name": "a", "state": "unresolved", "failures": 1, "last_error": f"a {why}"},
            {"name": "b", "state": "unresolved", "failures": 1, "last_error": f"b {why}"},
        ],
    }
    (found,) = case.found(what_hub_reports.upstreams)
    assert (found.what, found.why) == ("a and b: not started", why.removeprefix("is not started: "))
    assert "hubd restart NAME" in found.fix


def test_one_fault_is_found_once(case):
    case.toml('[upstreams.a]\ncommand = "no-such-program"\n[upstreams.b]\ncommand = "sh"\n')
    lost = [{"name": name, "state": "failed", "last_error": "x"} for name in ("a", "b")]
    case.status = {"version": "1", "upstreams": lost}
    found = [each.what for each in findings(case.examined()) if each.level == "problem"]
    assert len(found) == 2
    assert "no-such-program is not found" in found[0]
    assert found[1] == "b: failed"


def test_a_daemon_with_its_sockets_elsewhere(case, tmp_path):
    env = own_directories(tmp_path / "other") | {"HUBD_RUNTIME_DIR": str(tmp_path / "other" / "sockets")}
    (tmp_path / "other" / "sockets").mkdir(mode=0o700)
    with running(
        [HUBD, "serve", "--listen", "127.0.0.1:0"], tmp_path / "log", env=env, cwd=tmp_path, forked=True
    ) as process:
        process.wait_for("http://")
        (finding,) = [
            each for each in case.found(other_and_dead_hubs.other_daemons) if f"process {process.pid})" in each.what
        ]
    assert env["HUBD_RUNTIME_DIR"] in finding.what
    assert "0 hosts attached" in finding.what
    assert "kill" not in finding.fix
    assert f"`HUBD_RUNTIME_DIR={env['HUBD_RUNTIME_DIR']} hubd status`" in finding.fix


def test_a_socket_that_nobody_listens_on(case):
    directory = case.home / "run" / "hubd"
    directory.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:  # as a service manager holds it
        listener.bind(str(directory / "hubd.sock"))
        listener.listen()
        assert case.found(other_and_dead_hubs.stale_sockets) == []
    assert stat.S_ISSOCK(os.stat(directory / "hubd.sock").st_mode)
    assert case.one(other_and_dead_hubs.stale_sockets).level == "note"


@contextmanager
def stranger(directory: Path, mode: int = 0o700) -> Iterator[Path]:
    """What looks like a hub in a directory: a lock that is held, and a control socket that somebody listens on."""
    directory.mkdir()
    directory.chmod(mode)
    lock = directory / "hubd.lock"
    lock.write_text("4711\n")
    with socket.socket(socket.AF_UNIX) as listener, lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        listener.bind(str(directory / "control.sock"))
        listener.listen()
        yield lock


def of_stranger(case, directory: Path) -> list[Finding]:
    return [each for each in case.found(other_and_dead_hubs.other_daemons) if str(directory) in each.what]


@pytest.mark.covers("SEC-54")
def test_a_directory_may_have_any_name(case, tmp_path):
    directory = tmp_path / "a b;c"
    case.status_at = lambda path: None
    with stranger(directory):
        (finding,) = of_stranger(case, directory)
    assert f"`HUBD_RUNTIME_DIR='{directory}' hubd status`" in finding.fix


@pytest.mark.covers("SEC-02", "SEC-08")
@pytest.mark.parametrize("what", ["open directory", "link to our lock", "lock of another user", "linked directory"])
def test_what_others_could_have_put_there_is_not_asked(case, tmp_path, what, monkeypatch):
    asked = []
    case.status_at = asked.append
    directory = tmp_path / "theirs"
    with stranger(directory, 0o755 if what == "open directory" else 0o700) as lock:
        if what == "link to our lock":
            lock.rename(tmp_path / "ours.lock")
            lock.symlink_to(tmp_path / "ours.lock")
        elif what == "lock of another user":
            uid = os.geteuid()
            monkeypatch.setattr("hub.shim.start_daemon.os.geteuid", lambda: uid + 1)
        elif what == "linked directory":
            directory.rename(tmp_path / "elsewhere")
            directory.symlink_to(tmp_path / "elsewhere")
        assert of_stranger(case, directory) == []
    assert directory / "control.sock" not in asked


def test_only_the_beginning_of_a_huge_table_of_sockets_is_read(tmp_path, monkeypatch):
    table = tmp_path / "unix"
    row = "0: 00000002 00000000 00010000 0001 01 1 /{}/hubd.sock\n"
    table.write_text("Num RefCount\n" + "".join(row.format(at) for at in range(1000)))
    monkeypatch.setattr(socket_tables, "MAX_BYTES", 1000)
    assert 0 < len(listening_paths(table)) < 30


# --- files that cannot be read ----------------------------------------------------------------------------------------


@pytest.mark.covers("F-C-10", "F-D-06", "SEC-62")
def test_each_file_that_cannot_be_read_is_one_finding_and_the_rest_is_looked_at(case):
    case.toml('[upstreams.a]\ncommand = "no-such-program"\n')
    state = case.home / "state" / "hubd"
    state.mkdir(parents=True, mode=0o700)
    (case.home / "installed.json").mkdir()
    for name in ("token", "keys"):
        (state / name).symlink_to("elsewhere")
    found = findings(case.examined())
    unread = [each for each in found if each.check == "unreadable"]
    names = [str(case.home / "installed.json"), str(state / "token"), str(state / "keys")]
    assert [each.what for each in unread] == [f"{name} cannot be read" for name in names]
    assert all("sudo chown" in each.fix for each in unread)
    assert any("no-such-program is not found" in each.what for each in found)


def test_directories_of_another_user(case, monkeypatch):
    (case.home / "state" / "hubd").mkdir(parents=True, mode=0o700)
    uid = os.geteuid()
    monkeypatch.setattr(stores.os, "geteuid", lambda: uid + 1)
    found = [each for each in case.found(stores.unreadable_files) if "state/hubd" in each.what]
    assert [each.why for each in found] == [f"it belongs to another user (uid {uid}), and the hub uses only its own"]


def test_what_a_check_may_not_look_at_ends_no_other(case, monkeypatch):
    def refused(examined):
        yield Finding("c", "note", "before", "", "")
        raise PermissionError(13, "Permission denied", "/secret/place")

    made = Finding("c", "note", "after", "", "")
    monkeypatch.setattr("hub.cli.doctor.CHECKS", (refused, lambda _: iter([made])))
    assert [each.what for each in findings(case.examined())] == ["/secret/place cannot be read", "before", "after"]


@pytest.mark.parametrize("at", ["is_found", "every_user_file"])
def test_hosts_that_may_not_be_looked_for(case, monkeypatch, at):
    case.host("cursor")

    def refused(host, machine):
        raise PermissionError(13, "Permission denied", "/home/x/.cursor")

    monkeypatch.setattr(f"hub.cli.checks.machine_state.{at}", refused)
    if at == "every_user_file":
        monkeypatch.setattr("hub.cli.checks.machine_state.is_found", lambda host, machine: host.id == "cursor")
    found = case.found(stores.unreadable_files)
    assert {each.what for each in found} == {"/home/x/.cursor cannot be read"}
    assert "Cursor is here" in " ".join(each.why for each in found)


def test_the_worst_comes_first(case, monkeypatch):
    levels = ["note", "problem", "warning", "problem"]
    made = [Finding("c", level, str(at), "", "") for at, level in enumerate(levels)]
    monkeypatch.setattr("hub.cli.doctor.CHECKS", (lambda _: iter(made),))
    assert [each.what for each in findings(case.examined())] == ["1", "3", "2", "0"]


# --- one finding per cause --------------------------------------------------------------------------------------------


def table(name, *words):
    return f"[upstreams.{name}]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(list(words[1:]))}\n"


@pytest.fixture
def full_home(case):
    """24 entries in three hosts, 21 servers: some work, a program is missing, one wants a sign-in, one is away."""
    for program in ("npx", "hubd"):
        case.program(case.home / "bin" / program)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    works = {f"npx-{at}": ("npx", "-y", f"@scope/server-{at}") for at in range(14)}
    lacks = {name: ("uvx", f"mcp-server-{name}") for name in ("fetch", "sqlite", "time")}
    text = "".join(table(name, *words) for name, words in (works | lacks).items())
    urls = {"linear": "https://mcp.linear.test/mcp", "sentry": "https://mcp.sentry.test/mcp"}
    text += "".join(f'[upstreams.{name}]\nurl = "{url}"\n' for name, url in urls.items())
    text += f'[upstreams.shop]\nurl = "http://127.0.0.1:{port}/mcp"\n[upstreams.away]\ncommand = "sh"\n'
    case.toml(text)
    here = {name: {"command": words[0], "args": list(words[1:])} for name, words in works.items()}
    hub = stdio_entry(all_hosts()["cursor"], str(case.hubd))
    case.host("cursor", json.dumps({"mcpServers": here | {KEY: hub}}))
    case.host("claude-code", json.dumps({"mcpServers": dict(list(here.items())[:10])}))
    away = "It exited with status 1\nTraceback (most recent call last)\nModuleNotFoundError: No module named 'shop'\n"
    not_found = "'uvx' was not found, or its interpreter was not; install it, or give the full path as command"
    rows = [{"name": name, "state": "connected"} for name in works]
    rows += [{"name": name, "state": "failed", "last_error": f"{name}: {not_found}"} for name in lacks]
    rows += [{"name": name, "state": "unauthorized", "last_error": "401"} for name in urls]
    rows += [{"name": "shop", "state": "reconnecting", "crash_loop": True, "last_error": "shop: refused"}]
    rows += [{"name": "away", "state": "failed", "last_error": away}]
    case.status = {"version": "1", "upstreams": rows}
    return case


@pytest.fixture
def unconnected(monkeypatch):
    """Only addresses of this machine are tried."""
    monkeypatch.setattr(servers, "_try", lambda url, reason: reason.set_result("refused" if "127" in url else ""))


def about_servers(case, *, strict=False):
    machine_wide = {"root", "orphan"}
    found = findings(case.examined(), strict=strict)
    return [each for each in found if each.check not in machine_wide and "another hub" not in each.what]


@pytest.mark.covers("FH-8")
def test_each_cause_is_one_finding_with_the_names_it_concerns(full_home, unconnected):
    all_found = about_servers(full_home)
    told = [name for each in all_found if each.level == "problem" for name in each.names]
    assert len(told) == len(set(told)), "no server's trouble is told twice"
    found = {each.check: each for each in all_found}
    double = found["double"]
    assert double.names == tuple(f"npx-{at}" for at in range(14))
    assert "Claude Code and Cursor start what the hub has, too: npx-0, npx-1" in double.what
    assert double.fix.endswith("`hubd import claude-code cursor --disable-originals`")
    assert found["command"].names == ("fetch", "sqlite", "time")
    assert found["command"].what == "fetch, sqlite and time: the command uvx is not found"
    assert found["url"].names == ("shop",)
    assert "version" not in found, "advice is for those who ask for it"


@pytest.mark.covers("FH-8")
def test_servers_that_fail_for_one_reason_are_one_finding(full_home, unconnected):
    upstream = [each for each in about_servers(full_home) if each.check == "upstream"]
    assert [(each.what, each.names, each.as_object()["server"]) for each in upstream] == [
        ("linear and sentry: sign-in needed", ("linear", "sentry"), ""),
        ("away: failed", ("away",), "away"),
    ]
    assert "No module named 'shop'" in upstream[1].why


@pytest.mark.covers("FH-8")
def test_advice_comes_only_when_it_is_asked_for(full_home, unconnected):
    (advice,) = [each for each in about_servers(full_home, strict=True) if each.check == "version"]
    assert len(advice.names) == 17
    assert advice.what.startswith("17 packages are not pinned: @scope/server-0, ")
    assert advice.what.endswith(" and 10 more")


@pytest.mark.covers("FH-8")
def test_a_full_home_fits_one_screen_with_the_worst_last(full_home, unconnected):
    screen = Screen(None, width=80).render(*findings_blocks(about_servers(full_home)))
    lines = screen.splitlines()
    assert len(lines) < 24, screen
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "4 problems, 2 warnings"
    levels = [line.partition(":")[0] for line in lines if line.startswith(("note:", "warning:", "problem:"))]
    assert levels == ["warning"] * 2 + ["problem"] * 4


@pytest.mark.covers("FH-8")
def test_a_command_that_the_hub_does_not_find_is_told_once_with_its_path(case):
    case.program(case.home / "bin" / "uvx")
    case.toml(table("a", "uvx", "x") + table("b", "uvx", "y") + table("c", "uvx", "z"))
    said = "'uvx' was not found, or its interpreter was not; install it, or give the full path as command"
    rows = [{"name": name, "state": "failed", "last_error": f"{name}: {said}"} for name in ("a", "b")]
    case.status = {"version": "1", "upstreams": [*rows, {"name": "c", "state": "connected"}]}
    problem, warning = [each for each in about_servers(case) if each.check in ("path", "command", "upstream")]
    assert (problem.level, problem.names) == ("problem", ("a", "b"))
    assert f"is on the PATH of this shell ({case.home}/bin), and not on the hub's" in problem.what
    assert (warning.level, warning.names) == ("warning", ("c",))


def test_one_server_under_three_names(case):
    case.toml("".join(f'[upstreams.{name}]\nurl = "https://x/mcp"\n' for name in "abc"))
    finding = case.one(servers.same_server_twice)
    assert (finding.what, finding.names) == ("a, b and c are the same server", ("a", "b", "c"))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    env = own_directories(tmp_path) | {"HOME": str(tmp_path / "me"), "PATH": "/usr/bin:/bin"}
    (tmp_path / "me").mkdir()

    def run(*words):
        return run_hubd(["doctor", *words], env)

    before = sorted(tmp_path.rglob("*"))
    shown = run("--json")
    found = [
        each for each in json.loads(shown.stdout) if each["check"] != "orphan" and "another hub" not in each["what"]
    ]
    assert [each["what"] for each in found] == ["no hub is running"]
    assert sorted(tmp_path.rglob("*")) == before
    host_homes.write(tmp_path / "me", "cursor")
    shown = run()
    assert shown.returncode == 1
    assert "warning: Cursor does not have the hub; it cannot reach any server of the hub\n" in shown.stdout
    assert "    fix: run `hubd install cursor`" in shown.stdout


@pytest.mark.covers("FH-8")
def test_what_has_one_safe_answer_is_fixed_and_shown(tmp_path):
    env = own_directories(tmp_path)
    home, bin = Path(env["HOME"]), tmp_path / "bin"
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    before = 'listen = "127.0.0.1:0"\n# mine\n[upstreams.a]\ncommand = "only-here"  # a comment\n'
    config.write_text(before + 'env = { TOKEN = "abc123" }\n')
    config.chmod(0o644)
    bin.mkdir()
    (bin / "only-here").write_text(f"#!/bin/sh\nexec {sys.executable} {ROOT}/tests/guard/echo_server.py\n")
    (bin / "only-here").chmod(0o755)
    entry = stdio_entry(all_hosts()["cursor"], "/gone/hubd")
    (file := host_homes.write(home, "cursor")["cursor"]).write_text(json.dumps({"mcpServers": {KEY: entry}}))

    def doctor(*words):
        shell = env | {"PATH": f"{bin}:{env['PATH']}"}
        return run_hubd(["doctor", *words], shell, timeout=120)

    def found():
        shown = json.loads(doctor("--json").stdout)
        return {each["check"] for each in shown} - {"root", "orphan", "daemon", "environment"}

    narrow = env | {"PATH": "/usr/bin:/bin"}
    with running([HUBD, "serve"], tmp_path / "log", env=narrow, cwd=tmp_path, merged=True, forked=True) as process:
        process.wait_for("was not found")
        assert found() == {"path", "entry", "mode"}
        assert re.search(r"`hubd doctor --fix` mends [34]$", doctor().stdout), "3, and what this machine's shell has"
        shown = doctor("--fix")
        assert found() == set()
        assert "--fix" not in doctor().stdout
        again = doctor("--fix", "--json")
        assert isinstance(json.loads(again.stdout), list), "programs get the findings alone"
    assert config.read_text().startswith(before.replace('"only-here"', f'"{bin}/only-here"'))
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert "/gone/hubd" not in file.read_text()
    assert "connected" in shown.stdout
    for done in (f"fixed: a is started by {bin}/only-here", "fixed: only you may use", "fixed by `hubd install"):
        assert done in shown.stdout
    assert "problem" not in shown.stdout.replace("no problem", "")


@pytest.mark.covers("FH-8")
def test_the_shell_is_recorded_where_nothing_was(tmp_path):
    env = own_directories(tmp_path) | {"SSL_CERT_FILE": "/etc/ssl/mine.pem"}
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('[upstreams.a]\ncommand = "sh"\n')
    config.chmod(0o600)

    def doctor(*words):
        return run_hubd(["doctor", *words], env, timeout=120).stdout

    assert "environment" in {each["check"] for each in json.loads(doctor("--json"))}
    assert "fixed by `hubd env capture`" in doctor("--fix")
    assert "SSL_CERT_FILE=/etc/ssl/mine.pem" in config.with_name("hubd.env").read_text()
    assert "environment" not in {each["check"] for each in json.loads(doctor("--json"))}


@pytest.mark.covers("FH-8")
def test_a_repair_that_fails_is_said_and_the_next_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lost, open_one = tmp_path / "lost", tmp_path / "open"
    open_one.write_text("")
    open_one.chmod(0o644)
    made = [Finding("mode", "warning", "x", "y", "z", repair=Restrict(str(path), 0o600)) for path in (lost, open_one)]
    assert repair(made, argparse.Namespace(json=False, config=None))
    shown = capsys.readouterr()
    assert f"not fixed: {lost}" in shown.err
    assert f"fixed: only you may use {open_one}" in shown.out
    assert stat.S_IMODE(open_one.stat().st_mode) == 0o600


def test_with_a_running_hub(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('listen = "127.0.0.1:0"\n[upstreams.a]\ncommand = "sh"\ndisabled = true\n')
    with running([HUBD, "serve"], tmp_path / "log", env=env, cwd=tmp_path, forked=True) as process:
        process.wait_for("http://")
        shown = run_hubd(["doctor", "--json"], env)
    found = {each["check"] for each in json.loads(shown.stdout)}
    assert not found & {"socket", "mode", "configuration"}
    assert not [each for each in json.loads(shown.stdout) if f"process {process.pid})" in each["what"]]


class Locked(BaseHTTPRequestHandler):
    """A server that wants credentials which nobody has."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


def test_a_server_that_does_not_let_the_hub_in(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    with ThreadingHTTPServer(("127.0.0.1", 0), Locked) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        config.write_text(f'listen = "127.0.0.1:0"\n[upstreams.locked]\nurl = "{url}"\n')
        with running([HUBD, "serve"], tmp_path / "log", env=env, cwd=tmp_path, merged=True, forked=True) as process:
            process.wait_for("needs you to sign in")
            shown = run_hubd(["doctor"], env)
        server.shutdown()
    assert "problem: locked: token needed; locked wants a token and has no sign-in" in shown.stdout
    assert "    fix: run `hubd auth locked`" in shown.stdout


def test_servers_that_a_dead_hub_left_behind(case, monkeypatch):
    monkeypatch.setattr(other_and_dead_hubs, "orphans", lambda: [stray_processes.Orphan(41, 40, "node")])
    finding = case.one(other_and_dead_hubs.leftovers)
    assert "process 41 (node)" in finding.what
    assert "kill 41" in finding.fix


# --- who may come -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("", None),
        ('[[access.tokens]]\nname = "ci"\ntoken = "t0k3n-t0k3n-t0k3n"\n', None),
        ('[[access.tokens]]\nname = "ci"\ntoken = "t0k3n-t0k3n-t0k3n"\nprincipal = "robots"\n', "robots"),
        (
            'auth = "oauth"\n[[access.issuers]]\nname = "team"\nissuer = "https://id.example"\n',
            "those whom https://id.example signs in",
        ),
        (
            'auth = "proxy"\n[access.proxy]\nheader = "X-Person"\npeer_uid = [0]\n',
            "those whom the proxy names in X-Person",
        ),
    ],
)
def test_several_people_may_use_everything(case, text, who):
    case.toml(text)
    if who is None:
        assert case.found(hosts.several_principals) == []
        return
    found = case.one(hosts.several_principals)
    assert found.what == f"beside the hub's owner {who} may come over HTTP"
    assert found.level == "note"
    assert "every server" in found.why


def test_tokens_of_others_are_found_in_their_file(case):
    case.toml("")
    folder = case.home / "state" / "hubd"
    folder.mkdir(parents=True, mode=0o700)
    HostTokens(folder / "tokens.json", lambda: 1e9).make("ci", principal="robots")
    assert "robots" in case.one(hosts.several_principals).what


@pytest.mark.covers("G-11")
def test_servers_that_asked_for_roots_and_get_none_are_named(case):
    rows = [("a", "none", "per host", 2), ("b", "auto", "shared", 1)]
    rows += [("c", "auto", "interactive", 1), ("d", "auto", "shared", 0)]
    case.toml("".join(f'[upstreams.{name}]\ncommand = "sh"\nroots = "{roots}"\n' for name, roots, _, _ in rows))
    case.status = {"upstreams": [{"name": name, "mode": mode, "withheld_roots": n} for name, _, mode, n in rows]}
    finding = case.one(servers.roots)
    assert finding.what == "a and b asked for the roots of a host, and got none"
    assert 'roots = "host"' in finding.fix
    case.status = None
    assert case.found(servers.roots) == []
