"""Who is at the other end of a unix socket, as the kernel knows it. Part of the shim: it imports next to nothing."""

import _socket
import os
import sys

TYPE_CHECKING = False  # typing's own would cost as much as all the rest
if TYPE_CHECKING:
    from typing import Protocol

    class Options(Protocol):
        """A socket of any kind."""

        def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


ROOT = 0
"""A service manager that holds a hub's socket for it may be root's, and root may do everything anyway."""


class ForeignPeer(Exception):
    """Another user listens there. The text says where, who, and what to do."""


def peer_uid(sock: "Options") -> int:
    """The user at the other end: of who connected, or of who began to listen."""
    if sys.platform == "darwin":
        uid = sock.getsockopt(0, 1, 76)[4:8]  # SOL_LOCAL, LOCAL_PEERCRED: struct xucred
    else:
        uid = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8]  # struct ucred: pid, uid, gid
    return int.from_bytes(uid, sys.byteorder)


def refuse_foreign_hub(sock: "Options", path: str) -> None:
    """Raise, if whoever listens at `path`, where `sock` is connected, is another user: it would be told what hosts
    say, and believed.

    Raises:
        ForeignPeer: so it is.
    """
    uid = peer_uid(sock)
    if uid not in (ROOT, os.geteuid()):
        text = f"another user (uid {uid}) listens on {path}; remove that file, or name another directory in"
        raise ForeignPeer(f"{text} HUBD_RUNTIME_DIR")
