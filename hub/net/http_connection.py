"""One HTTP/1.1 connection: reads requests one after another, hands each to the handler, writes the response.

A connection is one task. It waits in three places only: for bytes of a request, in the handler, and for the peer to
take the last bytes of a response. `HttpServer` checks the read deadlines of all connections once a second, so that a
request does not pay for timers; no deadline is set while the handler runs.
"""

import contextlib
import logging
import math
import os
import secrets
import select
import socket
from typing import Final

import trio
from msgspec import Raw
from trio.lowlevel import checkpoint, wait_readable

from hub.link.budget import FREE_BYTES, NO_ROOM
from hub.link.channel import ChannelClosed, Outbox, OutboxFull, watch_peer
from hub.link.hub_errors import Overloaded
from hub.net.connection_limits import REFUSED, ServerState
from hub.net.http_message import STOPPING, EarlyReply, Ends, HttpRequest, HttpResponse
from hub.wire.http.request_head import ChunkedRequestBody, HttpRefusal, RequestHead, head_end
from hub.wire.jsonrpc import Failure, encode_response, raw
from hub.wire.mcp import INTERNAL_ERROR, INVALID_REQUEST

log = logging.getLogger(__name__)

_TOO_SLOW: Final = HttpRefusal(408, "The request did not arrive in time")
HANGUPS: Final = select.EPOLLRDHUP | select.EPOLLET
BYTES: Final = HANGUPS | select.EPOLLIN
READ_BYTES: Final = 64 << 10
LARGE_READ_BYTES: Final = 256 << 10
LINGER_BYTES: Final = 16 << 20
RETRY_AFTER: Final = (("Retry-After", "1"),)


