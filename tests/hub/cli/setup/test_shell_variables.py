"""`hubd setup` in a shell that has a variable which no hub has that a host starts: real processes, one server."""

import json
import re
import sys

import pytest

from tests.support.commands import run_hubd
from tests.support.looking import until_connected
from tests.support.processes import HUBD
from tests.support.setup_home import SCRIPTED, SetupHome
from tests.support.stdio_host import StdioHost
from tests.support.terminal import Terminal

TOKEN = "tok-5f1d3c"
PROGRAM = """#!/bin/sh
[ -n "$TRACKER_TOKEN" ] || exit 3
exec {python} {scripted} '{{"tools": ["find_issue"]}}'
"""


class Tracker(SetupHome):
    """A home with one server, which ends at once unless it gets TRACKER_TOKEN, in Codex and OpenCode."""

    def __init__(self, directory):
        super().__init__(directory)
        for host, path in self.paths.items():
            if host not in ("codex", "opencode"):
                path.unlink()
        program = self.home / "bin" / "tracker-mcp"
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM.format(python=sys.executable, scripted=SCRIPTED))
        program.chmod(0o755)
        self.paths["codex"].write_text(f'[mcp_servers.tracker]\ncommand = "{program}"\nenv_vars = ["TRACKER_TOKEN"]\n')
        entry = {"type": "local", "command": [str(program)], "environment": {"TRACKER_TOKEN": "{env:TRACKER_TOKEN}"}}
        self.paths["opencode"].write_text(json.dumps({"mcp": {"tracker": entry}}, indent=2))
        self.paths = {host: self.paths[host] for host in ("codex", "opencode")}
        self.bare = dict(self.env)
        self.env["TRACKER_TOKEN"] = TOKEN


@pytest.fixture
def home(tmp_path):
    home = Tracker(tmp_path)
    yield home
    run_hubd(["stop"], home.env)


def called_by_a_host(home):
    """The result of a call of the server by a host that starts the hub, in an environment without the variable."""
    home.run("stop")
    (entry,) = [each for each in home.entries("codex") if "connect" in each.get("args", ())]
    with StdioHost(entry, home.bare) as host:
        assert "tracker__find_issue" in host.tools()
        return host.request("tools/call", {"name": "tracker__find_issue", "arguments": {}})


@pytest.mark.covers("FH-2", "FH-4")
def test_a_variable_of_the_shell_is_kept_as_a_secret_and_the_server_works_wherever_the_hub_is_started(home):
    before = home.contents()
    with Terminal([HUBD, "setup", "--no-service"], home.env, columns=100) as screen:
        screen.see(r"^tracker +works")
        screen.see(r"TRACKER_TOKEN, which tracker needs, is set in this shell only: keep it as a secret\?\s+\[Y/n\]")
        screen.type("\n")
        screen.see(r"hubd secret +TRACKER_TOKEN")
        screen.see(r"Write this\?")
        assert home.contents() == before
        screen.type("\n")
        screen.see(r"Done: 1 server through the hub\.")
        assert screen.end()[0] == 0, screen.text
        assert TOKEN not in screen.text
    assert b"enabled = false" in home.contents()["codex"]
    assert home.told("secret", "ls")["secrets"] == [
        {"name": "TRACKER_TOKEN", "principal": None, "kept": "file", "servers": ["tracker"]}
    ]
    assert not called_by_a_host(home).get("isError")
    home.run("uninstall", "--all", "--restore-originals")
    assert home.contents() == before


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-2", "FH-4")
def test_without_a_yes_the_server_stays_with_its_host(home):
    before = home.contents()
    with Terminal([HUBD, "setup", "--no-service"], home.env, columns=100) as screen:
        screen.see(r"keep it as a secret\?\s+\[Y/n\]")
        screen.type("n\n")
        screen.see(r"tracker stays with Codex and OpenCode: TRACKER_TOKEN is set in this shell only: run `hubd")
        screen.see(r"Write this\?")
        screen.type("\n")
        screen.see(r"Done: 0 servers through the hub; 2 servers stay with their hosts\.")
        assert screen.end()[0] == 0, screen.text
    for host, text in home.contents().items():
        assert entry_of(host, text, "tracker") == entry_of(host, before[host], "tracker"), host
    assert home.told("secret", "ls")["secrets"] == []


