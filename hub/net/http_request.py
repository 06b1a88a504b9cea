"""HTTP requests as a handler sees them, a guard's early reply, and the limits of a server. Knows nothing of MCP."""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct

from hub.link.call_interface import NO_RIGHTS, Identity, Rights
from hub.net.access_lifetime import Lease

log = logging.getLogger(__name__)


class EarlyReply(Struct, frozen=True):
    """A guard's reply, mostly a refusal, sent in place of the handler's; the connection is closed after it."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


Undecided = Callable[[], Awaitable[EarlyReply | None]]
"""A guard's reply when somebody has to be asked first: it finds the reply to send in place of the handler's, in a few
seconds at most; None: the request may pass, and has its identity. Cancellation: nobody is asked any more."""


class HttpLimits(Struct, frozen=True):
    """Limits of an HTTP server, in seconds and bytes."""

    max_request_body: int = 16 << 20
    """Files travel base64-coded in tool arguments, and an argument of 8 MB must pass."""
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    body_bytes_per_s: int = 32 << 10
    """The slowest rate at which a body may arrive: each piece of this size extends its deadline by a second."""
    keepalive_idle_s: float = 75.0
    sse_ping_s: float = 15.0
    stream_queue_bytes: int = 1 << 20
    """Bytes of a stream that its peer may leave unread. Above it only answers are added; other writes close it."""
    max_unread_bytes: int = 256 << 20
    write_stall_s: float = 30.0
    linger_s: float = 1.0
    """Time that a refused peer's bytes are read and dropped, so that a reset does not eat the answer."""
    max_connections: int = 2048
    max_strangers: int = 4096
    """Connections that have not passed the guard yet. Each costs about 4 KiB, for 10 s at most."""


class Ends(NamedTuple):
    """The two ends of a TCP connection: address and port."""

    own: tuple[str, int]
    peer: tuple[str, int]


class HttpRequest(Struct):
    """One request. Header names are lower case, values without outer blanks; singletons appear once."""

    method: str
    path: str
    """Without query; never percent-decoded."""
    headers: dict[str, str]
    body: bytes = b""
    query: str = ""
    """The part behind the "?"."""
    identity: Identity | None = None
    """Set by the guard (`Access.guard`), so that handlers need not authenticate again. None: it is one that anybody may
    make."""
    is_public: bool = False
    """Anybody may make this request, so who makes it without an `identity` takes turns with all other strangers."""
    ends: Callable[[], Ends | None] = lambda: None
    """Finds the ends of its connection; None: it is closed."""
    rights: Rights = NO_RIGHTS
    """What its token says of the sender besides."""
    lease: Lease | None = None
    """The time for which its sender is let in; None: for good."""
    reply_headers: tuple[tuple[str, str], ...] = ()
    """Header fields of every reply to it."""

    def let_in(self, sender: Identity) -> None:
        """Note who has made it."""
        self.identity = sender

    def make_public(self) -> None:
        """Note that anybody may make this request."""
        self.is_public = True

    def reply_with(self, fields: tuple[tuple[str, str], ...]) -> None:
        """Add these header fields, and no others, to every reply to it."""
        self.reply_headers = fields

    @property
    def is_anybody(self) -> bool:
        """True if nobody is known to have made it, and anybody may."""
        return self.is_public and self.identity is None
