"""Visits to pages that an upstream has called complete (`notifications/elicitation/complete`), and waiting for them."""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from hub.link.bounded_dict import BoundedDict

MAX_KEPT: Final = 1024
MAX_ID_CHARS: Final = 512


class FinishedElicitations:
    """Remembers the newest `MAX_KEPT` ids that an upstream said are done, and wakes who waits for them.

    `tell` is called with each id, to pass it on to hosts. It never blocks or raises.
    """

    def __init__(self, tell: Callable[[str], None] = lambda id: None) -> None:
        self._tell = tell
        self._done: BoundedDict[str, None] = BoundedDict(MAX_KEPT)
        self._waiting: dict[trio.Event, set[str]] = {}
        """By the event of whoever waits: the ids that are not done yet."""

    def on_complete(self, id: str) -> None:
        """The upstream has said that the visit `id` is done. Never blocks."""
        if len(id) > MAX_ID_CHARS:
            return
        self._done.put(id, None)
        for done, left in self._waiting.items():
            left.discard(id)
            if not left:
                done.set()
        self._tell(id)

    def forget(self, ids: Iterable[str]) -> None:
        """These visits begin now, whatever was said of such ids before."""
        for id in ids:
            self._done.pop(id, None)

    async def wait_for(self, ids: Iterable[str]) -> None:
        """Wait until all these visits are done, for ever if need be.

        Cancellation: nothing is left behind.
        """
        if left := {id for id in ids if id not in self._done}:
            done = trio.Event()
            self._waiting[done] = left
            try:
                await done.wait()
            finally:
                del self._waiting[done]
