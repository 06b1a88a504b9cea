"""The environment of servers, whoever starts the hub: real processes, started from a shell and by a host."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.attached import SCRIPTED, Host
from tests.support.commands import run_hubd
from tests.support.looking import until, until_connected
from tests.support.private_ca import server_of_a_private_ca
from tests.support.processes import HUBD, Hub, own_directories, running

SYSTEM_PATH = "/usr/bin:/bin"
TELLS = {"tools": ["env"], "on": {"tools/call:env": [["environment"]]}}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Machine:
    """A user with programs in a directory that only the shell's PATH names."""

    def __init__(self, directory: Path) -> None:
        own = own_directories(directory)
        self.shell = {name: value for name, value in own.items() if name.startswith(("XDG_", "HOME", "HUBD_"))}
        self.tools = directory / "tools"
        self.tools.mkdir()
        self.shell["PATH"] = f"{self.tools}:{SYSTEM_PATH}"
        self.config = Path(self.shell["XDG_CONFIG_HOME"], "hubd")
        self.config.mkdir(mode=0o700)
        self.add("tells", TELLS)
        self.host = {**self.shell, "PATH": SYSTEM_PATH}

    def add(self, name: str, script: object, before: str = "", *, by_path: bool = False) -> None:
        """A server whose command is found on the shell's PATH, or named by its path. `before`: what its shell does
        first."""
        program = self.tools / name
        words = [sys.executable, str(SCRIPTED), json.dumps(script)]
        program.write_text(f"#!/bin/sh\n{before}exec {shlex.join(words)}\n")
        program.chmod(0o755)
        with (self.config / "hubd.toml").open("a") as file:
            file.write(f"[upstreams.{name}]\ncommand = '{program if by_path else name}'\nera = 'legacy'\n")

    def own(self, text: str) -> None:
        (self.config / "hubd.env").write_text(text)

    def run(self, *arguments: str, **environ: str) -> str:
        done = run_hubd(arguments, self.shell | environ)
        return done.stdout + done.stderr

    def hub(self, process) -> Hub:
        return Hub("", None, self.shell, self.config / "hubd.toml", process)


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    machine.run("stop")


