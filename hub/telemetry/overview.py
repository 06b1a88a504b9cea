"""Overview: how everything does at a glance, made of a status and of what `Recorder` has counted. Pure.

counted = Counted(recorder, configs, now)
finish(counted.gather())                 or in slices
row_of_server(status_row, counted)       one server
make_overview(status, rows, counted)     everything
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import add
from typing import Final

from msgspec import structs

from config.loading.split_accounts import whole_name
from hub.catalog.time_slices import Steps
from hub.control.answers import HostRow, Status, UpstreamRow
from hub.control.call_messages import CallTotals
from hub.control.overview_messages import (
    AttachedRow,
    CostRow,
    LastError,
    LimitRow,
    Overview,
    ReloadRow,
    SecondsRow,
    ServerRow,
    Totals,
)
from hub.link.call_interface import OWNER
from hub.link.log_context import spell_ref
from hub.telemetry import alert_rules
from hub.telemetry.call_costs import Cost, sum_costs
from hub.telemetry.describe_calls import (
    MINUTE_S,
    OF_SECONDS,
    UNKNOWN,
    Configs,
    Percentiles,
    count_failures,
    describe_running,
    find_slow,
    percentiles,
)
from hub.telemetry.operation_record import NO_FAULTS
from hub.telemetry.recorder import Recorder
from hub.telemetry.tally import SECONDS, Tally
from upstreams.journal.error_line import sum_error_up
from upstreams.lifecycle import State

SPARK_S: Final = 5
FEW: Final = 5
"""Operations below which a part of them that failed says little."""
WORDS: Final = {State.UNAUTHORIZED.value: "sign-in needed"}
"""States as people are told them, where that is another word."""
_HEALTH: Final = {
    State.CONNECTED.value: "good",
    State.CONNECTING.value: "busy",
    State.IDLE.value: "off",
    State.DISABLED.value: "off",
    State.UNAUTHORIZED.value: "warning",
}

Known = dict[str, tuple[int, Percentiles]]
"""By server, the number of its calls and their percentiles."""


class Counted:
    """What a recorder has counted, by server and host, at one moment. `now` by the clock of records. `gather` first."""

    def __init__(self, recorder: Recorder, configs: Configs, now: float, known: Known | None = None) -> None:
        """`known`: filled and read, so that who looks again does not sort what has not changed."""
        self._known = {} if known is None else known
        self.recorder = recorder
        self.configs = configs
        self.now = now
        self.tallies: defaultdict[str, list[Tally]] = defaultdict(list)
        """By server."""
        self.calls: Counter[str] = Counter()
        """Operations that were carried out, by the label of their host."""
        self.costs: dict[tuple[str, str], Cost] = {}
        """By the label of the host and the server."""
        self.prices: defaultdict[tuple[str, str], float] = defaultdict(float)
        """The same together of a `server`, or of a `host` by its label."""
        self.by_second = [0] * SECONDS, [0] * SECONDS
        """Operations and failures of all servers in the last seconds."""
        self.failures = {each.upstream: each for each in recorder.ring if each.outcome not in NO_FAULTS}
        """The last failure of each server."""
        self.busy = Counter(intent.target.upstream.name for intent in recorder.running.values())

    def gather(self) -> Steps[None]:
        """Sum up what is counted by tool."""
        for (upstream, _, _), tally in list(self.recorder.tallies.items()):
            self.tallies[upstream].append(tally)
            for host, use in tally.hosts.items():
                self.calls[host] += use.charged
            yield max(1, len(tally.hosts))
        self.costs = yield from sum_costs(self.recorder.tallies, self.configs)
        for (host, server), cost in self.costs.items():
            self.prices["server", server] += cost.price
            self.prices["host", host] += cost.price
        for seconds in list(self.recorder.seconds.values()):
            for sums, numbers in zip(self.by_second, seconds.last(int(self.now)), strict=True):
                sums[:] = map(add, sums, numbers)
            yield OF_SECONDS

    def percentiles(self, name: str, calls: int) -> Percentiles:
        """Those of a server that has had so many calls."""
        if name not in self._known or self._known[name][0] != calls:
            self._known[name] = calls, percentiles(self.tallies.get(name, []))
        return self._known[name][1]

    def last_error(self, name: str) -> LastError | None:
        """The last failure of a server; None: none is known."""
        if (ended := self.failures.get(name)) is None:
            return None
        ago_s = round(max(0.0, self.now - ended.at), 1)
        return LastError(error_type=ended.outcome, name=ended.name, ref=spell_ref(ended.ref), ago_s=ago_s)


def row_of_server(status: UpstreamRow, counted: Counted) -> ServerRow:
    """A server with the figures of its operations."""
    tallies, seconds = counted.tallies.get(status.name, []), counted.recorder.seconds.get(status.name)
    calls = [0] * SECONDS if seconds is None else seconds.last(int(counted.now))[0]
    number = sum(tally.count for tally in tallies)
    whole, failed = (0, 0) if seconds is None else seconds.lately(int(counted.now))
    p50_s, p95_s, p99_s = counted.percentiles(status.name, number)
    row = ServerRow(
        name=status.name,
        label=status.label,
        state=status.state,
        word="installing" if status.installing else WORDS.get(status.state, status.state),
        tools=None if status.counts is None else status.counts.tools,
        tokens=status.tokens,
        calls=number,
        failed=sum(map(count_failures, tallies)),
        lately=sum(calls),
        failed_ratio=failed / whole if whole else None,
        rate=round(sum(calls[-MINUTE_S:]) / MINUTE_S, 2),
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        slow=bool(status.slow),
        busy=counted.busy[status.name],
        waiting=0 if status.limits is None else status.limits.waiting,
        last_error=counted.last_error(status.name),
        since_s=status.since_s,
        era=status.era,
        version=status.version,
        transport=status.transport,
        mode=status.mode,
        pid=status.pid,
        cost=counted.prices["server", status.name],
        changed=status.changed,
        spark=draw(calls, int(counted.now)),
    )
    health, why = _judge(status)
    return structs.replace(row, health=health, why=why)


def draw(seconds: Sequence[int], now: int) -> tuple[int, ...]:
    """Operations by second, in steps of `SPARK_S`; the last one is not over, so that the others stay as they are."""
    to_come = SPARK_S - 1 - now % SPARK_S
    padded = [*seconds[to_come:], *[0] * to_come]
    return tuple(sum(padded[at : at + SPARK_S]) for at in range(0, len(padded), SPARK_S))


def _judge(status: UpstreamRow) -> tuple[str, str | None]:
    """The health of a server, and why it is not well."""
    health = _HEALTH.get(status.state, "bad")
    if health == "bad" or status.crash_loop:
        return "bad", sum_error_up(status.last_error) if status.last_error else None
    if health == "warning":
        command = "" if status.account is None else status.account.command
        return health, f"sign in: {command}" if command else sum_error_up(status.last_error or "") or None
    if health == "good":
        reasons = [*(status.degraded or ()), *status.pins]
        if status.silent_s is not None:
            reasons.insert(0, f"not answering pings for {status.silent_s:.0f} s")
        if status.stale_config:
            reasons.append(f"still runs with its old settings: {sum_error_up(status.stale_config)}")
        if status.slow:
            reasons.append(f"slow: {status.slow}")
        reasons += filter(None, [status.failing])
        return ("warning", reasons[0]) if reasons else ("good", None)
    return health, None


def judge_calls(recorder: Recorder, rows: Iterable[UpstreamRow], now: float) -> Steps[list[UpstreamRow]]:
    """The rows of servers, with the reasons why those count as slow, or as failing, that were called within the last
    minutes. `now` by the clock of records."""
    tallies, found = defaultdict[str, list[Tally]](list), list[UpstreamRow]()
    for (upstream, _, _), tally in list(recorder.tallies.items()):
        tallies[upstream].append(tally)
        yield 1
    for row in rows:
        seconds, slow, failing = recorder.seconds.get(row.name), "", ""
        whole, failed = (0, 0) if seconds is None else seconds.lately(int(now))
        if whole:
            usual_s = alert_rules.slow_from_s(is_local=row.transport == "stdio")
            if (p95_s := find_slow(tallies[row.name], usual_s)) is not None:
                slow = f"one call in twenty takes {_spell(p95_s)} or more; usual is below {_spell(usual_s)}"
            if whole >= FEW and failed / whole > alert_rules.TOOL_ERRORS:
                failing = f"{100 * failed / whole:.0f} % of its calls fail"
        found.append(structs.replace(row, slow=slow, failing=failing) if slow or failing else row)
        yield OF_SECONDS
    return found


def _spell(seconds: float) -> str:
    """A duration for people, coarse, so that a sentence does not change all the time."""
    return f"{seconds:.2g} s" if seconds >= 1 else f"{float(f'{1000 * seconds:.2g}'):.0f} ms"


def make_overview(
    status: Status,
    servers: Iterable[ServerRow],
    counted: Counted,
    offset: float,
    principal: str = OWNER,
    inbox: int = 0,
) -> Overview:
    """Everything at a glance. `offset`: from times of records to those of day; `principal`: whoever looks; `inbox`: the
    number of what waits for a person."""
    now, (calls, failed) = counted.now, counted.by_second
    return Overview(
        version=status.version,
        principal=principal,
        at=round(now + offset, 3),
        uptime_s=status.uptime_s,
        settled=status.settled,
        url=status.listen.url if status.listen else "",
        totals=Totals(**structs.asdict(status.calls or CallTotals()), tools=status.all_tools, tokens=status.all_tokens),
        seconds=SecondsRow(end=int(now) + offset, calls=tuple(calls), failed=tuple(failed)),
        limits=LimitRow(
            failed_ratio=alert_rules.TOOL_ERRORS,
            start_failed_ratio=alert_rules.START_FAILURES,
            session_s=alert_rules.SESSION_S,
            p95_remote_s=alert_rules.P95_REMOTE_S,
            p95_local_s=alert_rules.P95_LOCAL_S,
        ),
        servers=tuple(servers),
        hosts=tuple(_host(each, counted) for each in status.hosts),
        running=describe_running(counted.recorder, now),
        warnings=(*status.config.warnings, *status.idle_rules, *status.warnings),
        loop_longest_s=status.loop.longest_s if status.loop else 0.0,
        projects=status.projects,
        inbox=inbox,
        questions=sum(host.asked for host in status.hosts),
        costs=tuple(sorted(_costs(counted), key=lambda row: (-row.cost, -row.tokens, row.host, row.server))),
        reload=ReloadRow(loaded_at=status.config.loaded_at, problem=status.config.problem),
    )


def _costs(counted: Counted) -> Iterator[CostRow]:
    for (host, server), cost in counted.costs.items():
        server = whole_name(server, counted.configs.get(server, UNKNOWN))
        yield CostRow(host=host, server=server, calls=cost.charged, tokens=cost.tokens, cost=cost.price)


def _host(host: HostRow, counted: Counted) -> AttachedRow:
    return AttachedRow(**structs.asdict(host), calls=counted.calls[host.label], cost=counted.prices["host", host.label])
