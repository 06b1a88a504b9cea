"""`hubd check` against a real hub: what is well, and each thing that is not, by one line and the exit code."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub.cli.await_server_starts import ServerOutcome
from hub.cli.check_command import ReadinessFacts, judge
from hub.control.answers import PolicyReport, SignInFacts, UpstreamRow
from tests.support.bundles import python_server
from tests.support.commands import run_hubd
from tests.support.looking import until_connected
from tests.support.processes import own_directories, running_hub

CONFIG = """
[upstreams.good]
command = {python}
args = ["-I", {server}]
[upstreams.bad]
command = {python}
args = ["-c", "raise SystemExit('it hurts')"]
[upstreams.off]
command = "true"
disabled = true
"""


class Checked:
    """A hub, and the command there."""

    def __init__(self, hub, server):
        self.hub = hub
        self.server = server

    def check(self, *words, code):
        done = run_hubd(["check", *words], self.hub.env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def told(self, *words, code):
        found = json.loads(self.check("--json", *words, code=code))
        assert found["ok"] == (code == 0)
        return found["checks"]

    def hubd(self, *words):
        done = run_hubd(words, self.hub.env)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def make(tmp_path):
    """Makes a hub with a good server and a bad one; `more` is added to its configuration."""

    @contextmanager
    def run(more=""):
        server = tmp_path / "server.py"
        server.write_text(python_server())
        names = {"python": json.dumps(sys.executable), "server": json.dumps(str(server))}
        with running_hub(tmp_path, CONFIG.format(**names) + more) as hub:
            until_connected(hub.env, "good")
            yield Checked(hub, server)

    return run


def test_what_is_well_and_what_is_not(make):
    with make() as it:
        assert it.check("good", "good__tell", code=0) == "all is well: 1 server, 1 tool\n"
        assert it.told("good", "good__tell", code=0) == [
            {"name": "good", "kind": "server", "server": "good", "state": "connected", "tools": 1, "expires_s": None,
             "effect": None, "problems": []},
            {"name": "good__tell", "kind": "tool", "server": "good", "state": "connected", "tools": None,
             "expires_s": None, "effect": "allow", "problems": []},
        ]  # fmt: skip
        [line] = it.check(code=1).splitlines()  # that which is disabled is not asked for
        assert line.startswith("bad: ")
        assert it.check("off", code=1) == "off: disabled\n"
        assert it.check("good__nothing", code=1) == "good__nothing: there is no such tool\n"
        assert it.check("goood", code=1) == 'goood: there is no such server, tool or pipeline; did you mean "good"?\n'
        [line] = it.check("bad__x", code=1).splitlines()
        assert line.startswith("bad__x: ")
        [bad] = it.told("bad", code=1)
        assert "it hurts" in bad["problems"][0]


def test_a_mistake_in_the_configuration_is_a_problem(make):
    with make() as it:
        good = it.hub.config.read_text()
        for wrong, told in (
            (
                '[upstreams.good]\ncomand = "x"\n',
                'upstreams.good.comand: ignored: unknown setting; did you mean "command"?',
            ),
            ("page_size = -1\n", "line 1: page_size: "),
            ("[upstreams\n", "line 1: "),
        ):
            it.hub.config.write_text(wrong + good.replace("[upstreams.good]\n", "", wrong.count("good")))
            [line] = it.check("good", code=1).splitlines()
            assert line.startswith(f"{it.hub.config}, line ")
            assert told in line
            found = json.loads(it.check("--json", "good", code=1))
            assert (found["ok"], found["mistakes"]) == (False, [line])
        it.hub.config.write_text(good)
        it.check("good", code=0)


def test_without_a_hub_mistakes_are_told_and_else_that_none_runs(tmp_path):
    env = own_directories(tmp_path)
    config = Path(env["XDG_CONFIG_HOME"]) / "hubd" / "hubd.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("park_ttl_s = -1\n")
    done = run_hubd(["check"], env)
    assert (done.returncode, done.stdout.startswith(f"{config}, line 1: park_ttl_s: ")) == (1, True)
    config.write_text('[upstreams.a]\ncommand = "true"\n')
    assert run_hubd(["check"], env).returncode == 69


def test_nothing_is_called(make):
    with make() as it:
        it.check("good", "good__tell", code=0)
        done = run_hubd(["calls", "--json"], it.hub.env)
        assert "good__tell" not in done.stdout


def test_rules_count(make):
    with make('\n[policy]\ndeny = ["good__tell"]\n') as it:
        assert "good__tell: it may not be used (deny)" in it.check("good__tell", code=1)
        assert it.told("good__tell", code=1)[0]["effect"] == "deny"
        assert "good: no tool of it may be used" in it.check("good", code=1)


def test_a_question_to_a_person_is_a_problem(make):
    with make('\n[policy]\nask = ["good__tell"]\n') as it:
        assert "good__tell: a person is asked before it is called" in it.check("good__tell", code=1)
        it.check("good", code=0)


def test_a_change_since_the_approval_is_a_problem(make):
    with make() as it:
        it.check("good", "good__tell", code=0)
        it.server.write_text(python_server().replace('"name": "tell",', '"name": "tell", "description": "Obey",'))
        it.hubd("restart", "good")
        said = it.check("good", "good__tell", "--wait", "30", code=1)
        assert "good: 1 definition of it changed since it was approved: `hubd pins good` shows how\n" in said
        assert "good__tell: its definition has changed since it was approved" in said
        it.hubd("approve", "good", "--state", json.loads(run_hubd(["pins", "--json"], it.hub.env).stdout)[0]["state"])
        it.check("good", "good__tell", code=0)


def test_it_waits_for_a_server_that_is_on_its_way(make, tmp_path):
    slow, go = tmp_path / "slow.py", tmp_path / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    slow.write_text(wait + python_server())
    entry = f'\n[upstreams.slow]\ncommand = {json.dumps(sys.executable)}\nargs = ["-I", {json.dumps(str(slow))}]\n'
    with make(entry) as it:
        assert it.check("slow", code=1).startswith("slow: still connecting")
        Path(go).touch()
        it.check("slow", "--wait", "60", code=0)


@pytest.mark.parametrize(
    ("account", "left_s", "problem"),
    [
        (None, None, ""),
        (SignInFacts(state="good", expires_s=3600.0), 3600.0, ""),
        (SignInFacts(state="good", expires_s=90.0, renewable=True), None, ""),
        (SignInFacts(state="good"), None, ""),
        (
            SignInFacts(state="good", expires_s=90.0, command="hubd auth notes"),
            90.0,
            "its sign-in ends in 90 s and is not renewed without you; sign in again: hubd auth notes",
        ),
    ],
)
def test_a_sign_in_has_to_last(account, left_s, problem):
    row = UpstreamRow(name="notes", state="connected", account=account)
    outcomes = {"notes": ServerOutcome(name="notes", state="connected")}
    found = judge("notes", ReadinessFacts(outcomes, {"notes": row}, {}, {}, PolicyReport(), {}))
    assert (found.expires_s, "".join(found.problems)) == (left_s, problem)


def test_a_sign_in_that_is_needed_is_said():
    account = SignInFacts(state="needed", command="hubd auth notes")
    row = UpstreamRow(name="notes", state="unauthorized", account=account, last_error="401")
    outcomes = {"notes": ServerOutcome(name="notes", state="unauthorized", sign_in="hubd auth notes")}
    found = judge("notes", ReadinessFacts(outcomes, {"notes": row}, {}, {}, PolicyReport(), {}))
    assert found.problems == ("sign-in needed; sign in: hubd auth notes",)


def test_wrong_usage(tmp_path):
    done = run_hubd(["check", "--wait", "-1"], own_directories(tmp_path))
    assert done.returncode == 2
    assert "--wait takes seconds" in done.stderr
