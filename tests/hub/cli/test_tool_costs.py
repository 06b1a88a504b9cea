"""`hubd tools --cost`, with a hub that the command starts."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import own_directories

SCRIPTED = Path(__file__).parents[2] / "support" / "scripted.py"


@pytest.fixture
def env(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir(parents=True)
    args = json.dumps(["-I", "-S", str(SCRIPTED), json.dumps({"tools": ["read", "delete"]})])
    server = f'[upstreams.files]\ncommand = "{sys.executable}"\nargs = {args}\ntools = ["!delete"]\n'
    config.write_text(f'listen = "127.0.0.1:0"\n{server}')
    yield env
    run_hubd(["stop"], env)


def told(env, *words):
    done = run_hubd(words, env, check=True)
    return done.stdout


def test_a_list_for_programs_stays_bare_when_the_hub_had_to_be_started(env):
    assert [tool["name"] for tool in json.loads(told(env, "tools", "--json"))] == ["files__read"]


@pytest.mark.covers("ET-2")
def test_a_hub_that_is_only_starting_is_waited_for(env):
    costs = json.loads(told(env, "tools", "--cost", "--json"))
    (files,) = costs["servers"]
    assert (files["name"], files["tools"], files["largest"]["name"]) == ("files", 1, "files__read")
    assert files["tokens"] > 5
    assert json.loads(told(env, "tools", "files", "--cost", "--json")) == {
        "tools": [{"name": "files__read", "tokens": files["tokens"]}],
        "instructions_tokens": 0,
        "together": {"tools": 1, "tokens": files["tokens"]},
    }
    assert told(env, "tools", "--cost").splitlines()[1].split()[:2] == ["files", "1"]


@pytest.mark.covers("ET-3")
def test_what_was_called_is_known_after_a_restart_and_what_was_not_is_listed(env):
    assert [each["name"] for each in json.loads(told(env, "tools", "--unused", "--json"))["tools"]] == ["files__read"]
    assert told(env, "tools", "--unused").splitlines()[0].split() == ["TOOL", "TOKENS", "LAST", "CALL"]
    told(env, "call", "files__read", "text=what nobody should read later")
    told(env, "stop")
    record = Path(env["XDG_STATE_HOME"], "hubd", "usage.json")
    assert b"nobody" not in record.read_bytes()
    assert record.stat().st_mode & 0o777 == 0o600
    found = json.loads(told(env, "tools", "--unused", "--json"))
    assert (found["tools"], found["days"]) == ([], 30)
    assert told(env, "tools", "--unused") == "every one of 1 tools was called in the last 30 days\n"
    (files,) = json.loads(told(env, "tools", "--cost", "--json"))["servers"]
    assert (files["unused"], files["unused_tokens"]) == (0, 0)
    wrong = run_hubd(["tools", "--unused", "fils"], env)
    assert (wrong.returncode, wrong.stderr) == (1, 'hubd: there is no server fils; did you mean "files"?\n')
