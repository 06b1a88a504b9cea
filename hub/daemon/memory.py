"""Memory of the process: a garbage collector that looks rarely, and freed memory that goes back to the system.

The C library would keep the memory of large messages for later ones. glibc returns it (`malloc_trim`); a thread asks
for that, after much was freed, and more than is still held.
"""

import ctypes
import gc
import logging
from typing import Final

import trio

from hub.link.budget import Budget

log = logging.getLogger("hubd")

COLLECTOR_THRESHOLDS: Final = (10_000, 20, 20)
"""New containers before the youngest are looked at, and how often that happens before older ones are, too."""
LOOK_S: Final = 30.0
WORTH_BYTES: Final = 32 << 20
"""The least that must have been freed since the last call."""


def calm_collector() -> None:
    """Let the cyclic garbage collector pass over all that there is after the start, and look more rarely.

    Calls leave no reference cycles (the tests count them), so most of its work would be in vain: a tenth of the CPU of
    a busy hub. Memory is freed by reference counts as ever.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def trimmer() -> "ctypes._NamedFuncPointer | None":
    """The C library's `malloc_trim`; None: it has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


async def keep_trim(budget: Budget) -> None:
    """Return the memory that `budget` has freed, for ever; without `malloc_trim` do nothing.

    Cancellation: a running call is left to its thread.
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
            log.debug("returned memory to the system in %.3f s", trio.current_time() - began)


def is_worthwhile(budget: Budget, before: int) -> bool:
    """True if much was freed since `before`, and more than is still held."""
    return budget.released - before >= max(WORTH_BYTES, budget.used)
