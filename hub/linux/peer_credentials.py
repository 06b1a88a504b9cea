"""Peer credentials: the user at the other end of a unix socket. Part of the shim: imports next to nothing."""

import _socket
import os
import sys

TYPE_CHECKING = False  # importing typing would cost as much as everything else here
if TYPE_CHECKING:
    from typing import Protocol

    class Options(Protocol):
        """A socket of any kind."""

        def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


ROOT = 0
"""Root is trusted: it may do everything anyway, and a service manager that holds the hub's socket may be root's."""


class ForeignPeer(Exception):
    """Another user listens on the hub's socket. The text says where, which user, and what to do."""


def peer_uid(sock: "Options") -> int:
    """Return the user at the other end: the one that connected, or the one that began to listen."""
    uid = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8]  # struct ucred: pid, uid, gid
    return int.from_bytes(uid, sys.byteorder)


def peer_pid(sock: "Options") -> int:
    """Return the process at the other end: the one that connected, which may have ended since."""
    return int.from_bytes(sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def refuse_foreign_hub(sock: "Options", path: str) -> None:
    """Refuse a listener of another user at `path`, where `sock` is connected: it would hear hosts and be trusted.

    Raises:
        ForeignPeer: another user, not root, listens there.
    """
    uid = peer_uid(sock)
    if uid not in (ROOT, os.geteuid()):
        text = f"another user (uid {uid}) listens on {path}; remove that file, or name another directory in"
        raise ForeignPeer(f"{text} HUBD_RUNTIME_DIR")
