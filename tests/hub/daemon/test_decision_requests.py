"""Requests about approvals, by whoever made them."""

import os
import socket

import pytest
import trio

from config.security_settings import PolicyConfig
from hub.control.server import asker
from hub.daemon.decision_requests import DecisionRequests, OnlyAPerson
from hub.link.hub_errors import ApprovalRequired, HubError
from hub.linux.processes import find_process
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

NOBODY = 0
"""What the kernel says of a program of another PID namespace."""


@pytest.mark.covers("POL-27")
@pytest.mark.parametrize("pid", [os.getpid(), NOBODY], ids=["of a server", "unknown"])
async def test_no_program_of_the_hub_approves(pid, monkeypatch, autojump_clock):
    notes = []

    def note(audit, kind, /, **members):
        if kind != "pin":
            notes.append((kind, members))

    monkeypatch.setattr("hub.rules.audit.writer.Audit.note", note)
    async with a_house({"db": FakeUpstream()}, policy=PolicyConfig(ask=("*",))) as house:
        host = await house.host()
        id = (await host.call("db__echo"))["_meta"]["dev.hubd/failure"]["request"]
        requests = DecisionRequests(house.hub, tuple)
        asker.set(pid)
        with pytest.raises(OnlyAPerson, match="only a person may do that"):
            await requests.approval_give(id)
        assert [kind for kind, _ in notes] == ["ask", "refuse"]
        assert notes[1][1]["request"] == id
        asker.set(os.getppid())
        assert (await requests.approval_give(id)).lasts == "once"
        assert "isError" not in await host.call("db__echo")
        assert [kind for kind, _ in notes] == ["ask", "refuse", "approve"]
        with pytest.raises(HubError, match="no request ABCD"):
            await requests.approval_deny("ABCD")
        with pytest.raises(HubError, match="no approval"):
            await requests.approval_revoke("ABCD")
        assert await requests.approval_revoke(all=True) == []
        await trio.lowlevel.checkpoint()


@pytest.mark.covers("POL-27", "POL-12")
async def test_no_program_of_a_host_trusts_a_project():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        async with a_house({"db": FakeUpstream()}) as house:
            port = server.getsockname()[1]
            asker.set(os.getpid())
            for found in (DecisionRequests(house.hub, tuple, lambda: port), DecisionRequests(house.hub, tuple)):
                with pytest.raises(OnlyAPerson, match="`hubd trust` was run by a program"):
                    await found.demand_person("hubd trust", "/home/me/shop")
            asker.set(os.getppid())
            await DecisionRequests(house.hub, tuple).demand_person("hubd trust", "/home/me/shop")


@pytest.mark.covers("POL-27")
async def test_who_is_connected_when_a_call_needs_a_yes_is_a_host():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        async with a_house({"db": FakeUpstream()}, policy=PolicyConfig(ask=("*",))) as house:
            requests = DecisionRequests(house.hub, tuple, lambda: server.getsockname()[1])
            await (await house.host()).call("db__echo")
            assert list(requests._clients) == [find_process(os.getpid())]


def test_a_refusal_says_what_it_is_about():
    error = ApprovalRequired("Not run")
    error.request = "K7F3"
    assert error.facts() == {"hub": "approval_required", "executed": "no", "retryable": True, "request": "K7F3"}
