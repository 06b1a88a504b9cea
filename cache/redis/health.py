"""Health of the shared store: when to bypass it, and what to log, once per change. Pure.

AWAY --> CONNECTED <--> SLOW                an answer in time ends SLOW
  ^          ^-------> FULL, READ-ONLY      a successful write ends these
  '----------'------------'                 the connection is lost
"""

import logging
from collections.abc import Mapping
from math import inf
from typing import Final, Literal

import msgspec
from msgspec import structs

from cache.statistics import StoreStatistics

log = logging.getLogger("cache.redis")

MISSES: Final = 5
"""Late answers in a row before the store is bypassed for a while."""
BYPASS_S: Final = 10.0
REFUSALS: Final[Mapping[str, "State"]] = {"OOM": "full", "MISCONF": "read-only"}
"""Error codes of a server that refuses writes."""
SAID_S: Final = 600.0
"""Seconds before a store that is full now and then is logged again."""

State = Literal["away", "connected", "slow", "full", "read-only"]


class StoreHealth:
    """Health of one store, as one hub finds it. Times are of the hub's clock."""

    def __init__(self, place: str, now: float) -> None:
        self.place = place
        self.state: State = "away"
        self.reason = "not reached yet"
        self.dropped = 0
        self.altered = 0
        self.late = 0
        self.bypasses = 0
        self._since = now
        self._said_away = False
        self._said_refused = -inf
        self._misses = 0
        self._bypassed_until = 0.0

    def is_bypassed(self, now: float) -> bool:
        """True if the store is not to be asked now."""
        return now < self._bypassed_until

    def on_lost(self, reason: str, now: float) -> None:
        self._turn("away", now if self.state != "away" else self._since, reason)
        if not self._said_away:
            self._said_away = True
            log.warning("the shared store at %s is not reached, so hubs share no cache: %s", self.place, reason)

    def on_reached(self, now: float) -> None:
        self._turn("connected", now)
        self._misses, self._bypassed_until, self._said_away = 0, 0.0, False
        log.info("the shared store at %s is reached", self.place)

    def on_late(self, now: float) -> None:
        self.late += 1
        self._misses += 1
        if self._misses < MISSES or self.is_bypassed(now):
            return
        self.bypasses += 1
        self._bypassed_until = now + BYPASS_S
        self._misses = MISSES - 1  # afterwards one more is enough
        if self.state == "connected":
            self._turn("slow", now, "it answers too late")
            log.warning("the shared store at %s answers too late and is asked only now and then", self.place)

    def on_answer(self, now: float) -> None:
        self._misses = 0
        if self.state == "slow" and not self.is_bypassed(now):
            self._turn("connected", now)
            log.info("the shared store at %s answers in time again", self.place)

    def on_refused(self, code: str, text: str, now: float) -> None:
        if self.state != "connected" or code not in REFUSALS:
            return
        self._turn(REFUSALS[code], now, f"{code} {text}")
        if now - self._said_refused >= SAID_S:
            self._said_refused = now
            text = "the shared store at %s is %s, so nothing new is kept there: %s"
            log.warning(text, self.place, self.state, self.reason)

    def on_written(self, now: float) -> None:
        if self.state not in REFUSALS.values():
            return
        was_said = self._since == self._said_refused
        self._turn("connected", now)
        if was_said:
            log.info("the shared store at %s accepts writes again", self.place)

    def on_altered(self) -> None:
        """A value was found that no hub of this key wrote."""
        self.altered += 1
        if self.altered == 1:
            log.warning("the shared store at %s holds a value that no hub of this key wrote", self.place)

    def statistics(self, now: float, hubs: int) -> StoreStatistics:
        """State and counts, for `hubd cache` and `hubd status`."""
        counts = msgspec.convert(self, StoreStatistics, from_attributes=True)
        return structs.replace(counts, since_s=max(0.0, now - self._since), hubs=hubs)

    def _turn(self, state: State, since: float, reason: str = "") -> None:
        self.state, self._since, self.reason = state, since, reason
