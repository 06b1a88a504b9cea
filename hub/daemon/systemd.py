"""systemd: socket activation at the start, then readiness, status, reloads and the watchdog.

Own code instead of a package, since it is two environment variables and one datagram. Without a service manager all of
it does nothing. Nothing here blocks or raises because of the manager.
"""

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from config.diagnostics import ConfigError

FIRST_DESCRIPTOR: Final = 3
STATUS_EVERY_S: Final = 10.0
"""Interval of status messages, if the watchdog needs no shorter one."""


def notify(*lines: str) -> bool:
    """Send `lines` to the service manager in one datagram; return whether it was sent. See sd_notify(3)."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    address = "\0" + path[1:] if path[0] == "@" else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as out:
            out.sendto("\n".join(lines).encode(), address)
    except OSError:
        return False
    return True


@contextmanager
def reloading() -> Iterator[None]:
    """Entered around a reload, so that the manager sees when it is over. However it ends, the hub is ready then."""
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notify("RELOADING=1", f"MONOTONIC_USEC={now_us}")
    try:
        yield
    finally:
        notify("READY=1")


def stopping(within_s: float) -> None:
    """Announce a stop that may take this long, and have the manager wait for it."""
    notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(within_s * 1_000_000)}", "STATUS=waiting for running calls")


async def pulse(status: Callable[[], str]) -> None:
    """Feed the manager's watchdog for ever, at twice the rate that it asks for, and send the status.

    A task of the event loop does it, so that a loop that hangs is noticed. Returns at once without a manager."""
    if "NOTIFY_SOCKET" not in os.environ:
        return
    every_s = watchdog_s() or 2 * STATUS_EVERY_S
    while True:
        notify("WATCHDOG=1", f"STATUS={status()}")
        await trio.sleep(min(every_s / 2, STATUS_EVERY_S))


def watchdog_s() -> float | None:
    """Seconds of silence after which the manager takes this process for dead; None: no watchdog."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    interval = os.environ.get("WATCHDOG_USEC", "")
    return int(interval) / 1_000_000 if interval.isascii() and interval.isdigit() and int(interval) else None


# --- sockets ----------------------------------------------------------------------------------------------------------


def listeners() -> list[socket.socket]:
    """The listening stream sockets that were handed over to this process, non-blocking; once.

    The variables that announce them are removed, and children inherit no descriptor. Descriptors of any other kind are
    closed."""
    ours = os.environ.get("LISTEN_PID") == str(os.getpid())
    count = os.environ.get("LISTEN_FDS", "")
    for variable in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(variable, None)
    if not ours or not (count.isascii() and count.isdigit()):
        return []
    return [*filter(None, map(_listener, range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))))]


def _listener(descriptor: int) -> socket.socket | None:
    """The descriptor as a listener; None: it is none that the hub can serve."""
    try:
        os.set_inheritable(descriptor, False)
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
    except OSError:  # announced, but not open
        return None
    it = socket.socket(fileno=descriptor)
    is_stream = it.family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6) and it.type == socket.SOCK_STREAM
    if not (is_stream and it.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        it.close()
        return None
    it.setblocking(False)
    return it


class Handover:
    """Sockets that were handed over; each is taken where it would otherwise be made. `left`: those not taken yet."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.left = sockets

    def unix(self, path: Path) -> socket.socket | None:
        """Take the unix socket at `path`; None: it was not handed over."""
        return self._take(lambda it: it.family == socket.AF_UNIX and _lies_at(it.getsockname(), path))

    def tcp(self) -> socket.socket | None:
        """Take the first TCP socket; None: none was handed over."""
        return self._take(lambda it: it.family != socket.AF_UNIX)

    def refuse(self) -> None:
        """Refuse sockets that nobody took: connections to them would never be answered.
        Raises: ConfigError, if one is left."""
        names = ", ".join(str(it.getsockname()) for it in self.left)
        for it in self.left:
            it.close()
        if self.left:
            fix = "name in ListenStream= of the .socket unit what `hubd serve` says it listens on, and no more"
            raise ConfigError(f"the service manager hands over a socket that no host would look for: {names}; {fix}")

    def _take(self, wanted: Callable[[socket.socket], bool]) -> socket.socket | None:
        found = next(filter(wanted, self.left), None)
        if found is not None:
            self.left.remove(found)
        return found


def _lies_at(name: str | bytes, path: Path) -> bool:
    return isinstance(name, str) and name.startswith("/") and os.path.realpath(name) == os.path.realpath(path)
