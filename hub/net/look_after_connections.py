"""HTTP/1.1 on trio: accepts connections, watches over them, drains. Knows nothing of MCP.

    serve -- accept, one task per listener
      |-- upkeep            deadlines, comments on silent streams, the Date header: once a second, or when due
      `-- connections       one task for each that has passed the guard (`http_connection`) while a request of it has to
                            wait for something; none for any other (`admit_connection`); the rest of writes that
                            met a full socket

A handler gets a whole `HttpRequest` and an `HttpResponse`; it answers with one `reply`, or opens a stream of
server-sent events and writes to it. Requests of one connection are handled one at a time, in order.

Hang-ups, and requests that can be answered at once, cost no task and no system call to wait for them: all sockets are
watched together (`hub.linux.socket_watch`). Hang-ups show even if bytes before them are still unread.
"""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Final

import trio
from trio.lowlevel import checkpoint

from hub.link.fault_isolation import keep_going
from hub.link.memory_budget import Budget
from hub.linux.socket_watch import socket_watch
from hub.net.acceptor import Acceptor, share_of_descriptors, waiting
from hub.net.admit_connection import UnadmittedConnection
from hub.net.http_request import EarlyReply, HttpLimits, HttpRequest
from hub.net.open_connections import Crowd, Guard, Handler, ServerState
from hub.net.response_writer import HttpResponse
from hub.wire.http.sse import KEEP_ALIVE

__all__ = ["EarlyReply", "Guard", "Handler", "HttpLimits", "HttpRequest", "HttpResponse", "HttpServer"]

UPKEEP_S: Final = 1.0
FEW: Final = 4
BURST: Final = 16
"""Connections accepted in one step of the loop while more than `FEW` strangers are open."""
DRAIN_ARRIVE_S: Final = 0.1
"""Time that a drain waits for the first requests of connections that were just made."""


class HttpServer:
    """Serves HTTP/1.1. `guard` sees each head before the body is read and may refuse the request. One `serve` per
    object."""

    def __init__(
        self, handler: Handler, guard: Guard, limits: HttpLimits | None = None, budget: Budget | None = None
    ) -> None:
        limits = limits or HttpLimits()
        self.acceptor = Acceptor("HTTP connections", limits.max_connections)
        most = share_of_descriptors(2)
        strangers = max(1, min(limits.max_strangers, most // 4))
        crowd = Crowd(max(1, min(limits.max_connections, most - strangers)), strangers)
        self.state = ServerState(handler, guard, limits, budget or Budget(), crowd)
        self._scope = trio.CancelScope()
        self._listeners: Sequence[trio.SocketListener] = ()

    def admit_by(self, guard: Guard) -> None:
        """Replace the guard from now on, for open connections, too."""
        self.state.guard = guard

    async def serve(
        self, listeners: Sequence[trio.SocketListener], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Accept and serve until cancelled or drained; closes the listeners and all connections.

        Cancellation: ends every request at once."""
        self._listeners, shared = listeners, self.state
        shared.watch = socket_watch()
        with self._scope:
            try:
                async with trio.open_nursery() as shared.nursery:
                    shared.tick()
                    shared.nursery.start_soon(keep_going, "Looking after connections", self._upkeep)
                    for listener in listeners:
                        accept = partial(self._accept, listener)
                        shared.nursery.start_soon(keep_going, "Accepting connections", accept)
                    task_status.started()
                    try:
                        await trio.sleep_forever()
                    finally:
                        shared.is_over = True
            finally:
                self._close_listeners()
                for connection in list(shared.connections.values()):
                    connection.end()

    async def drain(self) -> None:
        """Stop accepting, answer 503 to new requests, return when the running requests are answered.

        The first request of a connection that was open already is served as ever: a balancer that could connect sends
        it here, and nowhere else. A stream that its handler keeps open is a running request: end it first, or put a
        deadline around this."""
        shared = self.state
        shared.draining = True
        for listener in self._listeners:
            for stream in waiting(listener):
                self._start_connection(stream)
        self._close_listeners()
        with trio.move_on_after(DRAIN_ARRIVE_S):
            while shared.crowd.strangers:
                await shared.room.park()
        await checkpoint()  # whoever has just become a guest begins its request
        while shared.running:
            shared.quiet = trio.Event()
            await shared.quiet.wait()
        self._scope.cancel()

    # --- accepting --------------------------------------------------------------------------------------------------

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.socket.close()

    async def _accept(self, listener: trio.SocketListener) -> None:
        """Accept as fast as connections come, several at a time when there are many: an honest peer waits in the
        backlog behind all that came before."""
        crowd = self.state.crowd
        while (
            stream := await self.acceptor.accept(listener, lambda: crowd.make_room(trio.current_time()))
        ) is not None:
            self._start_connection(stream)
            if crowd.strangers > FEW:
                for more in islice(waiting(listener), BURST):
                    self._start_connection(more)

    def _start_connection(self, stream: trio.SocketStream) -> None:
        if self.state.asleep is not None:
            self.state.wake()
        UnadmittedConnection(stream, self.state)

    # --- watching over them -------------------------------------------------------------------------------------------

    async def _rest(self) -> None:
        """Sleep for a second; while nothing happens, until something is due."""
        shared = self.state
        if shared.is_idle:
            asleep = shared.asleep = trio.Event()
            with trio.move_on_at(max(shared.now + UPKEEP_S, shared.next_due)):
                await asleep.wait()
            shared.asleep = None
            if not asleep.is_set():
                return
        await trio.sleep(UPKEEP_S)

    async def _upkeep(self) -> None:
        shared = self.state
        while True:
            await self._rest()
            shared.tick()
            late = [connection for connection in shared.connections.values() if connection.deadline <= shared.now]
            for number, connection in enumerate(late, 1):
                connection.expire()
                if number % BURST == 0:
                    await checkpoint()  # connections made at the same time expire at the same time
            for response in list(shared.streams):
                if response.quiet_s >= shared.limits.sse_ping_s and not response.queued_bytes:
                    response.write(KEEP_ALIVE)
