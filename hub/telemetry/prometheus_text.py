"""The text format of Prometheus, version 0.0.4: families of series, written in pieces. Pure.

A series is one set of labels: a number, or a histogram, which takes a line for each bound and is told under one name
and one set of labels only. Whoever writes the pieces may pause between them; within a series nothing that is counted
changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, Literal

from msgspec import Struct

from hub.telemetry.tally import BOUNDS_S, Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SERIES: Final = 20
"""Series of one piece."""
LEAST_OF_CALLS_S: Final = BOUNDS_S[0]
LEAST_OF_SESSIONS_S: Final = 0.01
"""The least bound that is written, of durations of sessions: that of the conventions."""
_LINES: Final = {
    least: "".join(f'\0{bound:g}"}} %d\n' for bound in BOUNDS_S if bound >= least) + '\0+Inf"} %d\n'
    for least in (LEAST_OF_CALLS_S, LEAST_OF_SESSIONS_S)
}
"""Lines of counts, from the least bound on; before each stands the same."""

Labels = Sequence[tuple[str, str]]
"""Names and values; those without a value are left out."""
Series = tuple[Labels, float | Histogram]


class Family(Struct, frozen=True):
    """All series of one name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    """What it counts, in one line."""
    series: Iterable[Series | None]
    """None stands for work that took as long as a series does."""
    least_s: float = LEAST_OF_CALLS_S
    """The least bound that is written, of histograms."""


def write(families: Iterable[Family]) -> Iterator[list[bytes]]:
    """The text of the families, in pieces of at most `SERIES` series each. A family without any series is left out."""
    for family in families:
        series = iter(family.series)
        head = [f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n".encode()]
        while some := [*islice(series, SERIES)]:
            texts = list[bytes]()
            for labels, value in filter(None, some):
                text = value.text[1] if isinstance(value, Histogram) and value.text[0] == value.count else b""
                if not text:
                    text = _write_series(family, _write_labels(labels), value).encode(errors="replace")
                    if isinstance(value, Histogram):
                        value.text = value.count, text
                texts.append(text)
            if texts:
                texts, head = head + texts, []
            yield texts


def _write_series(family: Family, labels: str, value: float | Histogram) -> str:
    name, own = family.name, f"{{{labels}}}" if labels else ""
    if not isinstance(value, Histogram):
        return f"{name}{own} {_number(value)}\n"
    head, counts = f'{name}_bucket{{{labels}{labels and ","}le="', tuple(accumulate(value.buckets))
    lines = _LINES[family.least_s] % counts[BOUNDS_S.index(family.least_s) :]
    rest = f"{name}_sum{own} {_number(value.total_s)}\n{name}_count{own} {counts[-1]}\n"
    return lines.replace("\0", head) + rest


def _write_labels(labels: Labels) -> str:
    return ",".join([f'{name}="{_escape(value)}"' for name, value in labels if value])


def _escape(text: str) -> str:
    if text.isidentifier():  # most are
        return text
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
