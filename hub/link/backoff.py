"""Exponential backoff between attempts to connect. Pure: time and chance are arguments."""

import random
from collections.abc import Callable
from typing import Final

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
JITTER: Final = 0.2
"""Part of a pause by which it varies to either side, so that connections lost together are not reopened together."""
HEALTHY_S: Final = 60.0
"""After a connection that lasted this long the next pause is short again."""


class ExponentialBackoff:
    """Pauses that double each time until a connection lasts for `healthy_s`. `jitter` returns a number from -1 to 1."""

    def __init__(
        self, jitter: Callable[[], float] = lambda: 0.0, *, first_s: float = FIRST_PAUSE_S, healthy_s: float = HEALTHY_S
    ) -> None:
        self._jitter = jitter
        self._first_s = self._next_s = first_s
        self._healthy_s = healthy_s
        self._opened_at: float | None = None

    def opened(self, now: float) -> None:
        """Note that the connection was opened."""
        self._opened_at = now

    def next_s(self, now: float) -> float:
        """Seconds to wait after the connection ended, or could not be opened."""
        if self._opened_at is not None and now - self._opened_at >= self._healthy_s:
            self._next_s = self._first_s
        self._opened_at = None
        pause_s = self._next_s * (1 + JITTER * self._jitter())
        self._next_s = min(self._next_s * 2, LONGEST_PAUSE_S)
        return pause_s


def jitter() -> float:
    """Return a random number from -1 to 1."""
    return random.uniform(-1, 1)
