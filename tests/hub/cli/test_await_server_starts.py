"""`hubd add`, `enable`, `restart` and `edit` say whether the server works, with a real hub and real servers."""

import contextlib
import http.server
import json
import os
import re
import shlex
import sys
import threading
from pathlib import Path

import pytest

from hub.cli.await_server_starts import ServerOutcome, outcome, say_outcomes, watch
from hub.cli.context import Output
from hub.control.answers import Status, UpstreamRow
from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories, running
from tests.support.terminal import Terminal

CONNECTED = r"connected, 1 tool(, ~13 tokens)?\n"
"""Tokens are counted a moment later, which a busy machine may take longer for than a command waits."""
SCRIPTED = Path(__file__).parents[2] / "support" / "scripted.py"


def good(**script):
    return [sys.executable, "-I", "-S", str(SCRIPTED), json.dumps(script)]


def broken(text):
    return good(start=[["stderr", text], ["exit", 1]])


TRACE = """Traceback (most recent call last):
  File "server.py", line 3, in <module>
    import nowhere
ModuleNotFoundError: No module named 'nowhere'
+------------------------------------
"""


class Home:
    """A hub that reads the user's own configuration, and commands beside it."""

    def __init__(self, directory):
        self.env = own_directories(directory)
        self.config = Path(self.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")

    def run(self, *arguments, code=0, **env):
        done = run_hubd(map(str, arguments), self.env | env)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def told(self, *arguments, code=0):
        done = run_hubd(map(str, arguments), self.env)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    with running([HUBD, "serve", "--listen", "127.0.0.1:0"], tmp_path / "log", env=home.env, forked=True) as process:
        process.wait_for("hubd listens on")
        yield home


@contextlib.contextmanager
def refusing():
    """The URL of a server that lets nobody in."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *words):
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.covers("FH-6")
def test_add_says_that_a_server_is_connected(home):
    said = home.run("add", "x", "--", *good(tools=["one", "two"]))
    assert "applied by the running hub\nx: connected, 2 tools" in said
    (server,) = home.told("add", "y", "--json", "--", *good())["servers"]
    assert (server["name"], server["state"], server["tools"], server["why"]) == ("y", "connected", 1, None)


@pytest.mark.covers("FH-6")
def test_add_says_why_a_server_does_not_start_and_fails(home):
    said = home.run("add", "x", "--", *broken(TRACE), code=1)
    assert "ModuleNotFoundError: No module named 'nowhere'; `hubd logs x` shows all of it" in said
    assert "x" in home.config.read_text(), "it was added all the same"
    assert "x stays in the configuration; `hubd remove x` takes it out again" in said
    told = home.told("add", "y", "--json", "--", "no-such-command", code=1)
    assert told["error"]["code"] == 1
    assert "'no-such-command' was not found" in told["servers"][0]["why"]
    assert told["did"] == "added"


@pytest.mark.in_turn(1)
@pytest.mark.parametrize(
    ("last", "hint"), [("Error: NOTES_DIR is not set", "x lacks NOTES_DIR"), ("", "x lacks a variable"), (TRACE, "")]
)
def test_where_a_variable_may_be_missing_it_is_said_how_servers_get_one(home, last, hint):
    said = home.run("add", "x", "--", *broken(last), code=1)
    status = " ".join(home.run("status").split())
    advice = "`env` (`hubd add --env`) or `pass` below [upstreams.x] gives it" if hint else ""
    for text in (said, status):
        assert hint in text
        assert advice in text
        assert bool(hint) == ("servers get only a part of the environment" in text)


def test_ctrl_c_while_a_new_server_is_waited_for_says_that_it_stays(home):
    with Terminal([HUBD, "add", "x", "--", *good(start=[["hang"]])], home.env, columns=400) as terminal:
        terminal.wait_for("x: connecting")
        terminal.type("\x03")
        code, out = terminal.end()
    assert code == 130
    assert "hubd: note: x stays in the configuration; `hubd remove x` takes it out again\n" in out
    assert "upstreams.x" in home.config.read_text()


@pytest.mark.covers("FH-6")
def test_a_server_that_wants_a_sign_in_is_called_so(home):
    with refusing() as url:
        said = home.run("add", "x", "--url", url, code=1)
    assert "x: sign-in needed; sign in: hubd auth x" in said


@pytest.mark.covers("FH-6")
def test_nobody_waits_who_does_not_want_to(home):
    said = home.run("add", "x", "--no-wait", "--", *broken(TRACE))
    assert said.endswith("applied by the running hub\n")
    assert home.run("restart", "x", "--no-wait") == "restarting x\n"
    home.run("disable", "x")
    assert home.run("enable", "x", "--no-wait").endswith("applied by the running hub\n")
    assert "x:" not in home.run("add", "y", "--disabled", "--", "no-such-command")


@pytest.mark.covers("FH-6")
def test_enable_restart_and_edit_say_whether_it_works(home, tmp_path):
    spent = tmp_path / "spent"
    spent.touch()
    dies_later = good(once=str(spent), start=[["stderr", TRACE], ["exit", 1]])
    home.run("add", "x", "--disabled", "--", *dies_later)
    assert re.search(rf"x: {CONNECTED}$", home.run("enable", "x"))
    assert re.fullmatch(rf"restarting x\nx: {CONNECTED}", home.run("restart", "x"))
    spent.unlink()
    said = home.run("restart", "x", code=1)
    assert "No module named 'nowhere'" in said
    told = home.told("restart", "x", "--json", code=1)
    assert told["restarting"] == "x"
    assert told["servers"][0]["state"] in ("reconnecting", "failed")

    spent.touch()
    edited = tmp_path / "edited.toml"
    edited.write_text(home.config.read_text() + '[upstreams.new]\ncommand = "no-such-command"\n')
    said = home.run("edit", code=1, VISUAL=f"cp {shlex.quote(str(edited))}")
    assert "new: " in said
    assert "'no-such-command' was not found" in said
    edited.write_text(home.config.read_text().replace('"no-such-command"', json.dumps(sys.executable)) + "args = []\n")
    words = json.dumps(good()[1:])
    edited.write_text(edited.read_text().replace("args = []", f"args = {words}"))
    said = home.run("edit", VISUAL=f"cp {shlex.quote(str(edited))}")
    assert re.search(rf"\nnew: {CONNECTED}$", said), "only those that were edited are waited for"


@pytest.mark.covers("FH-6")
def test_a_server_that_still_runs_with_its_old_settings_does_not_work_yet():
    row = UpstreamRow(name="x", state="connected", settling=False, stale_config="x exited\nValueError: no key")
    found = outcome("x", row, 10)
    assert not found.works
    assert (
        str(found) == "x: not connected after 10 s: it still runs with its old settings: x exited: ValueError: no key"
    )


@pytest.mark.covers("FH-6")
def test_an_error_from_before_the_wait_is_not_told():
    row = UpstreamRow(name="x", state="reconnecting", last_error="it fell", last_error_ago_s=9.0)
    assert outcome("x", row, 3.0).why == ""
    assert outcome("x", row, 9.0).why == "it fell"


@pytest.mark.covers("FH-3", "FH-6")
def test_what_is_being_installed_or_is_to_be_is_waited_for_however_long_it_takes():
    class Hub:
        rows = iter(
            [
                UpstreamRow(name="x", state="connecting", queued=True),
                UpstreamRow(name="x", state="connecting", installing=True, installing_s=0.5),
                UpstreamRow(name="x", state="connected", settling=False, tokens=5),
            ]
        )

        def request(self, method):
            return Status(upstreams=(next(self.rows),))

    output = Output(json=True)
    assert str(watch(Hub(), ["x"], output, limit_s=0.0)["x"]).startswith("x: connected")


class Rows:
    """A hub whose only server does this, look by look; the last row stays."""

    def __init__(self, *rows):
        self.rows = [UpstreamRow(name="x", **row) for row in rows]

    def request(self, method):
        return Status(upstreams=(self.rows.pop(0) if len(self.rows) > 1 else self.rows[0],))


INSTALLING = {"state": "reconnecting", "installing": True, "last_error_ago_s": 0.0}


def test_the_same_failure_twice_is_final_though_it_would_be_installed_again():
    first, again = (
        INSTALLING | {"failures": number, "last_error": "x exited\nValueError: no key"} for number in (1, 2)
    )
    output = Output(json=True)
    assert watch(Rows(first, first, again), ["x"], output, failures=9)["x"].why == "x exited: ValueError: no key"


@pytest.mark.parametrize("state", ["unauthorized", "failed"])
def test_one_that_was_given_up_before_the_wait_is_not_waited_for(state):
    given_up = {"state": state, "failures": 5, "last_error": "no sign-in", "last_error_ago_s": 100.0}
    found = watch(Rows(given_up), ["x"], Output(json=True), limit_s=3600.0)["x"]
    assert (found.state, found.why) == (state, "no sign-in")


def test_another_failure_is_not_final():
    first, second, third, fourth = (
        INSTALLING | {"failures": number, "last_error": f"x exited\nValueError: no {what}"}
        for number, what in enumerate(("key", "value", "luck", "luck"), 1)
    )
    found = watch(Rows(first, second, third, fourth), ["x"], Output(json=True), failures=9)["x"]
    assert found.why == "x exited: ValueError: no luck"


def test_the_rest_may_be_left_as_it_is():
    found = watch(Rows(INSTALLING), ["x"], Output(json=True), is_enough=lambda: True)["x"]
    assert (found.installing, found.works) == (True, False)


def test_one_that_is_only_not_there_yet_is_no_failure(capsys):
    output = Output(json=True)
    waiting = ServerOutcome(name="x", state="connecting", waited_s=10, queued=True)
    say_outcomes([waiting], output)
    assert output.code == os.EX_TEMPFAIL
    said = capsys.readouterr().err
    assert said == "hubd: x: waiting for other installs after 10 s; it goes on, `hubd status` shows how far it is\n"
    output = Output(json=True)
    say_outcomes([waiting, ServerOutcome(name="y", state="failed", why="out")], output)
    assert output.code == 1


@pytest.mark.covers("FH-6")
def test_without_a_hub_the_file_is_written_and_that_is_said(tmp_path):
    home = Home(tmp_path)
    said = home.run("add", "x", "--", "no-such-command")
    assert "no hub is running; the next one will read it" in said
    assert "`hubd start` starts one, and `hubd status` shows then how x does" in said
    home.run("disable", "x")
    assert "no hub is running; the next one will read it" in home.run("enable", "x")
    assert os.path.exists(home.config)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            ServerOutcome(name="x", state="connected", tools=0, resources=2, templates=1),
            "x: connected, 2 resources, 1 template",
        ),
        (ServerOutcome(name="x", state="connected", tools=12, tokens=3100), "x: connected, 12 tools, ~3 100 tokens"),
        (ServerOutcome(name="x", state="connected", tools=0, prompts=1), "x: connected, 1 prompt"),
        (ServerOutcome(name="x", state="connected", tools=0, prompts=0, resources=0), "x: connected, 0 tools"),
        (ServerOutcome(name="x", state="idle", tools=1), "x: started by its first call, 1 tool"),
        (ServerOutcome(name="x", state="disabled"), "x: disabled"),
        (ServerOutcome(name="x", state="absent"), "x: the hub does not have it"),
        (ServerOutcome(name="x", state="failed", why="it is out"), "x: failed: it is out"),
        (ServerOutcome(name="x", state="connecting", waited_s=10), "x: still connecting after 10 s"),
        (ServerOutcome(name="x", state="connecting", waited_s=40, installing=True), "x: still installing after 40 s"),
        (
            ServerOutcome(name="x", state="connecting", waited_s=40, queued=True),
            "x: waiting for other installs after 40 s",
        ),
        (ServerOutcome(name="x", state="unauthorized", why="401"), "x: sign-in needed: 401"),
    ],
)
def test_what_is_said_of_each_state(found, sentence):
    assert str(found) == sentence


@pytest.mark.covers("FH-6")
@pytest.mark.real
def test_a_package_that_does_not_exist_is_no_server(home):
    home.env["npm_config_cache"] = str(home.config.parent)
    said = home.run("add", "x", "--", "npx", "-y", "@mcp-hubd/no-such-package", code=1)
    assert "x: " in said
    assert "Not Found" in said or "could not be found" in said, said
