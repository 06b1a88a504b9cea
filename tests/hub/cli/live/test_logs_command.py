"""`hubd logs` of a real hub: the lines that are asked for."""

import json

import pytest

from hub.cli.live.logs_command import record
from tests.support.attached import hubd, upstream
from tests.support.processes import HUBD, running, running_hub
from tests.support.terminal import drawn
from upstreams.status_facts import JournalRecord

pytestmark = pytest.mark.covers("OL-5")


def log(level, text):
    return ["tell", "notifications/message", {"level": level, "data": text}]


def texts(hub, *words):
    done = hubd(hub, "logs", *words, "--json")
    assert done.returncode == 0, done.stderr
    return [each["text"] for each in map(json.loads, done.stdout.splitlines())]


def test_lines_by_level_and_time(tmp_path):
    script = {
        "on": {
            "notifications/initialized": [log("debug", "one"), log("warning", "two"), log("error", "three")],
            "tools/call:die": [["exit", 3]],
        }
    }
    with running_hub(tmp_path, upstream("talker", script)) as hub:
        errors, infos = [HUBD, "logs", "-f", "--level", "error"], [HUBD, "logs", "-f", "--level", "info"]
        with (
            running(errors, tmp_path / "errors", env=hub.env) as follower,
            running(infos, tmp_path / "infos", env=hub.env) as other,
        ):
            other.wait_for("talker +state +connected")
            follower.wait_for('talker +log +error: "three"$')
            assert not any("two" in line for line in follower.said)
            # before it starts again, and says so again
            assert texts(hub, "--since", "1d", "-n", "1000") == texts(hub, "-n", "1000")
            found = texts(hub, "talker", "--level", "warning")
            assert [each for each in found if each.startswith(("warning: ", "error: "))] == [
                'warning: "two"',
                'error: "three"',
            ]
            assert hubd(hub, "call", "talker__die").returncode == 1
            other.wait_for(r"talker +exit +exited with status 3$")
        found = texts(hub, "talker", "--level", "warning")
        assert "exited with status 3" in found
        assert not any(each.startswith("connect") for each in found)
        assert {"connecting", 'warning: "two"'} <= set(texts(hub, "--since", "2001-01-01"))
        assert texts(hub, "--since", "2999-01-01T00:00") == []
        assert texts(hub, "--ref", "00000000") == []
        for words, said in (
            (("--since", "soon"), "expected a time such as 2h"),
            (("--level", "loud"), "loud is none of debug, info"),
            (("--ref", "xyz"), "expected eight hexadecimal digits such as c7f3a9b2, not xyz"),
        ):
            done = hubd(hub, "logs", *words)
            assert done.returncode == 2
            assert said in done.stderr


def test_a_line_says_which_call_it_is_about_and_which_server():
    line = drawn(record(JournalRecord(0, "warning", "it took long", None, "hub", "warning", "c7f3a9b2", "github"), 8))
    assert line.split("  ", 1)[1].split() == ["github", "warning", "c7f3a9b2", "it", "took", "long"]
