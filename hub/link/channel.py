"""Channel: a connection that carries whole messages to and from one peer, and the ways in which it fails.

Descriptors beneath streams are found here, and TCP peers that vanish are noticed by them.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import trio


class ChannelClosed(Exception):
    """The peer is gone, or its channel was closed."""


class OutboxFull(Exception):
    """The queue for the peer is full; nothing of this message was queued."""


class LineTooLong(Exception):
    """A line passed the limit before its newline; framing is lost."""


class LineDropped(Exception):
    """There was no room for a line, which was read to its end and dropped. `edges` are its first and last bytes."""

    def __init__(self, edges: tuple[bytes, bytes]) -> None:
        super().__init__("there was no room for a line")
        self.edges = edges


SHORT_BYTES: Final = 4 << 10


def gather(parts: list[bytes | bytearray], data: bytes) -> None:
    """Add `data` to the parts of a message that is still arriving; they are joined once. Short ones are joined as they
    come, since each part takes more memory than its bytes."""
    if len(data) >= SHORT_BYTES:
        parts.append(data)
    elif parts and isinstance(parts[-1], bytearray):
        parts[-1] += data
    else:
        parts.append(bytearray(data))


class Channel(Protocol):
    """A connection that carries whole messages to and from one peer."""

    def send(self, message: bytes) -> None:
        """Queue one message, without newline.

        Raises:
            ChannelClosed, OutboxFull: as `Outbox.put`.
        """

    async def receive(self) -> bytes:
        """Wait for the next message, not yet decoded.

        Raises:
            ChannelClosed, LineTooLong: as `LineReader.receive`.
        """

    @property
    def queued_bytes(self) -> int:
        """Bytes sent that the peer has not taken yet."""


PEER_DEAD_S: Final = 30
_WATCHING: Final = tuple(
    (level, getattr(socket, name), value)
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 15),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", PEER_DEAD_S * 1000),
    )
    if hasattr(socket, name)  # not every system has them all
)


def descriptor(stream: object) -> int | None:
    """The non-blocking descriptor beneath a socket or pipe stream; None if the stream has none (or is TLS)."""
    fileno = fileno_of(stream)
    return None if fileno is None else fileno()


def fileno_of(stream: object) -> Callable[[], int] | None:
    """The function that tells the descriptor of a stream, -1 once it is closed."""
    if isinstance(stream, trio.SocketStream):
        return stream.socket.fileno
    if isinstance(stream, trio.lowlevel.FdStream):
        return stream.fileno
    return None


def watch_peer(sock: trio.socket.SocketType) -> None:
    """Let the kernel declare a TCP peer dead that vanished without a FIN, after `PEER_DEAD_S`."""
    for level, option, value in _WATCHING:
        with suppress(OSError):  # not TCP
            sock.setsockopt(level, option, value)
