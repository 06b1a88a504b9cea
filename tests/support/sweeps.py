"""Sweeps: an act at a step of a journey, which must leave nothing behind, at one step after the other.

`make soak` goes through every step; other runs through some, which are others in each run.
"""

import os
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import trio

from tests.support.house import House

EVERY = "HUBD_SEEDS" in os.environ
LONGEST = 3000
"""The step by which any journey has ended."""


def moments(apart: int = 4) -> Iterator[int]:
    """Numbers of steps, below `LONGEST`: all from 1 on if `EVERY`; else some, which are `apart` in the mean."""
    n = 0
    while (n := n + (1 if EVERY else random.randrange(1, 2 * apart))) < LONGEST:
        yield n


class At(trio.abc.Instrument):
    """Acts before the n-th step of any task from now on."""

    def __init__(self, n: int, act: Callable[[], object]) -> None:
        self._left = n
        self._act = act
        self.acted = trio.Event()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()
            self.acted.set()


async def sweep(
    house: House,
    act: Callable[[], object],
    start: Callable[[int], Awaitable[Any]],
    *,
    before: Callable[[], Awaitable[object]] | None = None,
    after: Callable[[], Awaitable[object]],
    rest_s: float = 3,
) -> int:
    """Act at the n-th step of a journey, for one n after the other until the journey ends before; returns that n.

    `start` begins the journey and returns an object with an event `done`; `after` checks the remains, `rest_s` later.
    """
    for n in moments():
        if before is not None:
            await before()
        at = At(n, act)
        trio.lowlevel.add_instrument(at)
        question = await start(n)
        async with trio.open_nursery() as nursery:
            for event in (question.done, at.acted):
                nursery.start_soon(first, event, nursery.cancel_scope)
        trio.lowlevel.remove_instrument(at)
        if not at.acted.is_set():
            return n
        await trio.sleep(rest_s)
        await after()
        house.assert_at_rest()
        house.assert_judged()
    raise AssertionError("it has no end")


async def first(event: trio.Event, scope: trio.CancelScope) -> None:
    """Cancel `scope` once `event` is set."""
    await event.wait()
    scope.cancel()
