"""The wall around a task that lasts as long as the hub: a fault of it ends neither the hub nor other tasks."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

log = logging.getLogger("hubd")

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
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


async def stand_alone(what: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run it once; a fault of it is logged, and nothing more. `what` as for `keep_going`."""
    try:
        await run()
    except Exception:  # the wall of one task of the hub
        log.exception("%s has stopped because of a fault", what)
