"""Descriptors beneath streams, and TCP peers that vanish."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

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
