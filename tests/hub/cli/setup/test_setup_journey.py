"""The journey of `hubd setup` as a person sees it: ten hosts, a pseudo-terminal, one yes, and the undo."""

import json

import pytest

from tests.support.commands import run_hubd
from tests.support.everything import draw
from tests.support.processes import HUBD, NODE, PACKAGES, PYTHON_2
from tests.support.setup_home import WORKING, SetupHome
from tests.support.stdio_host import StdioHost
from tests.support.terminal import Terminal
from tests.support.unauthorized_server import unauthorized_server

CTRL_C = "\x03"
REAL = [pytest.mark.real, pytest.mark.everything]


@pytest.fixture
def home(tmp_path, request):
    servers = real_servers(tmp_path) if getattr(request, "param", "") == "real" else None
    with unauthorized_server() as url:
        home = SetupHome(tmp_path, sentry=url, servers=servers)
        yield home
        run_hubd(["stop"], home.env)


def real_servers(folder):
    """Command lines of third-party servers, in place of scripted ones."""
    official = PACKAGES / "@modelcontextprotocol"
    return {
        "server-filesystem": [str(NODE), str(official / "server-filesystem/dist/index.js"), str(folder)],
        "server-everything": [str(NODE), str(official / "server-everything/dist/index.js")],
        "mcp-server-time": [str(PYTHON_2), "-m", "mcp_server_time", "--local-timezone", "UTC"],
    }


def setup(home, *options):
    return Terminal([HUBD, "setup", "--no-service", *options], home.env, columns=100)


QUESTIONS = ("Keep which", "Move them", "Write this")


def come_to(screen, place="Write this"):
    """Take the defaults until the screen shows `place`."""
    for question in QUESTIONS if place in QUESTIONS else ():
        screen.see(question)
        if question == place:
            return
        screen.type("\n")
    screen.see(place)


def reached(home, host):
    """The tools that a host reaches with all its entries, as their servers name them."""
    found = set()
    for entry in home.entries(host):
        with StdioHost(entry, home.env) as server:
            found |= {name.rpartition("__")[2] for name in server.tools()}
    return found


