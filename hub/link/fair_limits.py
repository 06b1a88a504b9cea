"""Places where only so many may be at a time, and so many begin a minute; and the queue for them. Pure: time is an
argument.

    come -> a place is free -> `take` -> `release`
         -> `join` -> its turn -> `next` -> `release`
                   -> too many wait: the newest of the host that has most waiting has to go

Hosts take turns, so that one with a hundred calls holds up another for one call only. What goes on with something that
was begun goes first; after it a host has its turn in any case, so that nobody can repeat that to keep others out.
"""

from collections import deque
from collections.abc import Callable, Hashable
from math import inf
from typing import Final

from msgspec import Struct

MINUTE_S: Final = 60.0


class Turn(Struct, eq=False):
    """One that waits for a place."""

    host: Hashable
    wake: Callable[[Exception | None], None]
    """For whoever waits: called with None, it has a place; with an error, it gets none."""
    goes_first: bool = False


class Places:
    """The places at one thing, without limits until `adjust`."""

    def __init__(self) -> None:
        self.running = 0
        """Places that are taken."""
        self.waiting = 0
        self._in_flight = self._queue = self._per_minute = 0
        self._begun: deque[float] = deque()
        """Times at which the latest began, as many as may in a minute."""
        self._lines: dict[Hashable, deque[Turn]] = {}
        """Turns that wait, by host, in the order of the hosts' turns."""
        self._was_first = False
        """The latest `next` was one that goes first."""

    def adjust(self, in_flight: int, queue: int, per_minute: int) -> None:
        """Change the limits; 0: none of places, or of those that begin a minute. `queue`: how many may wait."""
        self._in_flight, self._queue, self._per_minute = in_flight, queue, per_minute
        self._begun = deque(self._begun, maxlen=per_minute)

    def opens_at(self, now: float) -> float:
        """Time from which there is a place for the next; infinity: one has to be given back first."""
        if 0 < self._in_flight <= self.running:
            return inf
        if not self._per_minute or len(self._begun) < self._per_minute:
            return now
        return max(now, self._begun[0] + MINUTE_S)

    def take(self, now: float) -> bool:
        """Take a place, for `release`; False: there is none, or others have waited for it."""
        if self.waiting or self.opens_at(now) > now:
            return False
        self._begin(now)
        return True

    def release(self) -> None:
        """Give a place back."""
        self.running -= 1

    def next(self, now: float) -> Turn | None:
        """The next that waits, which has a place from now on, for `release`; None: there is none, or no place."""
        if not self.waiting or self.opens_at(now) > now:
            return None
        host = next(iter(self._lines))
        if not self._was_first:
            host = next((each for each, line in self._lines.items() if line[0].goes_first), host)
        turn = self._lines[host][0]
        self.withdraw(turn)
        if host in self._lines:
            self._lines[host] = self._lines.pop(host)
        self._was_first = turn.goes_first
        self._begin(now)
        return turn

    def _begin(self, now: float) -> None:
        self.running += 1
        if self._per_minute:
            self._begun.append(now)

    def join(self, turn: Turn) -> Turn | None:
        """Have one wait, until `next` or `withdraw`. Returns the one that has to go for that, perhaps itself."""
        line = self._lines.setdefault(turn.host, deque())
        line.insert(sum(each.goes_first for each in line) if turn.goes_first else len(line), turn)
        self.waiting += 1
        return self.dismiss(turn.host)

    def dismiss(self, newcomer: Hashable = None) -> Turn | None:
        """Take one out of the queue, if more wait than may: the newest of the host that has most waiting. Of several
        such hosts that is `newcomer`, if it is one."""
        if self.waiting <= self._queue:
            return None
        host = max(reversed(self._lines), key=lambda each: (len(self._lines[each]), each == newcomer))
        turn = self._lines[host][-1]
        self.withdraw(turn)
        return turn

    def withdraw(self, turn: Turn) -> None:
        """Have one wait no more."""
        line = self._lines[turn.host]
        line.remove(turn)
        self.waiting -= 1
        if not line:
            del self._lines[turn.host]
