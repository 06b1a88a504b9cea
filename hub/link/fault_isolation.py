"""The wall around a task that lasts as long as the hub: a fault of it ends neither the hub nor other tasks."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

log = logging.getLogger("hubd")

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
MAX_SAID: Final = 16
"""Kinds of faults that one `FaultLog` tells in full; more, and a fault would fill the log."""
SOUND_S: Final = 300.0
"""A task that went well for so long begins anew with the first pause."""


async def keep_going(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run what is to go on for ever, and again after a fault, which is logged; between faults there are longer and
    longer pauses. Returns when it returns.

    `what` says in the log, as the beginning of a sentence, what has stopped. Cancellation passes through.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        began = trio.current_time()
        try:
            await run()
            return
        except Exception:  # the wall of one task of the hub
            if trio.current_time() - began >= SOUND_S:
                pause_s = FIRST_PAUSE_S
            log.exception("%s has stopped because of a fault, and begins anew in %g s", what, pause_s)
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def run_isolated(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run it once; a fault of it is logged, and nothing more. `what` as for `keep_going`."""
    try:
        await run()
    except Exception:  # the wall of one task of the hub
        log.exception("%s has stopped because of a fault", what)


class FaultLog:
    """The wall around something that is done again and again, and goes on by itself after a fault, which may be had as
    often as somebody else likes: each kind is logged once, with its traceback.

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
        return f"<FaultLog around {self._what}, {self.count} caught>"

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