@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("home", ["scripted", pytest.param("real", marks=REAL)], indirect=True)
def test_the_whole_journey(home):
    before = home.contents()
    home.fetch()
    worked = {host: reached(home, host) for host in WORKING}
    assert all(worked.values())
    home.unfetch()

    with setup(home) as screen:
        screen.see(r"Found 11 hosts with 15 servers: Claude Desktop, ")
        screen.see(r"Trying \d+ servers\. Nothing is changed yet; Ctrl-C leaves all as it is\.")
        screen.see(r"10 of 11 tried: 7 up, ")
        screen.see(r"context7: (connecting|installing) \d+ s")
        assert home.contents() == before
        home.fetch()
        screen.see(r"^SERVER +RESULT +OFFERS +IN")
        screen.see(r"^filesystem +works +[0-9]+ tools, ~[0-9 ]+ tokens")
        screen.see(r"^time +works +[0-9]+ tools?, ~[0-9 ]+ tokens +Copilot CLI,\s+Kiro")
        screen.see(r"^sentry +sign-in needed +- +Claude Code\n +stays there: after this\s+`hubd import")
        screen.see(r"^linear +does not work +- +Claude\s+Desktop\n +stays there: [^+]*cannot be reached")
        screen.see(r"probably the same \(the package @modelcontextprotocol/server-memory\):\n +1 +memory: npx .*Junie")
        screen.see(r" +2 +knowledge: npx .*Kiro")
        screen.see(r"Keep which\?")
        screen.type("1\n")
        screen.see(r"look[s]? like secrets:\n +github \(Cursor\): env\.GITHUB_PERSONAL_ACCESS_TOKEN")
        screen.see(r"Move them to [^\[]*\[Y/n\]")
        screen.type("d\n")
        screen.see(r"The answers are: y or Enter moves them, n leaves them in the files\.")
        screen.see(r"Move them to [^\[]*\[Y/n\]")
        screen.type("\n")
        screen.see(r"Together \d+ tools, ~[\d ]+ tokens, for every host\.")
        screen.see(r"What would be written")
        screen.see(r"hubd\.env +PATH.* of this shell")
        screen.see(r"hubd secret +GITHUB_GITHUB_PERSONAL_ACCESS_TOKEN")
        screen.see(r"Claude Desktop .*the hub, without filesystem")
        screen.see(r"Undone by: hubd uninstall --all --restore-originals")
        screen.see(r"Write this\? \[Y/n, d shows the changes\] ")
        assert home.contents() == before
        screen.type("d\n")
        screen.see(r"^\+.*connect")
        screen.see(r"Write this\?")
        assert "ghp_" not in screen.text
        screen.type("\n")
        screen.see(r"Done: 7 servers through the hub; 6 servers stay with their hosts\.")
        screen.see(r"quit Claude Desktop and start it again")
        assert screen.end()[0] == 0, screen.text

    for host, tools in worked.items():
        assert reached(home, host) >= tools, host
    for text in home.contents().values():
        assert b"connect" in text
    (sentry,) = [each for each in home.entries("claude-code", all=True) if "url" in each]
    assert sentry["url"] in before["claude-code"].decode()

    (recorded,) = [path for path in home.hub_files() if path.name == "hubd.env"]
    assert f"PATH={home.env['PATH']}" in recorded.read_text()
    assert not [path for path in home.hub_files() if b"ghp_" in path.read_bytes()]
    (secret,) = home.told("secret", "ls")["secrets"]
    assert (secret["name"], secret["servers"]) == ("GITHUB_GITHUB_PERSONAL_ACCESS_TOKEN", ["github"])

    home.run("uninstall", "--all", "--restore-originals")
    assert home.contents() == before
    home.fetch()
    assert {host: reached(home, host) for host in WORKING} == worked


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-1")
def test_a_no_changes_nothing(home):
    before = home.contents()
    home.fetch()
    with setup(home) as screen:
        come_to(screen)
        screen.type("n\n")
        screen.see("nothing was changed")
        assert screen.end()[0] == 1
    assert home.contents() == before
    assert not home.hub_files()


@pytest.mark.in_turn(2)
def test_enter_leaves_what_has_no_answer_yet_with_its_host(home):
    with setup(home) as screen:
        screen.see(r"10 of 11 tried")
        screen.see(r"Enter leaves those that have no answer yet with their hosts")
        screen.type("\n")
        screen.see(r"^context7 +no answer yet +- +Codex\n +stays there: \w")
        come_to(screen)
        assert "the hub, context7" not in screen.text
        screen.type("n\n")
        screen.see("nothing was changed")
        assert screen.end()[0] == 1


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-1")
@pytest.mark.parametrize("place", draw(1, ["Trying", "10 of 11 tried", *QUESTIONS]))
def test_ctrl_c_before_the_yes_leaves_everything_as_it_was(home, place):
    before = home.contents()
    if place in QUESTIONS:
        home.fetch()
    with setup(home) as screen:
        come_to(screen, place)
        screen.type(CTRL_C)
        screen.see("interrupted; nothing was changed")
        assert screen.end()[0] == 130
    assert home.contents() == before
    assert not home.hub_files()


@pytest.mark.in_turn(2)
@pytest.mark.covers("FH-1")
def test_ctrl_c_while_the_hub_starts_its_servers_undoes_what_was_written(home):
    before = home.contents()
    home.fetch()
    with setup(home) as screen:
        come_to(screen)
        home.unfetch()
        screen.type("\n")
        screen.see(r"7 of 8 tried")
        assert home.hub_files()
        screen.type(CTRL_C)
        screen.see("interrupted; everything is as it was")
        assert screen.end()[0] == 130
    assert home.contents() == before
    assert not home.hub_files()
    assert home.told("secret", "ls")["secrets"] == []
    assert json.loads(home.run("status", "--json", code=69).partition("\nhubd: ")[0])["error"]["code"] == 69
