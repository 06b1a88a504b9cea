"""Keeps what a hub remembers on disk, without any call waiting for the disk."""

from collections.abc import Callable
from typing import Final, NoReturn

import trio

from config.state import Memory
from hub.link.flag import Flag

GATHER_S: Final = 0.5
"""How long changes are gathered before they are saved: what was learned survives a crash soon after."""
LOOK_EVERY_S: Final = 5.0
"""How often it is looked for what nobody has told of, and tried again to save what could not be."""


def _nothing() -> None:
    pass


async def keep_saved(memory: Memory, changed: Flag, remember: Callable[[], None] = _nothing) -> NoReturn:
    """Save `memory` whenever it has `changed`, for ever; `remember` puts into it what is not yet there.

    Cancellation: a write that has begun is finished; `memory.save` is for what comes after.
    """
    while True:
        with trio.move_on_after(LOOK_EVERY_S):
            await changed.take()
        await trio.sleep(GATHER_S)
        remember()
        draft = memory.draft()
        if draft is not None:
            await trio.to_thread.run_sync(memory.write, draft)
