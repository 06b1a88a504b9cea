"""Connection limits of an HTTP listener: which connection is closed when there are too many.

    stranger --first good head--> guest

A stranger is a connection that has not passed the guard. It costs next to nothing: thousands may be open, and the
newest is always accepted. When there are too many, the oldest stranger that has sent nothing is closed; if that one has
only just connected, the oldest whose first head is incomplete is closed instead. An honest host sends its request at
once. A stranger that is refused, or asks for what anybody may see, gets its answer at once, unless there are many: then
some at a time, so that a crowd comes again no faster than that, and takes a part of the hub's time only.

A guest has passed the guard. When there are too many, the guest that has been idle longest is closed; if none is idle,
the newcomer is refused. From three quarters of all guests on, a principal makes room by closing an idle one of its own.

The server and its connections share what is open, what is running, and a clock for their deadlines.
"""

import math
import select
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from itertools import islice
from typing import Final, Protocol

import trio

from hub.link.budget import Budget
from hub.link.rates import TokenBucket
from hub.net.http_message import EarlyReply, HttpLimits, HttpRequest, HttpResponse, Undecided
from hub.wire.http.request_head import HeadParser, read_head

ARRIVE_S: Final = 0.5
"""Time limit for the first bytes of an honest host to arrive."""
LOOKS: Final = 16
"""Number of silent strangers that are checked for bytes that nobody has read yet."""
REFUSED_AT_ONCE: Final = 64
REFUSED_TOGETHER: Final = 8
REFUSE_EVERY_S: Final = 0.01
"""Strangers that are refused without waiting for others, and that are refused together, that often, when more wait."""
REFUSED: Final = "All connections of this hub are in use; try again in a moment, or close some"


class Visitor(Protocol):
    """A connection as `Crowd` sees it. Hashable by identity."""

    deadline: float

    @property
    def principal(self) -> str: ...

    @property
    def is_idle(self) -> bool:
        """True if the connection is between two requests."""
        ...

    def has_sent(self) -> bool:
        """True if received bytes are waiting to be read."""
        ...

    def abort(self) -> None:
        """Close the connection, which also calls `Crowd.remove`."""
        ...

    def wake(self) -> None:
        """Have the task of the connection look what has changed."""
        ...


class Crowd:
    """All connections of one listener."""

    def __init__(self, most_guests: int, most_strangers: int) -> None:
        self.most_guests = most_guests
        self.most_strangers = most_strangers
        self._silent: dict[Visitor, float] = {}
        self._talking: dict[Visitor, float] = {}
        """Strangers that have sent something, and (above) those that have not; when each connected, oldest first."""
        self._guests: dict[Visitor, str] = {}
        """The principal of each guest."""
        self._of: dict[str, int] = {}
        """Number of guests by principal."""
        self._to_refuse: dict[Visitor, None] = {}
        """Strangers that wait for their refusal, those that came first at the front."""
        self._at_once = TokenBucket(REFUSED_AT_ONCE, REFUSED_TOGETHER / REFUSE_EVERY_S)
        self.refused = 0

    def __repr__(self) -> str:
        return f"<Crowd: {self.guests} guests, {len(self._silent)} silent strangers, {len(self._talking)} others>"

    @property
    def guests(self) -> int:
        return len(self._guests)

    @property
    def strangers(self) -> int:
        return len(self._silent) + len(self._talking)

    def add_stranger(self, visitor: Visitor, now: float) -> None:
        """Add a stranger; if there are too many, close another one."""
        while self.strangers >= self.most_strangers:
            self._oldest(now).abort()
        self._silent[visitor] = now

    def heard(self, visitor: Visitor) -> None:
        """Note that a stranger has begun to send."""
        since = self._silent.pop(visitor, None)
        if since is not None:
            self._talking[visitor] = since

    def may_refuse(self, visitor: Visitor, now: float) -> bool:
        """True if a stranger may be refused at once; else it waits for `refuse_some`."""
        if not self._to_refuse and self._at_once.take(now):
            return True
        self.heard(visitor)
        self._to_refuse[visitor] = None
        return False

    def is_to_wait(self, visitor: Visitor) -> bool:
        """True if the stranger waits for its refusal."""
        return visitor in self._to_refuse

    def refuse_some(self) -> bool:
        """Wake the next strangers that wait for their refusal; False: nobody waits any more."""
        for visitor in list(islice(self._to_refuse, REFUSED_TOGETHER)):
            del self._to_refuse[visitor]
            visitor.wake()
        return bool(self._to_refuse)

    def make_guest(self, visitor: Visitor) -> bool:
        """Make a stranger a guest; False: there is no room for another guest, and the stranger stays one."""
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

    def remove(self, visitor: Visitor) -> None:
        """Forget a closed connection; harmless when called again."""
        self._silent.pop(visitor, None)
        self._talking.pop(visitor, None)
        self._to_refuse.pop(visitor, None)
        principal = self._guests.pop(visitor, None)
        if principal is not None:
            left = self._of[principal] - 1
            if left:
                self._of[principal] = left
            else:
                del self._of[principal]

    def make_room(self, now: float) -> bool:
        """Close one connection to free its descriptor; False: every connection is in use."""
        if self.strangers:
            self._oldest(now).abort()
            return True
        return self._send_away()

    def _oldest(self, now: float) -> Visitor:
        """The stranger to close first: the oldest silent one, or, if that one has only just connected, the oldest with
        an incomplete head."""
        for visitor, since in list(islice(self._silent.items(), LOOKS)):
            if self._talking and now - since < ARRIVE_S:
                break
            if not visitor.has_sent():
                return visitor
            self.heard(visitor)  # its bytes have not been read yet
        return next(iter(self._talking or self._silent))

    def _send_away(self, principal: str | None = None) -> bool:
        """Close the guest that has been idle longest, of `principal` or of all guests; False: none is idle."""
        among = [guest for guest, whose in self._guests.items() if principal is None or whose == principal]
        idle = [guest for guest in among if guest.is_idle]
        idle.sort(key=lambda guest: guest.deadline)
        for guest in idle:
            if not guest.has_sent():  # a request that has arrived would be lost
                guest.abort()
                return True
        return False


