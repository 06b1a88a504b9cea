"""Which resources an upstream is asked to watch, when, and who is told that one changed."""

import pytest
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.hub_errors import UpstreamUnavailable
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from hub.wire.uri_hierarchy import parents
from tests.support.fakes import FakeHost, FakeUpstream, make_supervisor, opener
from upstreams.subscriptions.modern import OVERLAP_S
from upstreams.subscriptions.resource_subscription import LINGER_S, SubscriptionState

A, B, PART = "a://x/y", "a://x/z", "a://x/y/part"


class Reader:
    """A holder."""

    def __init__(self, host: str = "host", principal: str = "me") -> None:
        self.exchange = FakeHost(host=host, principal=principal, conversation=1)
        self.host = self.exchange.caller.tenant
        self.heard: list[str] = []

    def updated(self, upstream: str, uri: str) -> None:
        assert upstream == "files"
        self.heard.append(uri)


class World:
    """One upstream, supervised."""

    def __init__(self, fake, supervisor):
        self.fake = fake
        self.supervisor = supervisor
        self.upstream = supervisor.upstreams["files"]

    @property
    def subscriptions(self):
        """Those over the main session."""
        return self.upstream.pool.main.subscriptions

    async def subscribe(self, *uris, subscriber=None):
        subscriber = subscriber or Reader()
        for uri in uris:
            assert await self.upstream.subscribe(uri, subscriber) is None
        await trio.sleep(2 * OVERLAP_S)  # then one stream is left that says it
        return subscriber

    async def touch(self, uri, **more):
        await self.fake.touch(uri, **more)
        await trio.sleep(0.01)

    def asked(self, method):
        return [message["params"]["uri"] for message in self.fake.conversation.of(method)]

    async def restart(self):
        self.supervisor.restart("files")
        await trio.sleep(2)


async def a_world(version, nursery):
    fake = FakeUpstream(version=version, resources=[{"uri": A, "name": "r"}])
    supervisor = make_supervisor(Memory(None), lambda name: None, run_session=opener({"files": fake}))
    await nursery.start(supervisor.run, {"files": UpstreamConfig(command="files")})
    return World(fake, supervisor)


@pytest.fixture(params=[L4, MODERN])
async def world(request, nursery):
    return await a_world(request.param, nursery)


@pytest.fixture
async def modern(nursery):
    return await a_world(MODERN, nursery)


async def test_the_first_holder_starts_a_watch_and_the_last_one_ends_it(autojump_clock, world):
    one = await world.subscribe(A)
    two = await world.subscribe(A, subscriber=Reader("other"))
    assert world.fake.watched() == [A]
    await world.touch(A)
    assert (one.heard, two.heard) == ([A], [A])
    world.upstream.unsubscribe(A, one)
    await world.touch(A)
    await trio.sleep(2 * LINGER_S)
    assert (one.heard, two.heard, world.fake.watched()) == ([A], [A, A], [A])
    world.upstream.unsubscribe(A, two)
    await trio.sleep(LINGER_S - 1)
    assert world.fake.watched() == [A], "the holder may be coming back"
    await trio.sleep(2)
    assert world.fake.watched() == []
    assert list(world.subscriptions) == []


async def test_a_holder_that_comes_back_finds_its_watch(autojump_clock, world):
    one = await world.subscribe(A)
    for _ in range(5):
        world.upstream.unsubscribe(A, one)
        await trio.sleep(LINGER_S - 1)
        await world.subscribe(A, subscriber=one)
    await world.touch(A)
    assert one.heard == [A]
    assert len(world.asked("resources/subscribe")) <= 1
    assert world.asked("resources/unsubscribe") == []


