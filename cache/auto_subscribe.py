"""Which resources the hub itself has itself told of, so as to keep them without a time-to-live (D-14).

By session, since whoever is told over one knows nothing of another. Those read least recently make room for others, and
one that changes more often than it is read is let go: to be told of it costs more than to read it.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

import trio

from cache.upstream_interface import PooledSession, Upstream
from hub.wire.jsonrpc import peek_object

MAX_OBSERVED: Final = 256
"""Resources per session."""
PATIENCE_S: Final = 0.1
"""How long a read waits for the upstream's agreement."""
AGAIN_S: Final = 30.0
"""How long the agreement to one that was refused, or is slow to come, is not waited for again."""
MAX_UNANSWERED: Final = 16
"""How many of a session may be slow to come until no more are asked for: perhaps the upstream answers none."""
MAX_CHANGES: Final = 2
"""How often one may change without being read meanwhile."""


class _Wanted:
    """One resource of a session."""

    __slots__ = ("changes", "not_before", "slow")

    def __init__(self) -> None:
        self.changes = 0
        """Since it was last read."""
        self.not_before = float("-inf")
        """When to ask for it, or to wait for it, again."""
        self.slow = False
        """Till then because the upstream did not agree soon, or at all."""


class AutoSubscriptions:
    """What is observed, over all sessions. `clock` gives the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: dict[str, WeakKeyDictionary[PooledSession, OrderedDict[str, _Wanted]]] = {}

    def __repr__(self) -> str:
        count = sum(len(wanted) for places in self._sessions.values() for wanted in places.values())
        return f"<AutoSubscriptions {count} resources>"

    def note_read(self, name: str, pooled: PooledSession, uri: str) -> None:
        """It was read, by whomever: it is worth being observed."""
        found = self._wanted_of(name, pooled)
        if (wanted := found.get(uri)) is not None:
            wanted.changes = 0
            found.move_to_end(uri)

    def is_worth_trying(self, upstream: Upstream, pooled: PooledSession, uri: str) -> bool:
        """Whether `observe` may bring something."""
        if bytes(peek_object(upstream.snapshot.capabilities.get("resources")).get("subscribe", b"")) != b"true":
            return False
        found, now = self._wanted_of(upstream.name, pooled), self._clock()
        wanted = found.get(uri)
        if wanted is not None:
            return wanted.not_before <= now
        slow = [known for known, each in found.items() if each.slow and each.not_before > now]
        return (
            len(slow) < MAX_UNANSWERED or sum(map(pooled.subscriptions.is_observed, slow)) > len(slow) - MAX_UNANSWERED
        )

    def _wanted_of(self, name: str, pooled: PooledSession) -> OrderedDict[str, _Wanted]:
        return self._sessions.setdefault(name, WeakKeyDictionary()).setdefault(pooled, OrderedDict())

    async def observe(self, name: str, pooled: PooledSession, uri: str, reader: int) -> None:
        """Have it observed in that session, since the conversation `reader` reads it; return when it is, or when that
        has taken too long.

        Cancellation: it is still wanted.
        """
        found = self._wanted_of(name, pooled)
        wanted = found.setdefault(uri, _Wanted())
        found.move_to_end(uri)
        wanted.changes = 0
        wanted.not_before = self._clock() + AGAIN_S
        self._make_room(pooled, found)
        with trio.move_on_after(PATIENCE_S):
            if await pooled.subscriptions.observe(uri, reader):
                wanted.not_before, wanted.slow = float("-inf"), False
                return
        wanted.slow = True

    def _make_room(self, pooled: PooledSession, found: OrderedDict[str, _Wanted]) -> None:
        while len(found) > MAX_OBSERVED:
            uri, _ = found.popitem(last=False)
            pooled.subscriptions.neglect(uri)

    def note_change(self, name: str, uri: str) -> None:
        """The upstream says that it changed."""
        for pooled, found in list(self._sessions.get(name, {}).items()):
            wanted = found.get(uri)
            if wanted is None:
                continue
            wanted.changes += 1
            if wanted.changes >= MAX_CHANGES and wanted.not_before <= self._clock():
                wanted.not_before = self._clock() + AGAIN_S
                pooled.subscriptions.neglect(uri)

    def forget_upstream(self, name: str) -> None:
        """Nothing of this upstream is of interest any more."""
        for pooled, found in list(self._sessions.pop(name, {}).items()):
            for uri in found:
                pooled.subscriptions.neglect(uri)
