"""Autosave: a task that writes remembered state to disk, so that no call waits for the disk."""

from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import trio

from config.remembered_facts import Memory

GATHER_S: Final = 0.5
"""Time that changes are gathered before they are saved."""
SAVED_WITHIN_S: Final = 5.0
"""Time limit of `SaveBarrier.saved` for a slow disk; after it, as if the write had failed."""
RETRY_S: Final = 5.0
"""Interval for retrying a write that failed."""
LOOK_EVERY_S: Final = 60.0
"""Interval for catching unreported changes."""


class SaveBarrier:
    """Lets tasks wait until a change is on disk, for answers that must stay true even if the hub is killed."""

    def __init__(self) -> None:
        self.asked = trio.Event()
        """Set when a task waits in `saved`."""
        self.done = trio.Event()
        """Set once the present state is written; `autosave` makes both anew when it begins to write."""

    async def saved(self, memory: Memory) -> None:
        """Wait until the present state is on disk, or cannot be written; all waiting tasks share one write."""
        done = self.done
        self.asked.set()
        memory.save_soon()
        with trio.move_on_after(SAVED_WITHIN_S):
            await done.wait()


async def autosave(
    memory: Memory,
    remember: Callable[[], None] = lambda: None,
    barrier: SaveBarrier | None = None,
    beside: Sequence[Memory] = (),
) -> NoReturn:
    """Save `memory` whenever it has changed, for ever, and without delay when a task waits at `barrier`; with it those
    `beside` it, for which nothing is saved sooner.

    `remember` is called before each write, and puts into them what is not there yet. Cancellation: a write that has
    begun is finished; later changes need `memory.save`.
    """
    barrier = barrier or SaveBarrier()
    memories = (memory, *beside)
    while True:
        with trio.move_on_after(RETRY_S if any(each.problem for each in memories) else LOOK_EVERY_S):
            await memory.unsaved()
        with trio.move_on_after(GATHER_S):
            await barrier.asked.wait()
        remember()
        done = barrier.done
        barrier.asked, barrier.done = trio.Event(), trio.Event()
        for each in memories:
            draft = each.draft()
            if draft is not None:
                await trio.to_thread.run_sync(each.write, draft)
        done.set()
