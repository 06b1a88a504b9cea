"""Calls that outlive the request they came with, on the clock of the tests."""

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from trio.testing import MockClock, wait_all_tasks_blocked

import hub.bridge.parking.parking
from hub.bridge.parking.known_roots import ROOTS_VALID_S
from hub.bridge.parking.parking import COALESCE_S, DRAIN_S, MAX_PARKED_EACH, PARK, TOMBSTONE_S, ParkedCalls
from hub.bridge.sealed_request_state import EXPIRED, LOST, USED, BadState, RequestStates
from hub.link.call_interface import Exchange
from hub.link.hub_errors import DeadlineExceeded, Draining, UpstreamLost
from hub.link.peer import last_words
from hub.link.sealing import Sealer
from hub.wire.jsonrpc import Failure, RemoteProtocolError, Reply, Request, Result, encode_response, raw
from hub.wire.mcp import ELICIT, L4, LIST_ROOTS, MODERN, SAMPLE
from hub.wire.questions.askable_questions import Question
from tests.support.fakes import FakeHost
from tests.support.parking import ParkingStatistics, statistics_of
from tests.support.schemas import validate

CAPABLE = {"elicitation": {}, "sampling": {}, "roots": {}}
FORM = {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLING = {"maxTokens": 9, "messages": []}
YES: dict[str, Any] = {"action": "accept", "content": {"it": "a"}}
NO: dict[str, Any] = {"action": "decline"}
TTL_S, TOTAL_S = 900.0, 7200.0


def a_question(method: str = ELICIT, **more: Any) -> Question:
    params: dict[str, Any] = {**{ELICIT: FORM, SAMPLE: SAMPLING, LIST_ROOTS: {}}[method], **more}
    return Question(method, {name: raw(value) for name, value in params.items()}, "crm", L4)


def a_request() -> Request:
    return Request(1, "tools/call", {"name": raw("crm__merge"), "arguments": raw({"a": 7})})


def a_host(**more: Any) -> FakeHost:
    return FakeHost(**{"version": MODERN, "capabilities": CAPABLE, **more})


def lasting(**more: Any) -> FakeHost:
    """A host that is known to be the same whenever it comes back."""
    host = a_host(**more)
    host.caller = structs.replace(host.caller, lasting=True)
    return host


def plain(reply: Reply) -> Any:
    """A reply as the upstream, or a test, reads it."""
    return (reply.code, reply.message) if isinstance(reply, Failure) else json.loads(bytes(reply.value))


def done(value: object = "merged") -> Result:
    return Result(raw({"content": [{"type": "text", "text": json.dumps(value)}]}))


def text_of(reply: Reply | Exception | None) -> Any:
    """What the upstream put into its result."""
    assert isinstance(reply, Result), reply
    return json.loads(plain(reply)["content"][0]["text"])


class Attempt:
    """One request of a host, and what it ended with."""

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.scope = trio.CancelScope()
        self.outcome: Reply | Exception | None = None
        self.ended = trio.Event()

    async def run(self, answer: Any) -> None:
        try:
            with self.scope:
                self.outcome = await answer()
                self.host.send_held()
        except Exception as error:  # noqa: BLE001 for the test to look at
            self.outcome = error
        self.ended.set()

    async def wait(self) -> "Attempt":
        await self.ended.wait()
        return self

    @property
    def asks(self) -> dict[str, Any]:
        """The input requests it ended with."""
        return self.result["inputRequests"]

    @property
    def state(self) -> str:
        return self.result["requestState"]

    @property
    def result(self) -> dict[str, Any]:
        assert isinstance(self.outcome, Result), self.outcome
        validate(encode_response(1, self.outcome), MODERN, sender="server", method="tools/call")
        result = plain(self.outcome)
        assert result["resultType"] == "input_required"
        return result

    @property
    def reason(self) -> str:
        assert isinstance(self.outcome, BadState), self.outcome
        return self.outcome.reason


class Lot:
    """A parking, and hosts that use it. `states_expire` False: whatever the time, a request state is valid."""

    def __init__(self, nursery: trio.Nursery, *, states_expire: bool = True) -> None:
        self.nursery = nursery
        self.wrong_s = 0.0
        """By how much the time of day is."""
        self.states = Jammable(
            Sealer(b"k" * 32),
            wall=lambda: trio.current_time() + self.wrong_s if states_expire else 0.0,
            remembered=(PARK,) if states_expire else (),
        )
        self.parking = ParkedCalls(self.states, ttl_s=TTL_S, total_s=TOTAL_S)
        self.cancelled: list[float] = []
        """When an upstream was told that its call is cancelled."""

    def begin(self, work: Any, host: FakeHost | None = None) -> Attempt:
        """Let a host call."""
        attempt = Attempt(host or a_host())

        async def upstream(exchange: Exchange) -> Reply:
            try:
                return await work(exchange)
            except trio.Cancelled:
                self.cancelled.append(trio.current_time())
                raise

        async def answer() -> Reply:
            return await self.parking.begin(upstream, attempt.host, a_request(), "crm")

        self.nursery.start_soon(attempt.run, answer)
        return attempt

    def resume(self, state: str, answers: dict[str, Any] | None = None, host: FakeHost | None = None) -> Attempt:
        """Let a host come back."""
        attempt = Attempt(host or a_host())

        async def answer() -> Reply:
            opened = self.states.open(state, "me", a_request())
            return await self.parking.resume(opened, {k: raw(v) for k, v in (answers or {}).items()}, attempt.host)

        self.nursery.start_soon(attempt.run, answer)
        return attempt

    async def parked(self, work: Any, host: FakeHost | None = None) -> Attempt:
        """A call that has ended its request with a round."""
        return await self.begin(work, host).wait()

    def assert_at_rest(self) -> None:
        now = statistics_of(self.parking)
        assert (now.running, now.asked, now.parked) == (0, 0, 0)


class Jammable(RequestStates):
    """Seals nothing while it is jammed."""

    jammed = False

    def seal(self, *what: Any, **how: Any) -> str:
        if self.jammed:
            raise ValueError("jammed")
        return super().seal(*what, **how)


@asynccontextmanager
async def a_lot(**more: Any) -> AsyncIterator[Lot]:
    """At its end nothing is left but what may be remembered for a while."""
    async with trio.open_nursery() as nursery:
        lot = Lot(nursery, **more)
        await nursery.start(lot.parking.run)
        yield lot
        await wait_all_tasks_blocked()
        lot.assert_at_rest()
        tasks = nursery.child_tasks
        assert [inner.child_tasks for task in tasks for inner in task.child_nurseries] == [frozenset()]
        await trio.sleep(TOMBSTONE_S + 100)
        assert statistics_of(lot.parking) == ParkingStatistics(0, 0, 0, 0, 0)
        nursery.cancel_scope.cancel()


def asker(*methods: str, then: Any = None) -> Any:
    """Work that asks one question after the other and returns the answers it got."""

    async def work(exchange: Exchange) -> Reply:
        return done([plain(await exchange.ask(a_question(method))) for method in methods or (ELICIT,)])

    return work


async def never(exchange: Exchange) -> Reply:
    """Work that does not end."""
    await trio.sleep_forever()
    return done()


# --- nothing asked ----------------------------------------------------------------------------------------------------


async def test_a_call_that_asks_nothing_is_just_a_call(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        exchange.progress({"progress": raw(1)})
        exchange.log({"level": raw("info"), "data": raw("hm")})
        return done()

    async with a_lot() as lot:
        host = a_host(token="p1", level="debug")
        attempt = await lot.begin(work, host).wait()
        assert text_of(attempt.outcome) == "merged"
        assert [message["params"].get("progressToken") for message in host.sent] == ["p1", None]


@pytest.mark.parametrize("error", [DeadlineExceeded("too long"), RemoteProtocolError(-32602, "no"), KeyError("a bug")])
async def test_what_a_call_raises_is_raised_in_its_request(error, autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        raise error

    async with a_lot() as lot:
        attempt = await lot.begin(work).wait()
        assert (type(attempt.outcome), str(attempt.outcome)) == (type(error), str(error))


@pytest.mark.covers("P-10")
async def test_who_cancels_the_request_cancels_the_call(autojump_clock):
    async with a_lot() as lot:
        attempt = lot.begin(never)
        await trio.sleep(1)
        attempt.scope.cancel()
        await attempt.wait()
        assert attempt.outcome is None
        await wait_all_tasks_blocked()
        assert lot.cancelled == [1]


# --- one round --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-10", "R-1", "R-3", "R-4")
async def test_an_answer_goes_to_the_call_that_asked(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker())
        assert trio.current_time() == pytest.approx(COALESCE_S)
        assert first.asks["q1"]["method"] == ELICIT
        assert first.asks["q1"]["params"]["message"] == "[crm] Which?"
        assert (statistics_of(lot.parking).running, statistics_of(lot.parking).parked) == (1, 1)
        await trio.sleep(800)
        second = await lot.resume(first.state, {"q1": YES}).wait()
        assert text_of(second.outcome) == [YES]
        assert lot.cancelled == []


@pytest.mark.covers("R-10")
async def test_a_partial_answer_is_asked_for_the_rest(autojump_clock):
    got = []

    async def work(exchange: Exchange) -> Reply:
        async def ask(method: str) -> None:
            got.append((method, plain(await exchange.ask(a_question(method)))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ELICIT)
            nursery.start_soon(ask, LIST_ROOTS)
        return done()

    async with a_lot() as lot:
        first = await lot.parked(work)
        key = next(key for key, request in first.asks.items() if request["method"] == ELICIT)
        second = await lot.resume(first.state, {key: NO}).wait()
        await wait_all_tasks_blocked()
        assert got == [(ELICIT, NO)]
        (left,) = second.asks
        assert {key, left} == {"q1", "q2"}
        assert second.state != first.state
        third = await lot.resume(second.state, {left: {"roots": []}, key: YES}).wait()
        assert text_of(third.outcome) == "merged"
        assert got == [(ELICIT, NO), (LIST_ROOTS, {"roots": []})]


@pytest.mark.covers("R-8", "F-I-10", "F-H-15")
async def test_two_rounds_and_each_state_once(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker(ELICIT, SAMPLE))
        second = await lot.resume(first.state, {"q1": YES}).wait()
        assert second.asks.keys() == {"q2"}
        assert (await lot.resume(first.state, {"q1": NO}).wait()).reason == USED
        sampled = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}}
        third = await lot.resume(second.state, {"q2": sampled}).wait()
        assert text_of(third.outcome) == [YES, sampled]
        assert (await lot.resume(second.state, {"q2": sampled}).wait()).reason == USED


@pytest.mark.covers("R-8", "F-I-04")
async def test_of_two_retries_at_once_one_goes_on(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker())
        both = [lot.resume(first.state, {"q1": answer}) for answer in (YES, NO)]
        outcomes = [(await attempt.wait()).outcome for attempt in both]
        (good,) = [outcome for outcome in outcomes if isinstance(outcome, Result)]
        (bad,) = [outcome for outcome in outcomes if isinstance(outcome, BadState)]
        assert text_of(good) in ([YES], [NO])
        assert bad.reason == USED


@pytest.mark.covers("R-4")
async def test_questions_asked_side_by_side_are_shown_together(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        got = {}

        async def ask(delay: float) -> None:
            await trio.sleep(delay)
            got[delay] = plain(await exchange.ask(a_question()))["action"]

        async with trio.open_nursery() as nursery:
            for delay in (0, COALESCE_S / 2, 10):
                nursery.start_soon(ask, delay)
        return done([got[delay] for delay in sorted(got)])

    async with a_lot() as lot:
        first = await lot.parked(work)
        assert first.asks.keys() == {"q1", "q2"}
        await trio.sleep(20)  # the third waits for the next retry
        second = await lot.resume(first.state, {"q1": YES, "q2": NO}).wait()
        assert second.asks.keys() == {"q3"}
        third = await lot.resume(second.state, {"q3": YES}).wait()
        assert text_of(third.outcome) == ["accept", "decline", "accept"]


@pytest.mark.covers("F-I-11", "R-10")
async def test_a_malformed_answer_leaves_the_call_alone(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker())
        bad = await lot.resume(first.state, {"q1": {"action": "perhaps"}}).wait()
        assert isinstance(bad.outcome, RemoteProtocolError)
        assert bad.outcome.failure.code == -32602
        second = await lot.resume(first.state, {"q1": YES}).wait()
        assert text_of(second.outcome) == [YES]


@pytest.mark.covers("F-I-01", "R-5")
async def test_what_the_host_cannot_do_is_refused_and_the_call_goes_on(autojump_clock):
    async with a_lot() as lot:
        attempt = await lot.begin(asker(SAMPLE), a_host(capabilities={"elicitation": {}})).wait()
        ((code, _),) = text_of(attempt.outcome)
        assert code == -32601


@pytest.mark.covers("R-5")
async def test_the_capabilities_of_the_latest_attempt_count(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker(ELICIT, SAMPLE))
        second = await lot.resume(first.state, {"q1": YES}, a_host(capabilities={"elicitation": {}})).wait()
        got, (code, _) = text_of(second.outcome)
        assert (got, code) == (YES, -32601)


# --- the upstream does something meanwhile ----------------------------------------------------------------------------


@pytest.mark.covers("F-I-04", "F-I-06")
async def test_a_question_withdrawn_while_parked_needs_no_answer(autojump_clock):
    go_on = trio.Event()

    async def work(exchange: Exchange) -> Reply:
        with trio.move_on_after(60):
            await exchange.ask(a_question())
        await go_on.wait()
        return done()

    async with a_lot() as lot:
        first = await lot.parked(work)
        await trio.sleep(100)
        second = lot.resume(first.state, {"q1": YES})
        await wait_all_tasks_blocked()
        assert not second.ended.is_set()  # it is attached
        go_on.set()
        assert text_of((await second.wait()).outcome) == "merged"


async def test_a_question_withdrawn_at_once_was_never_asked(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        for _ in range(3):  # each within the window of the one before
            with trio.move_on_after(COALESCE_S / 2):
                await exchange.ask(a_question())
        with trio.move_on_after(0):
            await exchange.ask(a_question())
        await trio.sleep(10)
        return done([plain(await exchange.ask(a_question()))])

    async with a_lot() as lot:
        first = await lot.parked(work)
        assert first.asks.keys() == {"q5"}
        assert trio.current_time() > 10
        assert text_of((await lot.resume(first.state, {"q5": NO}).wait()).outcome) == [NO]


@pytest.mark.covers("F-I-10")
@pytest.mark.parametrize("ends", ["result", "error", "raises"])
async def test_a_call_that_ends_while_parked_has_its_outcome_kept(ends, autojump_clock):
    failure = Failure(-32000, "too slow")

    async def work(exchange: Exchange) -> Reply:
        with trio.move_on_after(60):
            await exchange.ask(a_question())
        if ends == "raises":
            raise DeadlineExceeded("too slow")
        return done() if ends == "result" else failure

    async with a_lot() as lot:
        first = await lot.parked(work)
        await trio.sleep(100)
        assert (statistics_of(lot.parking).running, statistics_of(lot.parking).parked) == (0, 1)
        second = await lot.resume(first.state, {"q1": {"action": "nonsense"}}).wait()
        if ends == "raises":
            assert isinstance(second.outcome, DeadlineExceeded)
        else:
            assert second.outcome == (done() if ends == "result" else failure)
        assert (await lot.resume(first.state).wait()).reason == USED


@pytest.mark.covers("F-I-07")
async def test_an_outcome_nobody_fetches_is_dropped(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        with trio.move_on_after(60):
            await exchange.ask(a_question())
        return done()

    async with a_lot() as lot:
        first = await lot.parked(work)
        await trio.sleep(TTL_S - 1)
        assert statistics_of(lot.parking).parked == 1
        await trio.sleep(1 + DRAIN_S)
        lot.assert_at_rest()
        assert (await lot.resume(first.state).wait()).reason == EXPIRED


async def test_a_call_that_ends_while_questions_are_collected_is_answered(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        with trio.move_on_after(COALESCE_S / 2):
            await exchange.ask(a_question())
        return done()

    async def impatient(exchange: Exchange) -> Reply:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exchange.ask, a_question())
            await trio.sleep(COALESCE_S / 2)
            nursery.cancel_scope.cancel()
        raise UpstreamLost("gone")

    async with a_lot() as lot:
        assert text_of((await lot.begin(work).wait()).outcome) == "merged"
        assert isinstance((await lot.begin(impatient).wait()).outcome, UpstreamLost)


@pytest.mark.covers("F-I-03")
async def test_a_question_of_a_call_that_is_over_is_not_left_hanging(autojump_clock):
    """Sessions withdraw them; if one did not, its task would wait for ever."""
    replies = []

    async def ask(exchange: Exchange) -> None:
        replies.append(plain(await exchange.ask(a_question())))
        replies.append(plain(await exchange.ask(a_question())))

    async with a_lot() as lot:

        async def work(exchange: Exchange) -> Reply:
            lot.nursery.start_soon(ask, exchange)
            await trio.sleep(60)
            return done()

        first = await lot.parked(work)
        await trio.sleep(60)
        assert [code for code, _ in replies] == [-32602, -32602]
        assert text_of((await lot.resume(first.state).wait()).outcome) == "merged"


@pytest.mark.covers("F-I-10")
async def test_an_upstream_that_is_lost_while_parked(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        with trio.move_on_after(60):
            await exchange.ask(a_question())
        raise UpstreamLost("gone", upstream="crm")

    async with a_lot() as lot:
        first = await lot.parked(work)
        await trio.sleep(100)
        lot.assert_at_rest()
        attempt = await lot.resume(first.state, {"q1": YES}).wait()
        assert attempt.reason == LOST
        assert json.loads(bytes(attempt.outcome.failure.data))["reason"] == "upstream_lost"


@pytest.mark.covers("P-2", "N-9")
async def test_progress_and_logs_of_a_parked_call_are_dropped(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        async def report() -> None:
            for number in range(1, 5):
                exchange.progress({"progress": raw(number)})
                exchange.log({"level": raw("error"), "data": raw(number)})
                await trio.sleep(10)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report)
            await exchange.ask(a_question())
            assert exchange.wants_progress
        return done()

    async with a_lot() as lot:
        one, two = a_host(token="p1", level="debug"), a_host(token="p2", level="debug")
        first = await lot.parked(work, one)
        await trio.sleep(15)
        second = await lot.resume(first.state, {}, two).wait()
        await trio.sleep(10)
        three = a_host(token="p3", level="debug")
        assert text_of((await lot.resume(second.state, {"q1": YES}, three).wait()).outcome) == "merged"
        assert [message["params"].get("progressToken") for message in one.sent] == ["p1", None]
        assert two.sent == []
        assert [message["params"].get("progress") for message in three.sent] == [4, None]


# --- nobody comes back ------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-07", "R-9")
async def test_nobody_answers(autojump_clock):
    got = []

    async def work(exchange: Exchange) -> Reply:
        async def ask(method: str) -> None:
            reply = plain(await exchange.ask(a_question(method)))
            got.append((trio.current_time(), method, reply))

        async with trio.open_nursery() as nursery:
            for method in (ELICIT, SAMPLE, LIST_ROOTS):
                nursery.start_soon(ask, method)
        await trio.sleep_forever()
        return done()

    async with a_lot() as lot:
        first = await lot.parked(work)
        over = trio.current_time() + TTL_S
        await trio.sleep(TTL_S + DRAIN_S + 1)
        assert {time for time, _, _ in got} == {over}
        replies = {method: reply for _, method, reply in got}
        assert replies[ELICIT] == {"action": "cancel"}
        assert (replies[SAMPLE][0], replies[LIST_ROOTS][0]) == (-1, -32603)
        assert lot.cancelled == [over + DRAIN_S]
        assert (await lot.resume(first.state, {"q1": YES}).wait()).reason == EXPIRED


async def test_an_upstream_that_ends_by_itself_is_not_cancelled(autojump_clock):
    late = []

    async def work(exchange: Exchange) -> Reply:
        reply = await exchange.ask(a_question())
        late.append(plain(await exchange.ask(a_question())))
        return done(plain(reply))

    async with a_lot() as lot:
        await lot.parked(work)
        await trio.sleep(TTL_S + DRAIN_S / 2)
        lot.assert_at_rest()
        assert lot.cancelled == []
        assert late[0][0] == -32602


async def test_what_fails_when_nobody_waits_is_told_to_the_log(autojump_clock, caplog):
    async def work(exchange: Exchange) -> Reply:
        await exchange.ask(a_question())
        raise KeyError("a bug")

    async with a_lot() as lot:
        await lot.parked(work)
        await trio.sleep(TTL_S + 1)
        assert "nobody waited" in caplog.text


@pytest.mark.covers("R-9")
async def test_partial_answers_move_the_deadline_until_the_time_for_all_is_over(autojump_clock):
    async with a_lot() as lot:
        attempt = await lot.parked(asker())
        begun = trio.current_time()
        for _ in range(8):
            await trio.sleep(TTL_S - 1)
            attempt = await lot.resume(attempt.state).wait()
            assert attempt.asks.keys() == {"q1"}
        await trio.sleep_until(begun + TOTAL_S + DRAIN_S)
        lot.assert_at_rest()
        assert (await lot.resume(attempt.state).wait()).reason == EXPIRED


@pytest.mark.covers("F-I-05")
async def test_a_host_that_is_gone_for_good_is_not_waited_for(autojump_clock):
    got = []

    async def work(exchange: Exchange) -> Reply:
        got.append(plain(await exchange.ask(a_question())))
        return done()

    async with a_lot() as lot:
        desk = a_host()
        desk.caller = structs.replace(desk.caller, lasting=True)
        await lot.parked(work, desk)
        other = await lot.parked(work)
        lot.parking.host_left(desk.caller.tenant)
        await wait_all_tasks_blocked()
        assert got == [{"action": "cancel"}]
        await lot.resume(other.state, {"q1": YES}).wait()
        assert got == [{"action": "cancel"}, YES]


@pytest.mark.covers("F-D-11", "F-I-10")
@pytest.mark.parametrize("jump_s", [TTL_S * 2, -86_400.0])
async def test_a_call_waits_as_long_as_it_should_whatever_the_time_of_day(autojump_clock, jump_s):
    async with a_lot() as lot:
        first, second = await lot.parked(asker()), await lot.parked(asker())
        lot.wrong_s = jump_s
        assert text_of((await lot.resume(first.state, {"q1": YES}).wait()).outcome) == [YES]
        await trio.sleep(TTL_S + 1)
        assert (await lot.resume(second.state, {"q1": YES}).wait()).reason == EXPIRED


@pytest.mark.covers("F-I-10")
async def test_an_old_state_of_another_life_of_the_hub_is_old(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker())
        async with a_lot() as reborn:
            await trio.sleep(TTL_S + 1)
            assert (await reborn.resume(first.state, {"q1": YES}).wait()).reason == EXPIRED


@pytest.mark.covers("F-I-10")
async def test_a_state_of_another_life_of_the_hub(autojump_clock):
    async with a_lot() as lot:
        first = await lot.parked(asker())
        async with a_lot() as reborn:
            assert (await reborn.resume(first.state, {"q1": YES}).wait()).reason == LOST
            reborn.assert_at_rest()


@pytest.mark.covers("F-H-15")
async def test_why_is_forgotten_after_a_while(autojump_clock):
    async with a_lot(states_expire=False) as lot:
        first = await lot.parked(asker())
        assert text_of((await lot.resume(first.state, {"q1": YES}).wait()).outcome) == [YES]
        await trio.sleep(TOMBSTONE_S - 1)
        assert (await lot.resume(first.state).wait()).reason == USED
        await trio.sleep(100)
        assert (await lot.resume(first.state).wait()).reason == LOST


# --- cancelling -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("P-10", "F-H-02")
async def test_cancelled_while_questions_are_collected(autojump_clock):
    async with a_lot() as lot:
        attempt = lot.begin(asker())
        await trio.sleep(COALESCE_S / 2)
        attempt.scope.cancel()
        await attempt.wait()
        await wait_all_tasks_blocked()
        assert lot.cancelled == [COALESCE_S / 2]


@pytest.mark.covers("P-10")
async def test_a_cancelled_request_ends_when_its_call_has(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        try:
            await trio.sleep_forever()
        finally:
            with last_words(3):
                await trio.sleep(1)  # telling the upstream
        return done()

    async with a_lot() as lot:
        attempt = lot.begin(work)
        await trio.sleep(1)
        attempt.scope.cancel()
        await attempt.wait()
        assert trio.current_time() == 2
        lot.assert_at_rest()


@pytest.mark.covers("P-10", "F-H-02", "R-8")
async def test_cancelled_after_a_retry(autojump_clock):
    async def work(exchange: Exchange) -> Reply:
        await exchange.ask(a_question())
        await trio.sleep_forever()
        return done()

    async with a_lot() as lot:
        first = await lot.parked(work)
        second = lot.resume(first.state, {"q1": YES})
        await trio.sleep(1)
        second.scope.cancel()
        await second.wait()
        await wait_all_tasks_blocked()
        assert len(lot.cancelled) == 1
        assert (await lot.resume(first.state).wait()).reason == USED


async def test_a_round_nobody_gets_to_see_ends_the_call(autojump_clock):
    async with a_lot() as lot:
        attempt = lot.begin(asker())
        with trio.CancelScope(deadline=COALESCE_S):  # as the window ends
            await trio.sleep_forever()
        attempt.scope.cancel()
        await attempt.wait()
        if attempt.outcome is None:
            await wait_all_tasks_blocked()
            assert len(lot.cancelled) == 1
        else:
            await lot.resume(attempt.state, {"q1": YES}).wait()


async def test_stopping(autojump_clock):
    async with trio.open_nursery() as nursery:
        lot = Lot(nursery)
        scope = trio.CancelScope()

        async def run(*, task_status: Any) -> None:
            with scope:
                await lot.parking.run(task_status=task_status)

        await nursery.start(run)
        parked = await lot.parked(asker())
        attached = lot.begin(asker(ELICIT, ELICIT))
        attached = await attached.wait()
        attached = lot.resume(attached.state, {"q1": YES})
        running = lot.begin(never)
        await wait_all_tasks_blocked()
        scope.cancel()
        hasty = lot.begin(asker())
        for attempt in (attached, running):
            assert isinstance((await attempt.wait()).outcome, Draining)
        assert isinstance((await hasty.wait()).outcome, (Draining, Result))  # depends on who is first
        assert isinstance((await lot.begin(asker()).wait()).outcome, Draining)
        assert len(lot.cancelled) == 3
        assert (await lot.resume(parked.state, {"q1": YES}).wait()).reason == LOST
        lot.assert_at_rest()


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-08")
async def test_a_principal_parks_only_so_many_calls(autojump_clock):
    async with a_lot() as lot:
        attempts = [await lot.parked(asker()) for _ in range(MAX_PARKED_EACH)]
        refused = await lot.begin(asker()).wait()
        assert text_of(refused.outcome)[0][0] == -32602
        other = await lot.parked(asker(), a_host(principal="you"))
        assert other.asks.keys() == {"q1"}
        await lot.resume(attempts[0].state, {"q1": YES}).wait()
        assert (await lot.parked(asker())).asks.keys() == {"q1"}
        await trio.sleep(TTL_S + 10)


@pytest.mark.covers("F-I-08")
async def test_all_together_park_only_so_many_calls(autojump_clock, monkeypatch):
    monkeypatch.setattr(hub.bridge.parking.parking, "MAX_PARKED", 3)
    monkeypatch.setattr(hub.bridge.parking.parking, "MAX_TOMBSTONES", 2)
    async with a_lot() as lot:
        attempts = [await lot.parked(asker(), a_host(principal=str(number))) for number in range(3)]
        refused = await lot.begin(asker()).wait()
        assert text_of(refused.outcome)[0][0] == -32602
        await trio.sleep(TTL_S + 10)
        assert statistics_of(lot.parking).tombstones == 2
        assert len(attempts) == 3


# --- roots ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-10")
async def test_roots_are_asked_for_once_in_a_while(autojump_clock):
    roots = {"roots": [{"uri": "file:///w"}]}
    async with a_lot() as lot:
        desk, other = lasting(conversation=1), lasting(conversation=1, host="other")
        first = await lot.parked(asker(LIST_ROOTS), desk)
        assert text_of((await lot.resume(first.state, {"q1": roots}, desk).wait()).outcome) == [roots]
        assert text_of((await lot.begin(asker(LIST_ROOTS), desk).wait()).outcome) == [roots]
        unable = lasting(conversation=1, capabilities={"elicitation": {}})
        assert text_of((await lot.begin(asker(LIST_ROOTS), unable).wait()).outcome)[0][0] == -32601
        theirs = await lot.parked(asker(LIST_ROOTS), other)
        assert text_of((await lot.resume(theirs.state, {"q1": {"roots": []}}, other).wait()).outcome) == [{"roots": []}]
        await trio.sleep(ROOTS_VALID_S)
        again = await lot.parked(asker(LIST_ROOTS), desk)
        await lot.resume(again.state, {"q1": roots}, desk).wait()


# --- whatever happens -------------------------------------------------------------------------------------------------


@pytest.mark.covers("I-12", "F-I-04", "R-8")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_every_question_is_settled_once(seed):
    trio.run(a_storm, random.Random(seed), clock=MockClock(autojump_threshold=0))


async def a_storm(chance: random.Random) -> None:
    """Calls that ask, withdraw, end and crash, and hosts that answer, cancel, repeat and stay away.

    Every question carries a name and every answer repeats it, so that one that went astray is seen.
    """
    names = count()
    unsettled: set[str] = set()

    async def one(exchange: Exchange) -> None:
        await trio.sleep(chance.choice([0, 0, 0.01, 1, 300]))
        name = f"n{next(names)}"
        unsettled.add(name)
        try:
            with trio.move_on_after(chance.choice([0.01, 400, 10_000])):
                reply = plain(await exchange.ask(a_question(message=name)))
                assert reply == {"action": "cancel"} or reply[0] == -32602 or reply["content"]["it"] == name
        finally:
            unsettled.remove(name)

    async def work(exchange: Exchange) -> Reply:
        for _ in range(chance.randint(0, 3)):
            async with trio.open_nursery() as nursery:
                for _ in range(chance.randint(1, 3)):
                    nursery.start_soon(one, exchange)
        if chance.random() < 0.2:
            raise UpstreamLost("gone")
        return done()

    async def host(lot: Lot) -> None:
        await trio.sleep(chance.uniform(0, 100))
        attempt = lot.begin(work)
        used: list[str] = []
        while True:
            with trio.move_on_after(chance.choice([0.01, 50, 50_000])):
                await attempt.wait()
            attempt.scope.cancel()
            await attempt.wait()
            if not isinstance(attempt.outcome, Result) or b"input_required" not in bytes(attempt.outcome.value):
                return
            state, asks = attempt.state, attempt.asks
            await trio.sleep(chance.choice([0, 1, 350, 899.99, 950]))
            if used and chance.random() < 0.3:
                assert (await lot.resume(chance.choice(used)).wait()).reason in (USED, EXPIRED, LOST)
            if chance.random() < 0.1:
                return
            answers = {
                key: {"action": "accept", "content": {"it": request["params"]["message"].removeprefix("[crm] ")}}
                for key, request in asks.items()
                if chance.random() < 0.7
            }
            used.append(state)
            attempt = lot.resume(state, answers)

    async with a_lot() as lot:
        async with trio.open_nursery() as hosts:
            for _ in range(4):
                hosts.start_soon(host, lot)
        await trio.sleep(TOTAL_S + 10_000)
        lot.assert_at_rest()
        assert not unsettled


@pytest.mark.covers("I-3")
async def test_a_fault_of_the_hub_costs_one_call(autojump_clock, caplog):
    async with a_lot() as lot:
        lot.states.jammed = True

        async def ask(exchange):
            await exchange.ask(a_question())
            return done()

        attempt = await lot.begin(ask).wait()
        assert "its log says why" in str(attempt.outcome)
        lot.states.jammed = False
        state = (await lot.begin(ask).wait()).state
        assert text_of((await lot.resume(state, {"q1": YES}).wait()).outcome) == "merged"
        assert "jammed" in caplog.text
