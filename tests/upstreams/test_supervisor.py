"""Upstreams that start, change, die and come back, without a process: what the hub sees of it, and when."""

import pytest
import trio
from msgspec import structs

from config.remembered_facts import Memory
from config.settings import Restart, Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import HubError, UpstreamDenied, UpstreamLost, UpstreamUnauthorized, UpstreamUnavailable
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import L4, MODERN, Kind
from hub.wire.upstream_snapshot import ListEntry
from tests.support.fakes import FakeHost, FakeSession, FakeUpstream, make_supervisor
from upstreams.cold_start.start_timeouts import StartLimits
from upstreams.inventory.current_lists import empty_snapshot, is_local
from upstreams.inventory.last_known_lists import LastKnown
from upstreams.inventory.refresh import CALM_READINGS, RETRY_LIST_S
from upstreams.lifecycle import State
from upstreams.retry_pauses import FAILED_PAUSE_S
from upstreams.runner import UNKNOWN_RETRY_S

ECHO = Operation("tools/call", {"name": raw("echo")})
HANG = Operation("tools/call", {"name": raw("hang")})


class House:
    """A supervisor with fakes, and every change it announced."""

    def __init__(self, nursery, fakes, configs=None):
        self.fakes = fakes
        self.changes = []
        self.memory = Memory(None)
        self.supervisor = make_supervisor(self.memory, self.note, run_session=self.run_session)
        self.refusals = {}
        self.kinds = {}
        self.opened_at = []
        config = UpstreamConfig(command="x", timeouts=Timeouts(start=20, list=15, call=100))
        self.configs = dict.fromkeys(fakes, config) | (configs or {})

    async def run_session(self, config, name, events, memory, terms, started):
        self.opened_at.append(trio.current_time())
        if name in self.refusals:
            raise self.refusals[name]
        kind = self.kinds.get(name, FakeSession)
        await kind(self.fakes[name], config, name, events, memory, terms).run(started)

    def note(self, name):
        self.changes.append((name, names(self[name])))

    def __getitem__(self, name):
        return self.supervisor.upstreams[name]


def names(upstream, kind=Kind.TOOL):
    return [entry.key for entry in upstream.snapshot.lists[kind]]


async def house(nursery, *fakes, settle=True, **configs):
    found = House(nursery, dict(zip("abcdefghijklmnop", fakes, strict=False)), configs)
    await nursery.start(found.supervisor.run, found.configs)
    if settle:
        await found.supervisor.settled.wait()
    return found


settle = trio.testing.wait_all_tasks_blocked


async def attempt(upstream, operation=ECHO):
    try:
        return await upstream.call(operation, FakeHost())
    except HubError as error:
        return error


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_upstreams_are_connected_and_listed(nursery, autojump_clock, version):
    fake = FakeUpstream(
        version=version,
        tools=["one", "two"],
        prompts=[{"name": "p"}],
        resources=[{"uri": "x:1", "name": "r"}],
        resourceTemplates=[{"uriTemplate": "x:{n}", "name": "t"}],
    )
    fake.instructions = "Be kind"
    there = await house(nursery, fake)
    upstream = there["a"]
    assert upstream.state is State.CONNECTED
    assert not upstream.settling
    assert there.changes == [("a", ["one", "two"])]
    assert (upstream.snapshot.version, upstream.snapshot.instructions) == (version, "Be kind")
    status = upstream.status()
    assert (status.state, status.transport, status.restarts, status.in_flight) == ("connected", "stdio", 0, 0)
    assert (status.counts.tools, status.counts.prompts, status.counts.resources, status.counts.templates) == (
        2,
        1,
        1,
        1,
    )
    assert isinstance(await attempt(upstream), Result)


@pytest.mark.covers("G-6", "I-3", "F-P-03")
async def test_one_that_hangs_does_not_delay_the_others(nursery, autojump_clock):
    hanging = [FakeUpstream() for _ in range(StartLimits().at_once)]
    for fake in hanging:
        fake.on["initialize"] = lambda message, to: None
    there = await house(nursery, *hanging, FakeUpstream(), settle=False)
    good = there["abcdefghijklmnop"[StartLimits().at_once]]
    assert isinstance(await attempt(good), Result)
    assert trio.current_time() < 6
    assert not there.supervisor.settled.is_set()
    await there.supervisor.settled.wait()
    assert trio.current_time() == pytest.approx(20)
    nursery.cancel_scope.cancel()


