"""Durations, sizes, numbers and errors as people read them. Pure."""

from collections.abc import Iterable, Sequence
from math import floor, log10
from typing import TypeVar

from hub.wire.printable import printable
from upstreams.journal.error_line import sum_error_up

Key = TypeVar("Key")
Value = TypeVar("Value")


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def latency(seconds: float) -> str:
    """`0.4 ms`, `212 ms`, `3.4 s`, `30 s`, then as `duration`."""
    number, unit = (seconds * 1000, "ms") if seconds < 0.9995 else (seconds, "s")
    return f"{number:.1f}".removesuffix(".0") + f" {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def percent(part: float) -> str:
    """`0 %`, `1.2 %`, `38 %`."""
    number = part * 100
    return (f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}") + " %"


def money(cost: float) -> str:
    """`0`, `0.005`, `12.40`: two digits after the point, or as many as show three that count."""
    digits = 2 if cost >= 1 or not cost else min(6, 2 - floor(log10(cost)))
    return f"{cost:.{digits}f}".rstrip("0").rstrip(".") if cost < 1 else f"{cost:,.2f}".replace(",", " ")


def size(count: int) -> str:
    """`812 B`, `3.4 KiB`, `64 MiB`."""
    number, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if number < 1023.5:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}".removesuffix(".0") + f" {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def about(count: int) -> str:
    """A number that is only an estimate, with two digits: `~13`, `~4 100`, `~91 000`."""
    digits = max(0, len(str(count)) - 2)
    return f"~{round(count, -digits):,}".replace(",", " ")


def join_names(names: Sequence[str], most: int = 0) -> str:
    """Names in a sentence: `a, b and c`; of more than `most`, unless that is 0, the first and the number of others."""
    if 0 < most < len(names):
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def group(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Values by their keys, both in their order."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def count_of(number: int, noun: str) -> str:
    """`1 server`, `3 servers`."""
    return f"{number} {noun}{'s' * (number != 1)}"


def times(number: int) -> str:
    """`once`, `3 times`."""
    return "once" if number == 1 else f"{number} times"


def last_words(error: str) -> str:
    """An error as `last_error` of a status has it, on one line for a terminal."""
    return printable(sum_error_up(error))
