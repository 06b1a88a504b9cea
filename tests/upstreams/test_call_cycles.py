"""A call that fails leaves nothing, whatever it failed by, without any help of the collector."""

from contextlib import asynccontextmanager, suppress
from math import inf

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import HubError
from hub.wire.jsonrpc import raw
from tests.support.cycles import left_by
from tests.support.fakes import FakeHost, FakeUpstream
from tests.support.http_fixture import ERAS, Ear, failing, running
from tests.support.http_peer import Script
from upstreams.session_contract import CallTimeouts

QUICK = CallTimeouts(idle_s=1, total_s=1)
LARGE = raw({"text": "x" * 100_000})


@asynccontextmanager
async def talking(fake):
    """A session with `fake`, which may end by itself."""
    config = UpstreamConfig(command="x", timeouts=Timeouts(start=20))
    session = fake.open(config, "up", Ear(), Memory(None))

    async def run(*, task_status):
        with suppress(HubError):
            await session.run(lambda session: task_status.started())

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        yield session
        nursery.cancel_scope.cancel()


async def fail(session, host=None):
    operation = Operation("tools/call", {"name": raw("echo"), "arguments": LARGE})
    try:
        await session.call(operation, host or FakeHost(), QUICK)
    except HubError:
        return
    raise AssertionError("it did not fail")


async def malformed(message, conversation):
    await conversation.write(b'{"jsonrpc":"2.0","id":%d}\n' % message["id"])


async def hang_up(message, conversation):
    await conversation.close()


async def nothing(message, conversation):
    pass


@pytest.mark.covers("I-12", "F-P-10")
@pytest.mark.parametrize("handler", [malformed, nothing])
async def test_a_call_over_lines_leaves_nothing(handler, autojump_clock):
    fake = FakeUpstream()
    fake.on["tools/call"] = handler
    async with talking(fake) as session:
        session.give_up = lambda why: None  # it would, after a few that hear nothing
        assert await left_by(lambda: fail(session)) == {}


@pytest.mark.covers("I-12")
async def test_a_session_that_ends_leaves_nothing(autojump_clock):
    fake = FakeUpstream()
    fake.on["tools/call"] = hang_up

    async def once():
        async with talking(fake) as session:
            await fail(session)
        fake.conversations.clear()

    assert await left_by(once) == {}


async def broken(request, talk):
    await talk.cut()


async def failed(request, talk):
    await talk.reply(status=500, body=b"no")


async def refused(request, talk):
    await talk.reply(status=401, body=b"no")


async def nonsense(request, talk):
    await talk.reply({"jsonrpc": "2.0"})


async def half(request, talk):
    await talk.stream()
    await talk.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    await talk.cut()


@pytest.mark.covers("I-12")
@ERAS
@pytest.mark.parametrize("handler", [broken, failed, refused, nonsense, half])
async def test_a_call_over_http_leaves_nothing(era, handler, monkeypatch):
    monkeypatch.setattr("upstreams.transports.http.streamable_session.MAX_FAULTS", inf)  # it would be given up
    script = Script(era)
    script.on["tools/call"] = handler
    async with running(script) as it:

        async def once():
            await fail(it.session, Ear())
            it.peer.requests.clear()

        assert await left_by(once) == {}


@pytest.mark.covers("I-12")
@ERAS
async def test_a_session_over_http_that_ends_leaves_nothing(era):
    script = Script(era)
    script.on["tools/call"] = refused

    async def once():
        async with running(script) as it:
            await fail(it.session, Ear())

    assert await left_by(once, 20) == {}


@pytest.mark.covers("I-12")
async def test_a_session_that_cannot_be_opened_leaves_nothing():
    async def once():
        with pytest.raises(HubError):
            await failing(refused)

    assert await left_by(once, 20) == {}
