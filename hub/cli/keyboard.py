"""The input of a person, waited for so that Ctrl-C always ends it.

Python acts on a signal between two of its instructions. One that comes after the last of them, and before the system
call that waits, is acted on when that call returns: perhaps never. So each wait is a row of short ones.
"""

from collections.abc import Sequence
from select import select
from typing import Final, TextIO

from hub.cli.clock import now_s

SLICE_S: Final = 0.5
"""Seconds after which a wait begins anew."""


def readable(descriptors: Sequence[int], limit_s: float | None = None) -> list[int]:
    """Those of the descriptors that can be read, once there is one; [] after `limit_s` seconds.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    until = None if limit_s is None else now_s() + limit_s
    while True:
        left_s = SLICE_S if until is None else until - now_s()
        if ready := select(descriptors, [], [], max(0.0, min(SLICE_S, left_s)))[0]:
            return ready
        if left_s <= 0:
            return []


def typed_line(stream: TextIO) -> str:
    """The next line of an input, "" at its end. A terminal hands over whole lines, so that nothing of the next one is
    in a buffer of ours.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    if stream.isatty():
        readable([stream.fileno()])
    return stream.readline()