class Connection:
    """One accepted connection. `run` serves it; the other methods return at once."""

    __slots__ = (
        "_account",
        "_body_bytes",
        "_buffer",
        "_is_stranger",
        "_news",
        "_response",
        "_scope",
        "_stream",
        "close_after",
        "closed",
        "deadline",
        "fd",
        "hung_up",
        "is_arriving",
        "outbox",
        "shared",
    )

    def __init__(self, stream: trio.SocketStream, shared: ServerState) -> None:
        self._stream = stream
        self.fd = stream.socket.fileno()
        """Descriptor of its socket; another's may have the number once it is `closed`."""
        self._buffer = b""
        self._response: HttpResponse | None = None
        self._scope = trio.CancelScope()
        self.is_arriving = False
        """A request has begun to arrive, and is not complete: a timeout is worth an answer."""
        self.shared = shared
        self.deadline = shared.now + shared.limits.header_timeout_s
        self.close_after = False
        self.closed = False
        self.hung_up = False
        limits = shared.limits
        self._account = shared.budget.account(give_up=self._give_way)
        self._body_bytes = 0
        """Bytes of the request's body that are charged to the budget until it is answered."""
        self.outbox = Outbox(
            stream,
            shared.nursery,
            self.abort,
            limit_bytes=limits.max_unread_bytes,
            stall_s=limits.write_stall_s,
            account=self._account,
        )
        self._is_stranger = True
        self._news = trio.Event()
        """Set when a stranger has sent bytes; of many strangers that send at once, a few are woken at a time."""
        shared.crowd.add_stranger(self, trio.current_time())
        shared.connections[self.fd] = self
        shared.hangups.register(self.fd, BYTES)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "busy" if self._response else "reading"
        return f"<Connection {self.fd} {state}, {self.outbox.queued_bytes} bytes queued>"

    @property
    def queued_bytes(self) -> int:
        """Bytes written that the kernel has not taken yet."""
        return self.outbox.queued_bytes

    @property
    def principal(self) -> str:
        """The principal of the first request."""
        return self._account.principal

    @property
    def is_idle(self) -> bool:
        """True if the connection is between two requests."""
        return self._response is None and not self.is_arriving and not self.closed

    def ends(self) -> Ends | None:
        """The two ends of the connection; None: it is closed."""
        try:
            own, peer = self._stream.socket.getsockname(), self._stream.socket.getpeername()
        except OSError:
            return None
        return Ends(own[:2], peer[:2])

    def has_sent(self) -> bool:
        """True if received bytes are waiting to be read."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(self._buffer or poll.poll(0))

    def expire(self) -> None:
        """Stop reading: the deadline for a request to arrive has passed."""
        self._scope.cancel()

    def wake(self) -> None:
        """Have the task look what has changed."""
        self._news.set()

    def stirred(self, event: int) -> None:
        """Handle an epoll event: the peer has sent something, or hung up."""
        if self._is_stranger:
            self.wake()
        if event & ~select.EPOLLIN:
            self.lost()

    def lost(self) -> None:
        """Handle a hang-up: the peer has left, or has only shut down its sending side; the two look the same.

        The running request is told that its host left, which cancels a modern request. Our side stays open, so that a
        peer that still reads gets the rest: the answer of a legacy request, the end of a cancelled one without answer.
        """
        self.hung_up = True
        if self._response is None:
            return
        try:
            self._response.leave()
        except Exception:
            log.exception("a handler failed at being told that its host left")

    def abort(self) -> None:
        """Close now; drop what is queued."""
        if self.closed:
            return
        self.closed = True  # before the descriptor may be reused
        self.outbox.close()
        self._account.close()
        shared = self.shared
        shared.crowd.remove(self)
        shared.room.unpark_all()
        shared.hangups.unregister(self.fd)
        del shared.connections[self.fd]
        self.wake()
        if self._response is not None:
            self._response.detach()
        self._stream.socket.close()
        self.lost()
        self._response = None  # it refers to this connection: a cycle

    def _give_way(self) -> None:
        """Free memory for others: stop waiting for a slow body, or close a connection whose peer does not read."""
        if self.outbox.queued_bytes:
            log.info("a host does not read what it has asked for, and others need the room: it is closed")
            self.abort()
        else:
            self.expire()

    def send(self, data: bytes) -> None:
        """Write or queue; close the connection if there is no room. A peer that is gone raises nothing."""
        if not self.offer(data):
            self.abort()

    def offer(self, data: bytes) -> bool:
        """Write or queue; False: there is no room, and nothing was written."""
        try:
            self.outbox.put(data)
        except ChannelClosed:
            pass
        except OutboxFull:
            return False
        return True

    async def flush(self) -> None:
        """Wait until the kernel has taken everything written, or the peer is gone."""
        await self.outbox.flush()

    async def run(self) -> None:
        """Serve until the peer leaves, breaks the rules, or is too slow. Raises nothing but Cancelled."""
        try:
            try:
                with self._scope:
                    await self._serve()
            except HttpRefusal as error:  # not kept: its traceback would keep this frame and the body's alive
                was_late = self._is_late
                await self._take_turn()
                self._refuse(_TOO_SLOW if was_late else error)
            except Overloaded as error:
                await self._take_turn()
                self._refuse(HttpRefusal(503, str(error), RETRY_AFTER), raw(error.facts()))
            else:
                if self._is_late:
                    self._refuse(_TOO_SLOW)
            await self._linger()
        except Exception as error:  # noqa: BLE001 - a failure ends this connection alone
            await self._crash(error)
        finally:
            self.abort()

    @property
    def _is_late(self) -> bool:
        """True if a request has begun to arrive and its time is up."""
        return self._scope.cancel_called and self.is_arriving

    async def _serve(self) -> None:
        shared = self.shared
        while not self.close_after and not self.closed:
            data = await self._read_head()
            if not data:
                return
            head, length = shared.parser.parse(data)
            request = await self._admit(head, length)
            if request is None:
                return
            if head.chunked:
                await self._read_chunked(request, head)
            elif length:
                await self._read_sized(request, head, length)
            await self._handle(request)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _receive(self, size: int = READ_BYTES) -> bytes:
        """Wait for bytes; empty when the peer is gone, time is up, or this connection was closed."""
        while not self.closed:
            try:
                if not self._is_stranger:
                    await wait_readable(self.fd)
                elif self.hung_up:  # maybe together with the last bytes; the event comes only once
                    await checkpoint()
                else:
                    await self._news.wait()
                    self._news = trio.Event()
            except trio.ClosedResourceError:
                return b""
            if self.closed:  # in the same step of the loop: the descriptor may be reused by now
                return b""
            if self._scope.cancel_called:  # too late, though bytes came in the same step of the loop
                return b""
            try:
                return os.read(self.fd, size)
            except BlockingIOError:
                continue
            except OSError:
                return b""
        return b""

    async def _read_head(self) -> bytes:
        """Read the next head; empty when the peer left before the head was complete."""
        data, self._buffer = self._buffer, b""
        if data:
            await checkpoint()  # a peer that pipelines does not starve others
        else:
            data = await self._receive()
            if not data:
                return b""
        shared = self.shared
        if shared.asleep is not None:
            shared.wake()
        self.deadline = shared.now + shared.limits.header_timeout_s
        self.is_arriving = True
        start = 0
        while not (end := head_end(data, start)):
            if self._is_stranger:
                shared.crowd.heard(self)
            start = max(0, len(data) - 3)
            more = await self._receive()
            if not more:
                return b""
            data += more
        self._buffer = data[end:]
        return data[:end]

    async def _admit(self, head: RequestHead, length: int) -> HttpRequest | None:
        """Make the request, without its body; None when the guard has replied to it, or the peer is gone.

        Raises:
            HttpRefusal: the server drains, the body is too large, or its length is missing.
            Overloaded: there are too many guests.
        """
        headers = head.headers.copy()
        if head.sized:
            headers["content-length"] = str(length)
        request = HttpRequest(head.method, head.path, headers, b"", head.query, ends=self.ends)
        shared = self.shared
        early = shared.guard(request)
        if early is not None and not isinstance(early, EarlyReply):
            early = await early.decide()
            if self.closed:
                return None
        if early is not None:
            self.close_after = True
            await self._take_turn()
            response = self._new_response(request)
            response.reply(early.status, early.body, early.headers, content_type=early.content_type)
            return None
        is_first = self._is_stranger
        is_anybody = request.is_public and request.identity is None
        if is_first and is_anybody:
            await self._take_turn()
            if self.closed:
                return None
        elif is_first:
            self._make_guest(request)
        if shared.draining and not is_first:  # the first request of an accepted connection is served even now
            text = "The hub is stopping; try again in a moment"
            raise HttpRefusal(503, text, (("Retry-After", "1"), (STOPPING, "1")))
        if length > shared.limits.max_request_body:
            raise HttpRefusal(413, f"The request body has more than {shared.limits.max_request_body} bytes")
        if head.method == "POST" and not head.sized and not head.chunked:
            raise HttpRefusal(411, "A POST needs a Content-Length, or chunked coding")
        self.close_after = head.close or is_anybody
        return request

    def _make_guest(self, request: HttpRequest) -> None:
        """Make this connection a guest.

        Raises:
            Overloaded: there are too many guests.
        """
        if request.identity is not None:
            self._account.belongs_to(request.identity.principal)
        shared = self.shared
        if not shared.crowd.make_guest(self):
            raise Overloaded(REFUSED, retry_after_ms=1000)
        self._is_stranger = False
        shared.hangups.modify(self.fd, HANGUPS)
        shared.room.unpark_all()
        watch_peer(self._stream.socket)

    async def _take_turn(self) -> None:
        """Wait until this connection may be refused: a stranger, while many are. May be closed meanwhile."""
        crowd = self.shared.crowd
        if not self._is_stranger or self.closed or crowd.may_refuse(self, trio.current_time()):
            return
        self.shared.refuse_in_turn()
        while crowd.is_to_wait(self):
            await self._news.wait()
            self._news = trio.Event()

    async def _read_sized(self, request: HttpRequest, head: RequestHead, length: int) -> None:
        data = self._buffer
        if len(data) >= length:
            request.body, self._buffer = data[:length], data[length:]
            return
        self._send_continue(head)
        parts, missing = [data], length - len(data)
        counted = length > FREE_BYTES
        if counted:
            self._begin_body(request, len(data))
        began = self.shared.now
        while missing > 0:
            self._extend_deadline(began, length - missing)
            data = await self._receive(min(max(READ_BYTES, missing), LARGE_READ_BYTES))
            if not data:
                raise HttpRefusal(400, "The request body ended before its Content-Length")
            if counted:
                self._charge_body(len(data))
            parts.append(data[:missing])
            self._buffer = data[missing:]
            missing -= len(data)
        self._account.sends.end_wait()
        request.body = b"".join(parts)  # one copy: a buffer that grows costs many

    async def _read_chunked(self, request: HttpRequest, head: RequestHead) -> None:
        body = ChunkedRequestBody(self.shared.limits.max_request_body)
        done = body.feed(self._buffer) if self._buffer else None
        if done is None:
            self._send_continue(head)
            self._begin_body(request, len(self._buffer))
        began = self.shared.now
        while done is None:
            self._extend_deadline(began, body.size)
            data = await self._receive()
            if not data:
                raise HttpRefusal(400, "The chunked request body ended too early")
            self._charge_body(len(data))
            done = body.feed(data)
        self._account.sends.end_wait()
        request.body, self._buffer = done

    def _begin_body(self, request: HttpRequest, received: int) -> None:
        """Begin to charge a body to the budget, `received` bytes of which are here."""
        self._account.belongs_to(request.identity.principal if request.identity else "")
        self._account.sends.start_wait(trio.current_time())
        self._charge_body(received)

    def _charge_body(self, received: int) -> None:
        """Charge `received` more bytes of a body to the budget.

        Raises:
            Overloaded: the budget is used up.
        """
        now = trio.current_time()
        if not self._account.take(received, now):
            raise Overloaded(NO_ROOM, retry_after_ms=1000)
        self._account.sends.on_moved(received, now)
        self._body_bytes += received

    def _release_body(self) -> None:
        """Give the bytes of the body back to the budget."""
        self._account.sends.end_wait()
        self._account.give(self._body_bytes)
        self._body_bytes = 0

    def _send_continue(self, head: RequestHead) -> None:
        if head.expects_continue:
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _extend_deadline(self, began: float, received: int) -> None:
        limits = self.shared.limits
        self.deadline = began + limits.body_timeout_s + received / limits.body_bytes_per_s

    # --- answering --------------------------------------------------------------------------------------------------

    async def _handle(self, request: HttpRequest) -> None:
        shared = self.shared
        self.deadline = math.inf
        self.is_arriving = False
        response = self._new_response(request)
        shared.running += 1
        try:
            await shared.handler(request, response)
            request.body = b""  # while this connection waits for the next one
            if self._body_bytes:
                self._release_body()
            if not response.started:
                raise RuntimeError(f"nobody answered {request.method} {request.path}")
            response.close_stream()
            if shared.draining:
                self.close_after = True
            if self.outbox.queued_bytes:
                await self.outbox.flush()
        finally:
            shared.running -= 1
            if shared.draining and not shared.running:
                shared.quiet.set()
        if not self.closed:
            self._response = None
            if shared.asleep is not None:
                shared.wake()
            self.deadline = shared.now + shared.limits.keepalive_idle_s

    def _new_response(self, request: HttpRequest | None = None) -> HttpResponse:
        if request is None:
            response = HttpResponse(self)
        else:
            response = HttpResponse(self, bodiless=request.method == "HEAD", always=request.reply_headers)
        self._response = response
        return response

    def _refuse(self, refusal: HttpRefusal, facts: Raw | None = None) -> None:
        if self.closed:
            return
        self._release_body()
        self.close_after = True
        failure = (
            Failure(INVALID_REQUEST, str(refusal)) if facts is None else Failure(INTERNAL_ERROR, str(refusal), facts)
        )
        body = encode_response(None, failure)
        self._new_response().reply(refusal.status, body, refusal.headers)

    async def _crash(self, error: Exception) -> None:
        ref = secrets.token_hex(4)
        log.error("serving a connection failed, ref %s", ref, exc_info=error)
        if self.closed or (self._response is not None and self._response.started):
            return
        body = encode_response(None, Failure(INTERNAL_ERROR, f"The hub failed at this request; its log has ref {ref}"))
        self.close_after = True
        self._new_response().reply(500, body)
        await self._linger()

    async def _linger(self) -> None:
        """Let the peer take the last response: closing with its bytes unread would send a reset, and lose it."""
        if self.closed or not self.close_after:
            return
        with trio.move_on_after(self.shared.limits.write_stall_s):
            await self.outbox.flush()
        if self.closed or self.outbox.broken:
            return
        with contextlib.suppress(OSError):
            self._stream.socket.shutdown(socket.SHUT_WR)
        dropped = 0
        with trio.move_on_after(self.shared.limits.linger_s):
            while dropped < LINGER_BYTES:
                try:
                    await wait_readable(self.fd)
                    data = b"" if self.closed else os.read(self.fd, READ_BYTES)
                except BlockingIOError:
                    continue
                except (trio.ClosedResourceError, OSError):
                    return
                if not data:
                    return
                dropped += len(data)
