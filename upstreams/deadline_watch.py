"""The watch over all deadlines of the hub: of running operations, and of queues.

Deadlines are plain numbers. One task of the hub sleeps until the earliest that it knows of; a call that ends before
that, or whose time starts anew, does not wake it. So it wakes seldom while calls run, and never while none does.
"""

import logging
from math import inf
from typing import Final, Protocol

import trio

log = logging.getLogger(__name__)


class Timed(Protocol):
    """Something with a deadline: a running operation, or a queue in which the next may go on then."""

    deadline: float

    def on_time_up(self) -> None:
        """That time has come."""


class DeadlineWatch:
    """Tells operations and queues when their time is up. `run` must be running."""

    def __init__(self) -> None:
        self._running: set[Timed] = set()
        self.remove = self._running.discard
        """Watches no more over one: it is over."""
        self._at = inf
        """Time at which it looks next."""
        self._scope = trio.CancelScope()

    def add(self, running: Timed) -> None:
        """Watch over `running` until `remove`."""
        self._running.add(running)
        if running.deadline < self._at:
            self.look_at(running.deadline)

    def look_at(self, deadline: float) -> None:
        """Look after the deadlines at that time, or before."""
        if deadline < self._at:
            self._at = self._scope.deadline = deadline

    async def run(self) -> None:
        """Look after them for ever."""
        while True:
            with trio.CancelScope(deadline=self._at) as self._scope:
                await trio.sleep_forever()
            self._at, now = inf, trio.current_time()
            for running in [each for each in self._running if each.deadline <= now]:
                try:
                    running.on_time_up()
                except Exception:  # whoever else has a deadline needs this task
                    log.exception("%r could not be told that its time is up", running)
                    self._running.discard(running)
            self.look_at(min((each.deadline for each in self._running), default=inf))


_WATCH: Final = trio.lowlevel.RunVar[DeadlineWatch]("deadline watch")


def deadline_watch() -> DeadlineWatch:
    """The watch of this hub, which lives as long as its event loop does: longer than any session."""
    try:
        return _WATCH.get()
    except LookupError:
        watch = DeadlineWatch()
        _WATCH.set(watch)
        trio.lowlevel.spawn_system_task(watch.run)
        return watch
