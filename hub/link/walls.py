"""A wall around a task that lives as long as the daemon: what goes wrong inside is said, and the task begins anew.

Without one, an exception that nobody thought of ends the nursery that the task is in, and the daemon with it.
"""

import logging
from typing import Final

MAX_SAID: Final = 16
"""Kinds of errors that are told in full; more, and a bug would fill the log."""


class Wall:
    """What was caught around one such task: each kind of error is logged once, with its traceback.

        try:
            await work()
        except* Exception as errors:
            reason = wall.caught(errors)

    By `except*`, a cancellation that came at the same time goes on.
    """

    def __init__(self, log: logging.Logger, what: str) -> None:
        """`what` is the task, as people read of it: "the shared store"."""
        self.count = 0
        """How often something was caught."""
        self._log = log
        self._what = what
        self._said: set[str] = set()

    def __repr__(self) -> str:
        return f"<Wall around {self._what}, {self.count} caught>"

    def caught(self, error: Exception) -> str:
        """Log it, unless one of its kind was; its name, for a reason in a few words."""
        self.count += 1
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        name = type(inner).__name__
        if name not in self._said and len(self._said) < MAX_SAID:
            self._said.add(name)
            self._log.error("a fault of this hub in %s, which begins anew: %s", self._what, name, exc_info=inner)
        return f"a fault of this hub ({name})"
