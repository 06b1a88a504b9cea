"""Journals: what upstreams said and what became of them, for `hubd logs`; short, and kept across restarts.

Each upstream has a ring of records, bounded in number and in characters; the oldest go first. Each follower has a queue
of its own, bounded too: a slow follower loses the oldest records and is told how many, and never holds up writers.
Texts come without control characters and without the secrets of the configuration (`redact`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from heapq import merge
from typing import Final, Generic, TypeVar

from hub.link.sync_primitives import DirtyFlag
from upstreams.journal.record_filter import EVERY_RECORD, RecordFilter
from upstreams.status_facts import JournalRecord

MAX_RECORDS: Final = 1_000
MAX_CHARS: Final = 256 << 10
MAX_TEXT_CHARS: Final = 4_000
MAX_QUEUED: Final = 1_000
"""Records that wait for one follower."""
MAX_MERGED_CHARS: Final = 2 << 20
"""Characters of journals that are read together."""

Entry = TypeVar("Entry")


class Follower(Generic[Entry]):
    """A reader of new records, of whatever kind."""

    def __init__(self) -> None:
        self._queue: deque[Entry] = deque()
        self._dropped = 0
        self._news = DirtyFlag()

    def queue(self, record: Entry) -> None:
        if len(self._queue) == MAX_QUEUED:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(record)
        self._news.set()

    async def next(self) -> tuple[list[Entry], int]:
        """Wait for new records: those that are queued, and how many before them were lost."""
        await self._news.take()
        found, lost = list(self._queue), self._dropped
        self._queue.clear()
        self._dropped = 0
        return found, lost


class Journal:
    """The records of one upstream, or of the hub itself, which is `name`. `wall` tells the time."""

    def __init__(
        self, wall: Callable[[], float], name: str = "", of_all: dict[Follower[JournalRecord], None] | None = None
    ) -> None:
        self._wall = wall
        self._name = name
        self._followers_of_all: dict[Follower[JournalRecord], None] = {} if of_all is None else of_all
        self._records: deque[JournalRecord] = deque(maxlen=MAX_RECORDS)
        self._chars = 0
        self._followers: dict[Follower[JournalRecord], None] = {}

    def add(
        self, kind: str, text: str, pid: int | None = None, *, level: str = "", ref: str = "", about: str = ""
    ) -> None:
        """Add a record for each line of `text`."""
        for line in text.splitlines():
            record = JournalRecord(self._wall(), kind, line[:MAX_TEXT_CHARS], pid, self._name, level, ref, about)
            if len(self._records) == MAX_RECORDS:
                self._drop()
            self._records.append(record)
            self._chars += len(record.text)
            while self._chars > MAX_CHARS:
                self._drop()
            for followers in (self._followers, self._followers_of_all):
                for follower in followers:
                    follower.queue(record)

    def _drop(self) -> None:
        self._chars -= len(self._records.popleft().text)

    def tail(self, lines: int, wanted: RecordFilter = EVERY_RECORD) -> list[JournalRecord]:
        """The last `lines` records that are wanted, oldest first."""
        return list(deque(filter(wanted.passes, self._records), max(0, lines)))

    def follow(
        self, follower: Follower[JournalRecord] | None = None
    ) -> AbstractContextManager[Follower[JournalRecord]]:
        """Follow what is added from now on; with a `follower` that follows others as well, by that one."""
        return _follow(self._followers, follower or Follower[JournalRecord]())


class Journals(dict[str, Journal]):
    """Journals of all upstreams, by name, so that a successor goes on where its predecessor ended. One that is missing
    is made."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._followers: dict[Follower[JournalRecord], None] = {}
        """Followers of all journals, also of such as are made later."""

    def __missing__(self, name: str) -> Journal:
        return self.setdefault(name, Journal(self._wall, name, self._followers))

    def tails(self, lines: int, wanted: RecordFilter) -> Iterator[list[JournalRecord]]:
        """The last `lines` records of each journal that are wanted."""
        return (journal.tail(lines, wanted) for journal in self.values())

    def follow(self, follower: Follower[JournalRecord]) -> AbstractContextManager[Follower[JournalRecord]]:
        """Follow what is added to any journal from now on."""
        return _follow(self._followers, follower)


@contextmanager
def _follow(
    followers: dict[Follower[JournalRecord], None], follower: Follower[JournalRecord]
) -> Iterator[Follower[JournalRecord]]:
    followers[follower] = None
    try:
        yield follower
    finally:
        del followers[follower]


def merge_tails(tails: Iterable[list[JournalRecord]], lines: int) -> list[JournalRecord]:
    """The last `lines` records of several journals, oldest first, as many as `MAX_MERGED_CHARS` allow."""
    newest = merge(*(reversed(tail) for tail in tails), key=lambda record: record.at, reverse=True)
    found: list[JournalRecord] = []
    chars = 0
    for record in newest:
        chars += len(record.text)
        if len(found) >= lines or chars > MAX_MERGED_CHARS:
            break
        found.append(record)
    return found[::-1]
