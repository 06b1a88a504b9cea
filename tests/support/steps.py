"""Work in one step of the loop, counted in items and bytes, never in time."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from msgspec import Raw


class Steps(trio.abc.Instrument):
    """Counts the noted work between two checkpoints of a task."""

    def __init__(self) -> None:
        self._now = self._now_bytes = 0
        self.total = 0
        self.most = 0
        """The most items of one step."""
        self.most_bytes = 0

    def __repr__(self) -> str:
        return f"<Steps: {self.total} in all, at most {self.most} and {self.most_bytes} bytes at once>"

    def note(self, size: int = 0) -> None:
        """Note one more item of `size` bytes."""
        self.total += 1
        self._now += 1
        self._now_bytes += size

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.most, self.most_bytes = max(self.most, self._now), max(self.most_bytes, self._now_bytes)
        self._now = self._now_bytes = 0

    def count(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        """Note every call of the function `name` of `owner`, whose first argument may have a size."""
        function: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **options: Any) -> Any:
            first = args[0] if args else b""
            self.note(memoryview(first).nbytes if isinstance(first, bytes | bytearray | Raw) else 0)
            return function(*args, **options)

        monkeypatch.setattr(owner, name, counted)


class Wakes(trio.abc.Instrument):
    """Counts how often tasks were woken, apart from the task that made this."""

    def __init__(self) -> None:
        self.count = 0
        self._mine = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is not self._mine


async def wakes_within(seconds: float) -> int:
    """How often tasks other than this one are woken within `seconds` of the loop's time."""
    wakes = Wakes()
    trio.lowlevel.add_instrument(wakes)
    await trio.sleep(seconds)
    trio.lowlevel.remove_instrument(wakes)
    return wakes.count


@contextlib.contextmanager
def counting() -> Iterator[Steps]:
    """Count while the block runs."""
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)
