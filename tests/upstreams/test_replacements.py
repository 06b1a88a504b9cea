"""Upstreams that are given another configuration while calls are with them, without a process."""

import json

import pytest
import trio
from fakes import FakeHost, FakeUpstream, opener
from msgspec import structs

from config.schema import UpstreamConfig
from config.state import Memory
from hub.link.exchange import Operation
from hub.wire.jsonrpc import Result, raw
from upstreams.supervisor import Supervisor

HANG = Operation("tools/call", {"name": raw("hang")})
settle = trio.testing.wait_all_tasks_blocked


class Slow(FakeUpstream):
    """Its tool `hang` answers when it is let, call by call."""

    def __init__(self, **more):
        super().__init__(tools=["hang"], **more)
        self.releases = []
        self.on["tools/call"] = self.hang

    async def hang(self, message, conversation):
        release = trio.Event()
        self.releases.append(release)
        await release.wait()
        return self.answer(message)


@pytest.fixture
async def changing(nursery, autojump_clock):
    return await Changing().start(nursery)


class Changing:
    """One upstream, which is configured anew, step by step."""

    def __init__(self):
        self.fake = Slow()
        self.config = UpstreamConfig(command="a")
        self.supervisor = Supervisor(Memory(None), lambda upstream: None, open_session=opener({"a": self.fake}))
        self.supervisor.drain_s = 1000
        self.replies = []

    async def start(self, nursery):
        self.nursery = nursery
        await nursery.start(self.supervisor.run, {"a": self.config})
        await self.supervisor.settled.wait()
        return self

    async def change(self, **settings):
        self.config = structs.replace(self.config, **settings)
        self.supervisor.apply({"a": self.config})
        await settle()

    async def call(self):
        """Have one more call begin."""
        self.nursery.start_soon(self._call)
        await settle()

    async def _call(self):
        self.replies.append(await self.supervisor.upstreams["a"].call(HANG, FakeHost()))

    async def release(self):
        """Have the call answered that came first."""
        self.fake.releases.pop(0).set()
        await settle()


@pytest.mark.covers("F-C-05", "I-7")
async def test_a_call_that_waited_for_a_new_one_is_waited_for_when_that_is_replaced_too(changing):
    await changing.call()
    await changing.change(args=("2",))
    await changing.call()
    await changing.release()  # so the second may start, and has the second call
    assert len(changing.fake.conversations) == 2
    await changing.change(args=("3",))
    assert len(changing.fake.conversations) == 2
    await changing.release()
    assert len(changing.fake.conversations) == 3
    assert [type(reply) for reply in changing.replies] == [Result, Result]
    assert json.loads(json.loads(bytes(changing.replies[1].value))["content"][0]["text"])["name"] == "hang"