def entry_of(host, text, name):
    """The bytes of the entry, as far as the next one or the end of its table."""
    if host == "codex":
        return text[text.index(b"[mcp_servers.tracker]") :].split(b"\n\n")[0].rstrip()
    return json.dumps(json.loads(text)["mcp"][name])


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-2", "FH-4")
def test_without_questions_the_variable_is_kept(home):
    told = home.told("setup", "--yes", "--no-service")
    assert told["secrets"] == ["TRACKER_TOKEN"]
    assert {each["did"] for each in told["servers"]} == {"works"}
    assert not called_by_a_host(home).get("isError")


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-2")
def test_in_a_shell_without_the_variable_everything_else_goes_on(home):
    main = home.home / ".config" / "hubd" / "hubd.toml"
    main.parent.mkdir(parents=True)
    main.write_text('[upstreams.other]\ncommand = "x"\nenv = { A = "${NOT_SET_HERE}" }\n')
    home.env.pop("TRACKER_TOKEN")
    told = home.told("setup", "--yes", "--no-service")
    assert {(each["host"], each["server"], each["did"]) for each in told["servers"]} == {
        ("codex", "tracker", "does not work"),
        ("opencode", "tracker", "left"),
    }
    said = home.run("import", "--yes")
    assert "the variable TRACKER_TOKEN is not set: run `hubd secret set TRACKER_TOKEN`" in said
    assert "imported as tracker-opencode" in said
    home.run("import", "--yes")  # also once the file of imported servers has one that is unresolved


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-2", "FH-4")
def test_an_import_leaves_the_server_with_its_host_unless_the_variable_is_kept(home):
    before = home.contents()
    home.run("install", "--all", "--yes")
    said = home.run("import", "--yes", "--disable-originals", code=1)
    assert "tracker works only in a hub that this shell starts: TRACKER_TOKEN is set in this shell only" in said
    assert entry_of("codex", home.contents()["codex"], "tracker") == entry_of("codex", before["codex"], "tracker")
    home.run("import", "--yes", "--secrets", "store", "--disable-originals")
    assert b"enabled = false" in home.contents()["codex"]
    assert not called_by_a_host(home).get("isError")


def test_what_the_running_hub_lacks_is_said_in_a_shell_that_has_it(home):
    main = home.home / ".config" / "hubd" / "hubd.toml"
    main.parent.mkdir(parents=True)
    main.write_text('[upstreams.tracker]\ncommand = "/bin/true"\nenv = { A = "${TRACKER_TOKEN}" }\n')
    shell, home.env = home.env, home.bare
    home.run("start")
    assert "TRACKER_TOKEN is not set" in home.run("validate")
    home.env = shell
    said = home.run("validate")
    assert "the running hub has tracker unresolved" in said
    assert "tracker: not started" in home.run("doctor", code=1)


def test_an_unknown_host_is_said_before_terminals_are(home):
    assert "there is no host nope" in home.run("setup", "nope", code=2)


def test_add_and_env_capture_keep_it_for_servers_of_the_hub(home):
    program = str(home.home / "bin" / "tracker-mcp")
    with Terminal([HUBD, "add", "a", "--env", "TRACKER_TOKEN=${TRACKER_TOKEN}", "--", program], home.env) as screen:
        screen.see(r"TRACKER_TOKEN, which a needs, is set in this\s+shell only: keep it as a secret\?\s+\[Y/n\]")
        screen.type("n\n")
        assert screen.end()[0] == 0, screen.text
    assert "a: TRACKER_TOKEN is set in this shell only" in home.run("doctor", code=1)
    assert "hubd secret set TRACKER_TOKEN" in home.run("env", "capture")
    with Terminal([HUBD, "env", "capture"], home.env) as screen:
        screen.see(r"keep it as a secret\?\s+\[Y/n\]")
        screen.type("\n")
        assert screen.end()[0] == 0, screen.text
    assert [each["name"] for each in home.told("secret", "ls")["secrets"]] == ["TRACKER_TOKEN"]
    assert "TRACKER_TOKEN" not in home.run("doctor", code=1)


def test_what_only_the_running_hub_knows_is_said_by_validate(home):
    """Every problem of its environment that is more than a missing variable; and its doubts about tools of profiles."""
    main = home.home / ".config" / "hubd" / "hubd.toml"
    main.parent.mkdir(parents=True)
    (main.parent / "hubd.env").write_text("")
    server = f'[upstreams.tracker]\ncommand = "{home.home}/bin/tracker-mcp"\nenv = {{ TRACKER_TOKEN = "x" }}\n'
    main.write_text(server + '[profiles.work]\ntools = ["tracker__find_isue"]\n')
    home.run("start")
    until_connected(home.env, "tracker")
    assert any("find_isue" in text for text in home.told("validate")["hub_warnings"])
    assert re.search(r"the running hub: .*find_isue", " ".join(home.run("validate").split()))
    shell = home.env | {"OUR_LEVEL": "debug", "OUR_TOKEN": 40 * "x"}
    main.write_text('token = "${OUR_TOKEN}"\n' + server + 'args = ["${OUR_LEVEL}"]\n')
    home.run("reload", code=78)
    home.env = shell
    said = home.told("validate")
    assert said["sound"]
    assert {found[0] for text in said["hub_warnings"] if (found := re.search(r"OUR_[A-Z]+", text))} == {
        "OUR_LEVEL",
        "OUR_TOKEN",
    }
