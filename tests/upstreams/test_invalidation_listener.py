"""What the hub observes for itself, and what whoever looks on hears of it: more than any host, and before it."""

import pytest
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.call_interface import Operation
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4, MODERN
from tests.support.ears import Ears
from tests.support.fakes import FakeUpstream, make_supervisor, opener
from tests.support.http_fixture import config_for
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer
from upstreams.lifecycle import State
from upstreams.subscriptions.modern import OVERLAP_S
from upstreams.subscriptions.resource_subscription import LINGER_S

A, B, PART, STRANGE = "a://x/y", "a://x/z", "a://x/y/part", "b://else"
CHANGED = "notifications/resources/list_changed"


class World:
    """One upstream, supervised and looked on."""

    def __init__(self, fake, supervisor, ears):
        self.fake, self.supervisor, self.ears = fake, supervisor, ears

    @property
    def upstream(self):
        return self.supervisor.upstreams["files"]

    @property
    def subscriptions(self):
        return self.upstream.pool.main.subscriptions

    async def touch(self, uri, **more):
        await self.fake.touch(uri, **more)
        await trio.sleep(0.01)
        return self.ears.take()

    async def observe(self, *uris):
        for uri in uris:
            assert await self.subscriptions.observe(uri)
        await trio.sleep(2 * OVERLAP_S)  # then one stream is left that says it
        self.ears.take()

    async def hold(self, uri, host="host"):
        subscriber = Ears(host, into=self.ears.said)
        assert await self.upstream.subscribe(uri, subscriber) is None
        await trio.sleep(0.01)
        return subscriber

    async def call(self, exchange):
        await self.upstream.call(Operation("tools/call", {"name": raw("echo")}), exchange)


async def a_world(nursery, version, **settings):
    fake = FakeUpstream(version=version, resources=[{"uri": A, "name": "r"}])
    ears = Ears()
    factory = opener({"files": fake})
    supervisor = make_supervisor(
        Memory(None), lambda name: None, run_session=factory, listener_for=lambda name, config: ears
    )
    await nursery.start(supervisor.run, {"files": UpstreamConfig(**{"command": "files", **settings})})
    world = World(fake, supervisor, ears)
    await trio.sleep(1)
    world.ears.take()
    return world


@pytest.fixture(params=[L4, MODERN])
async def world(request, nursery):
    return await a_world(nursery, request.param)


@pytest.fixture
async def modern(nursery):
    return await a_world(nursery, MODERN)


# --- observing --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-15")
async def test_what_the_hub_observes_is_watched_for_no_host(autojump_clock, world):
    subscriptions = world.subscriptions
    assert await subscriptions.observe(A)
    assert world.ears.take() == [("subscribed", A)]
    assert (subscriptions.is_observed(A), subscriptions.is_observed(B), subscriptions.held) == (True, False, False)
    assert world.fake.watched() == [A]
    await trio.sleep(10 * LINGER_S)
    assert await world.touch(A) == [("changed", A)]
    assert await world.touch(PART, of=A) == [("changed", PART)]
    subscriptions.neglect(A)
    subscriptions.neglect(B)
    assert not subscriptions.is_observed(A)
    await trio.sleep(1)
    assert (world.fake.watched(), list(subscriptions)) == ([], [])


async def test_an_observed_resource_is_watched_once_whoever_came_first(autojump_clock, world):
    await world.observe(A)
    one = await world.hold(A)
    assert await world.touch(A) == [("changed", A), ("told", A)]
    world.upstream.unsubscribe(A, one)
    await trio.sleep(2 * LINGER_S)
    assert await world.touch(A) == [("changed", A)]
    await world.hold(B)
    assert await world.subscriptions.observe(B)
    assert world.ears.take() == [("subscribed", B)], "what is kept before this was not vouched for"
    world.subscriptions.neglect(B)
    await trio.sleep(2 * LINGER_S)
    assert world.fake.watched() == [A, B]
    asked = world.fake.conversation.of("resources/subscribe")
    assert [message["params"]["uri"] for message in asked] in ([], [A, B])


@pytest.mark.covers("N-11")
async def test_who_watches_the_whole_hears_of_a_part_that_is_observed(autojump_clock, world):
    await world.hold("a://x/")
    await world.observe(A)
    assert await world.touch(A) == [("changed", A), ("told", A)]
    assert await world.touch(PART, of=A) == [("changed", PART), ("told", PART)]


