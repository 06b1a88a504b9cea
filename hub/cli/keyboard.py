"""The input of a person, waited for so that Ctrl-C always ends it.

Python acts on a signal between two of its instructions. One that comes after the last of them, and before the system
call that waits, is acted on when that call returns: perhaps never. So each wait is a row of short ones.
"""

import os
import re
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from select import select
from typing import Final, TextIO

from hub.cli.clock import now_s

SLICE_S: Final = 0.5
"""Seconds after which a wait begins anew."""

ESCAPE: Final = "\x1b"
ARROWS: Final[Mapping[str, str]] = {
    "A": "up", "B": "down", "H": "home", "F": "end", "1~": "home", "4~": "end", "5~": "page up", "6~": "page down"
}  # fmt: skip
_KEY: Final = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|\x1b[^\x1b]?|.", re.DOTALL)
_UNFINISHED: Final = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")
REST_S: Final = 0.05
"""Seconds in which the rest of what one key sends has come."""


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


@contextmanager
def keys(terminal: int) -> "Iterator[Callable[[], list[str]]]":
    """A function that waits a moment for keys of a terminal and returns those that were pressed, as characters or names
    of `ARROWS`. None is shown meanwhile, and what was typed before counts for nothing.

    Raises:
        KeyboardInterrupt: Ctrl-C, within.
    """
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] &= ~(termios.ICANON | termios.ECHO)
    mode[6][termios.VSUSP] = b"\0"  # nobody could give the terminal back
    termios.tcsetattr(terminal, termios.TCSAFLUSH, mode)
    try:
        yield lambda: _read_keys(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _read_keys(terminal: int) -> list[str]:
    if not readable([terminal], SLICE_S):
        return []
    got = os.read(terminal, 1 << 10)
    while _UNFINISHED.search(text := got.decode(errors="replace")) and readable([terminal], REST_S):
        got += os.read(terminal, 1 << 10)
    if not got:  # the terminal is gone
        raise KeyboardInterrupt
    return [ARROWS.get(each[1], "") if each[1] else each[0] for each in _KEY.finditer(text)]
