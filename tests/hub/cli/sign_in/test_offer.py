"""Servers that want a sign-in, as `hubd add` and its like meet them."""

import json
from pathlib import Path

import pytest

from tests.hub.cli.sign_in.test_auth import Home, run
from tests.support.processes import HUBD
from tests.support.restarts import wait_until_written
from tests.support.sign_in_hub import CONNECTED, SIGNED_IN, STEP, URL, sign_in_hub
from tests.support.terminal import Terminal

REMOTE = "https://mcp.notes.example/mcp"
WANTS = {"name": "notes", "state": "unauthorized", "account": {"state": "needed", "command": "hubd auth notes"}}


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def file(home):
    file = Path(home.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    file.parent.mkdir()
    file.write_text("")
    return file


@pytest.fixture
def hub(home, file):
    with sign_in_hub(home.env) as hub:
        hub.files = [str(file)]
        hub.upstreams = [WANTS]
        yield hub


@pytest.mark.parametrize(
    "words", [[REMOTE], ["notes", REMOTE], ["notes", "--url", REMOTE], ["notes", "--color", "never", REMOTE]]
)
def test_a_server_is_added_by_its_url_and_it_is_said_how_to_sign_in(home, hub, file, words):
    out, err = run(home.env, "add", *words, code=1)
    assert ("its name is notes; for another one: hubd add NAME URL" in out) == (len(words) == 1)
    assert "hubd: notes: sign-in needed; sign in: hubd auth notes\n" in err
    assert file.read_text() == f'[upstreams.notes]\nurl = "{REMOTE}"\n'


def test_programs_are_told_the_same(home, hub):
    found = json.loads(run(home.env, "add", REMOTE, "--json", code=1)[0])
    assert (found["name"], found["servers"][0]["state"]) == ("notes", "unauthorized")
    assert found["servers"][0]["sign_in"] == "hubd auth notes"


def test_on_a_terminal_the_browser_is_opened_at_once(home, hub):
    with Terminal([HUBD, "add", REMOTE], home.env) as terminal:
        terminal.see(r"^notes wants you to sign in.\nSign in now\? \[Y/n\]")
        terminal.type("\n")
        terminal.see("Waiting 10 min")
        hub.upstreams = [CONNECTED]
        hub.outcomes.put(SIGNED_IN)
        assert terminal.end()[0] == 0
        terminal.see("notes: signed in, and renewed without you. Connected, 12 tools")
    wait_until_written(home.opened, f"{URL}\n")
    assert home.opened.read_text() == f"{URL}\n"


def test_who_does_not_want_that_is_told_how_to_do_it_later(home, hub):
    with Terminal([HUBD, "add", REMOTE], home.env) as terminal:
        terminal.see("Sign in now")
        terminal.type("n\n")
        assert terminal.end()[0] == 1
        terminal.see("notes: sign-in needed; sign in: hubd auth notes")
    assert hub.params("sign_in") == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([REMOTE, REMOTE], "a URL was given twice"),
        (["notes", REMOTE, "--url", REMOTE], "a URL was given twice"),
        (["notes", "npx"], "unexpected argument: npx; the command to run goes behind `--`"),
        (["https://"], "is no URL that can be opened"),
        (["notes"], "say either which command to run, after `--`, or which URL to open"),
        ([REMOTE, "--", "npx"], "say either which command"),
    ],
)
def test_what_is_no_server_is_refused(home, file, words, said):
    assert said in run(home.env, "add", *words, code=2)[1]
    assert file.read_text() == ""


def test_a_name_that_is_taken_gets_a_number(home, file):
    file.write_text('[upstreams.notes]\nurl = "https://other.example/mcp"\n')
    assert "its name is notes-2" in run(home.env, "add", REMOTE)[0]


def test_status_says_how_to_sign_in_and_until_when_somebody_is(home, hub):
    facts = {
        "state": "good",
        "issuer": STEP["issuer"],
        "expires_s": 3120.0,
        "renewable": True,
        "command": "hubd auth b",
    }
    failed = facts | {"note": "https://id.example answers 503.", "renewable": False}
    hub.upstreams = [WANTS, {**CONNECTED, "name": "a", "account": facts}, {**CONNECTED, "name": "b", "account": failed}]
    out, _ = run(home.env, "status")
    lines = [line.strip() for line in out.splitlines()]
    assert "sign in: hubd auth notes" in lines
    assert "signed in at https://id.example for 52 min, renewed without you" in lines
    assert "sign-in: https://id.example answers 503." in lines
    assert "signed in at https://id.example for 52 min, then `hubd auth b` again" in lines
