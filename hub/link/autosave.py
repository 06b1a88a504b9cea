"""Keeps what a hub remembers on disk, without any call waiting for the disk."""

from collections.abc import Callable
from typing import Final, NoReturn

import trio

from config.saved_state import Memory
from hub.link.wakeups import DirtyFlag

GATHER_S: Final = 0.5
"""How long changes are gathered before they are saved: what was learned survives a crash soon after."""
SAVED_WITHIN_S: Final = 5.0
"""How long somebody waits for a disk, at most: then it is as if it could not be written."""
LOOK_EVERY_S: Final = 5.0
"""Interval for catching unreported changes and retrying failed writes, and tried again to save what could not be."""


def _nothing() -> None:
    pass


class SaveBarrier:
    """For whoever has to say that something is over, and must be right about that even if the hub is killed then."""

    def __init__(self) -> None:
        self._asked = trio.Event()
        self._done = trio.Event()

    async def saved(self, changed: DirtyFlag) -> None:
        """Wait until what is remembered now is on disk, or cannot be written; all who wait share one write."""
        done = self._done
        self._asked.set()
        changed.set()
        with trio.move_on_after(SAVED_WITHIN_S):
            await done.wait()

    async def asked(self) -> None:
        """Wait until somebody waits."""
        await self._asked.wait()

    def begin(self) -> trio.Event:
        """What is to be set once that is written which is there now."""
        done = self._done
        self._asked, self._done = trio.Event(), trio.Event()
        return done


async def autosave(
    memory: Memory, changed: DirtyFlag, remember: Callable[[], None] = _nothing, barrier: SaveBarrier | None = None
) -> NoReturn:
    """Save `memory` whenever it has `changed`, for ever, and at once in `barrier`; `remember` puts into it what is not
    yet there.

    Cancellation: a write that has begun is finished; `memory.save` is for what comes after.
    """
    barrier = barrier or SaveBarrier()
    while True:
        with trio.move_on_after(LOOK_EVERY_S):
            await changed.take()
        with trio.move_on_after(GATHER_S):
            await barrier.asked()
        remember()
        done = barrier.begin()
        draft = memory.draft()
        if draft is not None:
            await trio.to_thread.run_sync(memory.write, draft)
        done.set()
