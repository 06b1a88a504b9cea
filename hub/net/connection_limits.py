"""Who is let in at an HTTP listener when there are many, and who has to go for it.

    stranger --first good head--> guest

A stranger costs next to nothing, and may be anybody: thousands may be there, and the newest is always welcome. When
there are too many, the oldest that has said nothing goes at once; or, if that one has only just come, the oldest that
does not come to the end of its first head. An honest host says at once what it wants.

Guests have been let in by the guard. When there are too many, the one that has been idle longest goes; if none is, the
newcomer is refused. All that one principal has idle takes three quarters at most.
"""

from itertools import islice
from typing import Final, Protocol

ARRIVE_S: Final = 0.5
"""How long the first words of an honest host may be on their way."""
LOOKS: Final = 16
"""How many that seem to be silent are looked at for what they have sent."""
REFUSED: Final = "All connections of this hub are in use; try again in a moment, or close some"


class Visitor(Protocol):
    """A connection, as far as it matters here. Hashable by identity."""

    deadline: float

    @property
    def principal(self) -> str: ...

    @property
    def is_idle(self) -> bool:
        """Whether it is between two requests."""
        ...

    def has_sent(self) -> bool:
        """Whether there is something of it that nobody has read yet."""
        ...

    def abort(self) -> None:
        """Close it; it leaves the crowd by that."""
        ...


class Crowd:
    """All connections of one listener."""

    def __init__(self, most_guests: int, most_strangers: int) -> None:
        self.most_guests = most_guests
        self.most_strangers = most_strangers
        self._silent: dict[Visitor, float] = {}
        self._talking: dict[Visitor, float] = {}
        """Strangers that have said something, as those that have not: the oldest first, and since when they are."""
        self._guests: dict[Visitor, str] = {}
        """And of which principal each is."""
        self._of: dict[str, int] = {}
        """How many guests each principal has."""
        self.refused = 0

    def __repr__(self) -> str:
        return f"<Crowd: {self.guests} guests, {len(self._silent)} silent strangers, {len(self._talking)} others>"

    @property
    def guests(self) -> int:
        return len(self._guests)

    @property
    def strangers(self) -> int:
        return len(self._silent) + len(self._talking)

    def came(self, visitor: Visitor, now: float) -> None:
        """One more stranger; if there are too many, another one goes."""
        while self.strangers >= self.most_strangers:
            self._oldest(now).abort()
        self._silent[visitor] = now

    def heard(self, visitor: Visitor) -> None:
        """A stranger has begun to say something."""
        since = self._silent.pop(visitor, None)
        if since is not None:
            self._talking[visitor] = since

    def let_in(self, visitor: Visitor) -> bool:
        """Make a guest of a stranger; False: there is no room, and it stays what it is."""
        principal = visitor.principal
        if self._of.get(principal, 0) >= self.most_guests * 3 // 4:
            self._send_away(principal)
        if self.guests >= self.most_guests and not self._send_away():
            self.refused += 1
            return False
        self._silent.pop(visitor, None)
        self._talking.pop(visitor, None)
        self._guests[visitor] = principal
        self._of[principal] = self._of.get(principal, 0) + 1
        return True

    def left(self, visitor: Visitor) -> None:
        """One is gone; it may have been before."""
        self._silent.pop(visitor, None)
        self._talking.pop(visitor, None)
        principal = self._guests.pop(visitor, None)
        if principal is not None:
            left = self._of[principal] - 1
            if left:
                self._of[principal] = left
            else:
                del self._of[principal]

    def make_room(self, now: float) -> bool:
        """Close one connection, whose descriptor is needed; False: all are of use."""
        if self.strangers:
            self._oldest(now).abort()
            return True
        return self._send_away()

    def _oldest(self, now: float) -> Visitor:
        """The stranger that goes first: a silent one, unless it has only just come and there are others, who say
        something and come to no end with it."""
        for visitor, since in list(islice(self._silent.items(), LOOKS)):
            if self._talking and now - since < ARRIVE_S:
                break
            if not visitor.has_sent():
                return visitor
            self.heard(visitor)  # nobody has come to read it yet
        return next(iter(self._talking or self._silent))

    def _send_away(self, principal: str | None = None) -> bool:
        """Close the guest that has been idle longest, of `principal` or of all; False: none is idle."""
        among = [guest for guest, whose in self._guests.items() if principal is None or whose == principal]
        idle = [guest for guest in among if guest.is_idle]
        idle.sort(key=_deadline)
        for guest in idle:
            if not guest.has_sent():  # or a request would be lost that is on its way
                guest.abort()
                return True
        return False


def _deadline(visitor: Visitor) -> float:
    """When it will have been idle for too long."""
    return visitor.deadline
