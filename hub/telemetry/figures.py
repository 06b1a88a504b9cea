"""Figures: what people are told of operations, made of what `Recorder` counts. Pure; nothing is done until somebody
asks."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from math import ceil
from typing import Final

from config.loading.accounts import whole_name
from config.settings import UpstreamConfig
from hub.calls.chain import Intent
from hub.catalog.token_cost import tokens_of
from hub.control.call_messages import CallRow, CallTotals, RunningRow
from hub.link.log_context import spell_ref
from hub.telemetry.contents import NO_CONTENT, CallContent
from hub.telemetry.costs import cost_of_one, sum_costs
from hub.telemetry.ended import NO_FAILURES, Ended
from hub.telemetry.recorder import Recorder
from hub.telemetry.tally import FEWEST, Tally

MAX_DURATIONS: Final = 2_048
"""Durations that are sorted at once."""
MAX_RUNNING: Final = 50
UNKNOWN: Final = UpstreamConfig()
MINUTE_S: Final = 60

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
        failed=ended.outcome not in NO_FAILURES,
        executed=ended.executed,
        sent=ended.sent,
        size=ended.size,
        tokens=tokens_of(ended.size),
        cached=ended.cached,
        transport=ended.transport,
        cost=cost_of_one(ended, configs).price,
        arguments=content.arguments,
        result=content.result,
    )


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


def sum_calls(recorder: Recorder, now: float, configs: Configs) -> CallTotals:
    """The figures of all operations. `now` by the clock of records."""
    tallies = recorder.tallies.values()
    seconds = [each.last(int(now)) for each in recorder.seconds.values()]
    lately = [each.lately(int(now)) for each in recorder.seconds.values()]
    whole = sum(number for number, _ in lately)
    p50_s, p95_s, p99_s = percentiles(tallies)
    return CallTotals(
        calls=sum(tally.count for tally in tallies),
        failed=sum(map(count_failures, tallies)),
        lately=sum(sum(calls) for calls, _ in seconds),
        rate=round(sum(sum(calls[-MINUTE_S:]) for calls, _ in seconds) / MINUTE_S, 2),
        failed_ratio=sum(failed for _, failed in lately) / whole if whole else None,
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        busy=len(recorder.running),
        cost=sum(each.price for each in sum_costs(recorder.tallies, configs).values()),
    )


def percentiles(tallies: Collection[Tally]) -> Percentiles:
    """The p50, p95 and p99 of the last durations of these together; of many tallies, of the latest of each."""
    each = max(1, MAX_DURATIONS // max(1, len(tallies)))
    durations = sorted(duration for tally in tallies for duration in _latest(tally.last, each))
    if len(durations) < FEWEST:
        return None, None, None
    p50_s, p95_s, p99_s = (durations[ceil(part * len(durations)) - 1] for part in (0.5, 0.95, 0.99))
    return p50_s, p95_s, p99_s


def _latest(durations: Collection[float], number: int) -> Iterable[float]:
    return islice(durations, max(0, len(durations) - number), None)


def count_failures(tally: Tally) -> int:
    """The operations of a tally that failed."""
    return sum(each.count for outcome, each in tally.outcomes.items() if outcome not in NO_FAILURES)
