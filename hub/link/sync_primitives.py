"""Ways for tasks to wait: for a flag, which merges changes for one task; for a bell, which wakes everybody; for a
promised value; and for the outcome of what was begun."""

from collections.abc import Callable
from typing import Generic, TypeVar

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled


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


class Wakeup(Generic[T]):
    """Wakes the task that made it, when it is called with what the task waits for."""

    __slots__ = ("_outcome", "_task")

    _outcome: T | Exception

    def __init__(self) -> None:
        self._task = current_task()

    def __call__(self, outcome: T | Exception) -> None:
        self._outcome = outcome
        reschedule(self._task)

    async def wait(self, cancel: Callable[[], object]) -> T:
        """Wait for the outcome; `cancel` sees to it that there will be none.

        Raises:
            Exception: that is the outcome.
        Cancellation: calls `cancel`.
        """

        def abort(_: object) -> Abort:
            cancel()
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)
        outcome = self._outcome
        if isinstance(outcome, Exception):
            try:
                raise outcome
            finally:
                del self._outcome, outcome  # a cycle: the traceback holds this frame
        return outcome
