"""`hubd doctor` about the environment of servers: their last words, and this shell."""

import pytest

from config.environment.hubd_env import with_block
from config.hosts.known_hosts import Machine
from config.loading.assemble import load_all
from hub.cli.checks import servers, variables_servers_lack
from hub.cli.checks.machine_state import MachineState
from hub.cli.doctor import findings
from hub.control.methods import STATUS, read

BUNDLE = variables_servers_lack.BUNDLES[0]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture
def examined(home):
    def examined(said: str = "", command: str = "uvx", more: str = "", own: bytes = b"", **shell: str) -> MachineState:
        path = home / "hubd.toml"
        path.write_text(f"[upstreams.a]\ncommand = '{command}'\n{more}\n")
        (home / "hubd.env").write_bytes(own)
        (home / "hubd.env").chmod(0o600)
        rows = [{"name": "a", "state": "failed", "last_error": f"a exited with status 1\n{said}"}] if said else []
        shell = {"PATH": "/usr/bin:/bin", **shell}
        return MachineState(
            machine=Machine(home, shell),
            version="1",
            status=read(STATUS, {"version": "1", "upstreams": rows}),
            loaded=load_all(path, shell),
            error=None,
            files=(),
            token=None,
            trust=home / "trust.json",
            directory=home,
            status_at=lambda path: None,
        )

    return examined


