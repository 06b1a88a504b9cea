"""`hubd add` of real servers of npm and PyPI that a recorded registry names, to the first call through the hub."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import HUBD, own_directories, running_hub
from tests.support.registry_server import registry_server

pytestmark = pytest.mark.everything

FILES = {
    "name": "io.example.registry/filesystem",
    "description": "Files of one folder",
    "version": "2026.8.31",
    "packages": [
        {
            "registryType": "npm",
            "registryBaseUrl": "https://registry.npmjs.org",
            "identifier": "@modelcontextprotocol/server-filesystem",
            "version": "2026.8.31",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "positional", "valueHint": "directory", "format": "filepath", "isRequired": True}
            ],
        }
    ],
}
TIME = {
    "name": "io.example.registry/time",
    "description": "The time of day",
    "version": "2026.10.19",
    "packages": [
        {
            "registryType": "pypi",
            "identifier": "mcp-server-time",
            "version": "2026.10.19",
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "named", "name": "--local-timezone", "default": "Europe/Paris"}],
        }
    ],
}


@pytest.mark.covers("ER-3")
@pytest.mark.timeout(600)
def test_servers_of_a_registry_are_added_and_called(tmp_path, monkeypatch):
    home = own_directories(tmp_path)["HOME"]
    if (npmrc := Path("~/.npmrc").expanduser()).exists():
        shutil.copy(npmrc, home)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # there is uvx
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello")
    with registry_server() as registry:
        registry.add(FILES)
        registry.add(TIME)
        text = f'[registries.official]\nurl = "{registry.url}"\n[upstreams.off]\ncommand = "true"\ndisabled = true\n'
        with running_hub(tmp_path, text, auth="none") as hub:

            def hubd(*arguments):
                argv = [HUBD, *arguments]
                done = subprocess.run(argv, env=hub.env, capture_output=True, text=True, timeout=500, check=False)
                assert done.returncode == 0, done.stdout + done.stderr
                return done.stdout

            own = ("--config", hub.config, "--yes", "--json")
            told = json.loads(hubd("add", "io.example.registry/filesystem", "--input", f"directory={folder}", *own))
            [server] = told["servers"]
            assert (server["state"], told["source"]) == ("connected", f"official:{FILES['name']}@2026.8.31")
            assert "hello.txt" in hubd("call", "filesystem__list_directory", f"path={folder}")
            [server] = json.loads(hubd("add", "io.example.registry/time", *own))["servers"]
            assert server["state"] == "connected"
            assert "UTC" in hubd("call", "time__get_current_time", "timezone=UTC")
            outdated = json.loads(hubd("outdated", "--config", hub.config, "--json"))["servers"]
            assert [(each["name"], each["newest"]) for each in outdated] == [
                ("filesystem", "2026.8.31"),
                ("time", "2026.10.19"),
            ]
            hubd("remove", "time", "--config", hub.config)
