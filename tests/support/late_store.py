"""A store that several hubs share, in memory and late: it keeps all the promises of `cache.shared_store` and no
others.
"""

from random import Random

import trio

from cache.cache_entry import EVERYONE, Entry
from cache.resource_index import is_trackable
from cache.shared_store import ReadTicket, StoreListener
from hub.wire.uri_hierarchy import parents


class Board:
    """What hubs have in common: entries, and all invalidations there ever were, in order."""

    def __init__(self, dice: Random, nursery: trio.Nursery) -> None:
        self.dice = dice
        self.nursery = nursery
        self.entries: dict[tuple[str, str, str], tuple[int, Entry]] = {}
        self.said: list[tuple[str, str | None]] = []
        self.members: list[Member] = []
        self.found = 0

    def join(self) -> "Member":
        """One more hub."""
        member = Member(self)
        self.members.append(member)
        return member

    def is_good(self, since: int, source: str, uri: str) -> bool:
        return not any(_concerns(each, source, uri) for each in self.said[since:])


def _concerns(said: tuple[str, str | None], source: str, uri: str) -> bool:
    about, changed = said
    if about != source:
        return False
    if changed is None or changed == uri or not is_trackable(changed):
        return True
    return changed in parents(uri) or uri in parents(changed)


class Member:
    """The end of one hub. In place of `cache.redis.store.RedisStore`."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.listener: StoreListener | None = None
        self.unwritten: dict[str, int] = {}
        self.looking: dict[str, int] = {}
        """How often something of a source was invalidated here."""

    @property
    def is_coherent(self) -> bool:
        return True

    async def run(self, listener: StoreListener) -> None:
        self.listener = listener
        await trio.sleep_forever()

    async def _wait(self) -> None:
        await trio.sleep(self.board.dice.choice((0, 0, 0.001, 0.01, 0.05)))

    async def look_up(
        self, source: str, uri: str, owner: str, abilities: str = ""
    ) -> tuple[Entry | None, ReadTicket | None]:
        if self.unwritten.get(source):
            return None, None
        before = self.looking.get(source, 0)
        await self._wait()
        board, found = self.board, None
        for each in (owner, EVERYONE):
            since, entry = board.entries.get((source, uri, each, abilities), (0, None))
            if entry is not None and board.is_good(since, source, uri):
                found = entry
        ticket = ReadTicket(str(len(board.said)), 0.0)
        await self._wait()
        if before != self.looking.get(source, 0):
            return None, None
        board.found += found is not None
        return found, ticket

    async def put(
        self, ticket: ReadTicket, source: str, uri: str, owner: str, entry: Entry, abilities: str = ""
    ) -> None:
        await self._wait()
        self.board.entries[source, uri, owner, abilities] = int(ticket.stamp), entry

    def invalidate(self, source: str, uri: str | None) -> None:
        self.looking[source] = self.looking.get(source, 0) + 1
        self.unwritten[source] = self.unwritten.get(source, 0) + 1
        self.board.nursery.start_soon(self._write, source, uri)

    async def _write(self, source: str, uri: str | None) -> None:
        await self._wait()
        self.board.said.append((source, uri))
        self.unwritten[source] -= 1
        for member in self.board.members:
            if member is not self:
                self.board.nursery.start_soon(self._tell, member, source, uri)

    async def _tell(self, member: "Member", source: str, uri: str | None) -> None:
        await self._wait()
        assert member.listener is not None, "it runs"
        member.listener.on_stale(source, uri)
