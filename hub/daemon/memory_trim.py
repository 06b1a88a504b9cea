"""Gives memory that large messages have left behind back to the system: the C library keeps it for the next ones.

Only glibc has a call for it. It is made by a thread, and only after much was let go, more than is held.
"""

import ctypes
import logging
from typing import Final

import trio

from hub.link.budget import Budget

log = logging.getLogger("hubd")

LOOK_S: Final = 30.0
WORTH_BYTES: Final = 32 << 20
"""So much must have been let go since the last time."""


def trimmer() -> "ctypes._NamedFuncPointer | None":
    """What gives memory back; None: there is nothing of the kind here."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


async def keep_trim(budget: Budget) -> None:
    """Give back what `budget` has let go, for ever; nothing where that cannot be done.

    Cancellation: a call that is being made is left to its thread.
    """
    trim = trimmer()
    if trim is None:
        return
    before = budget.released
    while True:
        await trio.sleep(LOOK_S)
        if is_worthwhile(budget, before):
            before = budget.released
            began = trio.current_time()
            await trio.to_thread.run_sync(trim, 0, abandon_on_cancel=True)
            log.debug("gave memory back to the system in %.3f s", trio.current_time() - began)


def is_worthwhile(budget: Budget, before: int) -> bool:
    """Whether much was let go since `before`, and more than is held."""
    return budget.released - before >= max(WORTH_BYTES, budget.used)
