"""Sweeps: an act at every step of a journey in turn, which must leave nothing behind."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from tests.support.house import House


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
    """Act at the n-th step of a journey, for every n until the journey ends before; returns its number of steps.

    `start` begins the journey and returns an object with an event `done`; `after` checks the remains, `rest_s` later.
    """
    for n in range(1, 2000):
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
