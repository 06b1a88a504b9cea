"""A new user with 150 tools of real servers, and a host that takes 40: from the warning to a small set that works, with
no help but what the hub prints."""

import contextlib
import json
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


@pytest.fixture
def user(tmp_path):
    found = User(tmp_path)
    yield found
    subprocess.run([HUBD, "stop"], env=found.env, capture_output=True, timeout=60, check=False)


def names(host):
    return [tool["name"] for tool in host.request("tools/list", {})["tools"]]


@contextlib.contextmanager
def sparse(user):
    """The host, with the label that `hubd install` gives it."""
    with StdioHost({"command": str(HUBD), "args": ["connect", "--host", LABEL]}, user.env) as host:
        host.request("initialize", HELLO)
        yield host


@pytest.mark.covers("EP-10")
def test_two_commands_lead_from_150_tools_to_a_small_set_that_works(user, tmp_path):
    user.file.write_text(json.dumps({"mcpServers": servers(tmp_path)}))
    config = Path(user.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('startup_grace_s = 100\nlisten = "127.0.0.1:0"\n# mine\n')
    user.types(["import", LABEL, "--yes"])
    with sparse(user) as host:
        assert len(names(host)) >= 150
        warned = user.types(["status"])
        assert re.search(rf"{LABEL} is shown 1\d\d tools\s+and\s+takes {LIMIT}", warned)

        suggested = user.types_what_is_named(warned, "profile suggest")
        written = user.types_what_is_named(suggested, "profile suggest", "--write")

        assert re.search(r"sparse: \d+ tools", written)
        small = names(host)
        assert 0 < len(small) <= LIMIT
        assert "time__get_current_time" in small
        folder = next(name.partition("__")[0] for name in small if name.startswith("folder-"))
        note = str(tmp_path / folder / "note.txt")
        read = host.request("tools/call", {"name": f"{folder}__read_text_file", "arguments": {"path": note}})
        assert read["content"][0]["text"].startswith("a note in folder")
        now = host.request("tools/call", {"name": "time__get_current_time", "arguments": {"timezone": "UTC"}})
        assert not now.get("isError")
    with sparse(user) as later:
        assert names(later) == small
    assert "takes" not in user.types(["status"])
    assert config.read_text().startswith('startup_grace_s = 100\nlisten = "127.0.0.1:0"\n# mine\n')
