"""List refresh: lists are read again on demand, one reading of each list at a time.

    not being read      a reading begins, and whoever asks waits for it, within reason
    being read          a request for a fresh list waits for that reading; one for the list as it is from now on waits
                        for the next reading, which all such requests share

Nobody waits for longer than `REFRESH_WAIT_S`, nor for a reading that others have waited for in vain. A list that took
too long is read in the background from then on, and waited for again once it was quick.
"""

from typing import Final

import trio

from hub.link.flag_and_bell import DirtyFlag
from hub.wire.mcp import Kind

REFRESH_WAIT_S: Final = 1.5
"""How long a request waits for a list to be read again."""


class Reading:
    """One reading of one list, to wait for."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.until = trio.current_time() + REFRESH_WAIT_S
        """Until when the reading is worth waiting for."""

    def __repr__(self) -> str:
        return f"<Reading, {'over' if self.over.is_set() else 'running'}>"

    async def wait(self) -> None:
        """Wait until the reading is over, at most `until`."""
        with trio.move_on_at(self.until):
            await self.over.wait()


class ListRefresh:
    """Readings of the lists of one upstream. The runner reads: `due`, then `done` after each reading."""

    def __init__(self) -> None:
        self.news = DirtyFlag()
        """Set when a reading has become due."""
        self._running: dict[Kind, Reading] = {}
        self._next: dict[Kind, Reading] = {}
        self._due: list[Kind] = []
        self._slow: set[Kind] = set()

    def __repr__(self) -> str:
        kinds = ", ".join(kind.value for kind in self._running) or "nothing"
        return f"<ListRefresh {kinds}>"

    def ask(self, kind: Kind, *, anew: bool = False) -> Reading | None:
        """Have a list read, `anew`: from now on; the reading to wait for, None: waiting would be in vain."""
        running = self._running.get(kind)
        if running is None:
            reading = self._running[kind] = Reading()
            self._due.append(kind)
            self.news.set()
        elif anew:
            reading = self._next.setdefault(kind, Reading())
        else:
            reading = running
        in_vain = running is not None and running.until <= trio.current_time()
        return None if in_vain or kind in self._slow else reading

    def due(self) -> list[Kind]:
        """The lists to begin reading now."""
        due, self._due = self._due, []
        return due

    def done(self, kind: Kind) -> bool:
        """A reading is over; whether another is to follow at once."""
        reading = self._running.pop(kind)
        (self._slow.add if reading.until <= trio.current_time() else self._slow.discard)(kind)
        reading.over.set()
        if kind not in self._next:
            return False
        following = self._running[kind] = self._next.pop(kind)
        following.until = max(following.until, trio.current_time() + REFRESH_WAIT_S)
        return True

    def abandon(self) -> None:
        """Let nobody wait any more: the session is over."""
        for reading in (*self._running.values(), *self._next.values()):
            reading.over.set()
        self._running.clear()
        self._next.clear()
        self._due.clear()
        self._slow.clear()
