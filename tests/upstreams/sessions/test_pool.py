"""Whose session is it: which hosts share one, who gets one for itself, and when those end."""

import json

import msgspec
import pytest
import trio

from config.remembered_facts import Memory
from config.settings import Timeouts, UpstreamConfig
from hub.link.backoff import HEALTHY_S
from hub.link.call_interface import Operation
from hub.link.hub_errors import HubError, Overloaded, UpstreamLost, UpstreamUnauthorized, UpstreamUnavailable
from hub.wire.jsonrpc import Result, raw
from hub.wire.mcp import L4, MODERN, Era
from tests.support.fakes import FakeHost, FakeSession, FakeUpstream, make_supervisor
from upstreams.lifecycle import State
from upstreams.sessions.pool import MAX_GONE, MAX_SESSIONS
from upstreams.sessions.sharing import Sharing, sharing_of, terms_of, union

ECHO = Operation("tools/call", {"name": raw("echo")})
HANG = Operation("tools/call", {"name": raw("hang")})
FORMS = {"elicitation": {"form": {}}}
SAMPLING = {"sampling": {}}
ROOTS = {"roots": {"listChanged": True}}

settle = trio.testing.wait_all_tasks_blocked


class WebFake(FakeSession):
    """A session as over HTTP."""

    transport = "http"


class House:
    """A supervisor with one upstream; sessions are of `kind`, or raise what `refusal` is."""

    def __init__(self, fake, kind=FakeSession, memory=None, **settings):
        self.fake = fake
        self.kind = kind
        self.refusal = None
        self.terms = []
        self.memory = memory or Memory(None)
        self.supervisor = make_supervisor(self.memory, lambda name: None, run_session=self.run_session)
        timeouts = Timeouts(start=20, list=15, call=100, session_idle=60)
        self.config = UpstreamConfig(**{"command": "x", "timeouts": timeouts, **settings})

    async def run_session(self, config, name, events, memory, terms, started):
        self.terms.append(terms)
        if self.refusal is not None and len(self.terms) > 1:
            raise self.refusal
        await self.kind(self.fake, config, name, events, memory, terms).run(started)

    @property
    def upstream(self):
        return self.supervisor.upstreams["a"]

    @property
    def pool(self):
        return self.upstream.pool

    def declared(self, at=-1):
        """What the hub declared on a connection."""
        [params] = [message["params"] for message in self.fake.conversations[at].of("initialize")]
        return params["capabilities"]

    def calls(self):
        """How many calls each connection was sent."""
        return [len(conversation.of("tools/call")) for conversation in self.fake.conversations]

    def assert_empty(self):
        """Nothing is left of any host."""
        assert (self.pool.opening, self.pool._by_host, self.pool._by_account) == ({}, {}, {})
        assert self.pool.extra_sessions == {}


async def a_house(nursery, fake=None, **more):
    found = House(fake or FakeUpstream(), **more)
    found.fake.on["tools/call:hang"] = lambda message, to: None
    await nursery.start(found.supervisor.run, {"a": found.config})
    await found.supervisor.settled.wait()
    return found


class Host(FakeHost):
    """One host, whose conversation lasts."""

    def __init__(self, name="one", principal="me", **more):
        super().__init__(principal=principal, host=name, **more)
        self.caller = msgspec.structs.replace(self.caller, lasting=True)


def again(host, **changes):
    """Another request of the same host."""
    found = FakeHost()
    found.caller = msgspec.structs.replace(host.caller, **changes)
    return found


async def attempt(house, host, operation=ECHO):
    try:
        return await house.upstream.call(operation, host)
    except HubError as error:
        return error


async def do(house, *hosts):
    """A call of each, all of which succeed; how many each connection has been sent by now."""
    for host in hosts:
        result = await attempt(house, host)
        assert isinstance(result, Result), result
    return house.calls()


