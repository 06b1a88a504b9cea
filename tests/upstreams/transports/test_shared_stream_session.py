"""Calls that share one stream: each gets its own answers, progress and time, and no one else's."""

import json

import pytest
import trio

from config.remembered_facts import Memory
from config.settings import Timeouts, UpstreamConfig
from hub.link.call_interface import Operation
from hub.link.hub_errors import (
    DeadlineExceeded,
    Executed,
    HubError,
    Overloaded,
    UpstreamLost,
    UpstreamProtocolError,
    UpstreamUnavailable,
)
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import L2, L4, MODERN, Kind
from tests.support.fakes import FakeHost, FakeUpstream
from upstreams.session_contract import COMMON, CallTimeouts
from upstreams.transports.shared_stream_session import MAX_IN_FLIGHT, SILENT_TIMEOUTS

TIMEOUTS = CallTimeouts(idle_s=10, total_s=60)


class Open:
    """A session with a fake, and what it said that belongs to no call."""

    def __init__(self, fake):
        self.fake = fake
        self.kinds = []
        self.logs = []
        self.over = 0
        self.said = []
        self.error = None
        self.session = fake.open(UpstreamConfig(command="x", timeouts=Timeouts(start=20)), "up", self, Memory(None))

    def forgotten(self): ...

    def hears(self, on): ...

    def changed(self, kinds):
        self.kinds.append(kinds)

    def log(self, params):
        self.logs.append({name: json.loads(bytes(value)) for name, value in params.items()})

    def note(self, text):
        self.notes = [*getattr(self, "notes", ()), text]

    def asked(self, method):
        self.said.append("asked")

    def sandboxed(self, facts): ...

    def admit(self, question, asked): ...

    def roots_withheld(self):
        self.said.append("roots withheld")

    def answered(self, method, reply): ...

    def unattributed(self, method):
        self.said.append(f"unattributed {method}")

    def elicited(self, id):
        self.said.append(f"elicited {id}")

    def ended(self):
        self.over += 1

    async def run(self, *, task_status):
        try:
            await self.session.run(lambda session: task_status.started())
        except HubError as error:
            self.error = error

    async def call(self, name, host=None, timeouts=TIMEOUTS):
        operation = Operation("tools/call", {"name": raw(name)})
        try:
            return await self.session.call(operation, host or FakeHost(), timeouts)
        except HubError as error:
            return error

    def start(self, nursery, name, host=None, timeouts=TIMEOUTS):
        """Call in a task; the outcome will be in the list."""
        outcome = []

        async def run():
            outcome.append(await self.call(name, host, timeouts))

        nursery.start_soon(run)
        return outcome


async def opened(nursery, *, version=L4):
    each = Open(FakeUpstream(version=version))
    each.fake.on["tools/call:hang"] = lambda message, to: None
    await nursery.start(each.run)
    return each


settle = trio.testing.wait_all_tasks_blocked


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_call_and_its_answer(nursery, autojump_clock, version):
    up = await opened(nursery, version=version)
    reply = await up.call("echo")
    assert isinstance(reply, Result)
    up.fake.on["tools/call:fail"] = lambda message, to: Failure(7, "no")
    assert await up.call("fail") == Failure(7, "no")
    assert (up.session.facts.version, up.session.running) == (version, {})
    assert isinstance(await up.session.request("tools/list", {}), Result)


@pytest.mark.covers("P-1", "P-2", "G-2", "I-2")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_progress_reaches_its_own_call_only(nursery, autojump_clock, version):
    up = await opened(nursery, version=version)
    hosts = [FakeHost(token="same", host=name) for name in ("one", "two")] + [FakeHost(host="three")]
    for host in hosts:
        up.start(nursery, "hang", host)
        await settle()
    asked = up.fake.conversation.of("tools/call")
    tokens = [message["params"].get("_meta", {}).get("progressToken") for message in asked]
    assert tokens == [asked[0]["id"], asked[1]["id"], None]
    for number, token in enumerate([*tokens, "same", 99]):
        await up.fake.conversation.tell("notifications/progress", {"progressToken": token, "progress": number + 1})
    await settle()
    assert [[message["params"] for message in host.sent] for host in hosts] == [
        [{"progressToken": "same", "progress": 1}],
        [{"progressToken": "same", "progress": 2}],
        [],
    ]
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-11", "F-P-04")
@pytest.mark.parametrize(("answer_at", "answered"), [(9.999, True), (10.001, False)])
async def test_a_call_ends_when_it_has_been_idle_too_long(nursery, autojump_clock, answer_at, answered):
    up = await opened(nursery)

    async def slow(message, to):
        await trio.sleep(answer_at)
        return {"content": []}

    up.fake.on["tools/call:slow"] = slow
    began = trio.current_time()
    reply = await up.call("slow")
    if answered:
        assert isinstance(reply, Result)
        return
    assert isinstance(reply, DeadlineExceeded)
    assert (reply.upstream, reply.executed) == ("up", Executed.UNKNOWN)
    assert trio.current_time() - began == pytest.approx(10)
    await settle()
    [cancelled] = up.fake.conversation.of("notifications/cancelled")
    assert cancelled["params"]["requestId"] == up.fake.conversation.of("tools/call")[0]["id"]
    await trio.sleep(1)
    assert up.session.peer.stray_answers == 1


