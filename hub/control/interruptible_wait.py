"""The clock and the waits of commands, which block and do without trio: Ctrl-C always ends them.

Python acts on a signal between two of its instructions. One that comes after the last of them, and before the system
call that waits, is acted on when that call returns: perhaps never. So each wait is a row of short ones.
"""

import time
from collections.abc import Sequence
from select import select
from typing import Final

SLICE_S: Final = 0.5
"""Seconds after which a wait begins anew."""


def now_s() -> float:
    """Seconds since some moment; they never go back."""
    return time.monotonic()  # noqa: TID251 - nothing here runs under trio


def readable(descriptors: Sequence[int], limit_s: float | None = None) -> list[int]:
    """Descriptors that can be read, once there is one; [] after `limit_s` seconds. Raises KeyboardInterrupt: Ctrl-C."""
    until = None if limit_s is None else now_s() + limit_s
    while True:
        left_s = SLICE_S if until is None else until - now_s()
        if ready := select(descriptors, [], [], max(0.0, min(SLICE_S, left_s)))[0]:
            return ready
        if left_s <= 0:
            return []
