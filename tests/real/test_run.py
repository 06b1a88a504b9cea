"""The first steps of a newcomer: `make run` on a bare checkout, then another shell and the printed snippets."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import HUBD, PYTHON_1, PYTHON_2, ROOT, own_directories, running

pytestmark = pytest.mark.everything

HOSTS = Path(__file__).parent / "hosts"
PIP_S = 240
LIMIT_S = 90


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """A fresh checkout, `make run` in it, and everything it has printed: (directory, environment, process)."""
    directory = tmp_path_factory.mktemp("newcomer")
    checkout = directory / "checkout"
    folders = ("hub", "upstreams", "cache", "config", "systemd")
    for name in (*folders, "pyproject.toml", "Makefile", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            checkout.mkdir(exist_ok=True)
            shutil.copy(source, checkout / name)
    env = own_directories(directory)
    # pip keeps its settings and its cache where this machine's user has them.
    install = {**env, **{name: os.environ[name] for name in ("HOME",) if name in os.environ}}
    make = ["make", "-C", str(checkout), f"PYTHON={sys.executable}"]
    subprocess.run([*make, ".venv/.runtime"], env=install, timeout=PIP_S, check=True, capture_output=True)
    argv = [*make, "run", "ARGS=--listen 127.0.0.1:0"]
    with running(argv, directory / "hubd.log", env=env, cwd=directory) as process:
        process.wait_for(r"hubd listens on http://\S+/mcp")
        process.wait_for(r"^A host that opens URLs")
        process.wait_for(r"^}")
        yield checkout, env, process


@pytest.fixture
def hubd(newcomer, tmp_path):
    """Run the hubd command of that checkout, from a folder that holds traps; its standard output."""
    checkout, env, _ = newcomer
    for name in ("config", "cache", "hub", "upstreams", "trio", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the working directory')\n")

    def hubd(*arguments):
        argv = [str(checkout / ".venv" / "bin" / "hubd"), *arguments]
        done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, f"hubd {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    return hubd


def snippets(newcomer):
    """The entries for hosts that `make run` printed, in order: stdio, HTTP."""
    _, _, process = newcomer
    text = "\n".join(process.said)
    return [json.loads(block)["mcpServers"]["hub"] for block in re.findall(r"^\{$.*?^\}$", text, re.S | re.M)]


def host_says(argv, plan, env):
    """The answers of a host program to the steps of `plan`."""
    done = subprocess.run(
        [*map(str, argv), json.dumps(plan)], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)["answers"]


def test_another_shell_lists_and_calls_the_demo_tools(hubd):
    names = {tool["name"] for tool in json.loads(hubd("tools", "--json"))}
    assert {"demo__echo", "demo__add", "demo__countdown"} <= names
    assert "demo__echo" in hubd("tools")
    assert "hello" in hubd("call", "demo__echo", "text=hello")
    called = json.loads(hubd("call", "demo__add", "--raw", "--json", '{"a": 2, "b": 3}'))
    assert called["structuredContent"] == {"sum": 5}


def test_status_shows_the_demo_upstream(hubd):
    hubd("call", "demo__echo", "text=so it is connected")
    assert "connected" in hubd("status")
    assert "demo" in json.dumps(json.loads(hubd("status", "--json")))
    assert hubd("version").strip()


def test_the_printed_stdio_entry_works_in_a_real_host(newcomer):
    _, env, _ = newcomer
    entry = snippets(newcomer)[0]
    steps = [["call", "demo__echo", {"text": "over stdio"}], ["read", "demo://welcome"]]
    plan = {"command": [entry["command"], *entry["args"]], "env": env, "mode": "auto", "steps": steps}
    called, read = host_says([PYTHON_1, HOSTS / "py1.py"], plan, env)
    assert called["content"][0]["text"] == "over stdio"
    assert "Welcome to hubd" in read["contents"][0]["text"]


def test_the_printed_http_entry_works_in_a_real_host(newcomer, hubd):
    _, env, _ = newcomer
    entry = snippets(newcomer)[1]
    steps = [["call", "demo__countdown", {"from": 3, "pause_s": 0.2}], ["read", "demo://greeting/Ada"]]
    plan = {"url": entry["url"], "token": hubd("token").strip(), "mode": "auto", "steps": steps}
    called, read = host_says([PYTHON_2, HOSTS / "py2.py"], plan, env)
    assert called["progress"][-1] == [3, 3]
    assert "Ada" in read["contents"][0]["text"]


def test_the_hub_in_the_foreground_as_one_stdio_server(tmp_path, records):
    env = own_directories(tmp_path)
    plan = {"command": records.tee("host", "foreground", [HUBD, "serve", "--stdio"]), "env": env, "mode": "auto"}
    plan["steps"] = [["call", "demo__add", {"a": 1, "b": 1}]]
    for argv in ([PYTHON_1, HOSTS / "py1.py"], [PYTHON_2, HOSTS / "py2.py"]):
        (called,) = host_says(argv, plan, env)
        assert called["structuredContent"] == {"sum": 2}


def test_connect_starts_a_daemon_when_there_is_none(tmp_path, records):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(parents=True)
    upstream = f'[upstreams.demo]\ncommand = {json.dumps(sys.executable)}\nargs = ["-I", "-m", "upstreams.demo"]\n'
    config.write_text('listen = "127.0.0.1:0"\n' + upstream)
    plan = {"command": records.tee("host", "starter", [HUBD, "connect"]), "env": env, "mode": "auto"}
    plan["steps"] = [["call", "demo__add", {"a": 1, "b": 1}]]
    try:
        (called,) = host_says([PYTHON_1, HOSTS / "py1.py"], plan, env)
        assert called["structuredContent"] == {"sum": 2}
        shown = subprocess.run([HUBD, "status", "--json"], env=env, capture_output=True, timeout=LIMIT_S, check=True)
        assert json.loads(shown.stdout)
    finally:
        stopped = subprocess.run([HUBD, "stop"], env=env, capture_output=True, timeout=LIMIT_S, check=False)
    assert stopped.returncode == 0
