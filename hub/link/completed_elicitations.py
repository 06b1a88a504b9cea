"""URL elicitations that an upstream has called complete (`notifications/elicitation/complete`)."""

from collections.abc import Callable, Iterable
from typing import Final

import trio

from hub.link.recent import Recent

MAX_KEPT: Final = 1024
MAX_ID_CHARS: Final = 512


class _Waiter:
    def __init__(self, left: set[str]) -> None:
        self.left = left
        self.done = trio.Event()


class Elicitations:
    """Remembers the newest `MAX_KEPT` ids that an upstream said are done, and wakes who waits for them.

    `tell` is called with each id, to pass it on to hosts. It never blocks or raises.
    """

    def __init__(self, tell: Callable[[str], None] = lambda id: None) -> None:
        self._tell = tell
        self._done: Recent[str, None] = Recent(MAX_KEPT)
        self._waiting: set[_Waiter] = set()

    def __repr__(self) -> str:
        return f"<Elicitations [{len(self._done)} done, {len(self._waiting)} waited for]>"

    def on_complete(self, id: str) -> None:
        """The upstream has said that the visit `id` is done. Never blocks."""
        if len(id) > MAX_ID_CHARS:
            return
        self._done.put(id, None)
        for waiter in self._waiting:
            waiter.left.discard(id)
            if not waiter.left:
                waiter.done.set()
        self._tell(id)

    def forget(self, ids: Iterable[str]) -> None:
        """These visits begin now, whatever was said of such ids before."""
        for id in ids:
            self._done.pop(id, None)

    async def wait_for(self, ids: Iterable[str]) -> None:
        """Wait until all these visits are done, for ever if need be.

        Cancellation: nothing is left behind.
        """
        waiter = _Waiter({id for id in ids if id not in self._done})
        if not waiter.left:
            return
        self._waiting.add(waiter)
        try:
            await waiter.done.wait()
        finally:
            self._waiting.discard(waiter)