@pytest.mark.covers("FH-8")
@pytest.mark.parametrize(
    ("command", "said", "variable"),
    [
        ("uvx", "error: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("npx", "npm error code SELF_SIGNED_CERT_IN_CHAIN\nnpm error self-signed certificate", "NODE_EXTRA_CA_CERTS"),
        ("node", "Error: unable to get local issuer certificate", "NODE_EXTRA_CA_CERTS"),
        ("deno", "error: invalid peer certificate: UnknownIssuer", "DENO_CERT"),
        ("python3", "requests.exceptions.SSLError: certificate verify failed", "REQUESTS_CA_BUNDLE"),
        ("server", "x509: certificate signed by unknown authority", "SSL_CERT_FILE"),
    ],
)
def test_a_missing_certificate_is_named_with_the_line_to_add(examined, home, command, said, variable):
    [finding] = variables_servers_lack.last_words(examined(said, command))
    assert (finding.level, finding.names, finding.what) == ("problem", ("a",), "a: does not trust a certificate")
    assert finding.fix.startswith(f"add the line {variable}=/")
    assert finding.fix.endswith(f" to {home}/hubd.env; then run `hubd restart a`")
    [finding] = variables_servers_lack.last_words(examined(said, command, **{variable: "/etc/ca.pem"}))
    assert finding.fix == "run `hubd env capture`; then run `hubd restart a`"
    own = with_block(b"", {variable: "/nonexistent.pem"})
    [finding] = variables_servers_lack.last_words(examined(said, command, own=own))
    assert "names /nonexistent.pem, which is not there" in finding.why
    assert "correct line 3 of" in finding.fix


@pytest.mark.covers("FH-8")
@pytest.mark.parametrize(
    ("said", "shell"),
    [
        ("Missing X server or $DISPLAY", {"DISPLAY": ":7"}),
        ("Error: Failed to connect to Wayland display", {"WAYLAND_DISPLAY": "wayland-0"}),
        ("Cannot autolaunch D-Bus without X11 $DISPLAY", {"DISPLAY": ":7"}),
        ("git@github.com: Permission denied (publickey).", {"SSH_AUTH_SOCK": "/run/agent"}),
        ("Cannot connect to the Docker daemon", {"DOCKER_HOST": "unix:///x"}),
        ("getaddrinfo ENOTFOUND registry.npmjs.org", {"https_proxy": "http://proxy:3128"}),
    ],
)
def test_what_this_shell_has_and_the_hub_has_not(examined, said, shell):
    [(name, _)] = shell.items()
    [finding] = variables_servers_lack.last_words(examined(said, **shell))
    assert f"this shell has {name}, and the hub has not" in finding.why
    assert "`hubd env capture`" in finding.fix or f"{name} = " in finding.fix


def test_a_proxy_with_a_password_is_to_be_named_in_full(examined):
    said, proxy = "error: dns error: Name or service not known", "http://me:hunter2@proxy:3128"
    [finding] = variables_servers_lack.last_words(examined(said, HTTPS_PROXY=proxy))
    assert 'write pass = ["HTTPS_PROXY"]' in finding.fix
    assert "hunter2" not in str(finding)
    [finding] = variables_servers_lack.last_words(examined(said, more='pass = ["HTTPS_PROXY"]', HTTPS_PROXY=proxy))
    assert "`hubd env capture`" in finding.fix


def test_a_variable_that_a_server_names_is_said_with_the_way_to_give_it(examined):
    said, then = "Error: NOTES_DIR is not set", "; then run `hubd restart a`"
    [finding] = variables_servers_lack.last_words(examined(said))
    assert (finding.what, finding.why) == ("a: lacks NOTES_DIR, it seems", "servers get only a part of the environment")
    assert finding.fix == 'write env = { NOTES_DIR = "..." } below [upstreams.a] (`hubd edit`)' + then
    [finding] = variables_servers_lack.last_words(examined(said, NOTES_DIR="/notes"))
    assert finding.why.endswith("servers do not get it: they get only a part of the environment")
    assert finding.fix.startswith('write pass = ["NOTES_DIR"] below [defaults] or [upstreams.a]')
    passed = 'pass = ["NOTES_DIR"]'
    [finding] = variables_servers_lack.last_words(examined(said, more=passed, NOTES_DIR="/notes"))
    assert finding.fix == "run `hubd env capture`" + then
    for more, own in (("env = { NOTES_DIR = 'x' }", b""), (passed, b"NOTES_DIR=/notes\n")):
        assert [*variables_servers_lack.last_words(examined(said, more=more, own=own, NOTES_DIR="/notes"))] == []


def test_other_words_say_nothing_of_it(examined):
    for said in ("ECONNREFUSED 127.0.0.1:5432", "Permission denied (publickey)", "TypeError: x is undefined", ""):
        assert [*variables_servers_lack.last_words(examined(said))] == []
    [finding] = variables_servers_lack.last_words(examined("no DISPLAY environment variable"))
    assert "neither this shell nor the hub has DISPLAY" in finding.why


def test_the_cause_stands_in_the_place_of_the_failure(examined):
    found = findings(examined("invalid peer certificate: UnknownIssuer", "sh"))
    assert [each.check for each in found if each.names == ("a",)] == ["environment"]


@pytest.mark.covers("FH-4")
def test_a_shell_that_differs_from_what_was_recorded(examined, home):
    own = with_block(b"", {"PATH": "/usr/bin:/bin", "NODE_EXTRA_CA_CERTS": "/old.pem"})
    assert [*variables_servers_lack.this_shell(examined(own=own))] == [], "a poorer shell says nothing"
    [finding] = variables_servers_lack.this_shell(examined(own=own, NODE_EXTRA_CA_CERTS="/new.pem"))
    assert (finding.level, "NODE_EXTRA_CA_CERTS differs" in finding.what) == ("warning", True)
    [finding] = variables_servers_lack.this_shell(examined(own=own, PATH="/opt/new/bin:/usr/bin:/bin"))
    assert (finding.level, "its PATH lacks /opt/new/bin" in finding.what) == ("note", True)
    assert [*variables_servers_lack.this_shell(examined(PATH="/opt/new/bin:/bin"))] == []
    [finding] = variables_servers_lack.this_shell(examined(https_proxy="http://proxy"))
    assert finding.level == "note"
    said = variables_servers_lack.this_shell(examined("UnknownIssuer", own=own, SSL_CERT_FILE="/new.pem"))
    assert [*said] == [], "the last words of a server say it already"


@pytest.mark.covers("FH-4")
def test_a_command_that_only_this_shell_finds(examined, home):
    program = home / "tools" / "only-here"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    shell = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    [finding] = servers.commands(examined(command="only-here", **shell))
    assert finding.level == "warning", "it depends on who starts the hub"
    assert "run `hubd env capture`" in finding.fix
    [finding] = servers.commands(examined(command="only-here", own=b"PATH=/usr/bin:/bin\n", **shell))
    assert finding.level == "problem"
    assert "not on that in hubd.env" in finding.what
    recorded = f"PATH={shell['PATH']}\n".encode()
    assert [*servers.commands(examined(command="only-here", own=recorded))] == []
