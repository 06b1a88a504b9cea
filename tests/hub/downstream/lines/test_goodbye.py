"""How the hub parts from hosts on the unix socket when it stops in order: with those that understand a goodbye, and
with all others."""

import os
import signal

import pytest

from hub.wire.mcp import ACKNOWLEDGED, CANCELLED, CLIENT_CAPABILITIES_KEY, MODERN, VERSION_KEY
from hub.wire.vocabulary import UNDERSTOOD
from tests.support.attached import INITIALIZE, Host, upstream
from tests.support.looking import until_connected
from tests.support.processes import running_hub

GOODBYE = {"hubd": 1, "bye": "stopping"}
MODERN_META = {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}


class Polite(Host):
    """A host that understands goodbyes."""

    def __init__(self, hub, *, bye=True):
        super().__init__(hub, bye=bye)

    def understand(self):
        self._socket.sendall(UNDERSTOOD + b"\n")


def call(tool):
    return {"name": f"slow__{tool}", "arguments": {}}


@pytest.fixture
def held(tmp_path):
    """While this file is there, calls of `slow__hold` wait."""
    file = tmp_path / "held"
    file.touch()
    return file


@pytest.fixture
def hub(tmp_path, held):
    steps = [["mark", str(tmp_path / "began")], ["await_gone", str(held)], ["serve"]]
    with running_hub(tmp_path, upstream("slow", {"on": {"tools/call:hold": steps}})) as hub:
        until_connected(hub.env, "slow")
        yield hub


def open_session(host):
    host.ask(0, "initialize", INITIALIZE)
    assert host.receive()["id"] == 0
    host.ask(1, "tools/list", {})
    assert host.receive()["id"] == 1


@pytest.mark.covers("F-D-01", "F-H-22")
def test_a_host_that_understands_gets_everything_it_has_asked_for(hub, held):
    with Polite(hub) as host, Host(hub) as other:
        for each in (host, other):
            open_session(each)
            each.ask(2, "tools/call", call("hold"))
            each.ask(3, "ping", {})
            assert each.receive()["id"] == 3
        os.kill(hub.process.pid, signal.SIGTERM)
        assert host.receive() == GOODBYE
        host.ask(4, "tools/call", call("echo"))  # it was on its way
        host.understand()
        held.unlink()
        answers = [host.receive(), host.receive()]
        assert {answer["id"] for answer in answers} == {2, 4}
        assert all("result" in answer for answer in answers)
        assert other.receive()["id"] == 2, "nobody else sees a goodbye"
        assert host.receive() is other.receive() is None
        assert hub.process.exit_code() == 0


@pytest.mark.covers("F-D-01")
def test_a_host_that_never_answers_a_goodbye_holds_nobody_up(hub):
    with Polite(hub) as host:
        open_session(host)
        os.kill(hub.process.pid, signal.SIGTERM)
        assert [host.receive(), host.receive()] == [GOODBYE, None]
        assert hub.process.exit_code() == 0


@pytest.mark.covers("N-16")
def test_a_goodbye_comes_before_the_end_of_listens(hub):
    """So that a shim knows why they end, and opens them again elsewhere."""
    with Polite(hub) as host:
        host.ask("l", "subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": MODERN_META})
        assert host.receive()["method"] == ACKNOWLEDGED
        os.kill(hub.process.pid, signal.SIGTERM)
        assert host.receive() == GOODBYE
        assert host.receive()["id"] == "l"
        assert host.receive()["method"] == CANCELLED
        host.understand()
        assert host.receive() is None


def test_what_looks_like_a_shim_later_on_is_no_message(hub):
    with Polite(hub, bye=False) as host:
        open_session(host)
        host.understand()
        assert "error" in host.receive()
