"""`hubd auth` and `hubd logout` in a terminal and in a pipe, at a hub that plays the sign-in."""

import json
import os
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD, own_directories
from tests.support.restarts import wait_until_written
from tests.support.sign_in_hub import AUTHORIZATION_URL, ISSUER, SIGNED_IN, STEP, URL, sign_in_hub
from tests.support.terminal import Terminal

ADDRESS = "http://127.0.0.1:8765/oauth/callback?code=c&state=abc"
FIRST = {"url": AUTHORIZATION_URL, "expires_s": 600.0, "opened": False}


class Home:
    """A user's directories, with a browser that writes down what it is to open."""

    def __init__(self, directory: Path) -> None:
        self.opened = directory / "opened"
        browser = directory / "bin" / "browser"
        browser.parent.mkdir()
        browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >>{shlex.quote(str(self.opened))}\n')
        browser.chmod(0o755)
        env = own_directories(directory)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "BROWSER"):
            env.pop(name, None)
        self.far = {**env, "PATH": os.defpath}
        self.env = {**self.far, "DISPLAY": ":0", "BROWSER": str(browser)}
        self.over_ssh = {**self.env, "SSH_CONNECTION": "192.0.2.1 50000 192.0.2.7 2222", "USER": "ann"}


def run(env, *arguments, stdin="", code=0):
    done = run_hubd(arguments, env, input=stdin)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def hub(home):
    with sign_in_hub(home.env) as hub:
        yield hub


# --- in a terminal ----------------------------------------------------------------------------------------------------


def test_a_browser_is_opened_and_the_command_says_what_came_of_it(home, hub):
    with Terminal([HUBD, "auth", "notes"], home.env) as terminal:
        terminal.see(r"^notes \(https://notes.example/mcp\) asks you to sign in at https://id.example$")
        terminal.see(r"^scopes: notes.read offline_access$")
        terminal.see(r"^Opened in your browser. If nothing happens, open\n  http://127.0.0.1:8765/oauth/begin/ticket$")
        terminal.see(r"^Waiting 10 min. On another machine: paste the address of the page that does not load")
        hub.outcomes.put(SIGNED_IN)
        code, _ = terminal.end()
        terminal.see(r"^notes: signed in, and renewed without you. Connected, 12 tools, ~900 tokens.$")
    assert code == 0
    wait_until_written(home.opened, f"{URL}\n")  # a browser that starts slowly is not waited for
    assert home.opened.read_text() == f"{URL}\n"
    assert hub.params("sign_in") == [{"name": "notes", "idp": False, "scope": "", "reset": False, "yes": False}]


def test_over_ssh_the_address_is_pasted_and_that_of_another_sign_in_is_refused(home, hub):
    hub.good_addresses[ADDRESS] = SIGNED_IN
    with Terminal([HUBD, "auth", "notes"], home.over_ssh, columns=200) as terminal:
        terminal.see(r"^Open this address in a browser \(this terminal is reached by SSH\):$")
        terminal.see(r"^  https://id.example/authorize\?state=abc&client_id=x$")
        terminal.see(r"^  ssh -L 8765:127.0.0.1:8765 -p 2222 ann@192.0.2.7$")
        terminal.see("Waiting 10 min")
        terminal.type("http://127.0.0.1:8765/oauth/callback?code=c&state=other\n")
        terminal.see("hubd: warning: This hub did not begin the sign-in of that address")
        terminal.type(f"{ADDRESS}\n")
        assert terminal.end()[0] == 0
        terminal.see("notes: signed in")
    assert not home.opened.exists()


def test_an_address_of_8_kilobytes_can_be_pasted_and_is_corrected_by_the_erase_key(home, hub):
    long = f"{ADDRESS}&code=" + "c" * 8000
    hub.good_addresses[long] = SIGNED_IN
    with Terminal([HUBD, "auth", "notes", "--no-browser"], home.far) as terminal:
        terminal.see("Waiting 10 min")
        for at in range(0, len(long), 1000):
            terminal.type(long[at : at + 1000])
        terminal.type("xy\x7f\x7f\n")
        assert terminal.end()[0] == 0


