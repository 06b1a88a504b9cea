"""What a service manager and the daemon say to each other: sockets handed over at the start, and how it goes.

Own code instead of a package, since it is two environment variables and one datagram (FINDINGS 11). Outside of a
service manager everything here does nothing. Nothing here blocks or raises because of the manager.
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

from config.errors import ConfigError

FIRST_DESCRIPTOR: Final = 3
STATUS_EVERY_S: Final = 10.0
"""How often the manager is told the status, if it does not want to hear from us more often."""


def notify(*lines: str) -> bool:
    """Tell the service manager, in one datagram; whether it was taken. `sd_notify(3)` lists the lines."""
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
    """Around a reload, so that the manager sees when it is over; however it ends, the hub is ready then."""
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    notify("RELOADING=1", f"MONOTONIC_USEC={now_us}")
    try:
        yield
    finally:
        notify("READY=1")


def stopping(within_s: float) -> None:
    """A stop has begun that may take so long, whatever the manager thought."""
    notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(within_s * 1_000_000)}", "STATUS=waiting for running calls")


async def pulse(status: Callable[[], str]) -> None:
    """Tell the manager, for ever, that the event loop turns, twice as often as it wants to hear it, and the status.

    Only the loop itself feeds the watchdog, so that a loop that hangs is noticed (F-D-12). Returns at once if nobody
    listens.
    """
    if "NOTIFY_SOCKET" not in os.environ:
        return
    every_s = watchdog_s() or 2 * STATUS_EVERY_S
    while True:
        notify("WATCHDOG=1", f"STATUS={status()}")
        await trio.sleep(min(every_s / 2, STATUS_EVERY_S))


def watchdog_s() -> float | None:
    """After how many seconds of silence the manager takes this process for dead; None: never."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    interval = os.environ.get("WATCHDOG_USEC", "")
    return int(interval) / 1_000_000 if interval.isascii() and interval.isdigit() and int(interval) else None


# --- sockets ----------------------------------------------------------------------------------------------------------


def listeners() -> list[socket.socket]:
    """The listening stream sockets that were handed over to this process, non-blocking; once.

    The variables that announce them are taken away, and children inherit no descriptor: they are not meant for them.
    What else was handed over is closed.
    """
    ours = os.environ.get("LISTEN_PID") == str(os.getpid())
    count = os.environ.get("LISTEN_FDS", "")
    for variable in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(variable, None)
    if not ours or not (count.isascii() and count.isdigit()):
        return []
    found = (_listener(FIRST_DESCRIPTOR + at) for at in range(int(count)))
    return [listener for listener in found if listener is not None]


def _listener(descriptor: int) -> socket.socket | None:
    """The descriptor as a listener, if it is one of a kind we serve."""
    try:
        os.set_inheritable(descriptor, False)
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
    except OSError:  # not open, in spite of what was announced
        return None
    it = socket.socket(fileno=descriptor)
    if (
        it.family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
        or it.type != socket.SOCK_STREAM
        or not it.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    ):
        it.close()
        return None
    it.setblocking(False)
    return it


class Handover:
    """What was handed over, to be taken by those who would otherwise make it. `left` is what nobody took."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self.left = sockets

    def unix(self, path: Path) -> socket.socket | None:
        """The socket that lies at `path`."""
        return self._take(lambda it: it.family == socket.AF_UNIX and _lies_at(it.getsockname(), path))

    def tcp(self) -> socket.socket | None:
        """The first of the internet."""
        return self._take(lambda it: it.family != socket.AF_UNIX)

    def refuse(self) -> None:
        """Nothing may be left: it would take connections that are never answered.

        Raises:
            ConfigError: something is.
        """
        names = ", ".join(str(it.getsockname()) for it in self.left)
        for it in self.left:
            it.close()
        if self.left:
            raise ConfigError(
                f"the service manager hands over a socket that no host would look for: {names}; "
                "name in ListenStream= of the .socket unit what `hubd serve` says it listens on, and no more"
            )

    def _take(self, wanted: Callable[[socket.socket], bool]) -> socket.socket | None:
        found = next(filter(wanted, self.left), None)
        if found is not None:
            self.left.remove(found)
        return found


def _lies_at(name: str | bytes, path: Path) -> bool:
    return isinstance(name, str) and name.startswith("/") and os.path.realpath(name) == os.path.realpath(path)