@pytest.mark.covers("N-15")
async def test_the_only_host_is_not_told_of_what_only_the_hub_asked_for(autojump_clock, world):
    await world.hold(B)
    await world.observe(A, STRANGE)
    assert await world.touch(A) == [("changed", A)]
    assert await world.touch(PART, of=A) == [("changed", PART)]
    world.subscriptions.neglect(STRANGE)
    assert await world.touch(STRANGE) in ([], [("changed", STRANGE)])
    await trio.sleep(1)
    assert await world.touch(STRANGE, of=B) == [("changed", STRANGE)], "a late one"
    await trio.sleep(LINGER_S)
    assert await world.touch(STRANGE, of=B) == [("changed", STRANGE), ("told", STRANGE)]


@pytest.mark.covers("N-11")
async def test_a_host_hears_of_a_part_by_another_name_after_the_hub_has_read_it(autojump_clock, world):
    await world.hold(B)
    assert await world.touch(STRANGE, of=B) == [("changed", STRANGE), ("told", STRANGE)]
    await world.observe(STRANGE)
    assert await world.touch(STRANGE, of=B) == [("changed", STRANGE), ("told", STRANGE)]


async def test_what_a_host_has_just_left_is_not_for_another_though_it_is_observed(autojump_clock, world):
    await world.hold(B)
    assert await world.touch(A, of=B) == [("changed", A), ("told", A)]
    other = await world.hold(A, "other")
    await world.observe(A)
    world.upstream.unsubscribe(A, other)
    assert await world.touch(A) == [("changed", A)]


async def test_what_cannot_be_observed_is_given_up(autojump_clock, world):
    world.fake.unwatchable = {A}
    assert not await world.subscriptions.observe(A)
    assert not await world.subscriptions.observe("a://" + "x" * 5000)
    assert list(world.subscriptions) == []
    world.fake.unwatchable = set()
    await trio.sleep(600)
    assert (world.fake.watched(), world.ears.take()) == ([], [])
    assert await world.subscriptions.observe(A)


async def test_a_refusal_to_the_hub_leaves_hosts_what_they_hope_for(autojump_clock, nursery):
    world = await a_world(nursery, L4)
    await world.hold(A)
    await world.observe(A)
    world.fake.unwatchable = {A}
    world.upstream.pool.main.forgotten()
    await trio.sleep(1)
    assert not world.subscriptions.is_observed(A)
    world.fake.unwatchable = set()
    world.ears.take()
    await trio.sleep(100)
    assert world.ears.take() == [("told", A)]
    assert not world.subscriptions.is_observed(A)


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_an_upstream_without_subscriptions_is_never_observed(autojump_clock, nursery, version):
    world = await a_world(nursery, version)
    world.fake.capabilities["resources"] = {}
    world.supervisor.restart("files")
    await trio.sleep(2)
    assert not await world.subscriptions.observe(A)
    assert world.fake.watched() == []


async def test_who_does_not_wait_for_the_answer_has_asked(autojump_clock, world):
    release = trio.Event()

    async def slow(message, conversation):
        await release.wait()
        return await world.fake.answer_subscription(message, conversation)

    world.fake.on |= {"resources/subscribe": slow, "subscriptions/listen": slow}
    with trio.move_on_after(0.1):
        await world.subscriptions.observe(A)
    assert not world.subscriptions.is_observed(A)
    assert world.ears.take() == []
    release.set()
    await trio.sleep(0.1)
    assert world.subscriptions.is_observed(A)
    assert world.ears.take() == [("subscribed", A)]


async def test_nobody_waits_for_what_is_neglected_or_over(autojump_clock, world, nursery):
    world.fake.on = {"resources/subscribe": lambda *_: None, "subscriptions/listen": lambda *_: None}
    subscriptions, answers = world.subscriptions, []

    async def observe(uri):
        answers.append(await subscriptions.observe(uri))

    nursery.start_soon(observe, A)
    nursery.start_soon(observe, B)
    await trio.testing.wait_all_tasks_blocked()
    subscriptions.neglect(A)
    world.supervisor.restart("files")
    await trio.sleep(2)
    assert answers == [False, False]
    assert not await subscriptions.observe(A), "the session is over"
    assert not subscriptions.is_observed(A)
    subscriptions.neglect(A)


async def test_what_is_wanted_again_while_it_ends_is_asked_for_again(autojump_clock, world):
    await world.observe(A)
    world.subscriptions.neglect(A)
    await trio.testing.wait_all_tasks_blocked()
    assert await world.subscriptions.observe(A)
    await trio.sleep(5)
    assert world.subscriptions.is_observed(A)
    assert world.fake.watched() == [A]


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_observing_keeps_nothing_running(autojump_clock, nursery, version):
    world = await a_world(nursery, version, idle_stop_s=60)
    await world.observe(A)
    await trio.sleep(70)
    assert world.upstream.state is State.IDLE
    assert ("gap", None) in world.ears.take()


# --- what may have been missed ----------------------------------------------------------------------------------------


@pytest.mark.covers("N-17")
async def test_a_session_that_ends_is_told_before_any_host_hears_of_it(autojump_clock, world):
    await world.hold(A)
    await world.observe(A)
    before = world.subscriptions
    await world.fake.conversation.close()
    await trio.sleep(5)
    assert not before.is_observed(A)
    said = world.ears.take()
    assert said.index(("gap", None)) < said.index(("told", A))
    assert not world.subscriptions.is_observed(A), "it is for who reads it again to ask"
    assert world.fake.watched() == [A]


@pytest.mark.covers("N-17")
async def test_what_is_observed_is_asked_for_again_when_the_session_is_renewed(autojump_clock, nursery):
    world = await a_world(nursery, L4)
    await world.hold(B)
    await world.observe(A)
    world.upstream.pool.main.forgotten()
    assert world.ears.take() == [("gap", None)]
    assert not world.subscriptions.is_observed(A)
    await trio.sleep(1)
    assert world.subscriptions.is_observed(A)
    assert sorted(world.ears.take()) == [("subscribed", A), ("told", B)]
    assert set(world.fake.watched()) == {A, B}


async def test_an_agreement_from_before_the_renewal_is_none(autojump_clock, nursery):
    world = await a_world(nursery, L4)
    answers = [trio.Event(), trio.Event()]
    waiting = iter(answers)

    async def slow(message, conversation):
        await next(waiting).wait()
        return {}

    world.fake.on["resources/subscribe"] = slow
    with trio.move_on_after(1):
        await world.subscriptions.observe(A)
    world.upstream.pool.main.forgotten()
    await trio.sleep(1)
    answers[0].set()
    await trio.sleep(1)
    assert not world.subscriptions.is_observed(A)
    answers[1].set()
    await trio.sleep(1)
    assert world.subscriptions.is_observed(A)
    assert world.ears.take() == [("gap", None), ("subscribed", A)]


@pytest.mark.covers("N-17")
async def test_streams_that_break_may_have_missed_something(autojump_clock, modern):
    await modern.observe(A)
    await modern.fake.end_listens()
    await trio.testing.wait_all_tasks_blocked()
    assert modern.ears.take() == [("gap", None)] * 2
    assert not modern.subscriptions.is_observed(A)
    await trio.sleep(5)
    assert modern.subscriptions.is_observed(A)
    said = modern.ears.take()
    assert said.count(("subscribed", A)) == 1
    assert ("relisted",) in said


async def test_other_lists_are_told_when_they_are_announced_and_when_they_are_found(autojump_clock, world):
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": next(iter(world.fake.conversation.listens), 0)}}
    await world.fake.conversation.tell("notifications/tools/list_changed", meta)
    await trio.sleep(1)
    assert world.ears.take() == []
    world.fake.lists["resources"] = []
    await world.fake.conversation.tell(CHANGED, meta)
    await trio.sleep(1)
    assert world.ears.take() == [("relisted",)] * 2
    world.fake.lists["resources"] = [{"uri": B, "name": "r"}]
    world.supervisor.restart("files")
    await trio.sleep(2)
    assert ("relisted",) in world.ears.take()


@pytest.mark.covers("F-I-12")
async def test_the_session_of_one_host_is_lost_for_that_host(autojump_clock, nursery):
    world = await a_world(nursery, L4, session_mode="per_host")
    one, two = Ears("one").exchange, Ears("two").exchange
    assert world.upstream.session_for(one.caller) is None
    await world.call(one)
    mine = world.upstream.session_for(one.caller)
    assert mine.tenant == one.caller.tenant
    assert world.upstream.session_for(two.caller) is None
    await world.call(two)
    assert await mine.subscriptions.observe(A)
    assert world.fake.watched(world.fake.conversations[1]) == [A]
    world.ears.take()
    await world.fake.touch(A, over=world.fake.conversations[1])
    await world.fake.conversations[1].close()
    await trio.sleep(0.1)
    said = world.ears.take()
    assert said[0] == ("changed", A)
    assert set(said[1:]) == {("gap", one.caller.tenant)}
    assert world.upstream.session_for(one.caller) is None
    assert world.upstream.session_for(two.caller) is not None
    world.upstream.host_left(two.caller.tenant)
    assert set(world.ears.take()) == {("gap", two.caller.tenant)}


# --- the session that serves a host -----------------------------------------------------------------------------------


