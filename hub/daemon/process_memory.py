"""Memory of the process: a garbage collector that looks rarely, and memory of large messages that is used again.

glibc would give each large block back to the system as soon as it is freed, and get zeroed pages for the next one, a
page fault for each. It is told to keep such memory (`mallopt`). It returns it when asked (`malloc_trim`): a thread asks
after much was freed, once nothing is held and all is quiet, or when more was freed than is still held.
"""

import gc
import logging
from collections.abc import Callable
from typing import Final

import trio

from hub.link.memory_budget import Budget
from hub.linux.harden_hub import trimmer

log = logging.getLogger("hubd")

COLLECTOR_THRESHOLDS: Final = (10_000, 20, 20)
"""New containers before the youngest are looked at, and how often that happens before older ones are, too."""
QUIET_S: Final = 1.0
"""Time without a call, and without a byte held, after which memory is returned."""
LOOK_S: Final = 30.0
"""Time after which memory is returned though the hub is busy."""
WORTH_BYTES: Final = 32 << 20
"""The least that must have been freed since the last time."""


def calm_collector() -> None:
    """Let the cyclic garbage collector pass over all that there is after the start, and look more rarely.

    Calls leave no reference cycles (the tests count them), so most of its work would be in vain: a tenth of the CPU of
    a busy hub. Memory is freed by reference counts as ever."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


async def keep_trim(budget: Budget, running: Callable[[], int]) -> None:
    """Return the memory that `budget` has freed, for ever; without `malloc_trim` do nothing.

    `running`: the number of running calls. Cancellation: a running call of the C library is left to its thread."""
    trim = trimmer()
    if trim is None:
        return
    before = budget.released
    while True:
        enough = trio.Event()
        budget.when_released(before + WORTH_BYTES, enough.set)
        await enough.wait()
        with trio.move_on_after(LOOK_S):
            seen = -1
            while budget.used or running() or seen != budget.released:  # nothing is freed, held or running for a while
                seen = budget.released
                await trio.sleep(QUIET_S)
        if is_worthwhile(budget, before):
            before = budget.released
            began = trio.current_time()
            await trio.to_thread.run_sync(trim, 0, abandon_on_cancel=True)
            log.debug("returned memory to the system in %.3f s", trio.current_time() - began)


def is_worthwhile(budget: Budget, before: int) -> bool:
    """True if much was freed since `before`, and more than is still held."""
    return budget.released - before >= max(WORTH_BYTES, budget.used)
