"""Over which session a host watches: opened for that, waited for, given up, and what is refused."""

import msgspec
import pytest
import trio
import trio.testing

from config.remembered_facts import Memory
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import Overloaded, UpstreamUnavailable
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeHost, FakeUpstream, make_supervisor, opener
from upstreams.lifecycle import State
from upstreams.sessions.pool import MAX_SESSIONS
from upstreams.subscriptions.resource_subscription import LINGER_S

A, B, PART = "a://x/y", "a://x/z", "a://x/y/part"
ECHO = Operation("tools/call", {"name": raw("echo")})

settle = trio.testing.wait_all_tasks_blocked


class Reader:
    """A holder, of a host whose conversation lasts."""

    def __init__(self, host="host", principal="me"):
        self.exchange = FakeHost(host=host, principal=principal)
        self.exchange.caller = msgspec.structs.replace(self.exchange.caller, lasting=True)
        self.host = self.exchange.caller.tenant
        self.heard = []

    def updated(self, upstream, uri):
        self.heard.append(uri)


async def an_upstream(nursery, version=L4, **settings):
    fake = FakeUpstream(version=version, resources=[{"uri": A, "name": "r"}])
    supervisor = make_supervisor(Memory(None), lambda name: None, run_session=opener({"files": fake}))
    timeouts = Timeouts(start=20, list=15, call=100, session_idle=60)
    config = UpstreamConfig(command="files", timeouts=timeouts, **settings)
    await nursery.start(supervisor.run, {"files": config})
    await supervisor.settled.wait()
    return fake, supervisor.upstreams["files"], supervisor


def watched(fake):
    return [fake.watched(each) for each in fake.conversations if not each.over]


@pytest.mark.covers("D-17")
async def test_what_runs_once_is_not_watched_by_two_accounts(autojump_clock, nursery):
    fake, upstream, supervisor = await an_upstream(nursery, session_mode="singleton")
    one, other = Reader(), Reader(principal="other")
    assert await upstream.subscribe(A, one) is None
    with pytest.raises(UpstreamUnavailable, match="session_mode"):
        await upstream.subscribe(A, other)
    supervisor.restart("files")
    await trio.sleep(5)
    assert watched(fake) == [[A]]
    assert (one.heard, other.heard) == ([A], [])
    assert [len(entry.held) for entry in upstream.host_subscriptions] == [1]


async def test_a_session_may_be_replaced_while_it_is_asked(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery, session_mode="per_host")
    one = Reader()
    fake.on["resources/subscribe"] = lambda *_: None
    results = []

    async def subscribe():
        results.append(await upstream.subscribe(A, one))

    nursery.start_soon(subscribe)
    await trio.sleep(1)
    del fake.on["resources/subscribe"]
    await fake.conversation.close()
    await trio.sleep(1)
    assert results == [None]
    assert watched(fake) == [[], [A]]


async def test_who_gives_up_leaves_it_to_the_others(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery)
    one = Reader()
    gate = trio.Event()

    async def slow(message, conversation):
        await gate.wait()
        return await fake.answer_subscription(message, conversation)

    fake.on["resources/subscribe"] = slow
    results = []

    async def subscribe():
        results.append(await upstream.subscribe(A, one))

    for _ in range(2):
        nursery.start_soon(subscribe)
    with trio.move_on_after(1):
        await subscribe()
    gate.set()
    await trio.sleep(1)
    assert results == [None, None]
    assert upstream.is_subscribed(A, one)
    await fake.touch(A)
    await settle()
    assert one.heard == [A]
    upstream.unsubscribe(A, one)
    await trio.sleep(LINGER_S + 1)
    assert watched(fake) == [[]]
    assert not upstream.host_subscriptions


async def test_sessions_in_which_something_is_watched_do_not_give_way(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery, session_mode="per_host")
    readers = [Reader(str(number)) for number in range(MAX_SESSIONS)]
    for reader in readers:
        assert await upstream.subscribe(A, reader) is None
    late = Reader("late")
    with pytest.raises(Overloaded):
        await upstream.call(ECHO, late.exchange)
    upstream.unsubscribe(A, readers[7])
    assert await upstream.call(ECHO, late.exchange)
    assert sum(uris == [A] for uris in watched(fake)) == MAX_SESSIONS - 1


