"""The owner of the program at the other end of a loopback connection, as Linux knows: `/proc/net/tcp` and
`/proc/net/tcp6`.

Each socket has a row there, with the uid that made it. It is the right one only while the connection is established:
whoever sends a request and closes at once leaves a row of uid 0 without an inode, or none. Of a relay (a port forward,
a container's proxy) it is the relay's uid, so of `ssh -L` that of the login.

A hub cannot tell where there is no such file, in a user namespace (strangers are 65534 there, all of them), and as root
or nobody, which most things in a container are, and relays that bring connections of others: it is `blind` then, and
knows no more than that the browser is not one that a server of its own has started.
"""

import os
import re
from collections.abc import Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final

import trio

from hub.linux.peer_credentials import has_all_users
from hub.linux.processes import PROC, is_below
from hub.linux.socket_tables import find_peer
from hub.net.http_request import Ends, HttpRequest

NOBODY: Final = 65534
LOOPBACK_HOST: Final = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.I)
MAX_LOOKING: Final = 2
"""Threads that look at once: others are not kept from theirs by a crowd of browsers."""
FORWARDED: Final = frozenset({"forwarded", "x-real-ip", "via"})


class Who(Enum):
    """The answer."""

    OWN = "a program of the hub's user"
    SERVER = "a program that the hub itself has started"
    UNKNOWN = "another user, or nobody can tell"


class ConnectionOwners:
    """Finds out who is at the other end, for a hub of the user `uid`. `proc`: where the kernel's files are."""

    def __init__(self, uid: int | None = None, *, proc: Path = PROC, blind: bool | None = None) -> None:
        self._uid = os.geteuid() if uid is None else uid
        self._proc = proc
        self.blind = self._is_blind() if blind is None else blind
        """Nobody can be told from anybody else on this machine."""
        self._limiter = trio.CapacityLimiter(MAX_LOOKING)
        self._trusted = {self._uid, 0} if self._is_windows() else {self._uid}

    def _is_blind(self) -> bool:
        if self._uid in (0, NOBODY) or not os.access(self._proc / "net" / "tcp", os.R_OK):
            return True
        return not has_all_users(str(self._proc / "self/uid_map"))

    def _is_windows(self) -> bool:
        """True below Windows, whose browsers come through a relay of root's."""
        try:
            return "microsoft" in (self._proc / "sys" / "kernel" / "osrelease").read_text("ascii", "replace").lower()
        except OSError:
            return False

    async def who(self, request: HttpRequest) -> Who:
        """Who sent a request to this machine's own address, as it is now."""
        if (ends := request.ends()) is None:
            return Who.UNKNOWN
        return await trio.to_thread.run_sync(partial(self._look, ends), limiter=self._limiter)

    def _look(self, ends: Ends) -> Who:
        found = find_peer(ends.own, ends.peer, self._proc)
        if found is None or not (self.blind or found[0] in self._trusted):
            return Who.UNKNOWN
        if is_below(os.getpid(), holding=found[1], proc=self._proc):
            return Who.SERVER
        return Who.UNKNOWN if self.blind else Who.OWN

    def uid_of(self, ends: Ends) -> int | None:
        """The user at the other end; None: nobody can tell. Takes some milliseconds where there are many sockets."""
        found = None if self.blind else find_peer(ends.own, ends.peer, self._proc)
        return None if found is None else found[0]


def is_from_here(request: HttpRequest) -> bool:
    """True if a request was made on this machine, to a loopback address, and says of no proxy."""
    return LOOPBACK_HOST.fullmatch(request.headers.get("host", "")) is not None and is_near(request)


def is_near(request: HttpRequest) -> bool:
    """True if a request was made on this machine, by whatever name, and says of no proxy."""
    if (ends := request.ends()) is None:
        return False
    peer = ends.peer[0]
    return (peer == "::1" or peer.removeprefix("::ffff:").startswith("127.")) and not is_forwarded(request.headers)


def is_forwarded(headers: Mapping[str, str]) -> bool:
    """True if a request says that it came through a proxy."""
    return any(name in FORWARDED or name.startswith(("x-forwarded-", "cf-")) for name in headers)