@pytest.mark.covers("P-11", "F-P-05")
async def test_progress_keeps_a_call_alive_but_not_for_ever(nursery, autojump_clock):
    up = await opened(nursery)

    async def busy(message, to):
        for number in range(1, 100):
            await trio.sleep(5)
            token = message["params"]["_meta"]["progressToken"]
            await to.tell("notifications/progress", {"progressToken": token, "progress": number})

    up.fake.on["tools/call:busy"] = busy
    began = trio.current_time()
    assert isinstance(await up.call("busy", FakeHost(token=1)), DeadlineExceeded)
    assert trio.current_time() - began == pytest.approx(60)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-6", "P-7")
async def test_a_cancelled_call_is_withdrawn(nursery, autojump_clock):
    up = await opened(nursery)
    with trio.move_on_after(1):
        await up.call("hang")
    await settle()
    assert len(up.fake.conversation.of("notifications/cancelled")) == 1
    assert up.session.running == {}


@pytest.mark.covers("F-P-04")
async def test_an_upstream_that_lets_every_call_time_out_is_given_up(nursery, autojump_clock):
    up = await opened(nursery)
    for _ in range(SILENT_TIMEOUTS - 1):
        await up.call("hang")
    assert isinstance(await up.call("echo"), Result)
    for number in range(SILENT_TIMEOUTS):
        assert up.over == 0
        assert isinstance(await up.call("hang"), DeadlineExceeded), number
    await settle()
    assert isinstance(up.error, UpstreamProtocolError)
    assert "did not answer" in str(up.error)


@pytest.mark.covers("F-P-04", "I-3")
async def test_calls_that_time_out_together_count_once(nursery, autojump_clock):
    up = await opened(nursery)
    release = trio.Event()

    async def slow(message, to):
        await release.wait()
        return {"content": []}

    up.fake.on["tools/call:slow"] = slow
    for _ in range(SILENT_TIMEOUTS):
        up.start(nursery, "hang")
    await trio.sleep(9)
    patient = up.start(nursery, "slow")
    await trio.sleep(2)
    assert up.over == 0
    release.set()
    await settle()
    assert isinstance(patient[0], Result)


@pytest.mark.covers("F-P-04")
async def test_a_call_that_times_out_while_others_are_answered_says_nothing_of_the_upstream(nursery, autojump_clock):
    up = await opened(nursery)
    for _ in range(SILENT_TIMEOUTS + 1):
        timeouts = up.start(nursery, "hang")
        await trio.sleep(5)
        assert isinstance(await up.call("echo"), Result)
        await trio.sleep(5.5)
        assert isinstance(timeouts[0], DeadlineExceeded)
    for _ in range(SILENT_TIMEOUTS - 1):
        await up.call("hang")
    assert up.over == 0


# --- begun without waiting --------------------------------------------------------------------------------------------


def begin(up, name, outcomes, timeouts=TIMEOUTS):
    return up.session.begin(Operation("tools/call", {"name": raw(name)}), FakeHost(), timeouts, outcomes.append)


async def test_what_was_begun_tells_its_outcome_later(nursery, autojump_clock):
    up = await opened(nursery)
    up.fake.on["tools/call:fail"] = lambda message, to: Failure(7, "no")
    outcomes = []
    begin(up, "echo", outcomes)
    assert len(up.session.running) == 1
    assert outcomes == [], "not before `begin` returned"
    await settle()
    begin(up, "fail", outcomes)
    await settle()
    assert isinstance(outcomes[0], Result)
    assert outcomes[1:] == [Failure(7, "no")]
    assert up.session.running == {}


