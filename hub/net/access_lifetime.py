"""Leases: for how long somebody is let in who has a credential that ends or can be taken back.

A request is judged when it comes. What goes on after it was answered, a stream of notifications for instance, hangs on
the lease of whoever asked for it, and ends with that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import trio


class Lease:
    """The time for which one credential lets its owner in. It ends once, for good."""

    def __init__(self, ends_at: float = inf) -> None:
        self.ends_at = ends_at
        """The time, of trio's clock, at which streams end at the latest."""
        self.is_over = False
        self._kept: set[trio.CancelScope] = set()

    @property
    def is_held(self) -> bool:
        """True if something hangs on it."""
        return bool(self._kept)

    def limit(self, ends_at: float) -> None:
        """Let what hangs on it from now on end at `ends_at`: the time of day by which that was reckoned may be set."""
        self.ends_at = ends_at

    def end(self) -> None:
        """End it, and all that hangs on it."""
        self.is_over = True
        self.shake()

    def shake(self) -> None:
        """End all that hangs on it: whoever opens it anew is judged anew."""
        for scope in tuple(self._kept):
            scope.cancel()

    @contextmanager
    def keeps(self, scope: trio.CancelScope) -> Iterator[None]:
        """Let `scope` hang on this lease while the block runs."""
        scope.deadline = min(scope.deadline, self.ends_at)
        if self.is_over:
            scope.cancel()
        self._kept.add(scope)
        try:
            yield
        finally:
            self._kept.discard(scope)
