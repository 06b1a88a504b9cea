"""A hub that says how long the longest step of its loop was.

    python timed_hub.py ARGS        the arguments of `hubd serve`

Each SIGUSR2 has one line of JSON written to standard output: the longest step since the last one, in milliseconds, and
the task that took it.
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
    """The longest step of any task since it was last told."""

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
        """Write it, and begin anew."""
        told = {"ms": round(self._longest * 1000, 1), "task": self._task}
        self._longest, self._task = 0.0, ""
        os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    longest = Longest()
    signal.signal(signal.SIGUSR2, longest.tell)
    run = trio.run

    def timed(*args: Any, **options: Any) -> Any:
        """`trio.run`, watched."""
        return run(*args, **options, instruments=[longest])

    trio.run = timed
    sys.exit(main(["serve", *sys.argv[1:]]))
