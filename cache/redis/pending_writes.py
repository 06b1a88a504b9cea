"""Pending writes: invalidations that are not in the shared store yet. Pure; bounded."""

from collections.abc import Iterator
from typing import Final

MAX_URIS: Final = 64
"""URIs per source; more count as all of the source."""
MAX_CHARS: Final = 64 << 10
"""Characters of those URIs together; more count as all of the source."""

All = None
"""In place of URIs: all of a source."""


class PendingWrites:
    """Invalidations waiting or being written, by source. Sources are few: configurations of servers."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[str] | None] = {}
        self._writing: dict[str, set[str] | None] = {}

    def __contains__(self, source: str) -> bool:
        return source in self._waiting or source in self._writing

    def __bool__(self) -> bool:
        return bool(self._waiting or self._writing)

    @property
    def is_waiting(self) -> bool:
        """True if something waits to be taken."""
        return bool(self._waiting)

    def __repr__(self) -> str:
        return f"<PendingWrites: {len(self._waiting)} sources, {len(self._writing)} being written>"

    def add(self, source: str, uri: str | None) -> None:
        """`uri` of `source` changed; None: all of it."""
        uris = self._waiting.setdefault(source, set())
        if uris is None:
            return
        if uri is not None:
            uris.add(uri)
        if uri is None or len(uris) > MAX_URIS or sum(map(len, uris)) > MAX_CHARS:
            self._waiting[source] = All

    def take_batch(self) -> dict[str, set[str] | None]:
        """Take all that waits; it counts as being written until `mark_written` or `requeue`."""
        self._writing, self._waiting = self._waiting, {}
        return self._writing

    def mark_written(self) -> None:
        """All that was taken is in the store."""
        self._writing = {}

    def requeue(self) -> None:
        """Queue again all that was taken: it may not be in the store."""
        taken, self._writing = self._writing, {}
        for source, uri in _each(taken):
            self.add(source, uri)


def _each(taken: dict[str, set[str] | None]) -> Iterator[tuple[str, str | None]]:
    for source, uris in taken.items():
        yield from ((source, uri) for uri in (uris if uris is not None else (None,)))
