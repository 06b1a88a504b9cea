"""Halves of characters in files of hosts, and a home whose path is no text: `hubd setup` and `hubd import`."""

import json
import os
import subprocess

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD
from tests.support.setup_home import SetupHome

HALF = "it holds half a character (a lone surrogate), which no other file can hold"


@pytest.fixture
def home(tmp_path):
    home = SetupHome(tmp_path)
    for host in home.paths.keys() - {"cursor"}:
        home.paths.pop(host).unlink()
    yield home
    run_hubd(["stop"], home.env)


def everything(number, **more):
    return {"command": "npx", "args": ["server-everything", str(number)], **more}


def test_an_entry_with_half_a_character_stays_and_the_others_go_on(home):
    odd = {"\ud800": everything(0), "value": everything(1, note="\udc00x"), "key": everything(2, **{"\ud801": 1})}
    text = json.dumps({"note": "\ud800", "mcpServers": {**odd, "ok": everything(3)}})
    home.paths["cursor"].write_text(text)
    servers = home.told("import", "cursor", "--dry-run")["servers"]
    assert {each["server"]: each["why"] for each in servers} == {**dict.fromkeys(odd, HALF), "ok": ""}
    assert HALF in home.run("setup", "cursor", "--yes", "--no-service")
    assert json.loads(home.paths["cursor"].read_text())["mcpServers"].keys() == {*odd, "hub"}
    assert {each["name"]: each["state"] for each in home.told("status")["upstreams"]} == {"ok": "connected"}
    home.run("uninstall", "--all", "--restore-originals")
    assert home.paths["cursor"].read_text() == text


@pytest.mark.parametrize(("command", "code"), [(("setup", "--yes", "--no-service"), 2), (("import", "--dry-run"), 1)])
def test_a_home_that_is_not_utf8_is_said(home, command, code):
    odd = os.fsencode(home.directory) + b"/m\xff"
    os.rename(home.home, odd)
    env = {os.fsencode(key): os.fsencode(value).replace(os.fsencode(home.home), odd) for key, value in home.env.items()}
    done = subprocess.run([HUBD, *command], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == code
    assert b"is not UTF-8" in done.stderr
    assert b"set HOME to another" in done.stderr
