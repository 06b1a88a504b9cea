"""The whole way, at a real hub and a server that wants a sign-in: added, signed in, used."""

import json

import pytest

from tests.support.commands import run_hubd
from tests.support.oauth.rig import walk, walk_to_the_end
from tests.support.processes import HUBD, running_hub
from tests.support.terminal import Terminal


def command(hub, *arguments, stdin="", code=0, **env):
    done = run_hubd(arguments, {**far(hub.env), **env}, input=stdin, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def far(env):
    """The environment of a terminal that has no browser."""
    return {name: value for name, value in env.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}


@pytest.fixture
def hub(tmp_path):
    with running_hub(tmp_path, "name_budget = 50\n") as hub:
        yield hub


def add(hub, server):
    return command(hub, "add", "notes", server.url, "--config", str(hub.config), code=1)


def address(text):
    """The address that a person is to open."""
    return next(line.strip() for line in text.splitlines() if line.strip().startswith("http") and "state=" in line)


def test_a_remote_server_is_added_and_used_in_three_commands(hub, oauth):
    server = oauth.liar()
    _, err = add(hub, server)
    assert "notes: sign-in needed; sign in: hubd auth notes" in err
    row = json.loads(command(hub, "status", "--json")[0])["upstreams"][0]
    assert (row["state"], row["account"]["command"]) == ("unauthorized", "hubd auth notes")
    assert "sign in: hubd auth notes" in command(hub, "status")[0]
    with Terminal([HUBD, "auth", "notes"], far(hub.env), columns=1000) as terminal:
        terminal.see("Waiting 10 min")
        assert walk_to_the_end(address(terminal.text)).status == 200
        code, _ = terminal.end()
        assert code == 0
        terminal.see(r"notes: signed in until .*, then renewed without you. Connected, \d+ tool")
    assert json.loads(command(hub, "call", "notes__read", "--raw")[0])["content"]
    row = json.loads(command(hub, "status", "--json")[0])["upstreams"][0]
    assert (row["state"], row["account"]["state"], row["account"]["issuer"]) == ("connected", "good", server.issuer)
    (account,) = json.loads(command(hub, "auth", "--status", "--json")[0])["accounts"]
    assert (account["upstream"], account["state"], account["renewable"]) == ("notes", "good", True)
    assert "notes: signed out" in command(hub, "logout", "notes")[0]
    assert (
        "nobody is signed in" in command(hub, "auth", "--status")[0]
        or "sign-in needed" in command(hub, "auth", "--status")[0]
    )


def test_over_ssh_the_address_is_pasted_and_another_state_is_refused(hub, oauth):
    server = oauth.liar()
    add(hub, server)
    env = far(hub.env) | {"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.7 22"}
    with Terminal([HUBD, "auth", "notes"], env, columns=1000) as terminal:
        terminal.see("Waiting 10 min")
        came = walk(address(terminal.text))
        other = came.replace("state=", "state=x")
        terminal.type(f"{other}\n")
        terminal.see("hubd: warning: This hub did not begin the sign-in of that address")
        terminal.type(f"{came}\n")
        code, _ = terminal.end()
        assert code == 0
        terminal.see("notes: signed in")


def test_who_declines_is_told_so(hub, oauth):
    server = oauth.liar()
    add(hub, server)
    with Terminal([HUBD, "auth", "notes", "--no-browser"], far(hub.env), columns=1000) as terminal:
        terminal.see("Waiting 10 min")
        came = walk(address(terminal.text))
        state = next(part for part in came.partition("?")[2].split("&") if part.startswith("state="))
        terminal.type(f"{came.partition('?')[0]}?error=access_denied&{state}\n")
        code, said = terminal.end()
    assert code == 1
    assert "hubd: " in said
