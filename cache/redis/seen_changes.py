"""Invalidations that this hub has seen, by the store's clock; entries older than one are not believed. Pure; bounded.

Whoever can write to the store can put back what was there before a change: entries, sealed as they are, and the tokens
that name them. So a hub goes by its own memory, too. What was read before a change that it was told of is not believed,
whatever the store says; nor what was read before this hub began to listen, for it cannot know what changed then.
"""

from collections.abc import Iterable
from math import inf
from typing import Final

MAX_SOURCES: Final = 1_024
MAX_FIELDS: Final = 4_096
"""Per source; more, and what was read of it before now is not believed."""
ALL: Final = "*"
"""The field that stands for all of a source (`cache.redis.layout`)."""


class _Source:
    __slots__ = ("fields", "since")

    def __init__(self) -> None:
        self.since: float = -inf
        """What became stale until then is not known any more."""
        self.fields: dict[str, int] = {}


class Changes:
    """Times are microseconds of the store's clock, fields those of `cache.redis.layout`."""

    def __init__(self) -> None:
        self.since: float = inf
        """What was read until then is not believed."""
        self._sources: dict[str, _Source] = {}

    def __repr__(self) -> str:
        return f"<Changes of {len(self._sources)} sources since {self.since}>"

    def begin(self, since: int) -> None:
        """Another link, which hears of everything from now on."""
        self.since = since
        self._sources.clear()

    def add(self, source: str, fields: Iterable[str], at: int) -> None:
        """What `fields` name changed; none: all of the source."""
        known = self._sources.get(source)
        if known is None:
            if len(self._sources) >= MAX_SOURCES:
                self.begin(at)
            known = self._sources[source] = _Source()
        for field in tuple(fields) or (ALL,):
            known.fields[field] = max(at, known.fields.get(field, at))
        if len(known.fields) > MAX_FIELDS:
            known.since = max(known.since, *known.fields.values())
            known.fields.clear()

    def knows(self, source: str, at: int) -> bool:
        """Whether this hub was told of all that changed after `at`."""
        known = self._sources.get(source)
        return at > self.since and (known is None or at > known.since)

    def concern(self, source: str, fields: Iterable[str], at: int) -> bool:
        """Whether any of `fields` changed since `at`."""
        known = self._sources.get(source)
        return known is not None and any(known.fields.get(field, -1) >= at for field in fields)
