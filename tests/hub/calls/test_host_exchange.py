"""The host's end of an operation: what it passes on, and what it keeps back."""

import json

import pytest
import trio
from msgspec import Raw

from hub.calls.host_exchange import PROGRESS_PER_S, HostExchange, ProgressUpkeep, wants_log
from hub.link.call_interface import Caller, Identity
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import INVALID_PARAMS, L4, METHOD_NOT_FOUND, Era
from hub.wire.questions.askable_questions import Question


def make_exchange(sent, token=None, level=None):
    caller = Caller(Identity("me", "test"), L4, {}, level)
    return HostExchange(caller, lambda message, **_: sent.append(json.loads(message)), progress_token=token)


def report(value, **more):
    return {"progress": raw(value), **{name: raw(each) for name, each in more.items()}}


@pytest.mark.covers("P-2", "G-2")
async def test_progress_goes_out_under_the_hosts_own_token(autojump_clock):
    sent = []
    exchange = make_exchange(sent, Raw(b'"abc"'))
    exchange.progress(report(1, total=3, message="half"))
    assert exchange.wants_progress
    assert sent == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "abc", "progress": 1, "total": 3, "message": "half"},
        }
    ]


@pytest.mark.covers("P-2")
async def test_progress_that_does_not_rise_is_dropped(autojump_clock):
    sent = []
    exchange = make_exchange(sent, Raw(b"7"))
    for value in (1, 1, 0.5, "x", 2):
        exchange.progress(report(value))
    assert [message["params"]["progress"] for message in sent] == [1, 2]
    exchange.progress({})
    assert len(sent) == 2


@pytest.mark.covers("P-3", "F-P-14")
async def test_of_frequent_progress_the_newest_wins_and_the_last_arrives(autojump_clock):
    sent = []
    exchange = make_exchange(sent, Raw(b"7"))
    for value in range(1, 101):
        exchange.progress(report(value))
    first = list(range(1, int(PROGRESS_PER_S) + 1))
    assert [message["params"]["progress"] for message in sent] == first
    await trio.sleep(1 / PROGRESS_PER_S)
    exchange.progress(report(101))
    exchange.progress(report(102))
    exchange.send_held()
    exchange.send_held()
    assert [message["params"]["progress"] for message in sent] == [*first, 101, 102]


@pytest.mark.covers("P-3")
async def test_what_is_held_goes_out_though_nothing_follows(autojump_clock):
    sent, cancelled = [], []
    exchange, gone = make_exchange(sent, Raw(b"7")), make_exchange(cancelled, Raw(b"8"))
    async with trio.open_nursery() as nursery:
        upkeep = ProgressUpkeep(0)
        nursery.start_soon(upkeep.send_held)
        upkeep.add(exchange)
        upkeep.add(gone)
        for value in range(1, 21):
            exchange.progress(report(value))
            gone.progress(report(value))
        gone.drop_held()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sent[-1]["params"]["progress"] == 20
    assert len(sent) == 11
    assert len(cancelled) == 10


async def test_without_a_token_there_is_no_progress(autojump_clock):
    sent = []
    exchange = make_exchange(sent)
    exchange.progress(report(1))
    assert not exchange.wants_progress
    assert sent == []


@pytest.mark.covers("N-9", "S-23")
@pytest.mark.parametrize(
    ("wanted", "level", "passes"),
    [
        (None, "error", False),
        ("warning", "error", True),
        ("warning", "warning", True),
        ("warning", "info", False),
        ("debug", "loud", False),
        ("loud", "error", False),
        ("debug", None, False),
    ],
)
async def test_logs_are_filtered_by_the_level_of_the_host(wanted, level, passes):
    sent = []
    params = {"data": raw("x")} if level is None else {"level": raw(level), "data": raw("x")}
    make_exchange(sent, level=wanted).log(params)
    assert wants_log(wanted, level) is passes
    assert len(sent) == passes


@pytest.mark.covers("C-23")
async def test_questions_are_refused_not_dropped():
    exchange = make_exchange([])
    reply = await exchange.ask(Question("sampling/createMessage", {}, "up", L4))
    assert isinstance(reply, Failure)
    assert reply.code == METHOD_NOT_FOUND
    assert exchange.caller.era is Era.LEGACY


class Asked:
    """A host that remembers what it was asked, and on which stream."""

    def __init__(self):
        self.seen = []

    async def ask(self, question, send):
        self.seen.append(question)
        send(b'{"id":"hub-1"}', vital=True)
        return Failure(-1, "no")

    def withdraw(self, send):
        send(b'{"id":"hub-2"}', vital=True)

    @property
    def session(self):
        return self

    def tell(self, subject, message):
        self.last_told = subject, message


@pytest.mark.covers("T-25", "T-27")
async def test_questions_go_to_the_host_on_the_stream_of_the_request():
    asked, sent = Asked(), []
    exchange = HostExchange(
        Caller(Identity("me", "test"), L4, {}), lambda message, **_: sent.append(message), host=asked
    )
    question = Question("sampling/createMessage", {}, "up", L4)
    assert await exchange.ask(question) == Failure(-1, "no")
    assert asked.seen == [question]
    exchange.close()
    assert sent == [b'{"id":"hub-1"}', b'{"id":"hub-2"}']
    assert (await exchange.ask(question)).code == INVALID_PARAMS  # its call has ended
    assert asked.seen == [question]
    roots = Question("roots/list", {}, "up", L4)
    assert await exchange.ask(roots) == Failure(-1, "no")  # they belong to no call
    assert asked.seen == [question, roots]
    assert asked.last_told[1] == b'{"id":"hub-1"}'
    assert len(sent) == 2


# --- silent upstreams -------------------------------------------------------------------------------------------------


@pytest.fixture
async def reminded(nursery):
    """Every 20 s, hosts are told that their requests are still running."""
    upkeep = ProgressUpkeep(20.0)
    nursery.start_soon(upkeep.report_running)
    yield upkeep
    nursery.cancel_scope.cancel()


@pytest.mark.covers("P-2")
async def test_a_host_hears_that_its_call_is_still_running(reminded, autojump_clock):
    sent = []
    exchange = make_exchange(sent, Raw(b"7"))
    reminded.add(exchange)
    await trio.sleep(50)
    assert [message["params"]["progressToken"] for message in sent] == [7, 7]
    assert "still running" in sent[0]["params"]["message"]
    exchange.progress(report(0.5))
    await trio.sleep(15)
    assert len(sent) == 3  # it was not silent for long enough
    exchange.progress(report(0.51))
    await trio.sleep(30)
    exchange.progress(report(0.52))
    values = [message["params"]["progress"] for message in sent]
    assert values == sorted(set(values))
    assert values[2:4] == [0.5, 0.51]
    assert 0.51 < values[4] < values[5] == 0.52
    reminded.remove(exchange)
    await trio.sleep(100)
    assert len(sent) == 6


@pytest.mark.covers("P-2")
@pytest.mark.parametrize("value", [-5, 10**15, 1e300])
async def test_what_the_hub_reports_always_rises(reminded, autojump_clock, value):
    sent = []
    exchange = make_exchange(sent, Raw(b"7"))
    reminded.add(exchange)
    exchange.progress(report(value))
    await trio.sleep(100)
    reminded.remove(exchange)
    values = [message["params"]["progress"] for message in sent]
    assert len(values) > 3
    assert values == sorted(set(values))
    assert values[-1] <= value + max(1, abs(value) * 1e-9)