def test_a_server_without_a_sign_in_is_given_a_token(home, hub):
    why = 'notes wants a token and has no sign-in; run "hubd auth notes" in a terminal, which asks for the token.'
    hub.steps = [{"wants_token": why}]
    assert why in run(home.env, "auth", "notes", code=1)[1]
    config = Path(home.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    config.parent.mkdir(mode=0o700)
    config.write_text('[upstreams.notes]\nurl = "https://notes.example/mcp"\nheaders = { X-Team = "a" }\n')
    hub.files = [str(config)]
    with Terminal([HUBD, "auth", "notes"], home.far) as terminal:
        terminal.see("its token")
        terminal.type("Bearer t0ken-of-notes\n")
        terminal.see("^notes: connected, 12 tools")
        code, out = terminal.end()
    assert (code, "t0ken" in out) == (0, False)
    headers = tomllib.loads(config.read_text())["upstreams"]["notes"]["headers"]
    assert headers == {"X-Team": "a", "Authorization": "Bearer ${secret:NOTES_TOKEN}"}
    kept = Path(home.env["XDG_STATE_HOME"], "hubd", "secrets.json").read_text()
    assert "t0ken-of-notes" in kept
    assert "Bearer" not in kept
    with Terminal([HUBD, "auth", "notes"], home.far) as terminal:
        terminal.see("its token")
        terminal.type("\n")
        assert terminal.end()[0] == 1
        terminal.see("there was no answer; nothing was changed")


def test_the_terminal_is_put_back_after_ctrl_c(home, hub):
    command = 'before=$(stty -a); $0 auth notes --no-browser; echo code=$?; [ "$before" = "$(stty -a)" ] && echo same'
    with Terminal(["bash", "-c", command, HUBD], home.far) as terminal:
        terminal.see("Waiting 10 min")
        terminal.type("\x03")
        terminal.see("same")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_what_is_unusual_is_asked(home, hub, answer, code):
    unusual = (
        "notes now names https://b.example as its authorization server; until now it was https://a.example. If you"
        ' expect that, run "hubd auth notes" in a terminal.'
    )
    hub.steps = [{"unusual": unusual}, STEP]
    hub.outcomes.put(SIGNED_IN)
    with Terminal([HUBD, "auth", "notes"], home.env, columns=200) as terminal:
        terminal.see(r"until now it was https://a.example.\nSign in there\? \[y/N\]")
        terminal.type(f"{answer}\n")
        assert terminal.end()[0] == code
    assert [each["yes"] for each in hub.params("sign_in")] == [False, True][: 2 - code]
    if code:
        assert not home.opened.exists()
    else:
        wait_until_written(home.opened, URL)


# --- by programs ------------------------------------------------------------------------------------------------------


def test_a_program_gets_the_address_on_a_line_at_once_and_then_the_outcome(home, hub):
    hub.good_addresses[ADDRESS] = SIGNED_IN
    out, _ = run(home.far, "auth", "notes", "--no-browser", "--json", "--yes", stdin=f"{ADDRESS}\n")
    first, last = map(json.loads, out.splitlines())
    assert first == FIRST
    assert {name: last[name] for name in SIGNED_IN} == SIGNED_IN
    assert (last["server"]["state"], last["server"]["tools"]) == ("connected", 12)
    assert hub.params("sign_in")[0]["yes"] is True


def test_without_input_the_browser_alone_is_waited_for(home, hub):
    hub.outcomes.put(SIGNED_IN)
    assert "signed in" in run(home.far, "auth", "notes")[0]


OPEN = {"upstream": "notes", "state": "open", "issuer": ISSUER}


@pytest.mark.parametrize(
    ("option", "code", "said"),
    [
        (["--no-wait"], 0, "the sign-in is open; the address works for 10 min, and `hubd auth --status` shows it"),
        (["--timeout", "0.01"], 75, "nobody has signed in yet; the address works for 9 min, and"),
    ],
)
def test_a_program_need_not_wait(home, hub, option, code, said):
    out, _ = run(home.env if option == ["--no-wait"] else home.far, "auth", "notes", "--json", *option, code=code)
    first, last = map(json.loads, out.splitlines())
    assert first == FIRST, "no browser is opened"
    assert {name: last[name] for name in OPEN} == OPEN
    assert said in last["text"]
    assert ("error" in last) == bool(code)
    assert said[:20].lower() in "".join(run(home.far, "auth", "notes", *option, code=code)).lower()


def test_the_code_of_a_page_is_said(home, hub):
    hub.steps = [{**STEP, "url": "", "authorization_url": URL, "code": "482 913"}]
    hub.outcomes.put(SIGNED_IN)
    out, _ = run(home.far, "auth", "notes")
    assert f"  {URL}\nIf its page asks for a code: 482 913\nWaiting 10 min." in out
    assert json.loads(run(home.far, "auth", "notes", "--no-wait", "--json")[0].splitlines()[0])["code"] == "482 913"


@pytest.mark.parametrize("state", ["denied", "failed", "timed_out"])
def test_what_did_not_work_is_said_and_the_code_is_1(home, hub, state):
    hub.outcomes.put({**SIGNED_IN, "state": state, "text": "You declined at https://id.example."})
    out, err = run(home.far, "auth", "notes", "--json", code=1)
    last = json.loads(out.splitlines()[-1])
    assert (last["state"], last["error"]["code"]) == (state, 1)
    assert "hubd: You declined at https://id.example." in err


def test_why_a_sign_in_cannot_begin_is_what_the_hub_says(home, hub):
    text = 'files is a program and signs in by itself; "hubd logs files" shows what it says.'
    hub.answers["sign_in"] = text
    assert run(home.env, "auth", "files", code=1) == ("", f"hubd: {text}\n")
    assert json.loads(run(home.env, "auth", "files", "--json", code=1)[0]) == {"error": {"code": 1, "message": text}}


def test_what_is_unusual_needs_a_yes_where_nobody_can_be_asked(home, hub):
    hub.steps = [{"unusual": "notes now names another. If you expect that, run it in a terminal."}]
    _, err = run(home.env, "auth", "notes", code=1)
    assert "notes now names another." in err
    assert "with --yes nothing is asked" in err
    assert not home.opened.exists()


def test_a_hub_that_goes_away_meanwhile_is_said(home, hub):
    hub.outcomes.put(None)
    assert "the hub has stopped" in run(home.far, "auth", "notes", code=69)[1]


def test_a_server_that_still_refuses_the_hub_is_a_failure(home, hub):
    refused = {"name": "notes", "state": "unauthorized", "last_error": "notes refuses (401) the token"}
    hub.upstreams = [refused]
    hub.outcomes.put(SIGNED_IN)
    out, err = run(home.far, "auth", "notes", code=1)
    assert "signed in" in out
    assert "notes refuses (401) the token" in err


def test_a_server_that_fails_otherwise_is_a_warning(home, hub):
    hub.upstreams = [{"name": "notes", "state": "failed", "last_error": "it fell", "failures": 3}]
    hub.outcomes.put(SIGNED_IN)
    assert "it fell" in run(home.far, "auth", "notes")[1]


def test_an_address_can_be_handed_over_by_another_command(home, hub):
    hub.good_addresses[ADDRESS] = SIGNED_IN
    assert "notes: signed in" in run(home.env, "auth", "notes", "--finish", stdin=f"{ADDRESS}\n")[0]
    assert "did not begin" in run(home.env, "auth", "notes", "--finish", stdin="nonsense\n", code=1)[1]
    assert "no line" in run(home.env, "auth", "notes", "--finish", code=2)[1]


def test_the_identity_provider_is_signed_in_at_by_an_option(home, hub):
    hub.outcomes.put({**SIGNED_IN, "upstream": ""})
    out, _ = run(home.far, "auth", "--idp")
    assert "the identity provider asks you" in out.replace(" (https://notes.example/mcp)", "")
    assert "the identity provider: signed in" in out
    assert hub.params("sign_in")[0]["idp"] is True


# --- which browser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"DISPLAY": ""}, "there is no desktop here"),
        ({"BROWSER": "no-such-browser"}, "no program that opens browsers is found (xdg-open, or $BROWSER)"),
        ({"BROWSER": "/bin/sh -c"}, "no program that opens browsers is found (xdg-open, or $BROWSER)"),
        ({"BROWSER": "/bin/false"}, "the browser cannot be opened: false ended with 1"),
    ],
)
def test_where_no_browser_can_be_opened_the_address_is_printed(home, hub, change, why):
    empty = home.opened.parent / "empty"
    empty.mkdir()
    hub.outcomes.put(SIGNED_IN)
    out, _ = run({**home.env, "PATH": str(empty), **change}, "auth", "notes")
    assert f"Open this address in a browser ({why}):\n  {AUTHORIZATION_URL}\n" in out