async def test_whoever_comes_back_while_a_watch_ends_has_it(autojump_clock, world):
    one = await world.subscribe(A)
    world.upstream.unsubscribe(A, one)
    release = trio.Event()

    async def slow(message, conversation):
        await release.wait()
        return await world.fake.answer_subscription(message, conversation)

    world.fake.on["resources/unsubscribe"] = slow
    await trio.sleep(LINGER_S + 0.01)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: world.subscribe(A, subscriber=one))
        await trio.sleep(0.1)
        release.set()
    assert world.fake.watched() == [A]


@pytest.mark.covers("N-11", "N-15")
async def test_a_part_is_the_business_of_who_watches_the_whole(autojump_clock, world):
    whole, wider, other = Reader("1"), Reader("2"), Reader("3")
    await world.subscribe(A, subscriber=whole)
    await world.subscribe("a://x/", subscriber=wider)
    await world.subscribe(B, subscriber=other)
    await world.touch(PART, of=A)
    await world.touch("a://x/new", of="a://x/")
    await world.touch("a://x/yy", of=A)
    assert (whole.heard, wider.heard, other.heard) == ([PART], ["a://x/new", "a://x/yy"], [])


@pytest.mark.covers("N-15", "F-I-12")
async def test_a_change_of_nobody_knows_what_goes_to_the_only_host_or_nobody(autojump_clock, world):
    one, same, other = Reader("1"), Reader("1"), Reader("2")
    await world.subscribe(A, subscriber=one)
    await world.subscribe(B, subscriber=same)
    await world.touch("b://else", of=A)
    assert (one.heard, same.heard) == (["b://else"], ["b://else"])
    await world.subscribe(B, subscriber=other)
    await world.touch("b://else", of=A)
    assert (one.heard, same.heard, other.heard) == (["b://else"], ["b://else"], [])
    world.upstream.unsubscribe(B, other)
    world.upstream.unsubscribe(B, same)
    await world.touch(B)
    assert one.heard == ["b://else"], "what was watched by somebody else is not for who is left"


async def test_what_cannot_be_watched_is_refused(autojump_clock, world):
    world.fake.unwatchable = {A}
    one = await world.subscribe(B)
    refusal = await world.upstream.subscribe(A, one)
    assert isinstance(refusal, Failure)
    assert refusal.code in (-32002, -32602)
    assert isinstance(await world.upstream.subscribe("a://" + "x" * 5000, one), Failure)
    assert [subscription.uri for subscription in world.subscriptions] == [B]
    await trio.sleep(1)
    await world.touch(B)
    assert one.heard == [B]
    world.fake.unwatchable = set()
    await world.subscribe(A, subscriber=one)
    await trio.sleep(1)
    assert world.fake.watched() == [A, B]


@pytest.fixture
async def undeclared(nursery):
    """Makes a world whose upstream does not declare subscriptions."""

    async def make(version):
        fake = FakeUpstream(version=version)
        supervisor = make_supervisor(Memory(None), lambda name: None, run_session=opener({"files": fake}))
        await nursery.start(supervisor.run, {"files": UpstreamConfig(command="files")})
        await trio.sleep(1)  # then there is a session
        return World(fake, supervisor)

    return make


async def test_a_modern_upstream_without_subscriptions_is_not_asked(autojump_clock, undeclared):
    world = await undeclared(MODERN)
    refusal = await world.upstream.subscribe(A, Reader())
    assert isinstance(refusal, Failure)
    assert (refusal.code, "not subscribable" in refusal.message) == (-32602, True)
    assert world.fake.watched() == []


async def test_a_legacy_upstream_is_asked_for_hosts_whatever_it_declares(autojump_clock, undeclared):
    world = await undeclared(L4)
    one = await world.subscribe(A)
    await world.touch(A)
    assert (world.asked("resources/subscribe"), one.heard) == ([A], [A])
    world.upstream.unsubscribe(A, one)
    await trio.sleep(LINGER_S + 1)
    assert world.fake.watched() == []