@pytest.mark.covers("P-6", "P-7")
async def test_what_was_begun_and_cancelled_is_withdrawn_and_tells_nothing(nursery, autojump_clock):
    up = await opened(nursery)
    outcomes = []
    running = begin(up, "hang", outcomes)
    await settle()
    running.cancel()
    running.cancel()
    assert up.session.running == {}
    await settle()
    [asked] = up.fake.conversation.of("tools/call")
    [cancelled] = up.fake.conversation.of("notifications/cancelled")
    assert cancelled["params"] == {"requestId": asked["id"]}
    await up.fake.conversation.say({"id": asked["id"], "result": {"content": []}})
    await settle()
    assert (outcomes, up.session.peer.stray_answers) == ([], 1)


@pytest.mark.covers("P-11", "F-P-04")
async def test_what_was_begun_ends_in_time(nursery, autojump_clock):
    up = await opened(nursery)
    outcomes = []
    begin(up, "hang", outcomes)
    begin(up, "hang", outcomes, CallTimeouts(idle_s=2, total_s=60))
    await trio.sleep(3)
    assert [type(each) for each in outcomes] == [DeadlineExceeded]
    await trio.sleep(8)
    assert [type(each) for each in outcomes] == [DeadlineExceeded] * 2
    assert len(up.fake.conversation.of("notifications/cancelled")) == 2


@pytest.mark.covers("F-P-02")
async def test_what_was_begun_ends_with_the_upstream(nursery, autojump_clock, caplog):
    up = await opened(nursery)
    outcomes = []

    def fail(outcome):
        outcomes.append(outcome)
        raise ValueError

    up.session.begin(Operation("tools/call", {"name": raw("hang")}), FakeHost(), TIMEOUTS, fail)
    begin(up, "hang", outcomes)
    cancelled = begin(up, "hang", outcomes)
    await settle()
    cancelled.cancel()
    await up.fake.conversation.close()
    await settle()
    assert [type(outcome) for outcome in outcomes] == [UpstreamLost] * 2
    assert caplog.text.count("could not be passed on") == 1
    with pytest.raises(UpstreamUnavailable):
        begin(up, "echo", outcomes)
    assert (len(outcomes), up.session.running) == (2, {})


# --- nothing happens --------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-28")
@pytest.mark.parametrize(("version", "pings"), [(L4, 1), (MODERN, 0)])
async def test_a_legacy_upstream_is_pinged_when_nothing_was_heard_of_it(nursery, autojump_clock, version, pings):
    up = await opened(nursery, version=version)
    await trio.sleep(COMMON.ping_s / 2)
    await up.call("echo")
    await trio.sleep(COMMON.ping_s)
    assert up.fake.conversation.of("ping") == []
    await trio.sleep(COMMON.ping_s / 2 + 1)
    assert len(up.fake.conversation.of("ping")) == pings
    assert up.fake.complaints == []


@pytest.mark.covers("F-P-28")
async def test_one_that_answers_no_ping_is_left_alone(nursery, autojump_clock, caplog):
    up = await opened(nursery)
    up.fake.on["ping"] = lambda message, to: None
    await trio.sleep(10 * COMMON.ping_s)
    assert len(up.fake.conversation.of("ping")) > SILENT_TIMEOUTS
    assert caplog.text.count("up does not answer a ping; its session is kept") == 1
    assert isinstance(await up.call("echo"), Result)
    assert up.over == 0


# --- the stream ends --------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-P-02", "T-5")
async def test_when_the_upstream_ends_its_calls_fail_at_once(nursery, autojump_clock):
    up = await opened(nursery)
    outcomes = [up.start(nursery, "hang") for _ in range(3)]
    await settle()
    began = trio.current_time()
    await up.fake.conversation.close()
    await settle()
    assert trio.current_time() == began
    assert [type(outcome[0]) for outcome in outcomes] == [UpstreamLost] * 3
    assert outcomes[0][0].executed is Executed.UNKNOWN
    assert up.over == 1
    late = await up.call("echo")
    assert isinstance(late, UpstreamUnavailable)
    assert late.executed is Executed.NO
    with pytest.raises(UpstreamUnavailable):
        await up.session.request("ping", {})


@pytest.mark.covers("F-P-02", "F-P-08")
async def test_an_answer_counts_from_its_last_byte(nursery, autojump_clock):
    answer = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}\n'
    for cut in (0, 1, 30, len(answer) - 2, len(answer) - 1, len(answer)):
        up = await opened(nursery)

        async def die(message, to, cut=cut):
            await to.write((answer % message["id"])[:cut])
            await to.close()

        up.fake.on["tools/call:die"] = die
        reply = await up.call("die")
        whole = cut >= len(answer % up.fake.conversation.of("tools/call")[0]["id"])
        assert isinstance(reply, Result if whole else UpstreamLost), cut


