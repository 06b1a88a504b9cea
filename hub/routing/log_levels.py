"""Log level of legacy upstreams: the most verbose that any host wants.

A legacy upstream has one level for all who share it; a modern request carries its own.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import trio

from hub.link.sync_primitives import DirtyFlag
from hub.wire.mcp import LOG_LEVELS

LEVEL_LINGER_S: Final = 30.0
"""Seconds for which an upstream stays as talkative as a modern request wanted it."""


class LogLevels:
    """The one level each legacy upstream is set to: the most verbose any host wants.

    `apply` is called with it whenever it changes. Hosts of legacy sessions want theirs until they say otherwise; a
    modern request wants its own while it runs and for `LEVEL_LINGER_S` more, so that upstreams are not told twice per
    call.
    """

    def __init__(self, wanted: Callable[[], Iterable[str]], apply: Callable[[str | None], None]) -> None:
        self._wanted = wanted
        self._apply = apply
        self._held: Counter[str] = Counter()
        """By level: the modern requests that run and want it."""
        self._lingering: dict[str, float] = {}
        """By level: until when it counts without such a request, in trio's time."""
        self._released = DirtyFlag()
        """A request has ended since `run` looked last."""
        self._current: str | None = None
        """The level they are set to; None: no host wants log messages."""

    def hold(self, level: str) -> None:
        """A modern request that wants `level` runs; `release` must follow."""
        self._held[level] += 1
        self.changed()

    def release(self, level: str) -> None:
        """The request is over."""
        self._held[level] -= 1
        self._lingering[level] = trio.current_time() + LEVEL_LINGER_S
        self._released.set()

    async def run(self) -> None:
        """Let levels go that no host wanted for a while, for ever. Sleeps while none linger."""
        while True:
            while self._lingering:
                await trio.sleep_until(min(self._lingering.values()))
                now = trio.current_time()
                self._lingering = {level: until for level, until in self._lingering.items() if until > now}
                self.changed()
            await self._released.take()

    def changed(self) -> None:
        """Apply the most verbose level: a legacy host set another one, or left, or a request did."""
        level = min((*self._wanted(), *+self._held, *self._lingering), key=LOG_LEVELS.index, default=None)
        if level != self._current:
            self._current = level
            self._apply(level)