async def test_what_the_hub_wants_for_itself_is_asked_only_where_it_is_declared(autojump_clock, undeclared):
    world = await undeclared(L4)
    assert not await world.subscriptions.observe(A)
    assert world.asked("resources/subscribe") == []
    one = await world.subscribe(A)
    world.upstream.unsubscribe(A, one)
    assert not await world.subscriptions.observe(B)
    assert world.asked("resources/subscribe") == [A]


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (-32601, "Method not found", (-32602, "files does not take subscriptions to a://x/y: it is not subscribable")),
        (-32002, "There is no y", (-32002, "There is no y")),
        (0, "not today", (0, "not today")),
    ],
)
async def test_its_own_answer_counts(autojump_clock, undeclared, code, message, expected):
    world = await undeclared(L4)
    world.fake.on = {"resources/subscribe": lambda *_: Failure(code, message)}
    refusal = await world.upstream.subscribe(A, Reader())
    assert isinstance(refusal, Failure)
    assert (refusal.code, refusal.message) == expected
    assert list(world.subscriptions) == []


async def test_a_holder_that_gives_up_holds_nothing(autojump_clock, world):
    world.fake.on = {"resources/subscribe": lambda *_: None, "subscriptions/listen": lambda *_: None}
    with trio.move_on_after(3):
        await world.subscribe(A)
    with pytest.raises(UpstreamUnavailable):
        await world.subscribe(B)
    await trio.sleep(100)
    assert list(world.subscriptions) == []


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-17")
async def test_after_a_restart_all_is_watched_again_and_may_have_changed(autojump_clock, world):
    one, two = Reader("1"), Reader("2")
    await world.subscribe(A, B, subscriber=one)
    await world.subscribe(B, subscriber=two)
    await world.restart()
    assert world.fake.watched() == [A, B]
    assert (sorted(one.heard), two.heard) == ([A, B], [B])
    assert {subscription.state for subscription in world.subscriptions} == {SubscriptionState.LIVE}
    await world.touch(B)
    assert (one.heard[2:], two.heard) == ([B], [B, B])


async def test_a_holder_may_come_while_the_upstream_is_away(autojump_clock, world, nursery):
    one = await world.subscribe(A)
    world.fake.refuses = True
    await world.fake.conversation.close()
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(lambda: world.subscribe(B, subscriber=one))
    await trio.testing.wait_all_tasks_blocked()
    world.fake.refuses = False
    await trio.sleep(5)
    assert world.fake.watched() == [A, B]
    assert one.heard == [A]


async def test_one_that_is_refused_after_a_restart_is_asked_for_again(autojump_clock, world):
    one = await world.subscribe(A, B)
    world.fake.unwatchable = {A}
    await world.restart()
    assert world.fake.watched() == [B]
    world.fake.unwatchable = set()
    await trio.sleep(100)
    await world.restart()
    assert world.fake.watched() == [A, B]
    assert sorted(one.heard) == [A, A, B, B]


async def test_a_watch_that_ran_out_while_the_upstream_was_away_is_gone(autojump_clock, world):
    one = await world.subscribe(A)
    world.fake.refuses = True
    await world.fake.conversation.close()
    await trio.sleep(1)
    world.upstream.unsubscribe(A, one)
    await trio.sleep(LINGER_S + 1)
    world.fake.refuses = False
    await world.restart()
    assert world.fake.watched() == []
    assert list(world.subscriptions) == []


# --- modern upstreams -------------------------------------------------------------------------------------------------


def listens(world):
    return [message["params"]["notifications"] for message in world.fake.conversation.of("subscriptions/listen")]


@pytest.mark.covers("N-4")
async def test_what_is_watched_at_one_time_is_one_stream_that_replaces_another(autojump_clock, modern):
    flags = {"toolsListChanged": True, "resourcesListChanged": True}
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(modern.subscribe, f"a://{number}")
    await trio.sleep(1)
    assert listens(modern)[0] == flags
    assert len(listens(modern)) == 2
    assert await modern.upstream.subscribe(A, Reader()) is None
    assert len(modern.fake.conversation.listens) == 3, "the old one is read for a while yet"
    await trio.sleep(1)
    assert len(listens(modern)) == 3
    assert len(modern.fake.conversation.listens) == 2, "the old one has ended"
    methods = [message["method"] for message in modern.fake.conversation.received]
    assert methods[-2:] == ["subscriptions/listen", "notifications/cancelled"]


