"""Work counted in calls and lines, which are the same on every machine.

The collector waits meanwhile: the finalizers of what other tests left would be counted too.
"""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def calls_of(work: Callable[[], object]) -> int:
    """The number of function calls during `work`, those in C included."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    with _without_collector():
        sys.setprofile(count)
        try:
            work()
        finally:
            sys.setprofile(before)
    return calls


def lines_of(work: Callable[[], object]) -> int:
    """The number of lines of Python executed during `work`."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    with _without_collector():
        sys.settrace(count)
        try:
            work()
        finally:
            sys.settrace(before)
    return lines