async def test_the_session_of_a_host_is_where_its_calls_go(autojump_clock, world):
    me, other = Ears().exchange.caller, Ears(principal="other").exchange.caller
    main = world.upstream.pool.main
    assert world.upstream.session_for(other) is main
    assert main.principal is None, "who looks takes nothing"
    await world.call(Ears().exchange)
    assert (world.upstream.session_for(me), main.tenant) == (main, None)
    assert world.upstream.session_for(other) is None
    world.fake.refuses = True
    await world.fake.conversation.close()
    await trio.testing.wait_all_tasks_blocked()
    assert world.upstream.session_for(me) is None


async def test_a_singleton_is_nobodys_place_but_its_accounts(autojump_clock, nursery):
    world = await a_world(nursery, L4, session_mode="singleton")
    await world.call(Ears().exchange)
    assert world.upstream.session_for(Ears(principal="other").exchange.caller) is None


async def test_the_session_of_a_host_is_with_the_successor_of_its_upstream(autojump_clock, world):
    old, me = world.upstream, Ears().exchange.caller
    new = UpstreamConfig(command="files", args=("other",))
    await world.supervisor.prepare({"files": new})
    world.supervisor.apply({"files": new})
    assert ("gap", None) in world.ears.take()
    assert old.session_for(me) is None
    await trio.sleep(5)
    assert old.session_for(me) is world.upstream.pool.main is not None
    world.supervisor.apply({})
    assert old.session_for(me) is None


async def test_a_session_that_one_host_goes_on_with_is_that_hosts(autojump_clock, nursery):
    world = await a_world(nursery, L4)
    one, two = Ears("one").exchange, Ears("two").exchange
    await world.call(two)
    await world.call(one)
    main = world.upstream.session_for(two.caller)
    assert main.tenant is None
    world.ears.take()
    world.upstream.pool.asked("elicitation/create")
    assert world.ears.take() == [("gap", None)]
    assert world.upstream.session_for(one.caller) is main
    assert main.tenant == one.caller.tenant
    assert world.upstream.session_for(two.caller) is None
    world.upstream.pool.forget_interactive()
    assert world.ears.take() == [("gap", one.caller.tenant)]
    assert main.tenant is None
    world.upstream.pool.asked("elicitation/create")
    world.upstream.host_left(one.caller.tenant)
    assert main.tenant is None


# --- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("N-17")
async def test_a_legacy_server_vouches_for_nothing_while_its_stream_is_broken(nursery):
    script = Script(capabilities={"resources": {"subscribe": True}, "tools": {}})
    streams, news, broken = [], trio.Event(), trio.Event()

    async def agree(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({}))

    async def listen(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event(None, id=f"e{len(streams)}", retry=20)
        streams.append(talk)
        if len(streams) > 1:
            await talk.hang()
        await broken.wait()
        await talk.cut()

    class Waiting(Ears):
        """A listener that one can wait for."""

        def gap(self, tenant):
            super().gap(tenant)
            news.set()

    script.on |= {"resources/subscribe": agree, "GET": listen}
    async with http_peer(script) as peer:
        ears = Waiting()
        supervisor = make_supervisor(Memory(None), lambda name: None, listener_for=lambda name, config: ears)
        await nursery.start(supervisor.run, {"far": config_for(peer, era="legacy", session_mode="shared")})
        upstream = supervisor.upstreams["far"]
        await supervisor.settled.wait()
        subscriptions = upstream.pool.main.subscriptions
        assert await subscriptions.observe(A)
        assert ears.take()[-1] == ("subscribed", A)
        news = trio.Event()
        broken.set()
        with trio.fail_after(60):
            await news.wait()
        assert (ears.take(), subscriptions.is_observed(A)) == ([("gap", None)], False)
        news = trio.Event()
        with trio.fail_after(60):
            await news.wait()
        assert (ears.take(), subscriptions.is_observed(A)) == ([("gap", None), ("subscribed", A)], True)
        nursery.cancel_scope.cancel()


async def test_a_legacy_server_without_a_stream_vouches_for_nothing(nursery):
    script = Script(capabilities={"resources": {"subscribe": True}, "tools": {}})

    async def agree(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({}))

    script.on["resources/subscribe"] = agree
    async with http_peer(script) as peer:
        supervisor = make_supervisor(Memory(None), lambda name: None)
        await nursery.start(supervisor.run, {"far": config_for(peer, era="legacy", session_mode="shared")})
        upstream = supervisor.upstreams["far"]
        assert await upstream.subscribe(A, Ears()) is None
        subscriptions = upstream.pool.main.subscriptions
        assert not await subscriptions.observe(A)
        assert isinstance(await upstream.subscribe("a://" + "x" * 5000, Ears()), Failure)
        nursery.cancel_scope.cancel()
