"""Malformed files at every entry point of the configuration: each is a `ConfigError`, and no other error is raised.

`HUBD_FUZZ` is the number of inputs per entry point (`make fuzz`: 10 000).
"""

import os
from collections.abc import Iterable
from contextlib import suppress

import pytest

from config.diagnostics import ConfigError
from config.editing.imported_file import blocks_of, compose_file
from config.editing.text import jsonc, serverfile, toml, yaml
from config.editing.text.change import EditRefused
from config.hosts.host_servers import survey
from config.hosts.import_plan import Import, unfit
from config.hosts.known_hosts import Machine, Place, all_hosts
from config.loading.assemble import load_all
from config.loading.variables import Unresolved, Variables
from config.projects import Trust, find_project, load_project, read_project
from config.remembered_facts import Memory
from config.settings import HubConfig
from tests.fuzz.mutation import damaged

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))

TOML = b"""#:schema ./hubd.schema.json
listen = "127.0.0.1:0"
include = ["more/*.toml"]
[cache]
url = "redis://h"
[upstreams.a]
command = "./run"
args = ["${A:-x}", "${file:secret}"]
env = { B = '''c''', "d e" = "\\u00e9" }
env_file = ".env"
timeouts.call = 5
[upstreams."b.c"]
url = "https://h/mcp"
headers = { Authorization = "Bearer ${T}" }
"""
JSON = b"""{ // of a host
  "mcpServers": {
    "a": {"command": "x", "args": ["-y", "m@1"], "env": {"A": "\\u001b"}, "disabled": false, /* so */ "timeout": 60},
    "b": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer abc"}, "type": "http"},
    "c": {"command": "npx", "args": ["mcp-remote", "https://h/sse"], "envFile": ".env"},
  },
}
"""
YAML = b"""extensions:
  a: &a
    cmd: x
    args: [1, "2", 2020-01-01]
    type: stdio
    envs: {A: b}
  b:
    <<: *a
    timeout: 300
    description: |
      more
"""
SEEDS = {"toml": [TOML], "json": [JSON], "yaml": [YAML]}


def inputs(*seeds: bytes) -> Iterable[bytes]:
    return damaged(seeds, COUNT)


@pytest.mark.covers("SEC-13", "I-3")
@pytest.mark.parametrize("suffix", SEEDS)
def test_a_file_of_our_own(suffix, tmp_path):
    path = tmp_path / f"hubd.{suffix}"
    for data in inputs(*SEEDS[suffix]):
        path.write_bytes(data)
        with suppress(ConfigError):
            load_all(path, {})


@pytest.mark.covers("SEC-13", "I-3")
@pytest.mark.parametrize(("name", "seed"), [(".hubd.toml", TOML[TOML.index(b"[upstreams") :]), (".mcp.json", JSON)])
def test_a_file_of_a_project(name, seed, tmp_path):
    trust = Trust(tmp_path / "trust.json")
    (root := tmp_path / "project").mkdir()
    for data in inputs(seed):
        (root / name).write_bytes(data)
        assert find_project(root, tmp_path) == root
        assert trust.load_allowed(root, {}, HubConfig()) is None
        with suppress(ConfigError):
            load_project(root, {}, HubConfig(), sources=read_project(root, {}))


@pytest.mark.covers("I-3")
@pytest.mark.parametrize(("id", "seed"), [("cursor", JSON), ("goose", YAML), ("codex", TOML)])
def test_a_file_of_a_host(id, seed, tmp_path):
    host, machine = all_hosts()[id], Machine(tmp_path, {})
    place = Place(host, tmp_path / "file", host.title)
    seed = seed.replace(b"[upstreams.", b"[mcp_servers.")
    for data in inputs(seed):
        text = data.decode(errors="replace")
        with suppress(EditRefused):
            result = Import({}, (), "keep")
            for server in survey(place, text, machine.environ, machine.home)[0]:
                result.add(server)
            for name, server in result.taken:
                unfit(name, server)
            serverfile.insert(place.kept, text, "hub", {"command": "hubd"})


@pytest.mark.parametrize(("module", "seed"), [(jsonc, JSON), (toml, TOML), (yaml, YAML)])
def test_a_text_that_is_edited(module, seed):
    for data in inputs(seed):
        text = data.decode(errors="replace")
        for change in (lambda: module.read(text), lambda: module.remove(text, ("upstreams",), "a")):  # noqa: B023
            with suppress(EditRefused):
                change()


def test_files_of_variables_and_of_the_hub(tmp_path, caplog):
    env, memory = tmp_path / ".env", tmp_path / "memory.json"
    imported = compose_file("T", "t", ['[upstreams.a]\ncommand = "x"']).encode()
    for data in inputs(b"A=1\nexport B='2' # c\n", b'{"format":1,"sections":{"a":{"b":[1]}}}', imported):
        env.write_bytes(data)
        memory.write_bytes(data)
        with suppress(Unresolved):
            Variables({}, tmp_path).env_file(".env")
        Memory(memory)
        with suppress(EditRefused):
            blocks_of(data.decode(errors="replace"))
