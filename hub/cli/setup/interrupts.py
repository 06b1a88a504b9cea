"""Ctrl-C held back while something is done that has to be done as a whole."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

HELD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C that ends the command as Ctrl-C does."""


@contextmanager
def held_back() -> Iterator[None]:
    """Hold signals that end the command back until the block is done.

    Raises:
        KeyboardInterrupt: one came meanwhile; the block was done all the same.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in HELD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let the other signals that end the command act as Ctrl-C does, so that it cleans up behind itself."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    others = [number for number in HELD if number != signal.SIGINT]
    before = {number: signal.signal(number, interrupt) for number in others}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
