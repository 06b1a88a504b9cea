"""A connection that has not passed the guard: no task, no queue, and no buffer but for its first head.

    silent --bytes--> head --let in----------------> guest (`http_connection.Connection`)
                       |---anybody's--- its turn --> a connection that is closed after one answer
                       '---refused----- its turn --> answer, and its other bytes are dropped --> closed

Thousands may be open, so each costs little: what it sends is taken up by the watch over sockets, at most 64 KiB of one
connection at a time, and a refusal is one write. The bytes of one that waits for its turn stay with the kernel.
"""

import os
import socket
from contextlib import suppress
from functools import partial
from math import inf

import trio

from hub.link.channel import watch_peer
from hub.link.hub_errors import Overloaded
from hub.net import http_connection
from hub.net.http_connection import READ_BYTES, Connection, refusal_reply, report_fault
from hub.net.http_request import EarlyReply, HttpRequest, Undecided
from hub.net.open_connections import REFUSED, Arrived, OpenConnection, ServerState
from hub.net.response_writer import HttpResponse
from hub.wire.http.request_parser import HttpRefusal


class UnadmittedConnection(OpenConnection):
    """A connection that has not passed the guard."""

    __slots__ = ("_dropped", "_heeds", "_is_leaving")

    queued_bytes = 0

    def __init__(self, stream: trio.SocketStream, shared: ServerState) -> None:
        super().__init__(stream, shared)
        self._heeds = True
        """False: a request has arrived, and until it is answered bytes stay with the kernel."""
        self._is_leaving = False
        """The answer has been written; bytes are dropped until the peer leaves, too."""
        self._dropped = 0
        shared.crowd.add_stranger(self, trio.current_time())
        shared.watch.add(self.fd, self.stirred)

    def stirred(self, hung_up: bool) -> None:
        """The peer has hung up, or has sent something."""
        self.hung_up = self.hung_up or hung_up
        if not self._heeds or self.shared.is_over:
            return
        try:
            data = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.abort()
            return
        if self._is_leaving:
            self._dropped += len(data)
            if self._dropped >= http_connection.LINGER_BYTES:
                self.abort()
                return
        else:
            try:
                self._read(data)
            except Exception as error:  # noqa: BLE001 - a fault ends this connection alone
                self._answer(report_fault(error))
        if self._heeds and (self.hung_up or len(data) == READ_BYTES) and not self.closed:
            self._look_again()

    def _look_again(self) -> None:
        """Have what is still unread reported, which is reported once only: bytes, or the end of them."""
        self.shared.watch.heed(self.fd, bytes=True)

    def expire(self) -> None:
        """Answer a request that has not arrived in time; close any other connection."""
        if self.is_arriving:
            self._answer(refusal_reply(http_connection.TOO_SLOW))
        else:
            self.abort()

    # --- the first request ------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        shared = self.shared
        try:
            arrived = self.read_head(data)
        except HttpRefusal as error:
            self._refuse(refusal_reply(error))
            return
        if arrived is None:
            shared.crowd.heard(self)
            return
        self._heeds = False
        reply = shared.guard(arrived.request)
        if reply is None or isinstance(reply, EarlyReply):
            self._decide(arrived, reply)
        else:
            self.deadline = inf
            shared.nursery.start_soon(self._ask, arrived, reply)

    async def _ask(self, arrived: Arrived, find_reply: Undecided) -> None:
        try:
            reply = await find_reply()
            if not self.closed:
                self._decide(arrived, reply)
        except Exception as error:  # noqa: BLE001 - a fault ends this connection alone
            self._answer(report_fault(error))

    def _decide(self, arrived: Arrived, reply: EarlyReply | None) -> None:
        request = arrived.request
        if reply is not None:
            self._refuse(reply, request)
        elif request.is_anybody:
            self.shared.take_turn(self, partial(self._let_in, arrived))
        elif self.shared.crowd.make_guest(self, request.identity.principal if request.identity else ""):
            self._let_in(arrived)
            watch_peer(self._stream.socket)
        else:
            self._refuse(http_connection.overload_reply(Overloaded(REFUSED, retry_after_ms=1000)))

    def _let_in(self, arrived: Arrived) -> None:
        """Make the connection one that answers requests."""
        if self._is_leaving:  # its turn came too late
            return
        shared = self.shared
        connection = Connection(self._stream, shared, arrived, self._buffer, hung_up=self.hung_up)
        shared.crowd.replace(self, connection)
        shared.room.unpark_all()
        self.closed = True
        connection.welcome(arrived)

    # --- refusing ---------------------------------------------------------------------------------------------------

    def _refuse(self, reply: EarlyReply, request: HttpRequest | None = None) -> None:
        """Answer when it is this stranger's turn."""
        self._heeds = False
        self._buffer = b""
        self.shared.take_turn(self, partial(self._answer, reply, request))

    def _answer(self, reply: EarlyReply, request: HttpRequest | None = None) -> None:
        """Answer, and let the peer take the answer: closing with its bytes unread would send a reset, and lose it."""
        if self.closed or self._is_leaving:
            return
        self._heeds = self._is_leaving = self.close_after = True
        self.is_arriving = False
        self._buffer = b""
        response = HttpResponse(self, request)
        response.reply(reply.status, reply.body, reply.headers, content_type=reply.content_type)
        self.deadline = self.shared.now + self.shared.limits.linger_s
        with suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_WR)
        if not self.closed:
            self._look_again()

    def offer(self, data: bytes, *more: bytes | memoryview) -> bool:
        """Write, for a response; it is short, and the first, so the kernel has room for it. True."""
        data = b"".join((data, *more))
        with suppress(OSError):
            if os.write(self.fd, data) == len(data):
                return True
        self.abort()
        return True

    async def flush(self) -> None:
        """Return: nothing is ever queued."""
