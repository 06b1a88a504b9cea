"""Hooks with a hub that runs: a script, and what its configuration may say."""

import json
import sys

import pytest

from tests.support.attached import hubd, upstream
from tests.support.processes import running_hub

SCRIPT = """
import json, sys
told = json.load(sys.stdin)
if "card" in json.dumps(told["tool_input"]):
    print("contains customer data", file=sys.stderr)
    sys.exit(2)
if told["tool_input"].get("table") == "old":
    answer = {"hookEventName": "PreToolUse", "updatedInput": {"table": "new"}, "permissionDecision": "defer"}
    print(json.dumps({"hookSpecificOutput": answer}))
"""
SERVER = upstream("db", {"tools": ["read"]})


def hooks(path, **changes):
    keys = {"name": "dlp", "on": "before", "match": ["db__*"], "command": [sys.executable, str(path)], **changes}
    return "\n[[hooks]]\n" + "\n".join(
        f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None
    )


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("script") / "check.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def hub(tmp_path_factory, script):
    with running_hub(tmp_path_factory.mktemp("place"), SERVER + hooks(script, may=["rewrite"])) as hub:
        yield hub


@pytest.mark.covers("POL-41")
def test_a_script_checks_each_call(hub):
    done = hubd(hub, "call", "db__read", "table=users")
    assert done.returncode == 0, done
    done = hubd(hub, "call", "db__read", "card=4111")
    assert done.returncode == 1
    assert "Not run: contains customer data." in done.stderr


@pytest.mark.covers("POL-41", "POL-43")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "DLP"}, "lower-case"),
        ({"on": None}, "before"),
        ({"match": []}, "selectors of the tools"),
        ({"match": ["prompt:x"]}, "means no tools"),
        ({"match": ["hots:x"]}, "unknown kind of term"),
        ({"command": None}, "one of them"),
        ({"url": "https://example.com/hook"}, "one of them"),
        ({"command": None, "url": "http://example.com/hook"}, "must be https"),
        ({"timeout_s": 61}, "60"),
        ({"may": ["everything"]}, "may"),
    ],
)
def test_a_hook_that_cannot_be_asked_refuses_the_file(hub, script, changes, why):
    before = hub.config.read_text()
    hub.config.write_text(SERVER + hooks(script, **changes))
    done = hubd(hub, "reload")
    hub.config.write_text(before)
    assert done.returncode == 78, done
    assert why in done.stderr
    hubd(hub, "reload")
    assert hubd(hub, "call", "db__read", "card=1").returncode == 1
