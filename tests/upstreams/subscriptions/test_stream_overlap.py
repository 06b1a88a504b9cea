"""What an upstream says over a stream of subscriptions after another one has taken its place: nothing of it is lost."""

import pytest
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import MODERN, SUBSCRIPTION_KEY
from tests.support.ears import Ears
from tests.support.fakes import FakeUpstream, make_supervisor, opener
from upstreams.subscriptions.modern import OVERLAP_S

A, B, C = "a://x/y", "a://x/z", "a://w"
UPDATED = "notifications/resources/updated"


class Watcher(Ears):
    """Hears of resources only."""

    def resources_relisted(self):
        pass


class World:
    """One upstream, whose streams are told of things one by one."""

    def __init__(self, fake, supervisor, ears):
        self.fake, self.supervisor, self.ears = fake, supervisor, ears

    @property
    def upstream(self):
        return self.supervisor.upstreams["files"]

    @property
    def streams(self):
        """The ids of the streams for resources, the oldest first."""
        listens = self.fake.conversation.listens
        return [id for id, wanted in listens.items() if "resourceSubscriptions" in wanted]

    async def subscribe(self, uri):
        assert await self.upstream.subscribe(uri, self.ears) is None

    async def say(self, stream, uri):
        await self.fake.conversation.tell(UPDATED, {"uri": uri, "_meta": {SUBSCRIPTION_KEY: stream}})
        await trio.testing.wait_all_tasks_blocked()
        return self.ears.take()

    async def replace(self):
        """Both streams, just when the new one has taken the place of the old one."""
        await self.subscribe(A)
        await trio.sleep(1)
        await self.subscribe(B)
        self.ears.take()
        return self.streams

    async def rest(self):
        await trio.sleep(2 * OVERLAP_S)
        return self.ears.take()


@pytest.fixture
async def world(nursery):
    fake = FakeUpstream(version=MODERN, resources=[{"uri": A, "name": "r"}])
    ears = Watcher()
    supervisor = make_supervisor(
        Memory(None), lambda name: None, run_session=opener({"files": fake}), listener_for=lambda name, config: ears
    )
    await nursery.start(supervisor.run, {"files": UpstreamConfig(command="files")})
    await trio.sleep(1)
    return World(fake, supervisor, ears)


@pytest.mark.covers("N-16")
async def test_what_either_stream_says_is_told_at_once(autojump_clock, world):
    old, new = await world.replace()
    for stream in (old, new, old):
        assert await world.say(stream, A) == [("changed", A), ("told", A)]
    assert await world.rest() == []
    assert world.streams == [new]


async def test_the_old_stream_speaks_for_itself_until_the_new_one_is_agreed_to(autojump_clock, nursery, world):
    await world.subscribe(A)
    [old] = world.streams
    said = trio.Event()

    async def slow(message, conversation):
        await said.wait()
        return await world.fake.answer_subscription(message, conversation)

    world.fake.on["subscriptions/listen"] = slow
    nursery.start_soon(world.subscribe, B)
    await trio.sleep(1)
    assert await world.say(old, A) == [("changed", A), ("told", A)]
    said.set()
    await trio.sleep(0.01)
    assert await world.say(old, A) == [("changed", A), ("told", A)]
    assert await world.rest() == []


async def test_a_stream_that_is_not_agreed_to_leaves_the_old_one_as_it_was(autojump_clock, world):
    await world.subscribe(A)
    world.fake.on["subscriptions/listen"] = lambda *_: Failure(-32603, "no more")
    assert isinstance(await world.upstream.subscribe(B, world.ears), Failure)
    assert await world.say(world.streams[0], A) == [("changed", A), ("told", A)]
    del world.fake.on["subscriptions/listen"]
    await world.subscribe(C)
    old, new = world.streams
    assert await world.say(old, A) == [("changed", A), ("told", A)]
    assert await world.say(new, A) == [("changed", A), ("told", A)]
    assert await world.rest() == []


async def test_the_old_stream_may_be_ended_by_the_upstream(autojump_clock, world):
    old, _ = await world.replace()
    del world.fake.conversation.listens[old]
    done = {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: old}}
    await world.fake.conversation.say({"id": old, "result": done})
    await trio.testing.wait_all_tasks_blocked()
    assert await world.rest() == []
    assert await world.say(world.streams[0], A) == [("changed", A), ("told", A)]


@pytest.mark.covers("N-17")
async def test_the_end_of_the_session_meanwhile_tells_of_all(autojump_clock, world):
    old, _ = await world.replace()
    await world.say(old, A)
    world.supervisor.restart("files")
    await trio.sleep(5)
    said = world.ears.take()
    assert ("gap", None) in said
    assert {("told", A), ("told", B)} <= set(said)
    assert len(world.streams) == 1
    assert await world.say(world.streams[0], A) == [("changed", A), ("told", A)]


async def test_the_new_stream_may_end_while_the_old_one_goes_on(autojump_clock, world):
    old, new = await world.replace()
    await world.say(old, A)
    del world.fake.conversation.listens[new]
    await world.fake.conversation.tell("notifications/cancelled", {"requestId": new})
    await trio.sleep(5)
    said = world.ears.take()
    assert ("gap", None) in said
    assert {("told", A), ("told", B)} <= set(said)
    assert len(world.streams) == 1


async def test_many_changes_in_quick_succession_are_few_streams_at_a_time(autojump_clock, world):
    most = 0
    for number in range(30):
        await world.subscribe(f"a://{number}")
        await trio.sleep(0.01 * (number % 7))
        most = max(most, len(world.streams))
        uri = f"a://{number // 2}"
        world.ears.take()
        await world.fake.touch(uri)
        await trio.sleep(0.5 if number % 10 == 9 else 0.02)
        assert ("changed", uri) in world.ears.take()
    assert most == 2
    asked = len(world.fake.conversation.of("subscriptions/listen"))
    assert asked < 30 + 5
    await world.rest()
    assert len(world.streams) == 1
    assert len(world.fake.watched()) == 30