# --- pure -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "era", "transport", "interactive", "expected"),
    [
        ({}, Era.LEGACY, "stdio", False, Sharing.SHARED),
        ({}, Era.LEGACY, "stdio", True, Sharing.INTERACTIVE),
        ({}, Era.LEGACY, "ws", False, Sharing.SHARED),
        ({}, Era.LEGACY, "ws", True, Sharing.INTERACTIVE),
        ({"session_mode": "per_host"}, Era.MODERN, "ws", True, Sharing.PER_HOST),
        ({}, Era.LEGACY, "http", False, Sharing.PER_HOST),
        ({}, Era.LEGACY, "sse", True, Sharing.PER_HOST),
        ({"session_mode": "shared"}, Era.LEGACY, "http", True, Sharing.SHARED),
        ({"session_mode": "singleton"}, Era.LEGACY, "stdio", True, Sharing.SINGLETON),
        ({"session_mode": "per_host"}, Era.LEGACY, "stdio", False, Sharing.PER_HOST),
        ({"roots": "host"}, Era.LEGACY, "stdio", False, Sharing.PER_HOST),
        ({"session_mode": "per_host"}, Era.MODERN, "stdio", True, Sharing.PER_HOST),
        ({"session_mode": "per_host"}, Era.MODERN, "http", True, Sharing.SHARED),
        ({"roots": "host"}, Era.MODERN, "http", False, Sharing.SHARED),
    ],
)
def test_who_shares(settings, era, transport, interactive, expected):
    assert sharing_of(UpstreamConfig(command="x", **settings), era, transport, interactive) is expected


@pytest.mark.covers("G-11")
@pytest.mark.parametrize(
    ("settings", "capabilities", "expected", "roots"),
    [
        ({}, None, {"sampling", "elicitation", "extensions"}, None),
        ({}, {**ROOTS, **FORMS}, {"roots", "elicitation"}, None),
        ({"roots": "none"}, {**ROOTS, **FORMS}, {"elicitation"}, None),
        ({"roots": "host"}, None, {"sampling", "elicitation", "extensions", "roots"}, ()),
        ({"roots": "host"}, {**ROOTS, **FORMS}, {"roots", "elicitation"}, None),
        ({"roots": ("file:///a",)}, None, {"sampling", "elicitation", "extensions", "roots"}, ("file:///a",)),
        ({"roots": ("file:///a",)}, {**ROOTS, **FORMS}, {"elicitation", "roots"}, ("file:///a",)),
        ({"client_features": "none"}, None, set(), None),
        ({"client_features": "none"}, {**ROOTS, **FORMS}, set(), None),
    ],
)
def test_what_is_declared(settings, capabilities, expected, roots):
    known = None if capabilities is None else {name: raw(value) for name, value in capabilities.items()}
    terms = terms_of(UpstreamConfig(command="x", **settings), known)
    assert set(terms.capabilities) == expected
    assert terms.exclusive == (capabilities is not None)
    assert terms.roots == roots
    if roots:
        assert terms.capabilities["roots"] == raw({})  # a list that never changes


def test_a_union_has_all_of_both():
    one = {"elicitation": raw({"form": {}}), "roots": raw({})}
    other = {"elicitation": raw({"url": {}}), "sampling": raw({"tools": {}})}
    found = {name: json.loads(bytes(value)) for name, value in union(one, other).items()}
    assert found == {"elicitation": {"form": {}, "url": {}}, "roots": {}, "sampling": {"tools": {}}}
    assert union(one, one) == one


# --- sharing ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("SEC-21")
@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("mode", ["auto", "shared"])
async def test_hosts_of_one_account_share_and_accounts_do_not(nursery, autojump_clock, version, mode):
    house = await a_house(nursery, FakeUpstream(version=version), session_mode=mode)
    one, two, other, another = Host("one"), Host("two"), Host("one", "you"), Host("two", "you")
    assert await do(house, one, two, other, another, one, other) == [3, 3]
    assert house.upstream.status().sessions == 2
    assert house.upstream.status().mode == "shared"
    assert not any(terms.exclusive for terms in house.terms)
    await trio.sleep(100)
    assert house.upstream.status().sessions == 1
    assert await do(house, other, one) == [4, 3, 1]  # never the one of the other account


