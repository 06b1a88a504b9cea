"""Auto-subscription: resources the hub subscribes to itself, so that they can be cached without a time-to-live.

Kept per session, since a subscription holds for one session only. The least recently read make room for others, and a
resource that changes more often than it is read is given up: its notifications would cost more than reads.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final
from weakref import WeakKeyDictionary

import trio

from cache.upstream_interface import ReadablePooledSession, ReadableUpstream
from hub.link.call_interface import Program
from hub.wire.jsonrpc import peek_object

MAX_OBSERVED: Final = 256
"""Resources per session."""
PATIENCE_S: Final = 0.1
"""Time that a read waits until the upstream agrees to a subscription."""
AGAIN_S: Final = 30.0
"""Time for which no read waits again after a refused or slow subscription."""
MAX_UNANSWERED: Final = 16
"""Slow subscriptions per session before no more are requested: perhaps the upstream answers none."""
MAX_CHANGES: Final = 2
"""Changes without a read in between before a resource is given up."""


@dataclass(slots=True)
class _Wanted:
    """A resource that the hub wants to be told of, in one session."""

    changes: int = 0
    """Changes since the last read."""
    not_before: float = -inf
    """Earliest time to subscribe, or to wait for the subscription, again."""
    slow: bool = False
    """True if the upstream did not agree in time, or refused."""


class AutoSubscriptions:
    """Auto-subscriptions of all sessions. `clock` gives the time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: dict[str, WeakKeyDictionary[ReadablePooledSession, OrderedDict[str, _Wanted]]] = {}

    def note_read(self, name: str, pooled: ReadablePooledSession, uri: str) -> None:
        """Note a read by any host: the resource is worth observing."""
        found = self._wants_of(name, pooled)
        if (wanted := found.get(uri)) is not None:
            wanted.changes = 0
            found.move_to_end(uri)

    def is_worth_trying(self, upstream: ReadableUpstream, pooled: ReadablePooledSession, uri: str) -> bool:
        """True if `observe` has a chance of success."""
        if bytes(peek_object(upstream.snapshot.capabilities.get("resources")).get("subscribe", b"")) != b"true":
            return False
        found, now = self._wants_of(upstream.name, pooled), self._clock()
        if (wanted := found.get(uri)) is not None:
            return wanted.not_before <= now
        slow = [known for known, each in found.items() if each.slow and each.not_before > now]
        return len(slow) - sum(map(pooled.subscriptions.is_observed, slow)) < MAX_UNANSWERED

    def _wants_of(self, name: str, pooled: ReadablePooledSession) -> OrderedDict[str, _Wanted]:
        return self._sessions.setdefault(name, WeakKeyDictionary()).setdefault(pooled, OrderedDict())

    async def observe(self, name: str, pooled: ReadablePooledSession, uri: str, reader: Program) -> None:
        """Subscribe in that session, for the program `reader`; return when subscribed, or after `PATIENCE_S`.

        Cancellation: the subscription is still wanted.
        """
        found = self._wants_of(name, pooled)
        wanted = found.setdefault(uri, _Wanted())
        found.move_to_end(uri)
        wanted.changes = 0
        wanted.not_before = self._clock() + AGAIN_S
        while len(found) > MAX_OBSERVED:
            pooled.subscriptions.neglect(found.popitem(last=False)[0])
        with trio.move_on_after(PATIENCE_S):
            if await pooled.subscriptions.observe(uri, reader):
                wanted.not_before, wanted.slow = -inf, False
                return
        wanted.slow = True

    def note_change(self, name: str, uri: str) -> None:
        """Note a change that the upstream reported."""
        for pooled, found in list(self._sessions.get(name, {}).items()):
            if (wanted := found.get(uri)) is None:
                continue
            wanted.changes += 1
            if wanted.changes >= MAX_CHANGES and wanted.not_before <= self._clock():
                wanted.not_before = self._clock() + AGAIN_S
                pooled.subscriptions.neglect(uri)

    def forget_upstream(self, name: str) -> None:
        """An upstream was removed: give up all its subscriptions."""
        for pooled, found in list(self._sessions.pop(name, {}).items()):
            for uri in found:
                pooled.subscriptions.neglect(uri)
