"""Remembered between runs of the hub: when servers were connected last.

A server that is away for a moment is no reason to believe that it never works: `hubd import --disable-originals` takes
out of hosts what was connected, and had listed what it offers, within a day.
"""

from collections.abc import Callable
from typing import Final

from config.diff import config_key
from config.saved_state import Memory
from config.settings import UpstreamConfig

SECTION: Final = "last_connected"
"""The section of the memory: seconds since 1970 by `config_key`."""
LATELY_S: Final = 86_400.0
"""Seconds for which a server that was connected counts as one that works."""
NOTED_AGAIN_S: Final = 900.0
"""Time after which a server that is still connected is noted again, so that the memory is seldom written."""


class LastConnected:
    """The times at which servers were connected last. `wall` is the time of day in seconds."""

    def __init__(self, memory: Memory, wall: Callable[[], float]) -> None:
        self._memory = memory
        self._wall = wall

    def note(self, config: UpstreamConfig) -> None:
        """A server that is configured so is connected now, and has listed what it offers."""
        key = config_key(config)
        ago_s = self._ago_s(key)
        if ago_s is not None and ago_s < NOTED_AGAIN_S:
            return
        for other in self._memory.keys(SECTION):
            if self._ago_s(other) is None:
                self._memory.put(SECTION, other, None)
        self._memory.put(SECTION, key, round(self._wall()))

    def ago_s(self, config: UpstreamConfig) -> float | None:
        """Seconds since a server that is configured so was connected; None: not within `LATELY_S`."""
        return self._ago_s(config_key(config))

    def _ago_s(self, key: str) -> float | None:
        at = self._memory.get(SECTION, key)
        if not isinstance(at, int | float):
            return None
        ago_s = self._wall() - at
        return max(0.0, ago_s) if abs(ago_s) <= LATELY_S else None
