"""`hubd env` and `hubd env capture`, and what other commands record unasked: as real processes."""

import json
import os
import pty
import subprocess

import pytest

from tests.hub.daemon.test_environment import SYSTEM_PATH, Connected, Machine, served
from tests.support.processes import HUBD


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    machine.run("stop")


def told(machine, *arguments, **environ):
    return json.loads(machine.run(*arguments, "--json", **environ))


CA = {"NODE_EXTRA_CA_CERTS": "/etc/company.pem"}


@pytest.mark.covers("FH-4")
def test_a_shell_is_recorded_and_shown(machine):
    file = machine.config / "hubd.env"
    file.write_text("# mine\nGITHUB_TOKEN=canary\n")
    before = file.read_bytes()
    tried = told(machine, "env", "capture", "--dry-run", **CA)
    assert (tried["did"], file.read_bytes()) == ("would be written", before)
    assert {"PATH", *CA} <= set(tried["variables"]) == set(tried["added"])
    done = told(machine, "env", "capture", **CA)
    assert (done["did"], done["file"], done["added"]) == ("written", str(file), tried["added"])
    assert file.read_bytes().endswith(before)
    assert told(machine, "env", "capture", **CA)["did"] == "unchanged"
    again = told(machine, "env", "capture", PATH=SYSTEM_PATH)
    assert (again["changed"], again["removed"]) == (["PATH"], list(CA))
    said = machine.run("env", "capture", **CA)
    assert "+ NODE_EXTRA_CA_CERTS=/etc/company.pem" in said
    assert f"~ PATH={SYSTEM_PATH}:{machine.tools}" in said, "it lies among temporary files, so it is the last one"
    shown = told(machine, "env", "tells")
    assert (shown["hub"], shown["server"]) == (False, "tells")
    found = {each["name"]: each for each in shown["variables"]}
    assert found["NODE_EXTRA_CA_CERTS"]["source"] == "hubd.env"
    assert found["HOME"]["source"] == "environment"
    assert "canary" not in machine.run("env") + machine.run("env", "tells") + json.dumps(shown)


@pytest.mark.covers("FH-4")
def test_the_running_hub_tells_what_its_servers_get(machine, tmp_path):
    machine.run("env", "capture", **CA)
    with served(machine, tmp_path, DISPLAY=":7", MY_TOKEN="canary") as process:
        process.wait_for("http://")
        shown = told(machine, "env", "tells", DISPLAY=":99")
        assert shown["hub"] is True
        values = {each["name"]: each["value"] for each in shown["variables"]}
        assert (values["DISPLAY"], values["NODE_EXTRA_CA_CERTS"]) == (":7", "/etc/company.pem")
        with Connected(machine.host) as host:
            added = "HUBD_INSTANCE", "PWD", "LC_CTYPE"
            given = {name: value for name, value in host.environment().items() if name not in added}
        values.pop("LC_CTYPE", None)
        assert given == values, "the shell that runs the server adds its PWD, Python LC_CTYPE"
        assert "There is no server telss" in machine.run("env", "telss")
    assert 'did you mean "tells"?' in machine.run("env", "telss")


def test_wrong_usage(machine):
    assert "--dry-run belongs to `hubd env capture`" in machine.run("env", "--dry-run")
    (machine.config / "hubd.env").write_text("nothing\n")
    assert "line 1 is not of the form KEY=VALUE; it was left as it is" in machine.run("env", "capture")


# --- unasked ----------------------------------------------------------------------------------------------------------


def at_a_terminal(machine, *arguments, **environ):
    """The output of a command that a person runs."""
    ours, theirs = pty.openpty()
    argv, env = [HUBD, *arguments], machine.shell | environ
    with subprocess.Popen(argv, env=env, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        try:
            return process.communicate(timeout=60)[0].decode()
        finally:
            os.close(ours)


@pytest.mark.covers("FH-4")
def test_putting_the_hub_into_hosts_records_the_shell(machine):
    file = machine.config / "hubd.env"
    assert "recorded" not in machine.run("install", "cursor", "--dry-run")
    assert not file.exists()
    assert "recorded PATH" in machine.run("install", "cursor", **CA)
    assert str(machine.tools) in file.read_text()
    recorded = file.read_bytes()
    for poor in (machine.run, lambda *arguments, **environ: at_a_terminal(machine, *arguments, **environ)):
        said = poor("install", "cursor", PATH=SYSTEM_PATH)
        assert file.read_bytes() == recorded, "a poorer shell takes nothing away unasked"
    assert "`hubd env capture` records it" in said
    assert "this is a shell of sudo" in machine.run("install", "cursor", SUDO_USER="me", **CA)
    richer = at_a_terminal(machine, "install", "cursor", NODE_EXTRA_CA_CERTS="/etc/new.pem")
    assert "recorded PATH" in richer
    assert "/etc/new.pem" in file.read_text()


def test_a_script_with_a_poor_path_records_nothing(machine):
    assert "recorded" not in machine.run("install", "cursor", PATH=SYSTEM_PATH)
    assert not (machine.config / "hubd.env").exists()


def test_a_damaged_file_keeps_no_host_from_being_changed(machine):
    (machine.config / "hubd.env").write_text("A=1\n# >>> hubd env capture >>>\n")
    said = told(machine, "install", "cursor")
    assert said["hosts"][0]["did"] == "added"
    assert "does not hold the marks" in said["notes"][-1]