def test_a_hub_that_cannot_tell_whose_browser_it_is_has_the_address_printed(home, hub):
    hub.steps = [{**STEP, "url": ""}]
    hub.outcomes.put(SIGNED_IN)
    assert "the hub cannot tell whose browser it is" in run(home.env, "auth", "notes")[0]


@pytest.mark.parametrize("url", ["http://evil.example/", "javascript:alert(1)", "file:///etc/passwd", "https://a b/"])
def test_no_other_address_is_given_to_a_browser(home, hub, url):
    hub.steps = [{**STEP, "url": url}]
    hub.outcomes.put(SIGNED_IN)
    assert "it is no address for a browser" in run(home.env, "auth", "notes")[0]
    assert not home.opened.exists()


def test_the_configuration_can_forbid_browsers(home, hub):
    file = Path(home.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    file.parent.mkdir(exist_ok=True)
    file.write_text('[oauth]\nopen_browser = "never"\n')
    hub.outcomes.put(SIGNED_IN)
    assert 'open_browser = "never"' in run(home.env, "auth", "notes")[0]
    assert not home.opened.exists()


# --- what there is, and logout ----------------------------------------------------------------------------------------

GOOD = {"upstream": "notes", "state": "good", "issuer": ISSUER, "expires_s": 3120.0, "renewable": True, "scope": "a b"}
NEEDED = {
    "upstream": "old",
    "principal": "ann",
    "account": "each",
    "state": "needed",
    "issuer": ISSUER,
    "note": "Lost.",
}


def test_the_accounts_are_a_table(home, hub):
    hub.answers["sign_in_status"] = {"accounts": [GOOD | {"key_source": "keys"}, NEEDED]}
    out, _ = run(home.env, "auth", "--status")
    lines = out.splitlines()
    assert lines[0].split() == ["UPSTREAM", "ACCOUNT", "STATE", "AT", "UNTIL", "RENEWED", "SCOPES"]
    assert lines[1].split() == ["notes", "shared", "signed", "in", ISSUER, "in", "52", "min", "yes", "a", "b"]
    assert lines[2].split()[:4] == ["old", "ann", "sign-in", "needed"]
    assert [line.strip() for line in lines[3:5]] == ["Lost.", "sign in: hubd auth old"]
    assert "sealed by a key in a file beside" in lines[5]
    assert json.loads(run(home.env, "auth", "--status", "--json")[0])["accounts"][0]["scope"] == "a b"


def test_no_account_is_said(home, hub):
    hub.answers["sign_in_status"] = {"accounts": []}
    assert "nobody is signed in anywhere" in run(home.env, "auth", "--status")[0]
    assert "`hubd auth notes`" in run(home.env, "auth", "--status", "notes")[0]


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ({"was_signed_in": True, "revoked": True}, "notes: signed out, and the tokens ended"),
        ({"was_signed_in": True, "revoked": False, "why_not": "no answer"}, "not ended there (no answer)"),
        (
            {"was_signed_in": False, "forgot_client": True},
            "nobody was signed in; the hub's registration there is forgotten",
        ),
    ],
)
def test_logout_says_what_became_of_the_tokens(home, hub, account, said):
    hub.answers["sign_out"] = {"accounts": [{"upstream": "notes", **account}]}
    assert said in run(home.env, "logout", "notes", "--forget")[0]
    assert hub.params("sign_out") == [{"name": "notes", "forget": True}]


def test_logout_of_all(home, hub):
    hub.answers["sign_out"] = {"accounts": []}
    assert "nobody is signed in anywhere" in run(home.env, "logout", "--all")[0]
    assert hub.params("sign_out") == [{"forget": False}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("auth", "say at which server"),
        ("auth notes --idp", "--idp takes no name"),
        ("auth notes --status --finish", "--status and --finish do not go together"),
        ("auth notes --status --yes", "--yes does not go with --status"),
        ("auth notes --finish --scope x", "--scope does not go with --finish"),
        ("logout", "say of which server, or --all"),
        ("logout notes --all", "say of which server, or --all"),
    ],
)
def test_options_that_do_not_belong_together(home, words, said):
    assert said in run(home.env, *words.split(), code=2)[1]


def test_a_hub_that_cannot_be_started_is_code_69_or_78(home):
    file = Path(home.env["XDG_CONFIG_HOME"], "hubd", "hubd.toml")
    file.parent.mkdir(exist_ok=True)
    file.write_text("listen = 5\n")
    assert "listen" in run(home.env, "auth", "notes", code=78)[1]
