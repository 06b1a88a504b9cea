"""What an upstream said and what became of it, for `hubd logs`: a short memory, kept across its restarts.

Each upstream has a ring of records, bounded in number and in characters; the oldest go first. Who follows one has a
queue of its own, bounded too: a follower that is too slow loses the oldest and is told how many, and never holds up
what writes. Texts come without control characters and without the secrets of the configuration (`redact`).
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from hub.link.wakeups import DirtyFlag
from upstreams.facts import Record

MAX_RECORDS: Final = 1_000
MAX_CHARS: Final = 256 << 10
MAX_TEXT_CHARS: Final = 4_000
MAX_QUEUED: Final = 1_000
"""Records that wait for one follower."""


class Journal:
    """The records of one upstream. `wall` tells the time."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self._chars = 0
        self._followers: dict[Follower, None] = {}

    def __repr__(self) -> str:
        return f"<Journal of {len(self._records)} records, {len(self._followers)} follow>"

    def add(self, kind: str, text: str, pid: int | None = None) -> None:
        """One more; each line of `text` is one."""
        for line in text.splitlines():
            record = Record(self._wall(), kind, line[:MAX_TEXT_CHARS], pid)
            if len(self._records) == MAX_RECORDS:
                self._drop()
            self._records.append(record)
            self._chars += len(record.text)
            while self._chars > MAX_CHARS:
                self._drop()
            for follower in self._followers:
                follower.take(record)

    def _drop(self) -> None:
        self._chars -= len(self._records.popleft().text)

    def tail(self, lines: int) -> list[Record]:
        """The last so many, oldest first."""
        return list(self._records)[-lines:] if lines > 0 else []

    @contextmanager
    def follow(self) -> "Iterator[Follower]":
        """What is added from now on."""
        follower = Follower()
        self._followers[follower] = None
        try:
            yield follower
        finally:
            del self._followers[follower]


class Follower:
    """Somebody who reads on."""

    def __init__(self) -> None:
        self._queue: deque[Record] = deque()
        self._dropped = 0
        self._news = DirtyFlag()

    def take(self, record: Record) -> None:
        """One more record."""
        if len(self._queue) == MAX_QUEUED:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(record)
        self._news.set()

    async def next(self) -> tuple[list[Record], int]:
        """Wait for more: all records there are, and how many before them were lost."""
        await self._news.take()
        found, lost = list(self._queue), self._dropped
        self._queue.clear()
        self._dropped = 0
        return found, lost


class Journals:
    """Those of all upstreams, by name, so that one that is replaced goes on where the other ended."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._journals: dict[str, Journal] = {}

    def __repr__(self) -> str:
        return f"<Journals of {', '.join(self._journals) or 'nobody'}>"

    def of(self, name: str) -> Journal:
        """That of the upstream `name`, whether there was one before or not."""
        return self._journals.setdefault(name, Journal(self._wall))

    def forget(self, name: str) -> None:
        """The upstream is no more. Who follows it hears no more."""
        self._journals.pop(name, None)
