"""The input of a person, waited for so that Ctrl-C always ends it."""

import os
import re
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TextIO

from hub.control.interruptible_wait import SLICE_S, readable

ESCAPE: Final = "\x1b"
ARROWS: Final[Mapping[str, str]] = {
    "A": "up", "B": "down", "H": "home", "F": "end", "1~": "home", "4~": "end", "5~": "page up", "6~": "page down"
}  # fmt: skip
_KEY: Final = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|\x1b[^\x1b]?|.", re.DOTALL)
_UNFINISHED: Final = re.compile(r"\x1b(?:[\[O][0-9;]*)?\Z")
REST_S: Final = 0.05
"""Seconds in which the rest of what one key sends has come."""


def read_line(stream: TextIO, limit: int = -1) -> str:
    """The next line of an input, at most `limit` characters of it; "" at its end. A terminal hands over whole lines, so
    that nothing of the next one is in a buffer of ours. Raises KeyboardInterrupt: Ctrl-C."""
    if stream.isatty():
        readable([stream.fileno()])
    return stream.readline(limit)


@contextmanager
def single_characters(terminal: int, *, shown: bool) -> Iterator[None]:
    """A terminal hands over each character as it is typed. Not `shown`: none is shown, and what was typed before counts
    for nothing; then it cannot be suspended either, since nobody could give the terminal back."""
    before = termios.tcgetattr(terminal)
    mode = termios.tcgetattr(terminal)
    mode[3] &= ~(termios.ICANON if shown else termios.ICANON | termios.ECHO)
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    if not shown:
        mode[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(terminal, termios.TCSANOW if shown else termios.TCSAFLUSH, mode)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW if shown else termios.TCSADRAIN, before)


@contextmanager
def keys(terminal: int) -> Iterator[Callable[[], list[str]]]:
    """A function that waits a moment for keys of a terminal and returns those that were pressed, as characters or names
    of `ARROWS`. Raises KeyboardInterrupt: Ctrl-C, within."""
    with single_characters(terminal, shown=False):
        yield lambda: _read_keys(terminal)


def _read_keys(terminal: int) -> list[str]:
    if not readable([terminal], SLICE_S):
        return []
    got = os.read(terminal, 1 << 10)
    while _UNFINISHED.search(text := got.decode(errors="replace")) and readable([terminal], REST_S):
        got += os.read(terminal, 1 << 10)
    if not got:  # the terminal is gone
        raise KeyboardInterrupt
    return [ARROWS.get(each[1], "") if each[1] else each[0] for each in _KEY.finditer(text)]
