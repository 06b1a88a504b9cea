"""Fault isolation: an unexpected exception in one task of the hub ends neither the hub nor other tasks."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

log = logging.getLogger("hubd")

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MAX_SAID: Final = 16
"""Kinds of exceptions that one `FaultLog` logs in full; more could fill the log."""
SOUND_S: Final = 300.0
"""After a task has run this long without a fault, the next pause is the first again."""


async def keep_going(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a task that should go on for ever; after a fault, log it, pause, and run the task again, with longer and
    longer pauses. Returns when `run` returns.

    `what` names the task in the log, as the beginning of a sentence. Cancellation passes through.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        began = trio.current_time()
        try:
            await run()
            return
        except Exception:  # a fault stops this task alone
            if trio.current_time() - began >= SOUND_S:
                pause_s = FIRST_PAUSE_S
            log.exception("%s has stopped because of a fault, and begins anew in %g s", what, pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def run_isolated(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a task once; a fault is logged, and nothing more. `what` as for `keep_going`."""
    try:
        await run()
    except Exception:  # a fault stops this task alone
        log.exception("%s has stopped because of a fault", what)


class FaultLog:
    """Logs the faults of work that is repeated and goes on after a fault: each kind once, with its traceback, however
    often a peer may cause it.

        try:
            await work()
        except* Exception as errors:
            reason = faults.log_once(errors)

    With `except*`, a cancellation that came at the same time goes on.
    """

    def __init__(self, log: logging.Logger, what: str) -> None:
        """`what` names the work in the log: "the shared store"."""
        self._log = log
        self._what = what
        self._said: set[str] = set()

    def log_once(self, error: Exception) -> str:
        """Log `error`, unless one of its kind was logged before; return a reason in a few words."""
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        name = type(inner).__name__
        if name not in self._said and len(self._said) < MAX_SAID:
            self._said.add(name)
            self._log.error("a fault of this hub in %s, which begins anew: %s", self._what, name, exc_info=inner)
        return f"a fault of this hub ({name})"
