"""Signals that end a setup: one handler, which acts as Ctrl-C, or waits while something is done as a whole.

Holding back changes no handler, so there is no moment in which a signal is lost or ends the process.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Final

HELD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C that ends the command as Ctrl-C does."""


class _Interrupts:
    """The handler of all of them."""

    def __init__(self) -> None:
        self._depth = 0
        """Blocks that hold back now, one within the other."""
        self._came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._came = self._depth > 0
        if not self._came:
            raise KeyboardInterrupt if number == signal.SIGINT else Interrupted

    @contextmanager
    def hold_back(self) -> Iterator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            came = self._came and not self._depth
            self._came = self._came and not came
        if came:
            raise KeyboardInterrupt


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let the other signals that end the command act as Ctrl-C does, so that it cleans up behind itself. Raises
    KeyboardInterrupt: one came."""
    handler = _Interrupts()
    before: dict[signal.Signals, signal._HANDLER] = {}
    try:
        with handler.hold_back():
            for number in HELD:
                before[number] = signal.signal(number, handler)
        yield
    finally:
        with handler.hold_back():
            for number, earlier in before.items():
                signal.signal(number, earlier)


@contextmanager
def hold_back() -> Iterator[None]:
    """Hold signals that end the command back until the block is done; within `as_ctrl_c` only. Raises
    KeyboardInterrupt: one came meanwhile; the block, and every block around it, was done all the same."""
    handler = signal.getsignal(signal.SIGINT)
    with handler.hold_back() if isinstance(handler, _Interrupts) else nullcontext():
        yield
