"""Log level of legacy upstreams: the most verbose that any host wants.

A legacy upstream has one level for all who share it; a modern request carries its own.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from hub.link.interface import Caller
from hub.wire.jsonrpc import Reply
from hub.wire.mcp import LOG_LEVELS, Era

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
        self._lingering: dict[str, float] = {}
        self._current: str | None = None

    @property
    def current(self) -> str | None:
        """The level they are set to; None: no host wants log messages."""
        return self._current

    def changed(self) -> None:
        """A legacy host set another level, or left."""
        self._settle()

    async def hold(self, caller: Caller, reply: Awaitable[Reply]) -> Reply:
        """Wait for `reply` at the level that the request of `caller` wants; that of a legacy session counts anyway."""
        if caller.log_level is None or caller.era is Era.LEGACY:
            return await reply
        with self.held(caller.log_level):
            return await reply

    @contextmanager
    def held(self, level: str) -> Iterator[None]:
        """A modern request that wants `level` runs within."""
        self._held[level] += 1
        self._settle()
        try:
            yield
        finally:
            self._held[level] -= 1
            self._lingering[level] = trio.current_time() + LEVEL_LINGER_S

    async def run(self) -> None:
        """Let levels go that no host wanted for a while."""
        while True:
            await trio.sleep(LEVEL_LINGER_S / 3)
            now = trio.current_time()
            self._held = +self._held
            self._lingering = {level: until for level, until in self._lingering.items() if until > now}
            self._settle()

    def _settle(self) -> None:
        level = most_verbose((*self._wanted(), *+self._held, *self._lingering))
        if level != self._current:
            self._current = level
            self._apply(level)


def most_verbose(levels: Sequence[str]) -> str | None:
    """The level that lets the most through; None for none."""
    return min(levels, key=LOG_LEVELS.index, default=None)
