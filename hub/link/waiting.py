"""Ways to wait: for a flag, which merges changes for one task; for a bell, which wakes everybody; for a promised value;
and for visits to pages, until an upstream has called them complete (`notifications/elicitation/complete`)."""

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import trio

from hub.link.bounded_dict import BoundedDict


class DirtyFlag:
    """Says that there is work to do, for one task that waits for it."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def set(self) -> None:
        """Set the flag."""
        self._event.set()

    async def take(self) -> None:
        """Wait until the flag is set, and clear it."""
        await self._event.wait()
        self._event = trio.Event()


class Bell:
    """Says that something happened, to everybody who waits at that moment."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake whoever waits."""
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self) -> None:
        """Wait until the bell rings next."""
        await self._event.wait()


T = TypeVar("T")


class Promise(Generic[T]):
    """A value to come; any number of tasks may wait for it."""

    __slots__ = ("_fulfilled", "_value")

    _value: T

    def __init__(self) -> None:
        self._fulfilled = trio.Event()

    @property
    def is_fulfilled(self) -> bool:
        """True if the value is there."""
        return self._fulfilled.is_set()

    def fulfil(self, value: T) -> None:
        """Wake the tasks that wait, with `value`; the first value counts."""
        if not self._fulfilled.is_set():
            self._value = value
            self._fulfilled.set()

    async def wait(self) -> T:
        """Wait for the value. Cancellation: nothing is left behind."""
        await self._fulfilled.wait()
        return self._value


MAX_KEPT: Final = 1024
MAX_ID_CHARS: Final = 512


class Elicitations:
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
