"""Accept connections: one loop for HTTP, the hosts' unix socket and the control socket.

Running out of descriptors pauses accepting, and is logged once a minute. A connection that fails ends alone.
"""

import errno
import logging
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final

import trio

from hub.link.fault_isolation import keep_going
from hub.wire.jsonrpc import Failure, encode_response
from hub.wire.mcp import INTERNAL_ERROR

log = logging.getLogger("hubd.accept")

PAUSE_S: Final = 0.1
WARNING_S: Final = 60.0
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)
Serve = Callable[[trio.SocketStream], Awaitable[None]]


class Acceptor:
    """Accepts the connections of one kind of listener; `what` names the connections in the log, in the plural."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self._warned_at = float("-inf")
        self.connections = 0
        """Connections that `serve` is serving."""
        self.failures = 0

    async def accept(
        self, listener: trio.SocketListener, make_room: Callable[[], bool] = lambda: False
    ) -> trio.SocketStream | None:
        """Wait for the next connection; None once the listener is closed.

        `make_room` is called when descriptors have run out. It closes a connection of little use and returns True, or
        returns False."""
        asked = False
        while True:
            try:
                return await listener.accept()
            except trio.ClosedResourceError:
                return None
            except OSError as error:
                self.failures += 1
                self._warn(f"cannot accept {self._what}: {error.strerror}. Raise the limit of open files (ulimit -n)")
                asked = not asked and error.errno in SHORTAGES and make_room()
                if not asked:
                    await trio.sleep(PAUSE_S)

    async def serve(self, listener: trio.SocketListener, serve: Serve, nursery: trio.Nursery) -> None:
        """Handle each connection of a newline-framed listener in a task of `nursery`; refuse more than `most`.

        Returns when the listener is closed. Cancellation: closes the listener; connections live on in `nursery`."""

        async def accept_all() -> None:
            while (stream := await self.accept(listener)) is not None:
                nursery.start_soon(self._wall, stream, serve)

        try:
            await keep_going(f"Accepting {self._what}", accept_all)
        finally:
            listener.socket.close()

    async def _wall(self, stream: trio.SocketStream, serve: Serve) -> None:
        self.connections += 1
        try:
            async with stream:
                await (serve(stream) if self.connections <= self._most else self._refuse(stream))
        except Exception:  # the wall of one connection
            log.exception("one of the %s failed", self._what)
        finally:
            self.connections -= 1

    async def _refuse(self, stream: trio.SocketStream) -> None:
        text = f"This hub serves at most {self._most} {self._what}, and has them; close some"
        self._warn(text)
        try:
            await stream.send_all(encode_response(None, Failure(INTERNAL_ERROR, text)) + b"\n")
        except trio.BrokenResourceError:
            return

    def _warn(self, text: str) -> None:
        """Log a warning, at most once a minute."""
        now = trio.current_time()
        if now - self._warned_at >= WARNING_S:
            self._warned_at = now
            log.warning("%s", text)


def waiting(listener: trio.SocketListener) -> Iterator[trio.SocketStream]:
    """Accept the connections in the listener's backlog; the kernel would reset them when the listener is closed."""
    with suppress(OSError), socket.socket(fileno=os.dup(listener.socket.fileno())) as sock:
        sock.setblocking(False)
        while True:
            connection, _ = sock.accept()
            connection.setblocking(False)
            yield trio.SocketStream(trio.socket.from_stdlib_socket(connection))


def share_of_descriptors(part: int) -> int:
    """Return one `part`-th of the limit of open files, so that no kind of connection uses up all descriptors."""
    limit: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit // part
