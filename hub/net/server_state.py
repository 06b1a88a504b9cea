"""State shared by the server and its connections: what is open, what is running, and a clock for their deadlines."""

import math
import select
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Protocol

import trio

from hub.link.budget import Budget
from hub.net.connection_limits import REFUSE_EVERY_S, Crowd
from hub.net.http_message import EarlyReply, HttpLimits, HttpRequest, HttpResponse, Undecided
from hub.wire.http.request_head import HeadParser, read_head

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