async def test_a_new_stream_is_there_before_the_old_one_ends(autojump_clock, modern, nursery):
    one = await modern.subscribe(A)
    release = trio.Event()

    async def slow(message, conversation):
        await release.wait()
        return await modern.fake.answer_subscription(message, conversation)

    modern.fake.on["subscriptions/listen"] = slow
    nursery.start_soon(lambda: modern.subscribe(B, subscriber=one))
    await trio.sleep(5)
    await modern.touch(A)
    assert one.heard == [A]
    release.set()
    await trio.sleep(0.1)
    await modern.touch(A)
    await modern.touch(B)
    await trio.sleep(1)
    assert one.heard == [A, A, A, B], "two streams say so for a moment"


async def test_a_stream_that_cannot_be_replaced_goes_on(autojump_clock, modern):
    one = await modern.subscribe(A)
    modern.fake.on["subscriptions/listen"] = lambda *_: Failure(-32603, "no more")
    refusal = await modern.upstream.subscribe(B, one)
    assert isinstance(refusal, Failure)
    assert refusal.message == "no more"
    await modern.touch(A)
    assert one.heard == [A]
    assert [subscription.uri for subscription in modern.subscriptions] == [A]


@pytest.mark.covers("N-6", "N-16", "N-17")
@pytest.mark.parametrize("how", ["result", "cancelled"])
async def test_streams_that_the_upstream_ends_are_opened_again(autojump_clock, modern, how):
    one = await modern.subscribe(A)
    if how == "result":
        await modern.fake.end_listens()
    else:
        for id in list(modern.fake.conversation.listens):
            del modern.fake.conversation.listens[id]
            await modern.fake.conversation.tell("notifications/cancelled", {"requestId": id})
    await trio.sleep(0.5)
    assert modern.fake.conversation.listens == {}, "not at once"
    before = len(modern.fake.conversation.of("tools/list"))
    await trio.sleep(5)
    assert modern.fake.watched() == [A]
    assert one.heard == [A]
    assert len(modern.fake.conversation.listens) == 2
    assert len(modern.fake.conversation.of("tools/list")) == before + 1, "the lists may have changed meanwhile"


async def test_an_upstream_that_ends_every_stream_is_not_asked_without_end(autojump_clock, modern):
    async def brief(message, conversation):
        await modern.fake.answer_subscription(message, conversation)
        await modern.fake.end_listens()

    modern.fake.on["subscriptions/listen"] = brief
    await modern.subscribe(A)
    await trio.sleep(600)
    assert len(listens(modern)) < 50


async def test_changes_of_lists_come_by_subscription(autojump_clock, modern):
    await trio.sleep(1)
    walks = len(modern.fake.conversation.of("tools/list"))
    meta = {"io.modelcontextprotocol/subscriptionId": next(iter(modern.fake.conversation.listens))}
    await modern.fake.conversation.tell("notifications/tools/list_changed", {"_meta": meta})
    await trio.sleep(1)
    assert len(modern.fake.conversation.of("tools/list")) == walks + 1


# --- pure -------------------------------------------------------------------------------------------------------------


def test_what_a_uri_may_be_a_part_of():
    assert list(parents("a://h/b/c?d#e"))[:5] == ["a://h/b/c?d#", "a://h/b/c?d", "a://h/b/c?", "a://h/b/c", "a://h/b/"]
    assert list(parents("a://h/b/")) == ["a://h/b", "a://h/", "a://h", "a://", "a:/", "a:/", "a:"]
    assert list(parents("mailto:x")) == []
    assert len(list(parents("a" + "/b" * 5000))) <= 128
