"""Counts the tasks that begin, of the whole event loop."""

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class BegunTasks(trio.abc.Instrument):
    """The number of tasks that have begun."""

    def __init__(self) -> None:
        self.begun = 0

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.begun += 1


@contextmanager
def counted_tasks() -> Iterator[BegunTasks]:
    """Count while this is open."""
    tasks = BegunTasks()
    trio.lowlevel.add_instrument(tasks)
    try:
        yield tasks
    finally:
        trio.lowlevel.remove_instrument(tasks)
