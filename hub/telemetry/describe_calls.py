"""Figures: what people are told of operations, made of what `Recorder` counts. Pure; nothing is done until somebody
asks."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from math import ceil
from typing import Final

from config.loading.split_accounts import whole_name
from config.settings import UpstreamConfig
from hub.calls.chain import Intent
from hub.catalog.time_slices import Steps
from hub.catalog.token_cost import tokens_of
from hub.control.call_messages import CallRow, CallTotals, RunningRow
from hub.link.log_context import spell_ref
from hub.telemetry.call_costs import cost_of_one, price_of_key
from hub.telemetry.operation_record import NO_FAULTS, Ended
from hub.telemetry.record_call_contents import NO_CONTENT, CallContent
from hub.telemetry.recorder import Recorder
from hub.telemetry.tally import FEWEST, Tally

MAX_DURATIONS: Final = 2_048
"""Durations that are sorted at once."""
MAX_RUNNING: Final = 50
UNKNOWN: Final = UpstreamConfig()
MINUTE_S: Final = 60
OF_SECONDS: Final = 10
"""The seconds of a server are as much to look at as so many tallies."""

Configs = Mapping[str, UpstreamConfig]
"""Of all servers, by name: they have prices."""
Percentiles = tuple[float | None, float | None, float | None]
"""p50, p95 and p99, in seconds."""


def describe_call(ended: Ended, offset: float, configs: Configs, content: CallContent = NO_CONTENT) -> CallRow:
    """An operation that is over. `offset`: from times of the record to those of day."""
    return CallRow(
        ref=spell_ref(ended.ref),
        at=round(ended.at + offset, 3),
        took_s=round(ended.took_s, 6),
        method=ended.method,
        upstream=whole_name(ended.upstream, configs.get(ended.upstream, UNKNOWN)),
        name=ended.name,
        own=ended.own,
        host=ended.host,
        principal=ended.principal,
        outcome=ended.outcome,
        failed=ended.outcome not in NO_FAULTS,
        executed=ended.executed,
        sent=ended.sent,
        size=ended.size,
        tokens=tokens_of(ended.size),
        cached=ended.cached,
        transport=ended.transport,
        waited_s=_after(ended, ended.sent_at),
        first_answer_s=_after(ended, ended.answered_at),
        cost=cost_of_one(ended, configs).price,
        arguments=content.arguments,
        result=content.result,
    )


def _after(ended: Ended, at: float) -> float | None:
    """Seconds from the beginning of an operation to that time of it; None: it did not come so far."""
    return round(max(0.0, at - ended.at + ended.took_s), 6) if at else None


def describe_running(
    recorder: Recorder, now: float, wants: Callable[[RunningRow], bool] = lambda _: True
) -> tuple[RunningRow, ...]:
    """The oldest operations that are not over and wanted, at most `MAX_RUNNING`. `now` by the clock of records."""
    rows = (_describe_running(intent, now) for intent in recorder.running.values())
    return tuple(islice(filter(wants, rows), MAX_RUNNING))


def _describe_running(intent: Intent, now: float) -> RunningRow:
    return RunningRow(
        ref=spell_ref(intent.ref),
        host=intent.host.caller.identity.host,
        upstream=intent.target.upstream.whole_name,
        name=intent.target.exposed,
        method=intent.request.method,
        for_s=round(max(0.0, now - intent.began), 1),
    )


def sum_calls(recorder: Recorder, now: float, configs: Configs) -> Steps[CallTotals]:
    """The figures of all operations. `now` by the clock of records."""
    calls = failed = lately = rate = whole = failed_lately = 0
    cost, durations, tallies = 0.0, list[float](), list(recorder.tallies.items())
    for key, tally in tallies:
        calls += tally.count
        failed += count_failures(tally)
        cost += price_of_key(key, configs) * sum(use.charged for use in tally.hosts.values())
        durations += _latest(tally.last, len(tallies))
        yield 1
    for seconds in list(recorder.seconds.values()):
        numbers, _ = seconds.last(int(now))
        some, bad = seconds.lately(int(now))
        lately, rate = lately + sum(numbers), rate + sum(numbers[-MINUTE_S:])
        whole, failed_lately = whole + some, failed_lately + bad
        yield OF_SECONDS
    p50_s, p95_s, p99_s = _percentiles(durations)
    return CallTotals(
        calls=calls,
        failed=failed,
        lately=lately,
        rate=round(rate / MINUTE_S, 2),
        failed_ratio=failed_lately / whole if whole else None,
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        busy=len(recorder.running),
        cost=cost,
    )


def percentiles(tallies: Collection[Tally]) -> Percentiles:
    """The p50, p95 and p99 of the last durations of these together; of many tallies, of the latest of each."""
    return _percentiles([each for tally in tallies for each in _latest(tally.last, len(tallies))])


def find_slow(tallies: Collection[Tally], usual_s: float) -> float | None:
    """The p95 of the last durations of these together, if it is longer than usual; None: it is not."""
    durations = [each for tally in tallies for each in _latest(tally.last, len(tallies))]
    if sum(each > usual_s for each in durations) * 20 < len(durations):  # nothing is sorted for most
        return None
    _, p95_s, _ = _percentiles(durations)
    return p95_s if p95_s is not None and p95_s > usual_s else None


def _latest(durations: Collection[float], tallies: int) -> Iterable[float]:
    """The latest ones of one of so many tallies."""
    number = max(1, MAX_DURATIONS // max(1, tallies))
    return islice(durations, max(0, len(durations) - number), None)


def _percentiles(durations: list[float]) -> Percentiles:
    if len(durations) < FEWEST:
        return None, None, None
    durations.sort()
    p50_s, p95_s, p99_s = (durations[ceil(part * len(durations)) - 1] for part in (0.5, 0.95, 0.99))
    return p50_s, p95_s, p99_s


def count_failures(tally: Tally) -> int:
    """The operations of a tally that failed."""
    return sum(each.count for outcome, each in tally.outcomes.items() if outcome not in NO_FAULTS)
