"""Entries of hosts that somebody changes while `hubd setup` tries servers, asks, or starts the hub."""

import json

import pytest

from tests.support.commands import run_hubd
from tests.support.processes import HUBD
from tests.support.setup_home import SetupHome
from tests.support.terminal import Terminal

KEYED = {"env": {"API_KEY": "hunter2-old"}}
CHANGES = {
    "command": lambda entry: entry | {"args": ["server-everything", "NEW"]},
    "environment": lambda entry: entry | {"env": {"API_KEY": "hunter2-new"}},
    "disabled": lambda entry: entry | {"disabled": True},
    "tools": lambda entry: entry | {"disabledTools": ["echo"]},
    "removed": lambda _: None,
}
"""Changes of entries by their host, each of the entry of that name."""
SLOW = {"command": "npx", "args": ["context7-mcp"]}


@pytest.fixture
def home(tmp_path):
    home = SetupHome(tmp_path)
    for host in home.paths.keys() - {"cursor"}:
        home.paths.pop(host).unlink()
    yield home
    run_hubd(["stop"], home.env)


def everything(number, **more):
    return {"command": "npx", "args": ["server-everything", str(number)], **more}


def write(home, **servers):
    """Write the file of the host; what of it is in the hub by itself stays."""
    known = json.loads(home.paths["cursor"].read_text())["mcpServers"]
    kept = {key: known[key] for key in known if key == "hub"}
    home.paths["cursor"].write_text(json.dumps({"mcpServers": kept | servers}))


def left(home):
    entries = json.loads(home.paths["cursor"].read_text())["mcpServers"]
    return {key: entry for key, entry in entries.items() if key != "hub"}


@pytest.mark.in_turn(1)
@pytest.mark.covers("FH-1")
def test_they_stay_as_they_are_and_what_the_hub_was_not_given_it_does_not_get(home):
    first = {"slow": SLOW, "same": everything(0), "tried": everything(1), "asked": everything(2), "late": everything(3)}
    write(home, **first)
    tried = first | {"tried": everything(1, disabled=True)}
    asked = tried | {"asked": everything(2, disabledTools=["echo"])}
    late = {key: entry for key, entry in asked.items() if key != "late"}
    with Terminal([HUBD, "setup", "cursor", "--no-service"], home.env, columns=200) as screen:
        screen.see("4 of 5 tried")
        write(home, **tried)
        home.fetch()
        screen.see("Keep which")
        screen.type("\n")
        screen.see(r"Write this\?")
        write(home, **asked)
        home.unfetch()
        screen.type("\n")
        screen.see(r"2 of 3 tried")
        write(home, **late)
        home.fetch()
        screen.see("Done: 3 servers through the hub; 3 servers stay with their host")
        code, _ = screen.end()
        said = " ".join(screen.text.split())
    assert code == 1
    for key in ("tried", "asked"):
        assert f'Cursor: "{key}" in {home.paths["cursor"]} was changed meanwhile, so it was left' in said
    assert f'Cursor: "late" in {home.paths["cursor"]} was changed meanwhile, and left as it is' in said
    assert "`hubd remove late` takes that out" in said
    assert left(home) == {key: late[key] for key in ("tried", "asked")}
    assert {each["name"] for each in home.told("status")["upstreams"]} == {"slow", "same", "late"}
    home.run("uninstall", "--all", "--restore-originals")
    assert left(home) == late


@pytest.mark.in_turn(1)
@pytest.mark.covers("FH-1")
def test_no_kind_of_change_gets_lost_while_servers_are_tried(home):
    before = {key: everything(at, **(KEYED if key == "environment" else {})) for at, key in enumerate(CHANGES)}
    write(home, slow=SLOW, same=everything(9), **before)
    changed = {key: entry for key, change in CHANGES.items() if (entry := change(before[key])) is not None}
    with Terminal([HUBD, "setup", "cursor", "--no-service", "--yes"], home.env, columns=200) as screen:
        screen.see("6 of 7 tried")
        write(home, slow=SLOW, same=everything(9), **changed)
        home.fetch()
        screen.see("Done: 2 servers through the hub")
        code, _ = screen.end()
        said = " ".join(screen.text.split())
    assert code == 1
    for key in CHANGES:
        assert f'Cursor: "{key}" in {home.paths["cursor"]} was changed meanwhile, so it was left' in said
    assert left(home) == changed
    assert {each["name"] for each in home.told("status")["upstreams"]} == {"slow", "same"}
    assert home.told("secret", "ls")["secrets"] == []
    home.run("uninstall", "--all", "--restore-originals")
    assert left(home) == {"slow": SLOW, "same": everything(9), **changed}
