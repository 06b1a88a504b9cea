"""Samples of calls through several targets in turns, and what follows from them.

In each round every target has its turn, the order rotating, and ratios are formed within a round: the machine may be
quicker in one minute than in the next. Of both, figures and ratios, the median over all rounds counts.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from tests.bench.callers import Echo, Load, Session, drive
from tests.bench.responses import CallFailed
from tests.bench.scene import Direct, RunningGateway

Target = Direct | RunningGateway


class Case(NamedTuple):
    """So many callers, each with one call in flight; a reply is as large as its request unless `reply_size` is more."""

    title: str
    callers: int
    size: int
    reply_size: int = 0


ONE: Final = Case("1 KB, 1 caller", 1, 1024)
SIXTEEN: Final = Case("1 KB, 16 callers", 16, 1024)
MANY: Final = Case("1 KB, 64 callers", 64, 1024)
CASES: Final = (
    ONE,
    SIXTEEN,
    MANY,
    Case("100 KB both ways, 1 caller", 1, 100_000),
    Case("1 MB both ways, 1 caller", 1, 1_000_000),
    Case("1 KB there, 1 MB back, 1 caller", 1, 1024, 1_000_000),
)


class Sample(NamedTuple):
    """The calls of one turn that succeeded: CPU of the gateway per call, latency, calls per second."""

    cpu_us: float
    p50_us: float
    rate: float


class Samples(NamedTuple):
    """Of one target: its samples by round, where it has them; failures; its memory while all sessions were open."""

    by_round: dict[int, Sample]
    failures: int
    memory_mb: float

    def middle(self, figure: Callable[[Sample], float]) -> float:
        """The median of a figure."""
        return median(map(figure, self.by_round.values()))

    def ratio(self, other: "Samples", figure: Callable[[Sample], float]) -> float | None:
        """The median of the ratios of a figure, this one's over the other's, within rounds."""
        rounds = self.by_round.keys() & other.by_round.keys()
        return median(figure(self.by_round[each]) / figure(other.by_round[each]) for each in rounds) if rounds else None


def measure(targets: Sequence[Target], case: Case, rounds: int, seconds: float) -> dict[str, Samples]:
    """Samples of each target, by its name; the sessions stay open from the first round to the last."""
    sessions = {target.name: open_sessions(target, case.callers) for target in targets}
    found: dict[str, dict[int, Sample]] = {target.name: {} for target in targets}
    failures = dict.fromkeys(found, 0)
    try:
        for number in range(rounds):
            first = number % len(targets)
            for target in (*targets[first:], *targets[:first]):
                load, cpu_s = _sample(target, sessions[target.name], case, seconds)
                failures[target.name] += load.failures.total()
                if calls := len(load.latencies_ns):
                    found[target.name][number] = Sample(cpu_s / calls * 1e6, load.p50_us, load.rate)
        memory = {target.name: target.memory_mb() for target in targets}
    finally:
        for each in sessions.values():
            close_sessions(each)
    return {name: Samples(found[name], failures[name], memory[name]) for name in found}


def _sample(target: Target, sessions: Sequence[Session], case: Case, seconds: float) -> tuple[Load, float]:
    before = target.cpu_s()
    load = drive(sessions, Echo(target.tool("up0", "echo"), case.size, case.reply_size), seconds)
    return load, target.cpu_s() - before


def open_sessions(target: Target, number: int, upstream: str = "up0") -> list[Session]:
    """So many hosts, each of which has made a call: some gateways open a session at the server for it. None, if the
    gateway refuses one."""
    sessions: list[Session] = []
    try:
        sessions += (target.session(upstream) for _ in range(number))
    except (CallFailed, OSError):
        close_sessions(sessions)
        return []
    drive(sessions, Echo(target.tool(upstream, "echo"), 8, 0), 0)
    return sessions


def close_sessions(sessions: Sequence[Session]) -> None:
    for session in sessions:
        session.close()