async def test_a_disabled_one_is_known_but_left_alone(nursery, autojump_clock):
    there = await house(nursery, a=UpstreamConfig(command="x", disabled=True))
    assert there.supervisor.settled.is_set()
    assert there["a"].state is State.DISABLED
    assert not there["a"].settling
    error = await attempt(there["a"])
    assert isinstance(error, UpstreamUnavailable)
    assert "disabled" in str(error)
    assert there.opened_at == []


# --- death and return -------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-02", "F-P-29", "T-5")
async def test_it_comes_back_and_nobody_sees_a_difference(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.on["tools/call:hang"] = lambda message, to: None
    there = await house(nursery, fake)
    upstream, outcome = there["a"], []

    async def call():
        outcome.append(await attempt(upstream, HANG))

    for restarts in range(1, 4):
        nursery.start_soon(call)
        await settle()
        died_at = trio.current_time()
        await fake.conversation.close()
        await settle()
        assert trio.current_time() == died_at
        assert isinstance(outcome.pop(), UpstreamLost)
        assert upstream.state is State.RECONNECTING
        assert upstream.settling
        assert names(upstream) == ["echo"]
        assert isinstance(await attempt(upstream), Result)  # waits for the next session
        assert trio.current_time() - died_at < 2 ** (restarts - 1) * 1.2 + 0.1
        await settle()
        assert upstream.status().restarts == restarts
        assert "hung up" in upstream.status().last_error
    assert upstream.state is State.CONNECTED
    assert {change[1][0] for change in there.changes} == {"echo"}


@pytest.mark.covers("F-P-01", "F-P-27")
async def test_one_that_cannot_start_is_given_up_after_five_attempts(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.refuses = True
    there = await house(nursery, fake)
    upstream = there["a"]
    assert upstream.state is State.RECONNECTING
    began = trio.current_time()
    error = await attempt(upstream)  # waits for as long as there is hope
    assert isinstance(error, UpstreamUnavailable)
    assert 15 * 0.8 <= trio.current_time() - began <= 15 * 1.2
    assert upstream.state is State.FAILED
    assert len(there.opened_at) == 5
    gaps = [later - earlier for earlier, later in zip(there.opened_at, there.opened_at[1:], strict=False)]
    assert [round(gap / expected) for gap, expected in zip(gaps, (1, 2, 4, 8), strict=True)] == [1, 1, 1, 1]
    assert "cannot be started: it refuses" in str(error)
    assert error.retry_after_ms == pytest.approx(FAILED_PAUSE_S * 1000, abs=1)
    assert trio.current_time() == there.opened_at[-1]

    await trio.sleep(10)
    error = await attempt(upstream)  # at once: another attempt is not due
    assert error.retry_after_ms == pytest.approx((FAILED_PAUSE_S - 10) * 1000, abs=1)
    assert len(there.opened_at) == 5
    await trio.sleep(UNKNOWN_RETRY_S - 11)
    assert len(there.opened_at) == 5  # nobody needs it
    assert isinstance(await attempt(upstream), UpstreamUnavailable)
    assert len(there.opened_at) == 6
    await trio.sleep(FAILED_PAUSE_S)
    fake.refuses = False
    assert isinstance(await attempt(upstream), Result)
    assert upstream.state is State.CONNECTED


@pytest.mark.covers("F-P-03")
async def test_a_call_waits_for_a_start_no_longer_than_the_start_may_take(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.on["initialize"] = lambda message, to: None
    there = await house(nursery, fake, settle=False)
    error = await attempt(there["a"])
    assert isinstance(error, UpstreamUnavailable)
    assert trio.current_time() == pytest.approx(20)
    assert "within 20 seconds" in str(error)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-P-25", "V-29")
async def test_without_a_common_version_it_is_not_tried_again(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.on["initialize"] = lambda message, to: {"protocolVersion": "2019-01-01", "capabilities": {}}
    there = await house(nursery, fake)
    assert there["a"].state is State.FAILED
    assert "2019-01-01" in there["a"].last_error
    await trio.sleep(1000)
    assert len(there.opened_at) == 1


async def test_one_of_which_nothing_is_known_is_tried_now_and_then_though_no_call_can_need_it(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.refuses = True
    there = await house(nursery, fake)
    await attempt(there["a"])
    assert there["a"].state is State.FAILED
    fake.refuses = False
    await trio.sleep(UNKNOWN_RETRY_S + 1)
    assert there["a"].state is State.CONNECTED
    nursery.cancel_scope.cancel()


async def test_without_credentials_it_says_so(nursery, autojump_clock):
    there = House(nursery, {"a": FakeUpstream()})
    there.refusals["a"] = UpstreamUnauthorized("a wants credentials")
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    assert there["a"].state is State.UNAUTHORIZED
    assert not there["a"].settling
    error = await attempt(there["a"])
    assert isinstance(error, UpstreamUnauthorized)
    assert "credentials" in str(error)
    assert error.asks_person
    await trio.sleep(FAILED_PAUSE_S)
    del there.refusals["a"]
    assert isinstance(await attempt(there["a"]), Result)


async def test_who_is_known_and_denied_need_not_sign_in(nursery, autojump_clock):
    there = House(nursery, {"a": FakeUpstream()})
    there.refusals["a"] = UpstreamDenied("a knows you, and refuses")
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    assert there["a"].state is State.UNAUTHORIZED
    error = await attempt(there["a"])
    assert isinstance(error, UpstreamDenied)
    assert not error.asks_person


@pytest.mark.covers("SEC-16")
async def test_a_bug_in_one_session_harms_no_other(nursery, autojump_clock, caplog):
    there = House(nursery, {"a": FakeUpstream(), "b": FakeUpstream()})
    there.refusals["a"] = ZeroDivisionError("a bug")
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    assert "a bug" in caplog.text
    assert there["a"].state is State.RECONNECTING
    assert isinstance(await attempt(there["b"]), Result)


async def test_a_hub_that_was_replaced_while_it_ran_says_so(nursery, autojump_clock):
    """What only some upstreams need is imported with the first of them."""
    there = House(nursery, {"a": FakeUpstream()})
    there.refusals["a"] = ModuleNotFoundError("No module named 'upstreams.transports.http.streamable_session'")
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    assert there["a"].last_error == "hubd was replaced while it ran, and cannot reach a; end it with `hubd stop`"


class Buggy(FakeSession):
    """A session over which the hub has a bug."""

    fails = ""

    async def request(self, method, params):
        if method == self.fails:
            raise ZeroDivisionError("a bug")
        return await super().request(method, params)


@pytest.mark.covers("SEC-16", "I-3")
@pytest.mark.parametrize("method", ["tools/list", "logging/setLevel"])
async def test_a_bug_in_the_upkeep_of_one_upstream_harms_no_other(nursery, autojump_clock, caplog, method):
    there = House(nursery, {"a": FakeUpstream(), "b": FakeUpstream()})
    there.kinds["a"] = Buggy
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    session = there["a"].pool.main.session
    Buggy.fails = method
    there["a"].mark_stale((Kind.TOOL,))
    there["a"].set_log_level("info")
    hanging = []

    async def call(name):
        hanging.append(await attempt(there[name], HANG))

    nursery.start_soon(call, "a")
    await settle()
    assert there["a"].state is State.RECONNECTING
    assert there["a"].last_error == "The hub failed over a (ZeroDivisionError); its log says more"
    assert "a bug" in caplog.text
    assert session.peer.ended
    assert isinstance(await attempt(there["b"]), Result)
    Buggy.fails = ""
    await trio.sleep(2)
    assert there["a"].state is State.CONNECTED


@pytest.mark.covers("SEC-16")
async def test_a_bug_while_an_upstream_is_restarted_harms_no_other(nursery, autojump_clock):
    class Clumsy(FakeSession):
        async def run(self, started):
            try:
                await super().run(started)
            finally:
                raise ZeroDivisionError("a bug")

    there = House(nursery, {"a": FakeUpstream(), "b": FakeUpstream()})
    there.kinds["a"] = Clumsy
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    there.supervisor.restart("a")
    await trio.sleep(5)
    assert isinstance(await attempt(there["b"]), Result)


async def test_a_restart_is_at_once_and_finds_the_era_anew(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    began = trio.current_time()
    there.supervisor.restart("a")
    await settle()
    assert trio.current_time() == began
    assert there["a"].state is State.CONNECTED
    assert len(fake.conversations) == 2
    assert len(fake.conversation.of("server/discover")) == 1
    fake.refuses = True
    await fake.conversation.close()
    await trio.sleep(100)
    assert there["a"].state is State.FAILED
    fake.refuses = False
    there.supervisor.restart("a")
    await settle()
    assert there["a"].state is State.CONNECTED


@pytest.mark.covers("I-4", "F-P-02")
async def test_a_call_that_was_surely_not_sent_goes_to_the_next_session(nursery, autojump_clock):
    there = await house(nursery, FakeUpstream())
    upstream = there["a"]
    real = upstream.pool.main

    def stand_in(session):
        place = upstream.opener.make_main()
        place.session, place.is_open = session, True
        upstream.pool.main_lost()
        upstream.pool.main = place

    class Over:
        def begin(self, operation, exchange, timeouts, done):
            upstream.pool.main_lost()
            upstream.pool.main = real
            raise UpstreamUnavailable("over")

    stand_in(Over())
    assert isinstance(await attempt(upstream), Result)
    assert upstream.in_flight == 0

    class Refusing:
        def begin(self, operation, exchange, timeouts, done):
            raise UpstreamUnavailable("not now")

    stand_in(Refusing())
    assert isinstance(await attempt(upstream), UpstreamUnavailable)
    upstream.pool.main_lost()
    upstream.pool.main = real


# --- nobody needs it --------------------------------------------------------------------------------------------------


def lazy(idle_stop_s=0.0, **more):
    return UpstreamConfig(command="x", start="lazy", idle_stop_s=idle_stop_s, timeouts=Timeouts(start=20), **more)


def restless(idle_stop_s=100.0, **more):
    return UpstreamConfig(command="x", idle_stop_s=idle_stop_s, timeouts=Timeouts(start=20, call=1000), **more)


class Known(LastKnown):
    """What was offered in an earlier run: of everything the tool `old`."""

    def __init__(self):
        super().__init__(None)

    def find(self, name, config):
        tool = ListEntry("old", {})
        return structs.replace(empty_snapshot(name, True), lists={**dict.fromkeys(Kind, ()), Kind.TOOL: (tool,)})


async def known_house(nursery, fake, config):
    there = House(nursery, {"a": fake}, {"a": config})
    there.supervisor = make_supervisor(there.memory, there.note, run_session=there.run_session, last_known=Known())
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    return there


async def test_a_lazy_one_of_which_nothing_is_known_is_started_to_learn_what_it_offers(nursery, autojump_clock):
    there = await house(nursery, FakeUpstream(tools=["one"]), a=lazy(idle_stop_s=50))
    assert names(there["a"]) == ["one"]
    assert there["a"].state is State.CONNECTED
    await trio.sleep(49)
    assert there["a"].state is State.CONNECTED
    await trio.sleep(2)
    assert there["a"].state is State.IDLE
    assert there.fakes["a"].conversation.over
    assert names(there["a"]) == ["one"]
    assert there.changes == [("a", ["one"])]


async def test_a_lazy_one_that_is_known_waits_for_its_first_call(nursery, autojump_clock):
    there = await known_house(nursery, FakeUpstream(tools=["new"]), lazy())
    upstream = there["a"]
    await trio.sleep(1000)
    assert there.opened_at == []
    assert upstream.state is State.IDLE
    assert not upstream.settling
    assert names(upstream) == ["old"]
    status = upstream.status()
    assert (status.state, status.next_attempt_s, status.pid, status.since_s) == ("idle", None, None, 1000)
    assert isinstance(await attempt(upstream), Result)
    await settle()
    assert upstream.state is State.CONNECTED
    assert names(upstream) == ["new"]
    assert upstream.status().restarts == 0
    await trio.sleep(10_000)
    assert upstream.state is State.CONNECTED  # it has no idle_stop_s


async def test_a_lazy_one_is_started_by_a_restart_too(nursery, autojump_clock):
    there = await known_house(nursery, FakeUpstream(), lazy())
    there.supervisor.restart("a")
    await settle()
    assert there["a"].state is State.CONNECTED


@pytest.mark.covers("F-P-01")
async def test_a_lazy_one_that_cannot_be_started_fails_like_any_other(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.refuses = True
    there = await known_house(nursery, fake, lazy())
    error = await attempt(there["a"])
    assert isinstance(error, UpstreamUnavailable)
    assert there["a"].state is State.FAILED
    assert names(there["a"]) == ["old"]
    fake.refuses = False
    await trio.sleep(FAILED_PAUSE_S)
    assert isinstance(await attempt(there["a"]), Result)


async def test_one_that_nobody_needs_is_stopped_and_the_next_call_starts_it(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake, a=restless())
    upstream = there["a"]
    await trio.sleep(60)
    assert isinstance(await attempt(upstream), Result)
    await trio.sleep(99)
    assert upstream.state is State.CONNECTED
    await trio.sleep(2)
    assert upstream.state is State.IDLE
    assert not upstream.settling
    assert fake.conversation.over
    await trio.sleep(5000)
    assert len(there.opened_at) == 1

    outcomes = []

    async def call():
        outcomes.append(await attempt(upstream))

    async with trio.open_nursery() as calls:
        for _ in range(5):
            calls.start_soon(call)
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    assert len(there.opened_at) == 2
    await settle()
    status = upstream.status()
    assert (status.restarts, status.last_error, status.ends_lately) == (0, None, 0)
    assert {tuple(change[1]) for change in there.changes} == {("echo",)}, "hosts have seen nothing of it"
    await trio.sleep(101)
    assert upstream.state is State.IDLE


async def test_a_call_that_comes_while_it_is_being_stopped_waits_for_the_next_start(nursery, autojump_clock):
    class Slow(FakeSession):
        async def run(self, started):
            try:
                await super().run(started)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(5)

    there = House(nursery, {"a": FakeUpstream()}, {"a": restless(100)})
    there.kinds["a"] = Slow
    await nursery.start(there.supervisor.run, there.configs)
    await there.supervisor.settled.wait()
    await trio.sleep(101)
    assert there["a"].state is State.IDLE
    assert isinstance(await attempt(there["a"]), Result)
    assert trio.current_time() == pytest.approx(105)


async def test_a_long_call_keeps_it(nursery, autojump_clock):
    fake = FakeUpstream()

    async def slow(message, to):
        await trio.sleep(500)
        return {"content": []}

    fake.on["tools/call"] = slow
    there = await house(nursery, fake, a=restless())
    assert isinstance(await attempt(there["a"]), Result)
    await trio.sleep(99)
    assert there["a"].state is State.CONNECTED
    await trio.sleep(2)
    assert there["a"].state is State.IDLE


async def test_a_session_of_a_host_keeps_it(nursery, autojump_clock):
    timeouts = Timeouts(start=20, session_idle=300)
    config = UpstreamConfig(command="x", idle_stop_s=50, session_mode="per_host", timeouts=timeouts)
    there = await house(nursery, FakeUpstream(), a=config)
    assert isinstance(await attempt(there["a"]), Result)
    await trio.sleep(299)
    assert there["a"].state is State.CONNECTED
    await trio.sleep(60)
    assert there["a"].state is State.IDLE
    assert isinstance(await attempt(there["a"]), Result)
    assert there["a"].status().sessions == 2


async def test_a_task_keeps_it(nursery, autojump_clock):
    there = await house(nursery, FakeUpstream(), a=restless())
    host = FakeHost()
    there["a"].expect("", host.caller, 1000)
    await trio.sleep(999)
    assert there["a"].state is State.CONNECTED
    await trio.sleep(102)
    assert there["a"].state is State.IDLE


async def test_changes_of_its_lists_and_pings_do_not_keep_it(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake, a=restless(100, ping_s=10))
    await trio.sleep(50)
    await fake.conversation.tell("notifications/tools/list_changed")
    await trio.sleep(51)
    assert there["a"].state is State.IDLE
    assert fake.conversation.of("ping")


async def test_one_that_crashes_while_nobody_needs_it_is_left_alone(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake, a=restless(100, restart=Restart(attempts=0)))
    await trio.sleep(95)
    fake.refuses = True
    await fake.conversation.close()
    await trio.sleep(1)
    assert there["a"].state is State.RECONNECTING
    await trio.sleep(10)
    assert there["a"].state is State.IDLE
    tries = len(there.opened_at)
    await trio.sleep(1000)
    assert len(there.opened_at) == tries
    fake.refuses = False
    assert isinstance(await attempt(there["a"]), Result)


async def test_what_was_adjusted_applies_at_once(nursery, autojump_clock):
    there = await house(nursery, FakeUpstream())
    upstream = there["a"]
    upstream.adjust(structs.replace(upstream.config, idle_stop_s=10))
    await trio.sleep(11)
    assert upstream.state is State.IDLE
    upstream.adjust(structs.replace(upstream.config, idle_stop_s=0))
    await settle()
    assert upstream.state is State.CONNECTED
    await trio.sleep(1000)
    assert upstream.state is State.CONNECTED


# --- how each is doing ------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-01", "F-P-27")
@pytest.mark.parametrize(("attempts", "tries"), [(2, 2), (0, None)])
async def test_how_often_it_is_tried_is_configured(nursery, autojump_clock, attempts, tries):
    fake = FakeUpstream()
    fake.refuses = True
    there = await house(nursery, fake, a=UpstreamConfig(command="x", restart=Restart(attempts=attempts)))
    await trio.sleep(3600 if tries is None else UNKNOWN_RETRY_S - 10)
    if tries is None:
        assert there["a"].state is State.RECONNECTING
        assert 3600 / (30 * 1.2) <= len(there.opened_at) <= 3600 / (30 * 0.8) + 5
        assert there["a"].status().crash_loop
        assert 0 < there["a"].status().next_attempt_s <= 36
    else:
        assert there["a"].state is State.FAILED
        assert len(there.opened_at) == tries
        status = there["a"].status()
        assert (status.crash_loop, status.next_attempt_s, status.failures) == (False, None, tries)


@pytest.mark.covers("F-P-01", "F-P-27")
async def test_half_open_one_attempt_serves_all_calls_and_fails_them_together(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.refuses = True
    there = await house(nursery, fake, a=UpstreamConfig(command="x", restart=Restart(attempts=1)))
    assert there["a"].state is State.FAILED
    await trio.sleep(FAILED_PAUSE_S)
    outcomes = []

    async def call():
        outcomes.append(await attempt(there["a"]))

    for refuses in (True, False):
        fake.refuses = refuses
        outcomes.clear()
        before = len(there.opened_at)
        async with trio.open_nursery() as calls:
            for _ in range(10):
                calls.start_soon(call)
        kind = UpstreamUnavailable if refuses else Result
        assert all(isinstance(outcome, kind) for outcome in outcomes)
        assert len(there.opened_at) == before + 1
        await trio.sleep(FAILED_PAUSE_S)


@pytest.mark.covers("F-P-02", "F-P-27")
async def test_a_crash_loop_shows_until_it_is_over(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    upstream = there["a"]
    for ends in range(1, 5):
        await fake.conversation.close()
        await settle()
        status = upstream.status()
        assert (status.ends_lately, status.crash_loop) == (ends, ends >= 3)
        await trio.sleep(status.next_attempt_s + 0.1)
        assert upstream.state is State.CONNECTED
    assert upstream.status().since_s == pytest.approx(0.1, abs=0.1)
    assert upstream.status().restarts == 4
    await trio.sleep(300)
    assert not upstream.status().crash_loop
    assert upstream.status().since_s >= 300


async def test_a_restart_by_command_is_no_trouble(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    for _ in range(3):
        await fake.conversation.close()
        await trio.sleep(20)
    there.supervisor.restart("a")
    await settle()
    status = there["a"].status()
    assert (status.restarts, status.crash_loop, status.last_error) == (3, False, None)
    for _ in range(5):
        there.supervisor.restart("a")
        await settle()
    assert there["a"].status().restarts == 3


@pytest.mark.covers("F-P-28")
async def test_whether_it_answers_pings_shows_and_changes_nothing(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake, a=UpstreamConfig(command="x", ping_s=30))
    upstream = there["a"]
    assert (upstream.status().health, upstream.status().silent_s) == ("ok", None)
    fake.on["ping"] = lambda message, to: None
    await trio.sleep(120)
    assert (upstream.status().health, upstream.status().silent_s) == ("silent", 60)
    assert isinstance(await attempt(upstream), Result)
    assert upstream.status().health == "ok"
    assert upstream.state is State.CONNECTED
    assert len(fake.conversations) == 1


@pytest.mark.covers("F-P-28")
@pytest.mark.parametrize(("version", "ping_s"), [(MODERN, 60), (L4, 0)])
async def test_who_is_not_pinged_is_not_judged(nursery, autojump_clock, version, ping_s):
    fake = FakeUpstream(version=version)
    there = await house(nursery, fake, a=UpstreamConfig(command="x", ping_s=ping_s))
    await trio.sleep(1000)
    assert there["a"].status().health is None
    assert fake.conversation.of("ping") == []


async def test_its_journal_tells_what_became_of_it(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake, a=restless(100))
    await fake.conversation.tell("notifications/message", {"level": "warning", "data": "hello"})
    await fake.conversation.close()
    await trio.sleep(2)
    await trio.sleep(200)
    there.supervisor.restart("a")
    await settle()
    told = [record.text for record in there.supervisor.journals["a"].tail(100)]
    connected = [f"connected: {L4} over stdio"]
    assert told[:4] == ["connecting", *connected, 'warning: "hello"', "a hung up"]
    assert told[4].startswith("next attempt in ")
    assert told[5:7] == ["connecting", *connected]
    assert told[7] == "idle: nobody has needed it for 100 s; the next call starts it"
    assert told[8:] == ["restarted by command", "connecting", *connected]


@pytest.mark.covers("F-P-29")
async def test_twenty_restarts_change_nothing_that_is_listed(nursery, autojump_clock):
    fake = FakeUpstream(tools=["one", "two"])
    there = await house(nursery, fake)
    before = there["a"].snapshot
    for _ in range(20):
        await fake.conversation.close()
        await settle()
        assert there["a"].snapshot == before
        await trio.sleep(100)
        assert there["a"].state is State.CONNECTED
        assert there["a"].snapshot == before
    assert {tuple(change[1]) for change in there.changes} == {("one", "two")}


# --- lists that change ------------------------------------------------------------------------------------------------


def tools(*found):
    return [{"name": name, "inputSchema": {}} for name in found]


def walks(fake):
    return len(fake.conversation.of("tools/list"))


async def test_a_change_is_read_and_announced_once(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    fake.lists["tools"] = tools("new")
    await fake.conversation.tell("notifications/tools/list_changed")
    await settle()
    assert there.changes == [("a", ["echo"]), ("a", ["new"])]
    await fake.conversation.tell("notifications/tools/list_changed")
    await settle()
    assert len(there.changes) == 2


@pytest.mark.covers("F-P-15")
async def test_a_burst_of_changes_costs_two_walks_and_the_last_counts(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    before = walks(fake)
    gate = trio.Event()

    async def slow(message, to):
        found = fake.answer(message)
        await gate.wait()
        return found

    fake.on["tools/list"] = slow
    for number in range(200):
        fake.lists["tools"] = tools(f"t{number}")
        await fake.conversation.tell("notifications/tools/list_changed")
    await settle()
    gate.set()
    await trio.sleep(5)
    assert walks(fake) - before <= 2
    assert names(there["a"]) == ["t199"]


@pytest.mark.covers("F-P-15")
async def test_a_server_that_announces_every_list_it_gives_is_slowed_down(nursery, autojump_clock):
    fake = FakeUpstream()

    async def announce(message, to):
        await to.tell("notifications/tools/list_changed")
        return fake.answer(message)

    fake.on["tools/list"] = announce
    there = await house(nursery, fake)
    await trio.sleep(300)
    assert CALM_READINGS < walks(fake) < 15
    assert len(there.changes) == 1
    fake.lists["tools"] = tools("late")
    await trio.sleep(60)
    assert names(there["a"]) == ["late"]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-P-12")
async def test_a_list_that_cannot_be_read_leaves_the_others_and_is_tried_again(nursery, autojump_clock):
    fake = FakeUpstream(prompts=[{"name": "p"}])
    fake.on["tools/list"] = lambda message, to: Failure(-32603, "broken")
    there = await house(nursery, fake)
    upstream = there["a"]
    assert (names(upstream), names(upstream, Kind.PROMPT)) == ([], ["p"])
    [problem] = upstream.status().degraded
    assert "broken" in problem
    del fake.on["tools/list"]
    await trio.sleep(RETRY_LIST_S + 1)
    assert names(upstream) == ["echo"]
    assert upstream.status().degraded == ()
    fake.on["tools/list"] = lambda message, to: None
    await fake.conversation.tell("notifications/tools/list_changed")
    await trio.sleep(16)
    assert names(upstream) == ["echo"]  # the last that was good
    assert upstream.status().degraded == ("tools could not be read in time",)


@pytest.mark.covers("K-7")
async def test_lists_are_not_read_again_only_because_their_time_is_over(nursery, autojump_clock):
    fake = FakeUpstream(version=MODERN)
    fake.ttl_ms = 1000
    there = await house(nursery, fake)
    await trio.sleep(3600)
    assert len(fake.conversation.of("tools/list")) == 1
    assert there["a"].ttl_ms(Kind.TOOL) == 0


# --- what else it hears and is told -----------------------------------------------------------------------------------


async def test_a_legacy_server_is_told_the_level_again_after_a_restart(nursery, autojump_clock):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    for level in ("info", "info", "debug", None):
        there["a"].set_log_level(level)
        await settle()
    levels = [message["params"]["level"] for message in fake.conversation.of("logging/setLevel")]
    assert levels == ["info", "debug"]
    there["a"].set_log_level("error")
    await fake.conversation.close()
    await trio.sleep(5)
    assert [message["params"]["level"] for message in fake.conversation.of("logging/setLevel")] == ["error"]


async def test_a_modern_server_is_told_no_level(nursery, autojump_clock):
    fake = FakeUpstream(version=MODERN)
    there = await house(nursery, fake)
    there["a"].set_log_level("debug")
    await settle()
    assert fake.conversation.of("logging/setLevel") == []


@pytest.mark.covers("F-P-14")
async def test_what_belongs_to_no_host_is_logged_but_does_not_flood_the_log(nursery, autojump_clock, caplog):
    fake = FakeUpstream()
    there = await house(nursery, fake)
    caplog.clear()
    for number in range(100):
        await fake.conversation.tell("notifications/message", {"level": "warning", "data": f"hello {number}"})
    await settle()
    said = [record for record in caplog.records if "hello" in record.getMessage()]
    assert 10 <= len(said) <= 40
    assert said[0].getMessage() == 'a: "hello 0"'
    del there


async def test_a_tool_may_have_a_time_of_its_own(nursery, autojump_clock):
    fake = FakeUpstream()
    fake.on["tools/call"] = lambda message, to: None
    config = UpstreamConfig(command="x", timeouts=Timeouts(call=100), tool_timeouts={"hang": 7})
    there = await house(nursery, fake, a=config)
    for operation, seconds in ((HANG, 7), (ECHO, 100)):
        began = trio.current_time()
        await attempt(there["a"], operation)
        assert trio.current_time() - began == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("config", "local"),
    [
        (UpstreamConfig(command="x"), True),
        (UpstreamConfig(url="http://localhost:1/"), True),
        (UpstreamConfig(url="http://127.0.0.1:1/"), True),
        (UpstreamConfig(url="http://[::1]:1/"), True),
        (UpstreamConfig(url="https://example.com/"), False),
        (UpstreamConfig(url="https://example.com/", locality="local"), True),
        (UpstreamConfig(command="x", locality="remote"), False),
    ],
)
def test_which_upstreams_share_our_files(config, local):
    assert is_local(config) is local
