"""A hub that reports the longest step of its loop.

    python timed_hub.py ARGS        the arguments of `hubd serve`

Each SIGUSR2 prints one line of JSON: the longest step since the last signal, in milliseconds, and the task that took
it.
"""

import json
import os
import signal
import sys
import time
from typing import Any

import trio

from hub.cli.main import main


class Longest(trio.abc.Instrument):
    """The longest step of any task since the last report."""

    def __init__(self) -> None:
        self._began = 0.0
        self._longest, self._task = 0.0, ""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.perf_counter() - self._began
        if took > self._longest:
            self._longest, self._task = took, task.name

    def tell(self, *_: object) -> None:
        """Print the report, and begin anew."""
        told = {"ms": round(self._longest * 1000, 1), "task": self._task}
        self._longest, self._task = 0.0, ""
        os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    longest = Longest()
    signal.signal(signal.SIGUSR2, longest.tell)
    run = trio.run

    def timed(*args: Any, **options: Any) -> Any:
        """`trio.run` with an instrument."""
        return run(*args, **options, instruments=[longest])

    trio.run = timed
    sys.exit(main(["serve", *sys.argv[1:]]))
