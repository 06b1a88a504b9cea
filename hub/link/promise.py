"""Promise of a value that tasks wait for."""

from typing import Generic, TypeVar

import trio

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