async def test_a_session_that_cannot_be_opened_again_is_tried_later_and_later(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery, session_mode="per_host")
    one = Reader()
    assert await upstream.subscribe(A, one) is None
    fake.refuses = True
    await fake.conversation.close()
    await trio.sleep(300)
    assert one.heard == []
    fake.refuses = False
    await trio.sleep(61)
    assert (one.heard, watched(fake)) == ([A], [[], [A]])


async def test_what_the_next_session_refuses_is_asked_for_again(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery, session_mode="per_host")
    one = Reader()
    assert await upstream.subscribe(A, one) is None
    fake.unwatchable = {A}
    await fake.conversation.close()
    await trio.sleep(10)
    assert watched(fake) == [[], []]
    assert isinstance(await upstream.subscribe(A, Reader("other")), Failure)
    fake.unwatchable = set()
    await trio.sleep(60)
    assert one.heard == [A]
    assert sorted(watched(fake)) == [[], [], [A]]


@pytest.mark.covers("N-15", "F-I-12")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_part_of_what_was_watched_by_who_has_left_is_nobodys(autojump_clock, nursery, version):
    fake, upstream, _ = await an_upstream(nursery, version)
    one, gone = Reader("one"), Reader("gone")
    assert await upstream.subscribe(B, one) is None
    assert await upstream.subscribe(A, gone) is None
    upstream.unsubscribe(A, gone)
    await fake.touch(PART, of=A)
    await settle()
    assert (one.heard, gone.heard) == ([], [])


async def test_a_session_of_ones_own_is_used_as_soon_as_it_is_there(autojump_clock, nursery):
    """And what nobody could hear meanwhile is told."""
    fake, upstream, _ = await an_upstream(nursery)
    one, other = Reader("one"), Reader("other")
    assert await upstream.subscribe(A, one) is None
    assert await upstream.subscribe(A, other) is None
    assert await upstream.call(ECHO, other.exchange)
    upstream.events.asked("elicitation/create")
    assert [len(each) for each in watched(fake)] == [1]
    await trio.sleep(1)
    assert (one.heard, other.heard) == ([A], [])
    main, own = fake.conversations
    await fake.touch(A, over=main)
    await fake.touch(A, over=own)
    await settle()
    assert (one.heard, other.heard) == ([A, A], [A])


async def test_the_other_side_of_a_server_of_both_eras_is_watched_when_it_is_used(autojump_clock, nursery):
    fake, upstream, _ = await an_upstream(nursery, MODERN)
    fake.judge = lambda line, method: None
    about = {"name": "both", "version": "1"}
    fake.on["initialize"] = lambda *_: {"protocolVersion": L4, "capabilities": fake.capabilities, "serverInfo": about}
    fake.on["resources/subscribe"] = fake.answer_subscription
    one, plain = Reader("one"), Reader("plain")
    one.exchange.caller = msgspec.structs.replace(one.exchange.caller, capabilities={"elicitation": raw({})})
    assert await upstream.subscribe(A, one) is None
    assert await upstream.subscribe(A, plain) is None
    await trio.sleep(1)
    assert watched(fake) == [[A]]
    assert await upstream.call(ECHO, one.exchange)
    await trio.sleep(1)
    assert (one.heard, plain.heard) == ([A], [])
    main, elder = fake.conversations
    await fake.touch(A, over=elder)
    await settle()
    assert (one.heard, plain.heard) == ([A, A], [])
    await elder.close()
    await trio.sleep(5)
    await fake.touch(A, over=main)
    await settle()
    assert (one.heard, plain.heard) == ([A, A, A, A], [A])


# --- upstreams that are stopped when nobody needs them ----------------------------------------------------------------


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_is_watched_keeps_its_upstream_and_a_watch_starts_one_that_is_idle(autojump_clock, nursery, version):
    fake, upstream, _ = await an_upstream(nursery, version, idle_stop_s=100)
    await trio.sleep(101)
    assert upstream.state is State.IDLE
    one = Reader()
    assert await upstream.subscribe(A, one) is None
    await trio.sleep(1000)
    assert upstream.state is State.CONNECTED
    await fake.touch(A)
    await settle()
    assert one.heard == [A]
    upstream.unsubscribe(A, one)
    await trio.sleep(300)
    assert upstream.state is State.IDLE
    assert len(fake.conversations) == 2
