"""What `hubd import --disable-originals` takes out of hosts: servers that a real hub serves, and nothing else."""

import contextlib
import json
import sys

import pytest

from tests.support import host_commands
from tests.support.host_commands import hubd, told
from tests.support.host_homes import HOMES
from tests.support.processes import HUBD, running
from tests.support.unauthorized_server import unauthorized_server

DEMO = {"command": sys.executable, "args": ["-I", "-m", "upstreams.demo"]}
BROKEN = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('Error: no database')"]}


@pytest.fixture
def home(tmp_path):
    """A home with every host and a configuration; whatever hub is started there is stopped in the end."""
    found = host_commands.home(tmp_path)
    config = found[0] / ".config" / "hubd" / "hubd.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text('listen = "127.0.0.1:0"\nauth = "none"\n[upstreams.mine]\ncommand = "true"\ndisabled = true\n')
    yield found
    with contextlib.suppress(AssertionError):
        hubd(found, "stop")


def write(home, host, **servers):
    path = home[0] / HOMES[host].path
    path.write_text(json.dumps({"mcpServers": servers}, indent=2))
    return path


def left_in(path):
    return set(json.loads(path.read_text())["mcpServers"])


def why(found, server):
    return next(each["why"] for each in found["stay"] if each["server"] == server)


@pytest.mark.covers("FH-2")
def test_what_the_hub_cannot_serve_stays_in_its_host(home):
    """A hub is started, since none runs; then each server either works through it or is still in its host."""
    with unauthorized_server() as url:
        path = write(home, "claude-code", sentry={"type": "http", "url": url}, clock=DEMO, broken=BROKEN)
        hubd(home, "install", "claude-code")
        found = told(home, "import", "claude-code", "--disable-originals", "--yes", code=1)
        assert left_in(path) == {"hub", "sentry", "broken"}
        assert states(home)["clock"] == "connected"
        assert "sentry" not in states(home), "every host would be offered a sign-in there"
    assert why(found, "sentry") == "sign-in needed"
    assert "no database" in why(found, "broken")
    assert any("the hub was started" in note for note in found["notes"])
    assert (
        'Claude Code: "sentry" left enabled: sign-in needed (`hubd import claude-code --server sentry` and '
        "`hubd auth sentry` take it over), then it can leave Claude Code" in found["error"]["message"]
    )


@pytest.mark.in_turn(3)
def test_with_a_hub_that_runs_an_import_says_what_works(home, tmp_path):
    with (
        unauthorized_server() as url,
        running([HUBD, "serve"], tmp_path / "hubd.log", env=home[1], cwd=home[0], forked=True) as hub,
    ):
        hub.wait_for(r"https?://")
        write(home, "claude-code", sentry={"type": "http", "url": url}, clock=DEMO)
        found = told(home, "import", "claude-code", "--yes")
        tried = {each["name"]: each for each in found["tried"]}
        assert tried["sentry"]["state"] == "unauthorized"
        assert tried["clock"]["state"] in ("connected", "connecting"), "the machine may be slow"
        write(home, "kiro", other={"url": f"{url}/x"})
        said = hubd(home, "import", "kiro", "--yes")
        assert "other of Kiro: sign-in needed: stays in Kiro until you have signed in" in said
        assert "tried" not in told(home, "import", "kiro", "--yes")


@pytest.mark.in_turn(3)
def test_by_force_a_server_is_taken_out_all_the_same(home):
    with unauthorized_server() as url:
        path = write(
            home, "claude-code", sentry={"type": "http", "url": url}, other={"type": "http", "url": f"{url}/x"}
        )
        hubd(home, "install", "claude-code")
        hubd(home, "import", "claude-code")
        said = hubd(home, "import", "claude-code", "--disable-originals", "--force", "sentry", "--yes", code=1)
        assert left_in(path) == {"hub", "other"}
        assert "--force other takes it out all the same" in " ".join(said.split())
        said = hubd(home, "import", "claude-code", "--disable-originals", "--force", "othr", code=2)
        assert 'these hosts have no server othr; did you mean "other"?' in said


