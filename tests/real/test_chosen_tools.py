"""Tools of real servers: chosen by globs while the servers run, and their cost beside that of a real tokenizer."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.real.recorded import OFFICIAL, table
from tests.support.processes import HUBD, NODE_ENV, PACKAGES, PYTHON_2, running_hub

SERVERS = {
    "files": ["node", str(OFFICIAL / "server-filesystem" / "dist" / "index.js")],
    "everything": ["node", str(OFFICIAL / "server-everything" / "dist" / "index.js")],
    "time": [str(PYTHON_2.with_name("mcp-server-time")), "--local-timezone", "UTC"],
}
COUNT = Path(__file__).with_name("count_tokens.cjs")

pytestmark = pytest.mark.real


def config(folder, **tools):
    """The three servers, with these choices of tools."""
    tables = ["startup_grace_s = 60"]  # lists wait for all of them
    for name, (command, *args) in SERVERS.items():
        more = {"tools": tools[name]} if name in tools else {}
        args = [*args, str(folder)] if name == "files" else args
        tables.append(table(name, command=shutil.which(command), args=args, **more))
    return "\n".join(tables)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("chosen").resolve()


@pytest.fixture(scope="module")
def hub(tmp_path_factory, folder):
    with running_hub(tmp_path_factory.mktemp("hub"), config(folder)) as hub:
        yield hub


def told(hub, *words, code=0):
    """What a command prints, as JSON if it is."""
    done = subprocess.run(
        [HUBD, *map(str, words)], env=hub.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def names(hub):
    return {tool["name"] for tool in told(hub, "tools", "--json")}


def test_a_choice_leaves_tools_out_while_the_servers_go_on(hub, folder):
    def pids():
        return {row["name"]: row["pid"] for row in told(hub, "status", "--json")["upstreams"]}

    everything, before = names(hub), pids()
    assert "files__write_file" in everything
    assert None not in before.values()
    hub.config.write_text(config(folder, files=["!write_*", "!edit_*", "!create_*", "!move_*"], time=["get_*"]))
    told(hub, "reload", "--json")
    left_out = everything - names(hub)
    assert {"files__write_file", "files__edit_file", "files__create_directory", "files__move_file"} <= left_out
    assert "time__convert_time" in left_out
    assert pids() == before, "no server was started anew"
    target = folder / "new.txt"
    said = told(hub, "call", "files__write_file", f"path={target}", "content=x", code=1)
    assert "there is no tool files__write_file" in said
    assert not target.exists()
    assert "UTC" in told(hub, "call", "time__get_current_time", "timezone=UTC")
    hub.config.write_text(config(folder))
    told(hub, "reload", "--json")
    assert names(hub) == everything
    told(hub, "call", "files__write_file", f"path={target}", "content=x")
    assert target.read_text() == "x"


@pytest.mark.covers("ET-1")
def test_tokens_are_about_those_of_a_tokenizer(hub):
    if not (PACKAGES / "gpt-tokenizer").is_dir():
        pytest.skip("needs gpt-tokenizer: run `make deps`")
    listed = {}
    for tool in told(hub, "tools", "--json"):
        shown = {member: tool[member] for member in ("name", "description", "inputSchema") if member in tool}
        text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
        listed.setdefault(tool["name"].partition("__")[0], []).append(text)
    counted = subprocess.run(
        ["node", COUNT],
        input=json.dumps(["\n".join(texts) for texts in listed.values()]),
        env={**os.environ, **NODE_ENV},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    exact = dict(zip(listed, json.loads(counted.stdout), strict=True))
    costs = told(hub, "tools", "--cost", "--json")
    assert {each["name"] for each in costs["servers"]} == exact.keys() == SERVERS.keys()
    for each in costs["servers"]:
        assert each["tools"] == len(listed[each["name"]])
        assert 0.7 <= each["tokens"] / exact[each["name"]] <= 1.4, (each, exact)
        assert each["largest"]["tokens"] <= each["tokens"]
    whole = sum(each["tokens"] for each in costs["servers"])
    assert 0.8 <= whole / sum(exact.values()) <= 1.25
    shown = told(hub, "tools", "--cost")
    assert shown.startswith("SERVER")
    largest = told(hub, "tools", "everything", "--cost", "--json")["tools"]
    assert sum(each["tokens"] for each in largest) == pytest.approx(
        next(each["tokens"] for each in costs["servers"] if each["name"] == "everything"), abs=len(largest)
    )
