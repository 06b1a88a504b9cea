"""Lists that are read again because somebody asks for them: at once, but one reading of each at a time.

    nobody reads it      a reading begins, and whoever asks waits for it, within reason
    it is being read     who wants it fresh waits for that reading; who needs to know what is in it now, for the next
                         one, which all such share

Nobody waits for long, nor for one that others have already waited for in vain. A list that took too long is read beside
from then on, and waited for again when it has been quick.
"""

from typing import Final

import trio

from hub.link.wakeups import DirtyFlag
from hub.wire.mcp import Kind

REFRESH_WAIT_S: Final = 1.5
"""How long it may take to make sure that a list is what it was (bridging.md 13)."""


class Reading:
    """One reading of one list: for whoever waits for it."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.until = trio.current_time() + REFRESH_WAIT_S
        """How long it is worth waiting for."""

    def __repr__(self) -> str:
        return f"<Reading, {'over' if self.over.is_set() else 'running'}>"

    async def wait(self) -> None:
        """Wait until it is over, or for long enough."""
        with trio.move_on_at(self.until):
            await self.over.wait()


class ListRefresh:
    """What is asked for of one upstream. The task that has its session reads: `due`, then `done` after each reading."""

    def __init__(self) -> None:
        self.news = DirtyFlag()
        """Something has become due."""
        self._running: dict[Kind, Reading] = {}
        self._next: dict[Kind, Reading] = {}
        self._due: list[Kind] = []
        self._slow: set[Kind] = set()

    def __repr__(self) -> str:
        kinds = ", ".join(kind.value for kind in self._running) or "nothing"
        return f"<ListRefresh {kinds}>"

    def ask(self, kind: Kind, *, anew: bool = False) -> Reading | None:
        """Have a list read, `anew`: from now on; what to wait for, None: it would be in vain."""
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
        """Those to begin with now."""
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
        """There is no session any more: nobody waits."""
        for reading in (*self._running.values(), *self._next.values()):
            reading.over.set()
        self._running.clear()
        self._next.clear()
        self._due.clear()
        self._slow.clear()