Handler = Callable[[HttpRequest, HttpResponse], Awaitable[None]]
Guard = Callable[[HttpRequest], EarlyReply | Undecided | None]


class OpenConnection(Protocol):
    """A connection as its server sees it (`http_connection.Connection`)."""

    deadline: float
    """Time at which to stop waiting for bytes."""
    is_arriving: bool
    """A request has begun to arrive, and is not complete."""

    def expire(self) -> None: ...

    def stirred(self, event: int) -> None: ...


class ServerState:
    """State of one server.

    Its clock is read in place of the real one, so that a request does not pay for that. It stands still while upkeep
    is `asleep`; whoever brings news has to `wake` upkeep first.
    """

    def __init__(
        self,
        handler: Handler,
        guard: Guard,
        limits: HttpLimits,
        nursery: trio.Nursery,
        hangups: select.epoll,
        budget: Budget,
        crowd: Crowd,
    ) -> None:
        self.budget = budget
        self.crowd = crowd
        self.handler = handler
        self.guard = guard
        self.limits = limits
        self.nursery = nursery
        """Runs the connections, and the rest of writes that met a full socket."""
        self.hangups = hangups
        """Epoll set of every connection: reports hang-ups, and for strangers incoming bytes, too."""
        self.parser = HeadParser(read_head)
        self.connections: dict[int, OpenConnection] = {}
        """Open connections, by the descriptors of their sockets."""
        self.streams: set[HttpResponse] = set()
        self.running = 0
        """Requests being answered."""
        self.draining = False
        self.quiet = trio.Event()
        """Set when the server drains and no request is running."""
        self.room = trio.lowlevel.ParkingLot()
        """Tasks waiting for a connection to close or to become a guest."""
        self.asleep: trio.Event | None = None
        """Set while upkeep sleeps until something happens, which has to `wake` it first."""
        self._is_refusing = False
        self.now = trio.current_time()
        """The time, at most a second old unless upkeep is asleep."""
        self.date = b""
        """The `Date` header field of that time."""
        self.tick()

    def tick(self) -> None:
        """Take the time."""
        before, self.now = self.now, trio.current_time()
        self.date = f"Date: {formatdate(usegmt=True)}\r\n".encode()
        for response in self.streams:
            response.quiet_s += self.now - before

    def refuse_in_turn(self) -> None:
        """Have the strangers refused that wait for it."""
        if not self._is_refusing:
            self._is_refusing = True
            self.nursery.start_soon(self._refuse)

    async def _refuse(self) -> None:
        while self._is_refusing:
            await trio.sleep(REFUSE_EVERY_S)
            self._is_refusing = self.crowd.refuse_some()

    @property
    def is_idle(self) -> bool:
        """True if no request is arriving, and none is being answered but by streams."""
        return self.running == len(self.streams) and not any(each.is_arriving for each in self.connections.values())

    @property
    def next_due(self) -> float:
        """Time at which the next deadline passes, or a stream has been silent for too long."""
        pings = (self.now + self.limits.sse_ping_s - response.quiet_s for response in self.streams)
        return min((*pings, *(connection.deadline for connection in self.connections.values())), default=math.inf)

    def wake(self) -> None:
        """Wake upkeep if it is asleep, and take the time, which has stood still meanwhile."""
        if self.asleep is not None:
            self.asleep.set()
            self.asleep = None
            self.tick()
