"""Bundles made by the format's own command line, added and run for real: node, python, uv and a binary; one of them
signed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.bundles import NODE_SERVER, manifest, python_server
from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.processes import NODE, PACKAGES, running_hub

MCPB = PACKAGES / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js"
PROJECT = '[project]\nname = "bundled"\nversion = "1"\nrequires-python = ">=3.9"\n'
ARGS = ["${user_config.folder}", "--deep=${user_config.deep}"]
OPTIONS = {
    "folder": {"type": "directory", "title": "Folder", "description": "To look at", "required": True},
    "deep": {"type": "boolean", "title": "Deep", "description": "All of it", "default": True},
    "key": {"type": "string", "title": "Key", "description": "Of the API", "sensitive": True},
}
KINDS = {
    "node": ("server/index.js", "node", ["${__dirname}/server/index.js", *ARGS], {"server/index.js": NODE_SERVER}),
    "python": ("server/main.py", "python", ["${__dirname}/server/main.py", *ARGS], {"server/main.py": python_server()}),
    "uv": (
        "src/server.py",
        "uv",
        ["run", "--directory", "${__dirname}", "src/server.py", *ARGS],
        {"src/server.py": python_server(), "pyproject.toml": PROJECT},
    ),
    "binary": ("server/tool", "server/tool", ARGS, {"server/tool": f"#!/usr/bin/env python3\n{python_server()}"}),
}

pytestmark = [pytest.mark.real, pytest.mark.covers("EB-4", "EB-2")]


def mcpb(*arguments):
    done = subprocess.run([NODE, MCPB, *arguments], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pack(directory, kind):
    """A bundle of this kind, packed."""
    entry_point, command, args, files = KINDS[kind]
    launch = {"command": command, "args": args, "env": {"KEY": "${user_config.key}"}}
    server = {"type": kind, "entry_point": entry_point, "mcp_config": launch}
    version = {"manifest_version": "0.4" if kind == "uv" else "0.3"}
    source = directory / "source"
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if kind == "binary" else 0o644)
    words = manifest(name=f"bundled-{kind}", user_config=OPTIONS, server=server, **version)
    (source / "manifest.json").write_text(json.dumps(words))
    mcpb("validate", source / "manifest.json")
    mcpb("pack", source, directory / f"{kind}.mcpb")
    return directory / f"{kind}.mcpb"


@pytest.mark.parametrize("kind", draw(2, KINDS))
def test_a_packed_bundle_runs(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # uv is there
    path = pack(tmp_path, kind)
    if kind == "python":
        mcpb("sign", path, "--self-signed")
    with running_hub(tmp_path, "page_size = 100\n") as hub:

        def hubd(*arguments):
            done = run_hubd(arguments, hub.env)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        inputs = ("--input", f"folder={tmp_path}", "--input", "key=hunter2")
        said = hubd("add", str(path), "--yes", "--config", str(hub.config), *inputs)
        assert ("signed by" in said) == (kind == "python"), said
        assert "not checked, nothing follows from it" in said or kind != "python"
        answer = json.loads(hubd("call", f"bundled-{kind}__tell", "--raw"))
        told = json.loads(answer["content"][0]["text"])
        assert told["args"] == [str(tmp_path), "--deep=true"]
        assert told["env"]["KEY"] == "hunter2"
        assert "hunter2" not in hub.config.read_text()
        [folder] = Path(hub.env["XDG_DATA_HOME"], "hubd", "bundles", f"bundled-{kind}").iterdir()
        assert Path(told["cwd"]) == folder
        hubd("remove", f"bundled-{kind}", "--config", str(hub.config))
        assert not folder.exists()