class Connected:
    """A host that starts `hubd connect`, which starts a hub if there is none."""

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [HUBD, "connect"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.last = 0
        self.request("initialize", INITIALIZE)

    def request(self, method: str, params: object) -> dict:
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.last and "method" not in answer:
                return answer
        raise AssertionError("the hub hung up")

    def environment(self) -> dict[str, str]:
        """The environment of the server that tells it."""
        answer = self.request("tools/call", {"name": "tells__env", "arguments": {}})
        return json.loads(answer["result"]["content"][0]["text"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def served(machine: Machine, directory: Path, **environ: str):
    """`hubd serve` from the shell."""
    argv = [HUBD, "serve", "--listen", "127.0.0.1:0"]
    return running(argv, directory / "hubd.log", env=machine.shell | environ, forked=True)


CA = {"NODE_EXTRA_CA_CERTS": "/etc/company.pem", "https_proxy": "http://proxy:3128"}


@pytest.mark.covers("FH-4", "SEC-51")
def test_a_host_that_starts_the_hub_changes_nothing_for_servers(machine, tmp_path):
    assert "written" in machine.run("env", "capture", **CA)
    with served(machine, tmp_path, **CA, GITHUB_TOKEN="canary") as process:
        process.wait_for("http://")
        with Connected(machine.shell) as host:
            from_shell = host.environment()
        os.kill(process.pid, signal.SIGKILL)
    with Connected(machine.host) as host:
        from_host = host.environment()
    for each in (from_shell, from_host):
        assert each["PATH"] == f"{SYSTEM_PATH}:{machine.tools}", "as it was recorded: below /tmp, so it comes last"
        assert {name: each[name] for name in CA} == CA
        assert "canary" not in each.values()
    about_programs = {"PATH", "HOME", *CA, *(name for name in from_shell if name.startswith("XDG_"))}
    assert {name: from_shell[name] for name in about_programs} == {name: from_host[name] for name in about_programs}


@pytest.mark.covers("FH-4")
def test_servers_take_a_change_of_the_file_when_they_start_next(machine, tmp_path):
    machine.own(f"PATH={machine.shell['PATH']}\nNODE_EXTRA_CA_CERTS=/old.pem\n")
    with served(machine, tmp_path) as process:
        process.wait_for("http://")
        with Connected(machine.host) as host:
            before = host.environment()
            assert before["NODE_EXTRA_CA_CERTS"] == "/old.pem"
            machine.own(f"PATH={machine.shell['PATH']}\nNODE_EXTRA_CA_CERTS=/new.pem\n")
            assert "other variables in hubd.env, which servers get when they start next" in machine.run("reload")
            assert host.environment() == before, "what runs is left alone"
            machine.run("restart", "tells")
            assert host.environment()["NODE_EXTRA_CA_CERTS"] == "/new.pem"
            machine.own("PATH\n")
            assert "hubd.env is not of the form KEY=VALUE" in machine.run("reload")
            machine.run("restart", "tells")
            assert host.environment()["NODE_EXTRA_CA_CERTS"] == "/new.pem", "the last good one stays"


@pytest.mark.covers("F-C-10")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"A=" + b"x" * (1 << 16) + b"\n", "is larger than 64 KB"),
        (b"A=\xff\n", "is not UTF-8 text"),
        (b"A=a\0b\n", "holds a NUL character"),
        (b"A=1\nnothing\n", "line 2 of"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(machine, data, said):
    (machine.config / "hubd.env").write_bytes(data)
    assert said in " ".join(machine.run("serve").split())


def test_links_and_pipes_in_the_place_of_the_file(machine, tmp_path):
    file = machine.config / "hubd.env"
    os.mkfifo(file)
    assert "it is not a plain file" in machine.run("serve")
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    assert "No such file" in machine.run("serve")
    (tmp_path / "nowhere").write_text("A=1\n")
    (tmp_path / "nowhere").chmod(0o666)
    assert "others may write it" in machine.run("serve")


def test_what_moves_the_hubs_files_is_not_taken_from_the_file(machine, tmp_path):
    machine.own("HUBD_RUNTIME_DIR=/nonexistent/run\nXDG_STATE_HOME=/nonexistent/state\nHOME=/nonexistent\n")
    with served(machine, tmp_path) as process:
        process.wait_for("http://")
        with Host(machine.hub(process)) as host:
            host.ask(0, "initialize", INITIALIZE)
            assert host.receive()["id"] == 0


# --- a network of one's own -------------------------------------------------------------------------------------------

FETCHES = {
    "SSL_CERT_FILE": [sys.executable, "-I", "-c", "import urllib.request, sys; urllib.request.urlopen(sys.argv[1])"],
    "NODE_EXTRA_CA_CERTS": [
        *("node", "-e"),
        "require('https').get(process.argv[1], r => r.resume()).on('error', e => { throw e; })",
    ],
}
"""Programs that fetch a page, by the variable that tells them whom to trust."""


@pytest.mark.covers("FH-5", "FH-8")
@pytest.mark.parametrize("variable", FETCHES)
def test_a_server_behind_a_private_authority_is_explained_and_works_once_the_shell_is_recorded(
    machine, tmp_path, variable
):
    program, *words = FETCHES[variable]
    if (path := shutil.which(program)) is None:
        pytest.skip(f"there is no {program}")
    with server_of_a_private_ca(tmp_path) as (port, ca):
        fetch = shlex.join([path, *words, f"https://127.0.0.1:{port}/"])
        name = "node" if program == "node" else "fetches"
        # By its path: what is recorded has directories below /tmp last, behind that of the machine's own node.
        machine.add(name, {}, before=f"{fetch} || exit 1\n", by_path=True)
        with served(machine, tmp_path) as process:
            process.wait_for("http://")
            until_connected(machine.shell, "tells")
            machine.run("restart", name)
            until(machine.shell, lambda rows: rows[name]["last_error"])
            shell = {variable: str(ca)}
            found = {each["check"]: each for each in json.loads(machine.run("doctor", "--json", **shell))}
            finding = found["environment"]
            assert (finding["level"], finding["names"]) == ("problem", [name])
            assert f"this shell has {variable}, and the hub has not" in finding["why"]
            assert finding["fix"] == f"run `hubd env capture`; then run `hubd restart {name}`"
            assert "upstream" not in found
            line = f"add the line {variable}="
            told = [each for each in json.loads(machine.run("doctor", "--json")) if each["check"] == "environment"]
            assert line in told[0]["fix"], "a shell without it names the line to write"
            assert "written" in machine.run("env", "capture", **shell)
            machine.run("restart", name)  # which does not wait long enough where the machine is busy
            until_connected(machine.shell, name)
