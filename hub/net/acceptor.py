"""Accepting connections: the one loop beneath HTTP, the hosts' unix socket and the control socket.

Running out of descriptors pauses accepting, and is logged once a minute (M-07, F-D-07). A connection that goes wrong
ends alone (a wall, SEC-16).
"""

import errno
import logging
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from hub.link.wall import keep_going
from hub.wire.jsonrpc import Failure, encode_response
from hub.wire.mcp import INTERNAL_ERROR

log = logging.getLogger("hubd.accept")

PAUSE_S: Final = 0.1
WARNING_S: Final = 60.0
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)


def _nothing() -> bool:
    return False


class Acceptor:
    """Accepts the connections of one kind of listener. `what` names them in the log, in the plural."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self._warned_at = float("-inf")
        self.connections = 0
        """Those that `serve` is serving."""
        self.failures = 0

    def __repr__(self) -> str:
        return f"<Acceptor of {self._what} [{self.connections} open, {self.failures} failures]>"

    async def accept(
        self, listener: trio.SocketListener, make_room: Callable[[], bool] = _nothing
    ) -> trio.SocketStream | None:
        """The next connection, as soon as the system can give one; None once the listener is closed.

        `make_room` gives a descriptor back if there is one that is of little use; it is asked when there is none left.
        """
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

    async def serve(
        self,
        listener: trio.SocketListener,
        handler: Callable[[trio.SocketStream], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        """Handle each connection of a newline-framed listener in a task of `nursery`; more than `most` are refused.

        Returns when the listener is closed. Cancellation: closes it; connections live as long as `nursery` lets them.
        """
        try:
            await keep_going(f"Accepting {self._what}", partial(self._accept_all, listener, handler, nursery))
        finally:
            listener.socket.close()

    async def _accept_all(
        self,
        listener: trio.SocketListener,
        handler: Callable[[trio.SocketStream], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        while (stream := await self.accept(listener)) is not None:
            nursery.start_soon(self._wall, stream, handler)

    async def _wall(self, stream: trio.SocketStream, handler: Callable[[trio.SocketStream], Awaitable[None]]) -> None:
        self.connections += 1
        try:
            async with stream:
                await (handler(stream) if self.connections <= self._most else self._refuse(stream))
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
        """Say so once a minute, not ten times a second."""
        now = trio.current_time()
        if now - self._warned_at >= WARNING_S:
            self._warned_at = now
            log.warning("%s", text)


def waiting(listener: trio.SocketListener) -> Iterator[trio.SocketStream]:
    """The connections that have been made and not yet accepted: the kernel resets them when the listener is closed."""
    with suppress(OSError), socket.socket(fileno=os.dup(listener.socket.fileno())) as sock:
        sock.setblocking(False)
        while True:
            connection, _ = sock.accept()
            connection.setblocking(False)
            yield trio.SocketStream(trio.socket.from_stdlib_socket(connection))


def share_of_descriptors(part: int) -> int:
    """One `part`-th of the descriptors this process may open, so that no kind of connection uses up all of them."""
    limit: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit // part
