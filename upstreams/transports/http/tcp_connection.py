"""One connection to an upstream over HTTP, whose bytes are written without a checkpoint.

Only what a byte-level HTTP exchange needs; what the bytes mean is `client`'s.
"""

import os
import select
import socket
import ssl
from typing import Final, Protocol

import trio
from trio.lowlevel import wait_readable, wait_writable

from hub.link.channel import descriptor
from hub.link.outbox import rest_of
from hub.linux.socket_watch import ANSWERS, socket_watch
from upstreams.fetch import connection
from upstreams.transports.connect_to_url import CONNECT_S, Url, reach

STALL_S: Final = 30.0
RECEIVE_BYTES: Final = 64 << 10
_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)  # Linux only


class Died(Exception):
    """A connection ended too early. `sent`: the kernel took some of the request; `answered`: a byte came back."""

    def __init__(self, *, sent: bool, answered: bool) -> None:
        super().__init__()
        self.sent = sent
        self.answered = answered


class EventReader(Protocol):
    """Reads a connection when something has come, and while it lies idle."""

    def on_event(self, hung_up: bool) -> None:
        """Something may have come (`hub.linux.socket_watch`)."""

    def on_closed(self) -> None:
        """The connection was closed."""


class ClientConnection:
    """One TCP or TLS connection, carrying one exchange at a time. Plain TCP goes past trio's stream, to the descriptor.
    After every wait it is asked anew whether that is still open: its number may already belong to something else."""

    __slots__ = ("_fd", "_poll", "_stream", "_watch", "closed", "expires_at", "reader", "used")

    def __init__(self, stream: connection.AnyStream) -> None:
        self._stream = stream
        self._fd = descriptor(stream)
        self._poll: select.poll | None = None
        if self._fd is not None:
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN)
        self.used = False
        self.closed = False
        self.expires_at = float("inf")
        self._watch = socket_watch()
        self.reader: EventReader | None = None
        """The reader of what comes next; None: whoever sends a request reads the answer."""

    @property
    def is_plain(self) -> bool:
        """True if bytes go to the descriptor: no TLS."""
        return self._fd is not None

    def attach(self, reader: EventReader, party: object) -> None:
        """Let `reader` read what comes next, on a plain connection to the upstream `party`."""
        assert self._fd is not None
        self.reader = reader
        self._watch.add(self._fd, reader.on_event, ANSWERS)

    def detach(self) -> None:
        """Leave what comes next to whoever sends a request."""
        if self.reader is not None and self._fd is not None:
            self._watch.remove(self._fd)
            self.reader = None

    def heed(self, *, bytes: bool) -> None:
        """Tell the reader that is attached of what comes, or only of the end."""
        assert self._fd is not None
        self._watch.heed(self._fd, bytes=bytes)

    def read(self, limit: int = RECEIVE_BYTES) -> bytes | None:
        """Some bytes that have come on a plain connection that is open; none when it has ended. None: nothing has."""
        assert self._fd is not None
        try:
            return os.read(self._fd, limit)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def write(self, pieces: tuple[bytes, ...]) -> int:
        """Send what the kernel takes at once of a whole request, on a plain connection; the number of bytes. Raises
        Died: not one byte was taken, and none will be."""
        assert self._fd is not None
        try:
            return os.writev(self._fd, pieces)
        except BlockingIOError:
            return 0
        except OSError:
            raise Died(sent=False, answered=False) from None

    async def send(self, *pieces: bytes) -> None:
        """Send a request, given in pieces; when it cannot, whatever was answered in the meantime can still be read.

        Raises Died: not one byte was taken."""
        if self._fd is None:
            try:
                with trio.fail_after(STALL_S):
                    await self._stream.send_all(b"".join(pieces))
            except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
                raise Died(sent=True, answered=False) from None
            return
        sent = 0 if self.closed else self.write(pieces)
        if sent < sum(map(len, pieces)):
            await self.send_rest(pieces, sent)

    async def send_rest(self, pieces: tuple[bytes, ...], sent: int) -> None:
        """Send a request, of which so many bytes were sent before, on a plain connection. Raises Died: as `send`."""
        assert self._fd is not None
        fd = self._fd
        try:
            while rest := rest_of(pieces, sent):
                with trio.fail_after(STALL_S):
                    await wait_writable(fd)
                if self.closed:
                    raise trio.ClosedResourceError
                sent += os.writev(fd, rest)
        except (trio.ClosedResourceError, trio.TooSlowError):
            raise Died(sent=sent > 0, answered=False) from None
        except OSError:
            if not sent:
                raise Died(sent=False, answered=False) from None
            # a server that refuses a large body answers and closes; its answer says more than a broken pipe

    async def receive(self, limit: int = RECEIVE_BYTES) -> bytes:
        """Some bytes; none when the peer has closed, or the connection broke."""
        try:
            if self._fd is None:
                return bytes(await self._stream.receive_some(limit))
            if self.closed:
                return b""
            await wait_readable(self._fd)
            return b"" if self.closed else os.read(self._fd, limit)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            return b""

    def acknowledge(self) -> None:
        """Acknowledge at once what has come.

        A server that writes head and body apart and has Nagle's algorithm on holds the body back until then, which
        would otherwise take 40 ms. The option does not last, so it is set before each wait for the rest of an answer.
        """
        if _QUICKACK is not None and not self.closed:
            self._socket().setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)

    def _socket(self) -> trio.socket.SocketType:
        return connection.bottom(self._stream).socket

    def usable(self, now: float) -> bool:
        """True if an idle connection looks fit for another request: not too old, not closed, nothing unasked for."""
        return now < self.expires_at and not self.closed and not (self._poll is not None and self._poll.poll(0))

    def close(self) -> None:
        """Close at once; who waits on it sees the end. Idempotent."""
        if self.closed:
            return
        self.closed = True
        reader = self.reader
        self.detach()
        self._socket().close()
        if reader is not None:
            reader.on_closed()


async def connect(url: Url, tls: ssl.SSLContext | None = None, *, within_s: float = CONNECT_S) -> ClientConnection:
    """A new connection to the origin of `url`, or to its proxy. As `reach`."""
    return ClientConnection(await reach(url, tls, within_s=within_s))