@pytest.mark.covers("F-P-07", "F-P-09")
async def test_calls_of_an_upstream_that_breaks_the_protocol_say_so(nursery, autojump_clock):
    up = await opened(nursery)
    outcome = up.start(nursery, "hang")
    await settle()
    await up.fake.conversation.write(b"nonsense\n" * 1000)
    await settle()
    assert isinstance(outcome[0], UpstreamProtocolError)
    assert "1000 lines" in str(up.error)


@pytest.mark.covers("F-P-10", "F-P-12")
async def test_a_malformed_answer_fails_its_call_only(nursery, autojump_clock):
    up = await opened(nursery)

    async def both(message, to):
        await to.say({"id": message["id"], "result": {}, "error": {"code": 1, "message": ""}})

    up.fake.on["tools/call:both"] = both
    other = up.start(nursery, "hang")
    assert isinstance(await up.call("both"), UpstreamProtocolError)
    assert not other
    assert isinstance(await up.call("echo"), Result)
    nursery.cancel_scope.cancel()


@pytest.mark.covers("F-P-06")
async def test_so_many_calls_and_no_more(nursery, autojump_clock):
    up = await opened(nursery)
    for _ in range(MAX_IN_FLIGHT):
        up.start(nursery, "hang")
    await settle()
    reply = await up.call("echo")
    assert isinstance(reply, Overloaded)
    assert reply.executed is Executed.NO
    nursery.cancel_scope.cancel()


# --- what belongs to no call ------------------------------------------------------------------------------------------


async def say(up, text, **more):
    await up.fake.conversation.tell("notifications/message", {"level": "error", "data": text, **more})
    await settle()


def logged(host):
    return [message["params"] for message in host.sent if message["method"] == "notifications/message"]


@pytest.mark.covers("I-2", "S-24")
async def test_a_log_goes_to_a_host_only_if_it_cannot_be_anothers(nursery, autojump_clock):
    up = await opened(nursery)
    await say(up, "nobody", logger="db")
    assert up.logs == [{"level": "error", "data": "nobody", "logger": "up/db"}]
    one, same, other = (FakeHost(level="debug", conversation=number) for number in (1, 1, 2))
    assert one.caller.identity == other.caller.identity
    up.start(nursery, "hang", one)
    await settle()
    await say(up, "one's")
    assert logged(one) == [{"level": "error", "data": "one's", "logger": "up"}]
    up.start(nursery, "hang", same)
    await settle()
    await say(up, "the newest's")
    assert [entry["data"] for entry in logged(same)] == ["the newest's"]
    up.start(nursery, "hang", other)
    await settle()
    await say(up, "whose?")
    assert logged(other) == []
    assert (len(logged(one)), len(logged(same)), len(up.logs)) == (1, 1, 2)
    nursery.cancel_scope.cancel()


async def test_a_log_restarts_the_idle_time_of_its_call(nursery, autojump_clock):
    up = await opened(nursery)
    began = trio.current_time()
    outcome = up.start(nursery, "hang")
    await trio.sleep(9)
    await say(up, "still here")
    await trio.sleep(9)
    assert not outcome
    await trio.sleep(2)
    assert isinstance(outcome[0], DeadlineExceeded)
    assert trio.current_time() - began == pytest.approx(20)


@pytest.mark.covers("F-P-13")
async def test_changes_are_passed_on_and_the_unknown_is_dropped(nursery, autojump_clock):
    up = await opened(nursery)
    for method in ("notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/odd"):
        await up.fake.conversation.tell(method)
    await settle()
    assert up.kinds == [(Kind.TOOL,), (Kind.RESOURCE, Kind.TEMPLATE)]


@pytest.mark.covers("F-P-13", "T-3")
@pytest.mark.parametrize(("version", "answers"), [(L2, 3), (L4, 3), (MODERN, 0)])
async def test_questions_are_refused_in_legacy_and_ignored_in_modern(nursery, autojump_clock, version, answers):
    up = await opened(nursery, version=version)
    got = {}

    async def ask(method):
        got[method] = await up.fake.conversation.ask(method)

    for method in ("ping", "sampling/createMessage", "nonsense/ask"):
        nursery.start_soon(ask, method)
    await settle()
    assert len(got) == answers
    if answers:
        assert got["ping"]["result"] == {}
        assert got["sampling/createMessage"]["error"]["code"] == -32601
        assert got["nonsense/ask"]["error"]["code"] == -32601
    assert up.fake.complaints == []
    nursery.cancel_scope.cancel()
