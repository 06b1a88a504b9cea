"""Descriptors, and the users that are behind them. Part of the shim: imports next to nothing."""

import _socket
import os
import sys

TYPE_CHECKING = False  # importing typing would cost as much as everything else here
if TYPE_CHECKING:
    from socket import socket

    from trio.socket import SocketType

    UnixSocket = socket | _socket.socket | SocketType

ROOT = 0
"""Root is trusted: it may do everything anyway, and a service manager that holds the hub's socket may be root's."""
UID_MAP = "/proc/self/uid_map"


class ForeignPeer(Exception):
    """Another user listens on the hub's socket. The text says where, which user, and what to do."""


def own_path(descriptor: int) -> str:
    """The path by which this process opens one of its descriptors anew; a link to the file, if it is one."""
    return f"/proc/self/fd/{descriptor}"


def peer_uid(sock: "UnixSocket") -> int:
    """The user at the other end of a unix socket: the one that connected, or the one that began to listen."""
    uid = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8]  # struct ucred: pid, uid, gid
    return int.from_bytes(uid, sys.byteorder)


def peer_pid(sock: "UnixSocket") -> int:
    """The process at the other end: the one that connected, which may have ended since."""
    return int.from_bytes(sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[:4], sys.byteorder)


def refuse_foreign_hub(sock: "UnixSocket", path: str) -> None:
    """Refuse a listener of another user at `path`, where `sock` is connected: it would hear hosts and be trusted.
    Raises ForeignPeer: another user, not root, listens there."""
    uid = peer_uid(sock)
    if uid not in (ROOT, os.geteuid()):
        text = f"another user (uid {uid}) listens on {path}; remove that file, or name another directory in"
        raise ForeignPeer(f"{text} HUBD_RUNTIME_DIR")


def has_all_users(uid_map: str = "") -> bool | None:
    """True if this process is in no user namespace: there all strangers are one user, or have other numbers. None:
    nobody can say."""
    try:
        with open(uid_map or UID_MAP, "rb") as file:
            return file.read(64).split() == [b"0", b"0", b"4294967295"]
    except OSError:
        return None
