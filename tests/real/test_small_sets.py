"""A user with 150 tools of twelve real servers: a host that takes 40 gets from the warning to a small set that works,
with no help but what the hub prints; another finds the tools by searching, and calls them."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real.recorded import OFFICIAL
from tests.support.processes import HUBD, PYTHON_2, ROOT, own_directories
from tests.support.stdio_host import HELLO, StdioHost

FOLDERS = 10
LIMIT = 40
LABEL = "sparse"
FACTS = f"""
[hosts.{LABEL}]
title = "Sparse"
tool_limit = {LIMIT}
format = "json"
root = ["mcpServers"]
linux = ["~/.sparse/mcp.json"]
stdio = {{ command = "{{command}}", args = "{{args}}" }}
note = "restart Sparse"
"""
RUN = "import sys; sys.path.insert(0, {!r}); from hub.cli.main import main; sys.exit(main(sys.argv[1:]))"
OWN = 'startup_grace_s = 100\nlisten = "127.0.0.1:0"\n# mine\n'
TRUST = "[upstreams.folder-7]\ntrusted = true\n"
META = ["hub__find_tools", "hub__call_tool", "hub__call_read_only_tool"]
LONG = "everything__trigger-long-running-operation"
HOSTS = Path(__file__).with_name("hosts")
COMMAND = re.compile(r"\bhubd ((?:profile|tools) [^`\n]*[^`\s.,;])")

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]  # the machine may be busy, and twelve servers start


def servers(folder):
    """Twelve real servers: one of files for each folder, one that knows the time, and one with a bit of everything."""
    files = str(OFFICIAL / "server-filesystem" / "dist" / "index.js")
    node = shutil.which("node")
    found = {}
    for number in range(1, FOLDERS + 1):
        (place := folder / f"folder-{number}").mkdir()
        (place / "note.txt").write_text(f"a note in folder {number}")
        found[f"folder-{number}"] = {"command": node, "args": [files, str(place)]}
    everything = str(OFFICIAL / "server-everything" / "dist" / "index.js")
    found["everything"] = {"command": node, "args": [everything]}
    time = str(PYTHON_2.with_name("mcp-server-time"))
    return found | {"time": {"command": time, "args": ["--local-timezone", "UTC"]}}


class User:
    """A user with this host, whose hubd knows the host; what they see."""

    def __init__(self, directory):
        self.package = directory / "package"
        for name in ("hub", "upstreams", "cache", "config"):
            shutil.copytree(ROOT / name, self.package / name, ignore=shutil.ignore_patterns("__pycache__"))
        with (self.package / "config" / "hosts" / "hosts.toml").open("a") as facts:
            facts.write(FACTS)
        self.env = own_directories(directory) | {"NO_COLOR": "1"}
        self.file = Path(self.env["HOME"], ".sparse", "mcp.json")
        self.file.parent.mkdir(parents=True)
        self.config = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")

    def types(self, words):
        """The output of `hubd WORDS`, as people see it."""
        argv = [sys.executable, "-c", RUN.format(str(self.package)), *words]
        done = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def types_what_is_named(self, said, *parts):
        """Run the command in what was printed that has all these parts."""
        commands = [
            found[1] for found in COMMAND.finditer(" ".join(said.split("\n  "))) if all(p in found[1] for p in parts)
        ]
        assert commands, (parts, said)
        return self.types(shlex.split(commands[0]))


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """A user whose hubd has taken over the servers of the sparse host, and runs them."""
    folder = tmp_path_factory.mktemp("user").resolve()
    found = User(folder)
    found.folder = folder
    found.file.write_text(json.dumps({"mcpServers": servers(folder)}))
    found.config.parent.mkdir(parents=True, exist_ok=True)
    found.config.write_text(OWN)
    found.types(["import", LABEL, "--yes"])
    found.config.write_text(OWN + TRUST)
    with attached(found, LABEL) as host:
        found.all_tools = host.request("tools/list", {})["tools"]  # it waits for all servers
    yield found
    subprocess.run([HUBD, "stop"], env=found.env, capture_output=True, timeout=60, check=False)


def names(host):
    return [tool["name"] for tool in host.request("tools/list", {})["tools"]]


@contextlib.contextmanager
def attached(user, label):
    """A host, with the label that `hubd install` gives it."""
    with StdioHost({"command": str(HUBD), "args": ["connect", "--host", label]}, user.env) as host:
        host.request("initialize", HELLO)
        yield host


@pytest.mark.covers("EP-10")
def test_two_commands_lead_from_150_tools_to_a_small_set_that_works(user):
    with attached(user, LABEL) as host:
        assert len(names(host)) == len(user.all_tools) >= 150
        warned = user.types(["status"])
        assert re.search(rf"{LABEL} is shown 1\d\d tools\s+and\s+takes {LIMIT}", warned)

        suggested = user.types_what_is_named(warned, "profile suggest")
        written = user.types_what_is_named(suggested, "profile suggest", "--write")

        assert re.search(r"sparse: \d+ tools", written)
        small = names(host)
        assert 0 < len(small) <= LIMIT
        assert "time__get_current_time" in small
        folder = next(name.partition("__")[0] for name in small if name.startswith("folder-"))
        note = str(user.folder / folder / "note.txt")
        read = host.request("tools/call", {"name": f"{folder}__read_text_file", "arguments": {"path": note}})
        assert read["content"][0]["text"].startswith("a note in folder")
        now = host.request("tools/call", {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}})
        assert not now.get("isError")
    with attached(user, LABEL) as later:
        assert names(later) == small
    assert "takes" not in user.types(["status"])
    assert user.config.read_text().startswith(OWN + TRUST)


@pytest.mark.covers("ES-3", "ES-5", "ES-7", "ES-8", "ES-9")
def test_a_host_that_shows_its_model_all_tools_finds_and_calls_them_by_words(user):
    note = {"path": str(user.folder / "folder-7" / "note.txt")}
    numbers = {"a": 2, "b": 3}
    wishes = [
        ("what time is it in Tokyo right now", "time__get_current_time", {"timezone": "Asia/Tokyo"}),
        ("add two numbers", "everything__get-sum", numbers),
        ("read the text of a file in folder 7", "folder-7__read_text_file", note),
        ("a long job that tells how far it is", LONG, {"duration": 0.1, "steps": 2}),
    ]
    nowhere = {"name": "time__get_current_time", "arguments": {"timezone": "Nowhere"}}
    steps = [
        ["tools"],
        *(["wish", *wish] for wish in wishes),
        ["call", "everything__get-sum", numbers],
        ["call", "hub__call_read_only_tool", {"name": "folder-7__read_text_file", "arguments": note}],
        ["call", "hub__call_tool", nowhere],
        ["call", "hub__call_tool", {"name": "everything__get-sun", "arguments": numbers}],
        ["tools"],
    ]
    command = [str(HUBD), "connect", "--host", "lm-studio"]
    plan = {"command": command, "env": user.env, "mode": "legacy", "steps": steps}
    done = subprocess.run(
        [PYTHON_2, HOSTS / "searching.py", json.dumps(plan)],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    report = json.loads(done.stdout)
    before, *made, direct, reading, failed, unknown, after = report["answers"]

    assert after == before
    assert report["changes"] == []
    assert [tool["name"] for tool in before["tools"]] == META
    whole = size(user.all_tools)
    assert size(before["tools"]) <= 600 * 4
    for wish, (words, tool, _) in zip(made, wishes, strict=True):
        assert tool in wish["found"], words
        assert wish["result"]["_meta"]["dev.hubd/tool"] == tool
        assert not wish["result"].get("isError"), wish
        assert wish["bytes"] <= 16_000
    assert sum(wish["bytes"] for wish in made) / len(made) < whole / 10
    now, total, text, job = (wish["result"] for wish in made)
    assert "Asia/Tokyo" in now["content"][0]["text"]
    assert {**total, "_meta": None} == {**direct, "_meta": None}, "as if it had been called itself"
    assert text["content"][0]["text"] == "a note in folder 7"
    assert "completed" in job["content"][0]["text"]
    assert made[-1]["progress"][-1] == [2, 2]
    assert reading["content"] == text["content"]
    assert failed["isError"]
    assert "did you mean everything__get-sum" in unknown["content"][0]["text"]

    with attached(user, "claude-code") as other:
        assert names(other) == [tool["name"] for tool in user.all_tools]


def size(tools):
    """Bytes of what a model is shown of these tools."""
    shown = [{member: tool.get(member) for member in ("name", "description", "inputSchema")} for tool in tools]
    return len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())