@pytest.mark.in_turn(3)
def test_what_wants_a_sign_in_stays_with_all_its_hosts_unless_it_is_named(home):
    """Two hosts have it; by its name it is imported all the same, and can be signed in at."""
    with unauthorized_server() as url:
        paths = [write(home, host, corp={"url": url}, clock=DEMO) for host in ("cursor", "kiro")]
        hubd(home, "install", "cursor", "kiro")
        found = told(home, "import", "cursor", "kiro", "--disable-originals", "--yes", code=1)
        assert [(each["host"], each["server"], each["why"]) for each in found["stay"]] == [
            ("cursor", "corp", "sign-in needed"),
            ("kiro", "corp", "sign-in needed"),
        ]
        assert {each["did"] for each in found["servers"] if each["server"] == "corp"} == {"skipped"}
        assert all("corp" in left_in(path) for path in paths)
        assert states(home) == {"clock": "connected", "mine": "disabled"}
        named = ("--server", "corp")
        hubd(home, "import", "cursor", *named, "--disable-originals", "--yes", code=1)
        assert states(home)["corp"] == "unauthorized"


def states(home):
    return {each["name"]: each["state"] for each in json.loads(hubd(home, "status", "--json"))["upstreams"]}


@pytest.mark.in_turn(3)
@pytest.mark.covers("FH-2")
def test_what_worked_within_a_day_may_go(home, tmp_path):
    """The server was connected; now it cannot be started, and another one never could be."""
    switch = tmp_path / "switch"
    lately = {"command": sys.executable, "args": ["-c", _SWITCHED.format(str(switch)), "-I"]}
    switch.touch()
    path = write(home, "kiro", lately=lately)
    hubd(home, "import", "kiro")
    hubd(home, "install", "kiro")
    with running([HUBD, "serve"], tmp_path / "hubd.log", env=home[1], cwd=home[0], forked=True) as hub:
        hub.wait_for(r"https?://")
        hub_waits(home, "lately", "connected")
    switch.unlink()
    write_more(path, never=BROKEN)
    hubd(home, "import", "kiro", "--disable-originals", "--yes", code=1)
    assert states(home)["lately"] != "connected"
    assert json.loads(path.read_text())["mcpServers"]["lately"].get("disabled") is True
    assert "disabled" not in json.loads(path.read_text())["mcpServers"]["never"]


_SWITCHED = """
import os, sys
if not os.path.exists({!r}):
    sys.exit("Error: switched off")
os.execv(sys.executable, [sys.executable, "-I", "-m", "upstreams.demo"])
"""


def write_more(path, **servers):
    document = json.loads(path.read_text())
    document["mcpServers"] |= servers
    path.write_text(json.dumps(document, indent=2))


def hub_waits(home, name, state):
    """Wait until the hub has that state, as it is asked again and again; bounded by the time limit of the test."""
    while True:
        rows = json.loads(hubd(home, "status", "--json"))["upstreams"]
        if any(row["name"] == name and row["state"] == state and not row.get("settling") for row in rows):
            return


@pytest.mark.in_turn(3)
def test_a_trial_starts_nothing_and_says_what_it_supposes(home):
    path = write(home, "claude-code", clock=DEMO)
    hubd(home, "install", "claude-code")
    before = path.read_text()
    found = told(home, "import", "claude-code", "--disable-originals", "--dry-run")
    assert path.read_text() == before
    assert any("clock: shown as if the hub served them, since no hub runs" in note for note in found["notes"])
    assert "no hub" in hubd(home, "status", code=69).lower()


@pytest.mark.in_turn(3)
def test_a_hub_with_another_configuration_tells_nothing(home, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text('listen = "127.0.0.1:0"\nauth = "none"\n[upstreams.clock]\ncommand = "true"\ndisabled = true\n')
    path = write(home, "claude-code", clock=DEMO)
    hubd(home, "install", "claude-code")
    with running(
        [HUBD, "serve", "--config", other], tmp_path / "hubd.log", env=home[1], cwd=home[0], forked=True
    ) as hub:
        hub.wait_for(r"https?://")
        own = home[0] / ".config" / "hubd" / "hubd.toml"
        own.parent.mkdir(parents=True, exist_ok=True)
        own.touch()
        said = hubd(home, "import", "claude-code", "--disable-originals", "--yes", "--config", own, code=1)
    assert "nothing was taken out of hosts, since no hub can tell what works: the hub that runs uses" in said
    assert left_in(path) == {"hub", "clock"}
