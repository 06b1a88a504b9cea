"""How much work something is, in numbers that are the same on every machine."""

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called in the course of `work`, those in C included."""
    calls = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python are carried out in the course of `work`."""
    lines = 0

    def count(frame: object, event: str, arg: object) -> Callable[..., object]:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines
