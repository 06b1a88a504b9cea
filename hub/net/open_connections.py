"""Open connections of an HTTP listener, which of them is closed when there are too many (`Crowd`), and the state that
all share (`ServerState`).

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

import select
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from typing import Final

import trio
from msgspec import Struct

from hub.link.memory_budget import Budget
from hub.link.rate_limits import TokenBucket
from hub.linux.socket_watch import SocketWatch
from hub.net.http_request import EarlyReply, Ends, HttpLimits, HttpRequest, Undecided
from hub.net.response_writer import HttpResponse
from hub.wire.http.request_parser import HeadParser, RequestHead, head_end, read_head

ARRIVE_S: Final = 0.5
"""Time limit for the first bytes of an honest host to arrive."""
LOOKS: Final = 16
"""Number of silent strangers that are checked for bytes that nobody has read yet."""
AT_ONCE: Final = 64
ANSWERED_TOGETHER: Final = 8
ANSWER_EVERY_S: Final = 0.01
"""Strangers that are answered without waiting, and that are answered together, that often, when more wait."""
REFUSED: Final = "All connections of this hub are in use; try again in a moment, or close some"


class Arrived(Struct, frozen=True):
    """A request, without its body."""

    request: HttpRequest
    head: RequestHead
    length: int


class OpenConnection:
    """An accepted connection. Its methods return at once."""

    __slots__ = (
        *("_buffer", "_searched", "_stream", "close_after", "closed", "deadline", "fd", "hung_up", "is_arriving"),
        "shared",
    )

    def __init__(self, stream: trio.SocketStream, shared: "ServerState") -> None:
        self._stream = stream
        self._buffer = b""
        self._searched = 0
        """Bytes of the buffer that hold no end of a head."""
        self.shared = shared
        self.fd = stream.socket.fileno()
        """Descriptor of its socket; another's may have the number once it is `closed`."""
        self.deadline = shared.now + shared.limits.header_timeout_s
        """Time at which to stop waiting for bytes."""
        self.is_arriving = False
        """A request has begun to arrive, and is not complete: a timeout is worth an answer."""
        self.close_after = False
        self.closed = False
        self.hung_up = False
        shared.connections[self.fd] = self

    @property
    def is_idle(self) -> bool:
        """True if the connection is between two requests."""
        return False

    def has_sent(self) -> bool:
        """True if received bytes are waiting to be read."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(self._buffer or poll.poll(0))

    def read_head(self, data: bytes) -> Arrived | None:
        """Take more bytes of a request; None: its head is not complete. The buffer is what has come behind it. Raises
        HttpRefusal: it is malformed."""
        shared = self.shared
        if not self.is_arriving:
            if shared.asleep is not None:
                shared.wake()
            self.deadline = shared.now + shared.limits.header_timeout_s
            self.is_arriving = True
        data = self._buffer + data
        if not (end := head_end(data, self._searched)):
            self._buffer, self._searched = data, max(0, len(data) - 3)
            return None
        head, length = shared.parser.parse(data[:end])
        self._buffer, self._searched = data[end:], 0
        headers = head.headers.copy()
        if head.sized:
            headers["content-length"] = str(length)
        request = HttpRequest(head.method, head.path, headers, b"", head.query, ends=partial(_ends, self._stream))
        return Arrived(request, head, length)

    def stirred(self, hung_up: bool) -> None:
        """The peer has hung up, or has sent something."""
        raise NotImplementedError

    def expire(self) -> None:
        """Stop reading: the deadline has passed."""
        raise NotImplementedError

    def take_turns_as(self, sender: Hashable) -> None:
        """Have what comes take turns with what other senders send."""
        if not self.closed:
            self.shared.watch.belongs(self.fd, sender)

    def end(self) -> None:
        """Close now, and answer nothing that runs."""
        self.abort()

    def abort(self) -> None:
        """Close now; harmless when called again."""
        if self.closed:
            return
        self.closed = True  # before the descriptor may be reused
        shared = self.shared
        shared.crowd.remove(self)
        shared.room.unpark_all()
        shared.watch.remove(self.fd)
        del shared.connections[self.fd]
        self._stream.socket.close()


def _ends(stream: trio.SocketStream) -> Ends | None:
    try:
        own, peer = stream.socket.getsockname(), stream.socket.getpeername()
    except OSError:
        return None
    return Ends(own[:2], peer[:2])


class Crowd:
    """All connections of one listener."""

    def __init__(self, most_guests: int, most_strangers: int) -> None:
        self.most_guests = most_guests
        self.most_strangers = most_strangers
        self._silent: dict[OpenConnection, float] = {}
        self._talking: dict[OpenConnection, float] = {}
        """Strangers that have sent something, and (above) those that have not; when each connected, oldest first."""
        self._guests: dict[OpenConnection, str] = {}
        """The principal of each guest."""
        self._of: dict[str, int] = {}
        """Number of guests by principal."""
        self._in_turn: dict[OpenConnection, Callable[[], None]] = {}
        """Strangers that wait for their turn, those that came first at the front, and what answers each."""
        self._at_once = TokenBucket(AT_ONCE, ANSWERED_TOGETHER / ANSWER_EVERY_S)
        self.refused = 0

    @property
    def guests(self) -> int:
        return len(self._guests)

    @property
    def strangers(self) -> int:
        return len(self._silent) + len(self._talking)

    def add_stranger(self, visitor: OpenConnection, now: float) -> None:
        """Add a stranger; if there are too many, close another one."""
        while self.strangers >= self.most_strangers:
            self._oldest(now).abort()
        self._silent[visitor] = now

    def heard(self, visitor: OpenConnection) -> None:
        """Note that a stranger has begun to send."""
        since = self._silent.pop(visitor, None)
        if since is not None:
            self._talking[visitor] = since

    def take_turn(self, visitor: OpenConnection, now: float, answer: Callable[[], None]) -> bool:
        """Call `answer` if a stranger may be answered at once; else False, and `answer_some` will call it."""
        if not self._in_turn and self._at_once.take(now):
            answer()
            return True
        self.heard(visitor)
        self._in_turn[visitor] = answer
        return False

    def answer_some(self) -> bool:
        """Answer the next strangers that wait for their turn; False: nobody waits any more."""
        for visitor in list(islice(self._in_turn, ANSWERED_TOGETHER)):
            answer = self._in_turn.pop(visitor, None)
            if answer is not None:  # the answer to another one may close it
                answer()
        return bool(self._in_turn)

    def make_guest(self, visitor: OpenConnection, principal: str) -> bool:
        """Make a stranger a guest; False: there is no room for another guest, and the stranger stays one."""
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

    def replace(self, before: OpenConnection, after: OpenConnection) -> None:
        """Put a connection in the place of another one that has the same socket."""
        if before in self._guests:
            self._guests[after] = self._guests.pop(before)
        else:
            self.heard(before)
            self._talking[after] = self._talking.pop(before)

    def remove(self, visitor: OpenConnection) -> None:
        """Forget a closed connection; harmless when called again."""
        self._silent.pop(visitor, None)
        self._talking.pop(visitor, None)
        self._in_turn.pop(visitor, None)
        principal = self._guests.pop(visitor, None)
        if principal is not None:
            self._of[principal] -= 1
            if not self._of[principal]:
                del self._of[principal]

    def make_room(self, now: float) -> bool:
        """Close one connection to free its descriptor; False: every connection is in use."""
        if self.strangers:
            self._oldest(now).abort()
            return True
        return self._send_away()

    def _oldest(self, now: float) -> OpenConnection:
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
        idle = [each for each, whose in self._guests.items() if principal in (None, whose) and each.is_idle]
        for guest in sorted(idle, key=lambda guest: guest.deadline):
            if not guest.has_sent():  # a request that has arrived would be lost
                guest.abort()
                return True
        return False


Handler = Callable[[HttpRequest, HttpResponse], Awaitable[None] | None]
"""Answers a request, or begins to; what has to be waited for then is returned, and is awaited in a task."""
Guard = Callable[[HttpRequest], EarlyReply | Undecided | None]


@dataclass(eq=False, repr=False)
class ServerState:
    """State of one server.

    Its clock is read in place of the real one, so that a request does not pay for that. It stands still while upkeep is
    `asleep`; whoever brings news has to `wake` upkeep first."""

    handler: Handler
    guard: Guard
    limits: HttpLimits
    budget: Budget
    crowd: Crowd
    nursery: trio.Nursery = field(init=False)
    """Runs the connections, and the rest of writes that met a full socket."""
    watch: SocketWatch = field(init=False)
    """Watches all connections for hang-ups, and those without a task for incoming bytes, too."""
    parser: HeadParser[RequestHead] = field(default_factory=partial(HeadParser, read_head))
    connections: dict[int, OpenConnection] = field(default_factory=dict)
    """Open connections, by the descriptors of their sockets."""
    streams: set[HttpResponse] = field(default_factory=set)
    running: int = 0
    """Requests being answered."""
    draining: bool = False
    is_over: bool = False
    """The server ends: no task may begin."""
    quiet: trio.Event = field(default_factory=trio.Event)
    """Set when the server drains and no request is running."""
    room: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot)
    """Tasks waiting for a connection to close or to become a guest."""
    asleep: trio.Event | None = None
    """Set while upkeep sleeps until something happens, which has to `wake` it first."""
    now: float = 0.0
    """The time, at most a second old unless upkeep is asleep."""
    date: bytes = b""
    """The `Date` header field of that time."""
    _is_answering: bool = False

    def tick(self) -> None:
        """Take the time."""
        before, self.now = self.now, trio.current_time()
        self.date = time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime()).encode()
        for response in self.streams:
            response.quiet_s += self.now - before

    def take_turn(self, stranger: OpenConnection, answer: Callable[[], None]) -> None:
        """Call `answer` when it is the turn of a stranger, which may be now."""
        if not self.crowd.take_turn(stranger, trio.current_time(), answer) and not self._is_answering:
            self._is_answering = True
            self.nursery.start_soon(self._answer_some)

    async def _answer_some(self) -> None:
        while self._is_answering:
            await trio.sleep(ANSWER_EVERY_S)
            self._is_answering = self.crowd.answer_some()

    @property
    def is_idle(self) -> bool:
        """True if no request is arriving, and none is being answered but by streams."""
        return self.running == len(self.streams) and not any(each.is_arriving for each in self.connections.values())

    @property
    def next_due(self) -> float:
        """Time at which the next deadline passes, or a stream has been silent for too long."""
        pings = (self.now + self.limits.sse_ping_s - response.quiet_s for response in self.streams)
        return min((*pings, *(connection.deadline for connection in self.connections.values())), default=inf)

    def wake(self) -> None:
        """Wake upkeep if it is asleep, and take the time, which has stood still meanwhile."""
        if self.asleep is not None:
            self.asleep.set()
            self.asleep = None
            self.tick()