@pytest.mark.covers("SEC-21")
async def test_a_session_that_served_one_account_is_not_handed_on(nursery, autojump_clock):
    house = await a_house(nursery)
    mine, yours = Host(), Host(principal="you")
    assert await do(house, mine) == [1]
    house.upstream.host_left(mine.caller.tenant)
    await trio.sleep(1000)
    assert await do(house, yours) == [1, 1]


async def test_accounts_share_if_they_are_told_to(nursery, autojump_clock):
    house = await a_house(nursery, across_principals=True)
    assert await do(house, Host(), Host(principal="you")) == [2]


async def test_a_modern_server_far_away_is_everybodys(nursery, autojump_clock):
    house = await a_house(nursery, FakeUpstream(version=MODERN), kind=WebFake, session_mode="per_host", era="modern")
    assert await do(house, Host(capabilities=FORMS), Host(principal="you")) == [2]
    assert house.upstream.status().mode == "shared"


@pytest.mark.covers("SEC-21")
async def test_what_can_run_only_once_is_refused_to_other_accounts(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="singleton")
    assert await do(house, Host("one"), Host("two")) == [2]
    error = await attempt(house, Host(principal="you"))
    assert isinstance(error, UpstreamUnavailable)
    assert "across_principals" in str(error)
    assert "singleton" in str(error)
    house.upstream.events.asked("elicitation/create")
    assert await do(house, Host("three")) == [3]
    assert house.upstream.status().mode == "singleton"
    await house.fake.conversation.close()
    await trio.sleep(5)
    assert await do(house, Host(principal="you")) == [3, 1]  # a new one has served nobody


async def test_what_can_run_only_once_may_be_everybodys(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="singleton", across_principals=True)
    assert await do(house, Host(), Host(principal="you")) == [2]


# --- a session for each host ------------------------------------------------------------------------------------------


@pytest.mark.covers("G-11", "D-13")
@pytest.mark.parametrize("kind", [FakeSession, WebFake])
async def test_each_host_has_a_session_with_what_it_can_do(nursery, autojump_clock, kind):
    mode = "per_host" if kind is FakeSession else "auto"
    house = await a_house(nursery, kind=kind, session_mode=mode)
    one, two = Host("one", capabilities=FORMS), Host("two", capabilities=SAMPLING)
    assert await do(house, one, two, one, again(one)) == [0, 3, 1]
    assert house.declared(0).keys() == {"sampling", "elicitation", "extensions"}
    assert house.declared(1) == FORMS
    assert house.declared(2) == SAMPLING
    assert [terms.exclusive for terms in house.terms] == [False, True, True]
    status = house.upstream.status()
    assert (status.sessions, status.mode, status.in_flight) == (3, "per host", 0)


