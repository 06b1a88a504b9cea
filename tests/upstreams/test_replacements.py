"""Upstreams that are given another configuration while calls are with them, without a process."""

import json

import pytest
import trio
from msgspec import structs

from config.remembered_facts import Memory
from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from hub.link.call_interface import Operation
from hub.wire.jsonrpc import Result, raw
from tests.support.fakes import FakeHost, FakeUpstream, make_supervisor, opener

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

    def __init__(self, **settings):
        self.fake = Slow()
        self.config = UpstreamConfig(command="a", **settings)
        self.supervisor = make_supervisor(
            Memory(None), lambda name: None, run_session=opener({"a": self.fake}), drain_s=1000
        )
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

    async def call(self, host=None):
        """Have one more call begin."""
        self.nursery.start_soon(self._call, host or FakeHost())
        await settle()

    async def _call(self, host):
        self.replies.append(await self.supervisor.upstreams["a"].call(HANG, host))

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


@pytest.mark.covers("F-C-06")
async def test_no_call_begins_in_a_session_that_was_opened_for_it_before_a_right_was_withdrawn(nursery, autojump_clock):
    """Neither while the server hears of the host's roots, nor while it is told the log level."""
    changing = await Changing(session_mode="per_host").start(nursery)
    await changing.call()  # so that the old one goes on
    await trio.sleep(1)
    await changing.call(FakeHost(host="other", capabilities={"roots": {"listChanged": True}}))
    assert len(changing.fake.conversations) == 3
    old = changing.fake.conversations[2]
    await changing.change(env={"TOKEN": Secret("other")}, replace="start-first")
    await trio.sleep(1)
    assert old.of("tools/call") == []
    for _ in range(2):
        await changing.release()
    assert [type(reply) for reply in changing.replies] == [Result, Result]


@pytest.mark.covers("F-C-06")
async def test_no_call_begins_after_a_right_was_withdrawn_while_the_log_level_was_told(changing):
    told = trio.Event()

    async def set_level(message, conversation):
        await told.wait()
        return {}

    changing.fake.on["logging/setLevel"] = set_level
    changing.supervisor.set_log_level("info")
    await changing.call(FakeHost(level="info"))
    (before,) = changing.fake.conversations
    await changing.change(env={"TOKEN": Secret("other")}, replace="start-first")
    told.set()
    await settle()
    assert before.of("tools/call") == []
    changing.supervisor.set_log_level(None)
    await settle()
    await changing.release()
    assert [type(reply) for reply in changing.replies] == [Result]
