"""A server that ends in its sandbox: what its session tells of that, and what `hubd doctor` and status make of it."""

import os
import sys
from types import SimpleNamespace

import pytest

from config.remembered_facts import Memory
from config.security_settings import Sandbox
from config.settings import UpstreamConfig
from hub.cli.checks import servers
from hub.cli.render.status import status
from hub.control.answers import Status, UpstreamRow
from hub.link.hub_errors import HubError
from hub.link.memory_budget import Budget
from tests.support.sandboxes import Machine
from tests.support.terminal import drawn
from upstreams.session_contract import COMMON, SessionSetup
from upstreams.status_facts import SandboxFacts
from upstreams.transports.stdio.session import StdioSession


class Heard:
    """Takes all that a session tells, and keeps what is about its sandbox."""

    def __init__(self):
        self.facts = []

    def sandboxed(self, facts):
        self.facts.append(facts)

    def __getattr__(self, name):
        return lambda *said: False


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


async def facts_of(machine, program, **box):
    argv = ("-I", "-S", "-c", program)
    config = UpstreamConfig(command=sys.executable, args=argv, cwd="/", era="legacy", sandbox=Sandbox(**box))
    heard = Heard()
    given = SessionSetup(config, "up", heard, Memory(None), COMMON, Budget(), dict(os.environ))
    session = StdioSession(given, machine.sandboxes())
    with pytest.raises(HubError):
        await session.run(lambda session: None)
    return heard.facts


@pytest.mark.covers("BOX-15")
async def test_what_a_server_missed_is_told(machine):
    key, note = machine.home / ".ssh/id", machine.home / "notes/x"
    begun, ended = await facts_of(machine, f"open({str(key)!r})", preset="own-home")
    assert begun == SandboxFacts("own-home")
    assert ended == SandboxFacts("own-home", blamed=True, path=str(key), wants="read")
    box = {"preset": "own-home", "read": (str(machine.home / "notes"),)}
    _, ended = await facts_of(machine, f"open({str(note)!r}, 'w')", **box)
    assert ended == SandboxFacts("own-home", blamed=True, path=str(note), wants="write")


@pytest.mark.covers("BOX-15")
async def test_one_that_ends_soon_may_have_missed_something(machine):
    assert (await facts_of(machine, "1 / 0", preset="shield"))[-1] == SandboxFacts("shield", blamed=True)
    assert await facts_of(machine, "1 / 0", preset="off") == [SandboxFacts("off")]


ROWS = {
    "notes": UpstreamRow(
        name="notes", state="failed", sandbox=SandboxFacts("own-home", blamed=True, path="/home/me/a/b", wants="write")
    ),
    "src": UpstreamRow(name="src", state="failed", sandbox=SandboxFacts("offline", blamed=True, path="/home/me/src")),
    "x": UpstreamRow(name="x", state="reconnecting", sandbox=SandboxFacts("shield", blamed=True)),
    "fine": UpstreamRow(name="fine", state="connected", sandbox=SandboxFacts("own-home", blamed=True)),
    "bare": UpstreamRow(name="bare", state="connected", sandbox=SandboxFacts("off", "bubblewrap is not installed")),
    "hub": UpstreamRow(name="hub", state="connected", sandbox=SandboxFacts("off", "it is a hub")),
}
EXAMINED = SimpleNamespace(seen=Status(upstreams=tuple(ROWS.values())))


@pytest.mark.covers("BOX-15")
def test_doctor_has_the_line_to_add():
    found = {finding.names: finding for finding in servers.sandboxes(EXAMINED)}
    assert found.keys() == {("notes",), ("src",), ("x",)}
    table = '{ preset = "own-home", write = ["/home/me/a"] }'
    assert found["notes",].fix == f"write sandbox = {table} below [upstreams.notes]"
    assert found["notes",].why == "it could not write /home/me/a/b"
    assert '{ preset = "offline", read = ["/home/me/src"] }' in found["src",].fix
    assert found["x",].fix == 'write sandbox = "off" below [upstreams.x], if that makes it work'


@pytest.mark.covers("BOX-10")
def test_doctor_says_who_could_have_a_sandbox():
    [finding] = servers.missing_sandboxes(EXAMINED)
    assert finding.names == ("bare",)
    assert "bubblewrap is not installed" in finding.what


@pytest.mark.covers("BOX-10", "BOX-15")
def test_status_says_both():
    text = drawn(*status(EXAMINED.seen))
    assert "sandboxed (own-home) and could not write /home/me/a/b; see `hubd doctor`" in text
    assert "sandboxed (shield); see `hubd doctor`" in text
    assert "no sandbox: bare, since bubblewrap is not installed" in text
    assert text.count("sandboxed") == 3
