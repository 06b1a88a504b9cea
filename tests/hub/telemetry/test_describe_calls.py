"""Figures that people are shown, made of what a recorder has counted."""

import pytest

from config.settings import UpstreamConfig
from hub.catalog.time_slices import finish
from hub.link.call_interface import Identity
from hub.link.log_context import spell_ref
from hub.telemetry.count_sent_messages import MessageCount
from hub.telemetry.describe_calls import MAX_DURATIONS, describe_call, percentiles, sum_calls
from hub.telemetry.operation_record import Ended
from hub.telemetry.recorder import Recorder
from hub.telemetry.tally import Seconds, Tally

KEY = "files", "tools/call", "write"
ANN = Identity("ann", "desk")
PRICED = {"files": UpstreamConfig(command="x", price=0.5)}


def count(recorder, key, durations, outcome="", second=100):
    """As the recorder would."""
    tally = recorder.tallies.setdefault(key, Tally(recorder.seconds.setdefault(key[0], Seconds())))
    recorder.seconds[key[0]].move(second)
    for took in durations:
        tally.last.append(took)
        (tally.outcomes.get(outcome) or tally.histogram(outcome)).observe(took)
        tally.use("desk").charged += not outcome
        recorder.seconds[key[0]].calls[second % 300] += 1
        recorder.seconds[key[0]].failed[second % 300] += bool(outcome)


def totals(recorder, now, configs):
    return finish(sum_calls(recorder, now, configs))


@pytest.mark.covers("SEE-1")
def test_a_record_is_shown_with_its_number_time_and_cost():
    ended = Ended((7 << 32) + 255, 50.0, 0.2, KEY, "files__write", ANN, "upstream_timeout", "unknown", 9, 12, "unix")
    row = describe_call(ended, 1_000.0, PRICED)
    assert (row.ref, row.at, row.failed, row.executed, row.tokens, row.cost) == (
        *("000000ff", 1_050.0, True, "unknown", 3, 0.5),
    )
    assert (row.upstream, row.own, row.host, row.principal) == ("files", "write", "desk", "ann")
    assert spell_ref(-1) == "ffffffff"


@pytest.mark.covers("SEE-2", "OM-3")
def test_totals_are_those_of_all_servers_and_forget_what_is_long_ago():
    recorder = Recorder(MessageCount())
    assert totals(recorder, 100.0, {}).p50_s is None
    count(recorder, KEY, [0.1] * 95 + [0.9] * 5)
    count(recorder, ("db", "tools/call", "ask"), [2.0], "tool_error", 150)
    found = totals(recorder, 155.5, PRICED)
    assert (found.calls, found.failed, found.lately, found.busy, found.cost) == (101, 1, 101, 0, 50.0)
    assert (found.p50_s, found.p95_s, found.p99_s) == (0.1, 0.9, 0.9)
    assert (found.rate, found.failed_ratio) == (round(101 / 60, 2), 1 / 101)
    assert totals(recorder, 165.0, {}).rate == round(1 / 60, 2)
    later = totals(recorder, 10_000.0, {})
    assert (later.calls, later.lately, later.failed_ratio, later.rate) == (101, 0, None, 0)


@pytest.mark.covers("OM-3")
def test_percentiles_are_exact_and_need_a_few_calls():
    def of(durations):
        tally = Tally(Seconds())
        tally.last.extend(durations)
        return percentiles([tally])

    assert of([0.1] * 4) == (None, None, None)
    assert of([each / 100 for each in range(100, 0, -1)]) == (0.5, 0.95, 0.99)
    assert of([1.0, 2.0, 3.0, 4.0, 5.0])[0] == 3.0


def test_what_was_cancelled_is_neither_a_failure_nor_a_success():
    recorder = Recorder(MessageCount())
    seconds = recorder.seconds["files"] = Seconds()
    seconds.move(100)
    seconds.calls[100], seconds.failed[100], seconds.cancelled[100] = 100, 2, 90
    assert totals(recorder, 100.0, {}).failed_ratio == 0.2
    seconds.calls[100], seconds.failed[100], seconds.cancelled[100] = 3, 0, 3
    assert totals(recorder, 100.0, {}).failed_ratio is None


def test_of_many_tools_the_latest_durations_count():
    tallies = [Tally(Seconds()) for _ in range(MAX_DURATIONS)]
    for tally in tallies:
        tally.last.extend([9.0] * 9 + [1.0])
    assert percentiles(tallies) == (1.0, 1.0, 1.0)
