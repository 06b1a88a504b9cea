"""The clock of commands, by which they wait: they are blocking, so it is not trio's."""

import time


def now_s() -> float:
    """Seconds since some moment; they never go back."""
    return time.monotonic()  # noqa: TID251 - nothing here runs under trio
