"""The Markdown of a comparison: a table for each kind of server, and what it was measured with."""

import datetime
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.faults import CALLERS, PATIENCE_S, RECOVERY_S, Killed, Stopped
from tests.bench.measure import CASES, MANY, ONE, SIXTEEN, Sample, Samples
from tests.support.processes import ROOT

ABSENT: Final = "–"


class Faults(NamedTuple):
    """What one gateway did about its servers' faults."""

    stopped: Stopped
    killed: Killed


class Comparison(NamedTuple):
    """All that was measured with one kind of server. The first target is hubd; each is named with its version."""

    kind: str
    targets: Mapping[str, str]
    samples: Mapping[str, Mapping[str, Samples]]
    """By case, then by target."""
    https: Mapping[str, Samples]
    faults: Mapping[str, Faults]

    def table(self) -> str:
        """A row for each figure, a column for each target."""
        head = [f"servers over {self.kind}", *(f"{name} {version}".strip() for name, version in self.targets.items())]
        rows = [[title, *cells] for title, cells in (*self._figures(), *self._faults())]
        lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
        lines.insert(1, "|---" * len(head) + "|")
        return "\n".join(lines)

    def _figures(self) -> Iterator[tuple[str, list[str]]]:
        for case in CASES:
            yield f"CPU a call, {case.title}", self._row(self.samples[case.title], _cpu)
        if self.https:
            yield f"CPU a call, {SIXTEEN.title}, servers over https", self._row(self.https, _cpu)
        for case in (ONE, MANY):
            yield f"latency, {case.title}", self._row(self.samples[case.title], _latency)
        yield f"calls a second, {MANY.title}", self._row(self.samples[MANY.title], _rate)
        yield f"memory with {MANY.callers} hosts", self._row(self.samples[MANY.title], _memory)

    def _row(self, samples: Mapping[str, Samples], show: Callable[[Samples, Samples], str]) -> list[str]:
        hub = samples[next(iter(self.targets))]
        return [show(samples[name], hub) if name in samples else ABSENT for name in self.targets]

    def _faults(self) -> Iterator[tuple[str, list[str]]]:
        for title, show in FAULT_ROWS.items():
            yield title, [show(self.faults[name]) if name in self.faults else ABSENT for name in self.targets]


def preamble(rounds: int, seconds: float) -> str:
    """The date, the commit, the machine, and how to read the tables."""
    commit = _told("git", "describe", "--always", "--dirty")
    date = _told("git", "show", "--no-patch", "--format=%cs")
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return (
        f"Measured on {datetime.date.today()}, commit {commit} of {date}, in {rounds} rounds of {seconds:g} s a turn.\n"
        f"{cpu}, {os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}.\n"
        "In brackets: hubd's figure over this one. CPU is that of the gateway's own processes. `!3`: 3 calls failed."
    )


def _told(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _cpu(samples: Samples, hub: Samples) -> str:
    return _figure(samples, hub, lambda each: each.cpu_us, _time)


def _latency(samples: Samples, hub: Samples) -> str:
    return _figure(samples, hub, lambda each: each.p50_us, _time)


def _rate(samples: Samples, hub: Samples) -> str:
    return _figure(samples, hub, lambda each: each.rate, lambda rate: f"{rate:,.0f}".replace(",", " "))


def _memory(samples: Samples, hub: Samples) -> str:
    if not samples.memory_mb:
        return ABSENT
    beside = "" if samples is hub else f" ({_ratio(hub.memory_mb / samples.memory_mb)})"
    return f"{samples.memory_mb:.0f} MB{beside}"


def _figure(samples: Samples, hub: Samples, figure: Callable[[Sample], float], show: Callable[[float], str]) -> str:
    failures = f" !{samples.failures}" if samples.failures else ""
    if not samples.by_round:
        return f"none succeeded{failures}"
    value = samples.middle(figure)
    if not value:
        return ABSENT
    ratio = None if samples is hub else hub.ratio(samples, figure)
    return f"{show(value)}{'' if ratio is None else f' ({_ratio(ratio)})'}{failures}"


def _time(us: float) -> str:
    """Three digits, in the unit that fits."""
    value, unit = (us, "µs") if us < 1000 else (us / 1000, "ms") if us < 1_000_000 else (us / 1_000_000, "s")
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.1g}"


def _within(seconds: float | None, patience_s: float = PATIENCE_S) -> str:
    return f"not in {patience_s:g} s" if seconds is None else _time(seconds * 1e6)


def _slower(stopped: Stopped) -> str:
    failures = f" !{stopped.failures}" if stopped.failures else ""
    return (ABSENT if stopped.slower is None else f"{stopped.slower:.2f} times as long") + failures


def _ends(killed: Killed) -> str:
    """Errors by their kinds, without what they say."""
    kinds = Counter(outcome.partition(":")[0] for outcome in killed.outcomes.elements())
    return f"{', '.join(f'{number} × {kind}' for kind, number in kinds.items())}; {_time(killed.outcome_s * 1e6)}"


FAULT_ROWS: Final[dict[str, Callable[[Faults], str]]] = {
    "one server stopped: calls to the other take": lambda it: _slower(it.stopped),
    "a list meanwhile": lambda it: _within(it.stopped.list_s),
    "a new host and its list meanwhile": lambda it: _within(it.stopped.new_host_s),
    f"{CALLERS} calls that waited, once it goes on": lambda it: f"{it.stopped.answers} answered",
    f"one server killed: the {CALLERS} calls that it had": lambda it: _ends(it.killed),
    "calls of these hosts succeed again after": lambda it: _within(it.killed.recovery_s, RECOVERY_S),
    "those of a new host after": lambda it: _within(it.killed.new_host_s, RECOVERY_S),
}
