"""Signals that end a setup: one handler, which acts as Ctrl-C, or waits while something is done as a whole.

Holding back changes no handler, so there is no moment in which a signal is lost or ends the process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

HELD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C that ends the command as Ctrl-C does."""


class _Holding:
    """Blocks that hold back now, one within the other, and whether a signal came meanwhile."""

    depth = 0
    came = False


_holding: Final = _Holding()


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let the other signals that end the command act as Ctrl-C does, so that it cleans up behind itself.

    Raises:
        KeyboardInterrupt: one came.
    """
    before: dict[signal.Signals, signal._HANDLER] = {}
    try:
        with held_back():
            for number in HELD:
                before[number] = signal.signal(number, _interrupt)
        yield
    finally:
        with held_back():
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold signals that end the command back until the block is done; within `as_ctrl_c` only.

    Raises:
        KeyboardInterrupt: one came meanwhile; the block, and every block around it, was done all the same.
    """
    _holding.depth += 1
    try:
        yield
    finally:
        _holding.depth -= 1
        came = _holding.came and not _holding.depth
        if came:
            _holding.came = False
    if came:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _holding.depth:
        _holding.came = True
        return
    _holding.came = False
    raise KeyboardInterrupt if number == signal.SIGINT else Interrupted
