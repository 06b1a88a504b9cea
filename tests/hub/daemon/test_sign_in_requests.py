"""Requests about sign-ins, by whoever made them; what a sign-in is made of is scripted."""

import os
from contextlib import aclosing
from types import SimpleNamespace

import pytest
import trio

from hub.control.server import asker
from hub.daemon.sign_in_requests import SignInRequests
from hub.link.hub_errors import UpstreamUnauthorized
from hub.sign_in.sign_ins import Begun

NOBODY = 0
"""What the kernel says of a program of another PID namespace."""


class Flow:
    """Notes how sign-ins are begun."""

    def __init__(self) -> None:
        self.begun: list[dict[str, object]] = []

    async def begin(self, name, **how):
        self.begun.append(how)
        return Begun(unusual="It is unusual.")


def requests(flow: Flow, shims=()) -> SignInRequests:
    hub = SimpleNamespace(supervisor=SimpleNamespace(upstreams={}))
    parts = SimpleNamespace(hub=hub, sign_ins=flow, config_of=lambda name: None, ready=trio.lowlevel.checkpoint)
    return SignInRequests(parts, lambda: shims)


async def begin(carried: SignInRequests, **how) -> None:
    async with aclosing(carried.sign_in(name="notes", **how)) as steps:
        async for _ in steps:
            pass


async def test_what_a_program_of_a_server_begins_was_not_shown_on_a_terminal():
    flow = Flow()
    for pid in (os.getpid(), NOBODY):  # whatever descends from the hub is a server, and so is the hub's own number
        asker.set(pid)
        await begin(requests(flow))
    assert [how["by_program"] for how in flow.begun] == [True, True]


async def test_what_a_program_begins_that_is_no_hosts():
    flow = Flow()
    asker.set(os.getppid())
    await begin(requests(flow))
    assert [how["by_program"] for how in flow.begun] == [False]


@pytest.mark.parametrize("pid", [os.getpid(), NOBODY], ids=["of a server", "unknown"])
async def test_only_a_person_agrees_or_asks_for_more_or_finishes(pid):
    flow = Flow()
    asker.set(pid)
    with pytest.raises(UpstreamUnauthorized, match="only a person may do that"):
        await begin(requests(flow), yes=True)
    with pytest.raises(UpstreamUnauthorized, match=r"--scope.*only a person may do that"):
        await begin(requests(flow), scope="everything")
    with pytest.raises(UpstreamUnauthorized, match="only a person may do that"):
        await requests(flow).sign_in_finish("http://127.0.0.1/oauth/callback?code=x&state=y")
    assert not flow.begun