async def test_first_calls_of_a_host_at_one_time_open_one_session(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    async with trio.open_nursery() as calls:
        for _ in range(10):
            calls.start_soon(do, house, again(host))
    assert house.calls() == [0, 10]


async def test_requests_of_a_host_that_begins_anew_each_time_share_one(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    assert await do(house, FakeHost(), FakeHost(), FakeHost(host="other")) == [0, 2, 1]


async def test_who_needs_more_gets_a_session_that_has_all_of_it(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host(capabilities={**FORMS, "sampling": {}})
    few, other = again(host, capabilities={"elicitation": raw({"form": {}})}), host.caller.capabilities
    more = again(host, capabilities={"elicitation": raw({"url": {}}), "sampling": raw({"tools": {}})})
    async with trio.open_nursery() as calls:
        calls.start_soon(attempt, house, few, HANG)
        await settle()
        assert await do(house, more, few, again(host, capabilities=other), more) == [0, 1, 4]
        assert house.declared() == {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}}
        assert len(house.pool) == 3  # a call is with the smaller one
        calls.cancel_scope.cancel()
    await settle()
    assert len(house.pool) == 2


# --- interactive ------------------------------------------------------------------------------------------------------


@pytest.mark.covers("D-13")
async def test_one_that_asks_is_no_longer_shared(nursery, autojump_clock):
    house = await a_house(nursery)
    one, two, other = Host("one"), Host("two"), Host("one", "you")
    assert await do(house, two, one, other) == [2, 1]
    house.upstream.events.asked("elicitation/create")
    assert house.upstream.status().mode == "interactive"
    assert await do(house, one, two, other, two) == [3, 2, 2]  # who used it last goes on with it
    house.upstream.events.asked("elicitation/create")
    for host in (one, other):
        house.upstream.host_left(host.caller.tenant)
    assert await do(house, Host("three"), two) == [3, 2, 3, 1]

    later = await a_house(nursery, memory=house.memory)
    assert later.upstream.status().mode == "interactive"
    assert await do(later, one, two) == [0, 1, 1]
    later.supervisor.restart("a")
    await settle()
    assert later.upstream.status().mode == "shared"
    assert await do(later, Host("three"), Host("four"), one) == [0, 1, 1, 3]
    assert (await a_house(nursery, memory=house.memory)).upstream.status().mode == "shared"


@pytest.mark.covers("D-13")
async def test_a_host_that_begins_each_request_anew_does_not_go_on_with_the_main_session(nursery, autojump_clock):
    house = await a_house(nursery)
    host = again(Host(), lasting=False)
    await do(house, host)
    house.upstream.events.asked("elicitation/create")
    assert await do(house, host) == [1, 1]  # where its own parked calls do not look like another's


async def test_a_session_of_its_own_stays_with_a_host_that_is_gone_from_it(nursery, autojump_clock):
    house = await a_house(nursery)
    one = Host()
    await do(house, one)
    house.upstream.host_left(one.caller.tenant)
    house.upstream.events.asked("elicitation/create")
    assert await do(house, Host("two")) == [1, 1]


async def test_accounts_are_told_apart_when_a_session_opens_while_the_first_question_comes(nursery, autojump_clock):
    fake = FakeUpstream()
    house = await a_house(nursery, fake)
    await do(house, Host())
    gate = slow_handshake(fake)
    async with trio.open_nursery() as calls:
        calls.start_soon(do, house, Host("two", "you"))
        await settle()
        house.upstream.events.asked("elicitation/create")
        gate.set()
    assert house.calls() == [1, 1]
    await settle()
    assert len(house.pool) == 1
    assert await do(house, Host("three", "you")) == [1, 1, 1]


@pytest.mark.parametrize("mode", ["shared", "per_host"])
async def test_what_is_configured_stays_when_it_asks(nursery, autojump_clock, mode):
    house = await a_house(nursery, session_mode=mode)
    before = house.upstream.status().mode
    house.upstream.events.asked("elicitation/create")
    assert house.upstream.status().mode == before


def slow_handshake(fake):
    """Let the next handshakes wait for the event."""
    gate = trio.Event()

    async def wait(message, to):
        await gate.wait()
        return fake.answer(message)

    fake.on["initialize"] = wait
    return gate


# --- the end of sessions ----------------------------------------------------------------------------------------------


@pytest.mark.covers("I-12")
async def test_nothing_is_left_of_a_host_that_is_gone(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    async with trio.open_nursery() as calls:
        calls.start_soon(attempt, house, again(host), HANG)
        await do(house, host)
        house.upstream.host_left(host.caller.tenant)
        await settle()
        assert len(house.pool) == 2  # a call is running
        calls.cancel_scope.cancel()
    await settle()
    house.assert_empty()
    house.upstream.host_left(host.caller.tenant)


@pytest.mark.covers("I-12")
async def test_a_host_may_go_before_its_session_is_open(nursery, autojump_clock):
    fake = FakeUpstream()
    house = await a_house(nursery, fake, session_mode="per_host")
    gate = slow_handshake(fake)
    for forget in (True, False):
        host = Host()
        async with trio.open_nursery() as calls:
            calls.start_soon(attempt, house, host)
            await settle()
            calls.cancel_scope.cancel()
        if forget:
            house.upstream.host_left(host.caller.tenant)
            await settle()
            house.assert_empty()
    gate.set()
    await trio.sleep(59)
    assert len(house.pool) == 2
    await trio.sleep(2)
    house.assert_empty()


@pytest.mark.covers("I-12")
async def test_calls_that_are_late_open_nothing_for_a_host_that_is_gone(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    house.upstream.host_left(host.caller.tenant)
    error = await attempt(house, host)
    assert "has left" in str(error)
    house.assert_empty()
    for _ in range(MAX_GONE):
        house.upstream.host_left(Host().caller.tenant)
    assert len(house.pool._departed) == MAX_GONE

    shared = await a_house(nursery)
    shared.upstream.host_left(host.caller.tenant)
    await do(shared, host)
    shared.upstream.events.asked("elicitation/create")
    assert await do(shared, Host("two")) == [1, 1]
    assert host.caller.tenant not in shared.pool._by_host


@pytest.mark.covers("F-H-20")
async def test_a_session_that_nobody_uses_is_closed(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    await do(house, host)
    async with trio.open_nursery() as calls:
        calls.start_soon(attempt, house, again(host), HANG)
        await trio.sleep(99)
        calls.cancel_scope.cancel()
    await trio.sleep(59)
    assert await do(house, host) == [0, 3]
    await trio.sleep(61)
    house.assert_empty()
    assert house.upstream.state is State.CONNECTED
    assert await do(house, host) == [0, 3, 1]


async def test_a_restart_closes_all(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host, outcome = Host(), []

    async def hang():
        outcome.append(await attempt(house, again(host), HANG))

    nursery.start_soon(hang)
    await do(house, host, Host("two"))
    house.supervisor.restart("a")
    assert isinstance(await attempt(house, host), Result)
    assert isinstance(outcome.pop(), UpstreamLost)
    assert house.calls() == [0, 2, 1, 0, 1]
    assert len(house.pool) == 2


@pytest.mark.covers("I-3")
async def test_sessions_die_one_by_one(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    one, two, outcome = Host("one"), Host("two"), []
    await do(house, one, two)

    async def hang():
        outcome.append(await attempt(house, again(one), HANG))

    nursery.start_soon(hang)
    await settle()
    await house.fake.conversations[1].close()
    await settle()
    assert isinstance(outcome.pop(), UpstreamLost)
    assert house.upstream.state is State.CONNECTED
    assert await do(house, one, two) == [0, 2, 2, 1]

    house.fake.refuses = True
    await house.fake.conversations[0].close()
    await settle()
    assert house.upstream.state is State.RECONNECTING
    assert await do(house, one, two) == [0, 2, 3, 2]
    house.fake.refuses = False
    assert await do(house, Host("three")) == [0, 2, 3, 2, 0, 1]  # waits for the main one


async def test_another_accounts_session_outlives_the_main_one(nursery, autojump_clock):
    house = await a_house(nursery)
    await do(house, Host(), Host(principal="you"))
    house.fake.refuses = True
    await house.fake.conversations[0].close()
    await settle()
    assert await do(house, Host("two", principal="you")) == [1, 2]


# --- sessions that do not open ----------------------------------------------------------------------------------------


async def test_one_that_cannot_be_opened_is_said_and_tried_again_later(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    house.refusal = UpstreamUnavailable("a cannot be started: it is locked", upstream="a")
    async with trio.open_nursery() as calls:
        failures = []

        async def call():
            failures.append(await attempt(house, again(host)))

        calls.start_soon(call)
        calls.start_soon(call)
    assert len(house.terms) == 2
    for error in failures:
        assert isinstance(error, UpstreamUnavailable)
        assert "it is locked" in str(error)
        assert "singleton" in str(error)
    error = await attempt(house, host)
    assert len(house.terms) == 2
    assert "it is locked" in str(error)
    assert 800 <= error.retry_after_ms <= 2000
    await trio.sleep(1.3)
    await attempt(house, host)
    assert len(house.terms) == 3
    assert (await attempt(house, host)).retry_after_ms >= 1600
    house.assert_empty()
    assert house.upstream.state is State.CONNECTED
    house.refusal = None
    await trio.sleep(3)
    assert await do(house, host) == [0, 1]
    house.refusal = UpstreamUnauthorized("a wants credentials")
    assert isinstance(await attempt(house, Host("two")), UpstreamUnauthorized)


@pytest.mark.covers("F-P-02")
async def test_one_that_ends_again_and_again_is_opened_less_and_less_often(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host, waited = Host(), []
    for _ in range(7):
        began = trio.current_time()
        await do(house, again(host))
        waited.append(trio.current_time() - began)
        await house.fake.conversation.close()
        await settle()
    assert waited[0] < 0.1
    assert waited[1] < 0.1, "the first time it is opened anew at once"
    for wait, pause in zip(waited[2:], (1, 2, 4, 8, 16), strict=True):
        assert pause * 0.7 < wait < pause * 1.3
    error = await attempt(house, again(host))
    assert isinstance(error, UpstreamUnavailable), "who would wait for very long is told so"
    assert error.retry_after_ms > 20_000
    began = trio.current_time()
    await do(house, Host("two"))
    assert trio.current_time() - began < 0.1, "others need not wait"
    await trio.sleep(HEALTHY_S)
    began = trio.current_time()
    await do(house, again(host))
    assert trio.current_time() - began < 0.1, "that was long ago"


async def test_who_leaves_while_a_session_may_not_be_opened_yet_takes_it_along(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    host = Host()
    for _ in range(2):
        await do(house, again(host))
        await house.fake.conversation.close()
        await settle()
    async with trio.open_nursery() as calls:
        calls.start_soon(attempt, house, again(host))
        await trio.testing.wait_all_tasks_blocked()
        assert len(house.pool.extra_sessions) == 1
        house.upstream.host_left(host.caller.tenant)
        calls.cancel_scope.cancel()
    await settle()
    house.assert_empty()


@pytest.mark.covers("F-P-03")
async def test_one_that_hangs_is_given_up(nursery, autojump_clock):
    fake = FakeUpstream()
    house = await a_house(nursery, fake, session_mode="per_host")
    slow_handshake(fake)
    began = trio.current_time()
    error = await attempt(house, Host())
    assert isinstance(error, UpstreamUnavailable)
    assert trio.current_time() - began == pytest.approx(20)
    await settle()
    house.assert_empty()


@pytest.mark.covers("SEC-16")
async def test_a_bug_in_one_session_harms_no_other(nursery, autojump_clock, caplog):
    house = await a_house(nursery, session_mode="per_host")
    await do(house, Host())
    house.refusal = ZeroDivisionError("a bug")
    error = await attempt(house, Host("two"))
    assert "its log says more" in str(error)
    assert "a bug" in caplog.text
    assert house.upstream.state is State.CONNECTED


async def test_the_longest_idle_gives_way(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    hosts = [Host(str(number)) for number in range(MAX_SESSIONS)]
    await do(house, *hosts)
    assert len(house.pool) == MAX_SESSIONS + 1
    await trio.sleep(1)
    await do(house, hosts[0])
    await do(house, Host("one more"))
    assert len(house.pool) == MAX_SESSIONS + 1
    assert hosts[1].caller.tenant not in house.pool._by_host
    assert hosts[0].caller.tenant in house.pool._by_host
    async with trio.open_nursery() as calls:
        for host in (*hosts[2:], hosts[0], hosts[1]):
            calls.start_soon(attempt, house, again(host), HANG)
            await settle()
        error = await attempt(house, Host("too many"))
        assert isinstance(error, Overloaded)
        assert str(MAX_SESSIONS) in str(error)
        calls.cancel_scope.cancel()


# --- what they hear and are told --------------------------------------------------------------------------------------


async def test_all_are_told_the_level(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    one = Host("one")
    await do(house, one)
    house.upstream.set_log_level("info")
    await do(house, Host("two", level="error"))
    for conversation in house.fake.conversations:
        assert [message["params"]["level"] for message in conversation.of("logging/setLevel")] == ["info"]
    names = [message["method"] for message in house.fake.conversation.received]
    assert names.index("logging/setLevel") < names.index("tools/call")


async def test_changes_that_any_tells_of_are_read_from_the_main_one(nursery, autojump_clock):
    house = await a_house(nursery, session_mode="per_host")
    await do(house, Host())
    await house.fake.conversation.tell("notifications/tools/list_changed")
    await trio.sleep(5)
    assert [len(conversation.of("tools/list")) for conversation in house.fake.conversations] == [2, 0]


async def test_questions_that_are_nobodys_are_counted_and_now_and_then_logged(nursery, autojump_clock, caplog):
    house = await a_house(nursery)
    for _ in range(5):
        house.upstream.events.unattributed("sampling/createMessage")
    assert house.upstream.status().unattributed == 5
    assert caplog.text.count("nobody can tell") == 1
    await trio.sleep(61)
    house.upstream.events.unattributed("sampling/createMessage")
    assert caplog.text.count("nobody can tell") == 2
    assert "6 so far" in caplog.text


async def test_visits_that_are_done_are_remembered(nursery, autojump_clock):
    house = await a_house(nursery)
    house.upstream.events.elicited("e1")
    await house.upstream.elicitations.wait_for(["e1"])


class Polite(FakeSession):
    """A session that is asked something as soon as it is open."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.done = trio.Event()
        self.guests = []
        self.changes = 0

    async def welcome(self, exchange):
        self.guests.append(exchange)
        await self.done.wait()

    def roots_changed(self):
        self.changes += 1


@pytest.mark.covers("G-11")
async def test_a_host_with_roots_is_welcomed_before_its_calls(nursery, autojump_clock):
    house = await a_house(nursery, kind=Polite, session_mode="per_host")
    host = Host(capabilities=ROOTS)
    first, second = again(host), again(host)
    async with trio.open_nursery() as calls:
        calls.start_soon(do, house, first)
        await settle()
        calls.start_soon(do, house, second)
        await settle()
        [place] = house.pool.extra_sessions
        assert house.calls() == [0, 0]
        assert place.session.guests == [first]
        place.session.done.set()
    assert await do(house, host) == [0, 3]
    assert place.session.guests == [first]

    await do(house, Host("two", capabilities=FORMS))
    house.upstream.roots_changed(host.caller.tenant)
    assert [place.session.changes for place in house.pool.open_sessions()] == [0, 1, 0]


async def test_a_host_that_goes_while_it_is_welcomed_leaves_the_session_to_its_other_calls(nursery, autojump_clock):
    house = await a_house(nursery, kind=Polite, session_mode="per_host")
    host = Host(capabilities=ROOTS)
    first = trio.CancelScope()

    async def go():
        with first:
            await attempt(house, again(host))

    async with trio.open_nursery() as calls:
        calls.start_soon(go)
        await settle()
        calls.start_soon(do, house, again(host))
        await settle()
        first.cancel()
    assert house.calls() == [0, 1]


@pytest.mark.covers("G-11")
async def test_roots_of_the_configuration_need_no_welcome(nursery, autojump_clock):
    house = await a_house(nursery, kind=Polite, session_mode="per_host", roots=("file:///a",))
    host = Host(capabilities=ROOTS)
    assert await do(house, host) == [0, 1]
    house.upstream.roots_changed(host.caller.tenant)
    assert [place.session.changes for place in house.pool.open_sessions()] == [0, 0]
    assert house.declared(0)["roots"] == house.declared(1)["roots"] == {}


# --- at any moment ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-12")
@pytest.mark.parametrize("act", ["cancel", "leave", "restart"])
async def test_a_first_call_can_be_disturbed_at_any_moment(nursery, autojump_clock, act):
    house = await a_house(nursery, kind=FakeSession, session_mode="per_host")
    for steps in range(60):
        host, outcome = Host(), []

        async def call(host=host, outcome=outcome):
            outcome.append(await attempt(house, host))

        async with trio.open_nursery() as calls:
            calls.start_soon(call)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            done = bool(outcome)
            if act == "cancel":
                calls.cancel_scope.cancel()
            elif act == "leave":
                house.upstream.host_left(host.caller.tenant)
            else:
                house.supervisor.restart("a")
        house.upstream.host_left(host.caller.tenant)
        await trio.sleep(100)
        house.assert_empty()
        assert house.upstream.in_flight == 0
        if done:
            break
    assert done
