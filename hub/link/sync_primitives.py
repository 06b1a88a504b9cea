"""Ways for tasks to wait: for a flag, which merges changes for one task; for a bell, which wakes everybody; for a
promised value; and for the outcome of what was begun. Functions may wait for the end of a turn of the event loop.

In one turn tasks do what they were woken for; at its end the loop waits for the kernel. Many tasks may write to one
peer in a turn. What is given to `LoopTurns` is done at its end, once, before the wait: then the loop has decided how
long to wait, so nothing done there may wake a task but by `wake`.
"""

import logging
from collections.abc import Callable, Generator
from typing import Final, Generic, TypeVar

import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

log = logging.getLogger(__name__)
T = TypeVar("T")


async def take_turns(steps: Generator[int, None, T], most: int = 100) -> T:
    """Run all steps of something, each of which yields how many entries it has looked at, with a checkpoint after
    every `most` of these; the result. Cancellation: it is given up."""
    looked_at = 0
    try:
        while True:
            looked_at += next(steps)
            if looked_at >= most:
                looked_at = 0
                await checkpoint()
    except StopIteration as end:
        result: T = end.value
        return result


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


SHARED_TURN: Final = 3
"""Messages that are read over one connection in a turn while several hosts are busy."""
SHARED_FOR: Final = 100
"""Turns for which several hosts count as busy once another one than the last has sent something."""


class LoopTurns(trio.abc.Instrument):
    """The turns of one event loop."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the present turn."""
        self.is_shared = False
        """Several hosts are busy: turns are to be short, so that none of them waits long for its own."""
        self._sender: object = None
        self._shared_until = 0
        self.at_end: list[Callable[[], None]] = []
        """Called at the end of the present turn; must not wake a task."""
        self.wake = trio.lowlevel.current_trio_token().run_sync_soon
        """Calls a function in the next turn, which may wake tasks, but must not raise."""

    def note(self, sender: object) -> None:
        """Note which host has sent what is handled now. `sender`: its name or identity, which may be kept."""
        if sender != self._sender:
            self.is_shared = self._sender is not None
            self._sender, self._shared_until = sender, self.number + SHARED_FOR

    def before_io_wait(self, timeout: float) -> None:
        """End the present turn."""
        self.number += 1
        if self.is_shared and self.number > self._shared_until:
            self.is_shared = False
        if self.at_end:
            due, self.at_end = self.at_end, []
            for call in due:
                try:
                    call()
                except Exception:
                    log.exception("something failed at the end of a turn of the loop")


_TURNS: Final = trio.lowlevel.RunVar[LoopTurns]("turns of the loop")


def loop_turns() -> LoopTurns:
    """The turns of this event loop."""
    try:
        return _TURNS.get()
    except LookupError:
        turns = LoopTurns()
        _TURNS.set(turns)
        trio.lowlevel.add_instrument(turns)
        return turns
