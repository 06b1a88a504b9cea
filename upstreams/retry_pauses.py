"""Pauses before attempts to reach an upstream, and when to give up. Pure: time and chance are arguments."""

from collections.abc import Callable
from typing import Final

from hub.link.backoff import ExponentialBackoff

ATTEMPTS: Final = 5
FAILED_PAUSE_S: Final = 30.0


class Backoff:
    """Pauses before attempts, and the end of them: after `attempts` failed attempts in a row; 0: never."""

    def __init__(self, jitter: Callable[[], float], *, attempts: int = ATTEMPTS) -> None:
        self._jitter = jitter
        self.attempts = attempts
        self.reset()

    def reset(self) -> None:
        self.failures = 0
        self._pauses = ExponentialBackoff(self._jitter)
        self._is_open = False
        self._failed_at = float("-inf")

    def opened(self, now: float) -> None:
        self.failures = 0
        self._is_open = True
        self._pauses.opened(now)

    def next_pause_s(self, now: float) -> float | None:
        """A session ended, or could not be opened: how many seconds to wait, or None to give up.

        A session that ends soon after it opened is no failed attempt, but the pauses go on growing, so that a crash
        loop is as slow as a server that does not start.
        """
        self._failed_at = now
        self.failures += not self._is_open
        self._is_open = False
        if self.attempts and self.failures >= self.attempts:
            return None
        return self._pauses.next_s(now)

    def retry_in_s(self, now: float) -> float:
        """Given up: how long until a call may cause another attempt; 0 for now."""
        return max(0.0, self._failed_at + FAILED_PAUSE_S - now)
