"""One HTTP/1.1 connection of a guest: reads one request after another, has each handled, writes the response.

    no task  --bytes--> a whole request --handler--> it is answered, or will be later: still no task
                    '-> somebody has to wait for something: a task --nothing more has come--> no task

The task waits for the guard, in the handler, and for the peer to take the last bytes of a response. `HttpServer` checks
the read deadlines of all connections once a second, so that a request does not pay for timers; no deadline is set while
the handler runs.

A handler may return before its request is answered. A request that comes too early waits for the answer, in a task, and
no more is read until then.
"""

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final

import trio
from msgspec import Struct
from trio.lowlevel import checkpoint, wait_readable

from hub.link.channel import ChannelClosed, OutboxFull
from hub.link.hub_errors import Overloaded
from hub.link.memory_budget import FREE_BYTES, NO_ROOM
from hub.link.outbox import Outbox
from hub.net.http_request import EarlyReply, HttpRequest, Undecided
from hub.net.open_connections import Arrived, OpenConnection, ServerState
from hub.net.response_writer import STOPPING, HttpResponse
from hub.wire.http.request_parser import ChunkedRequestBody, HttpRefusal
from hub.wire.jsonrpc import Failure, encode_response, raw
from hub.wire.mcp import INTERNAL_ERROR, INVALID_REQUEST

log = logging.getLogger(__name__)

TOO_SLOW: Final = HttpRefusal(408, "The request did not arrive in time")
READ_BYTES: Final = 64 << 10
LARGE_READ_BYTES: Final = 256 << 10
LINGER_BYTES: Final = 16 << 20
RETRY_AFTER: Final = (("Retry-After", "1"),)


class ArrivingBody(Struct):
    """A body that is still arriving, of a given length, or chunked."""

    request: HttpRequest
    began: float
    missing: int
    """Bytes that are to come; 0, if it is chunked."""
    is_counted: bool
    """It is charged to the budget."""
    chunks: ChunkedRequestBody | None = None
    parts: list[bytes] = []
    size: int = 0
    """Bytes that have come."""

    def take(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Take more; once it is whole, the body and what has come behind it. HttpRefusal: it is malformed, too large,
        or was cut off."""
        if not data:
            kind, end = ("", "before its Content-Length") if self.chunks is None else ("chunked ", "too early")
            raise HttpRefusal(400, f"The {kind}request body ended {end}")
        if self.chunks is not None:
            done = self.chunks.feed(data)
            self.size = self.chunks.size
            return done
        self.parts.append(data[: self.missing])
        rest = data[self.missing :]
        self.size += len(data)
        self.missing -= len(data)
        return None if self.missing > 0 else (b"".join(self.parts), rest)  # one copy: a buffer that grows costs many


class Connection(OpenConnection):
    """One connection that has passed the guard with a first request, which `welcome` takes on."""

    __slots__ = (
        "_account",
        "_answered",
        "_body",
        "_body_bytes",
        "_has_task",
        "_pending",
        "_response",
        "_scope",
        "outbox",
    )

    def __init__(
        self, stream: trio.SocketStream, shared: ServerState, first: Arrived, rest: bytes, *, hung_up: bool
    ) -> None:
        """`rest`: bytes received behind the head of the `first` request. `hung_up`: the peer has closed its side."""
        super().__init__(stream, shared)
        self._buffer = rest
        self._has_task = False
        """A task reads what comes, and closes the connection at its end."""
        self._body: ArrivingBody | None = None
        """The body that no task has to wait for."""
        self._response: HttpResponse | None = None
        self._pending: HttpResponse | None = None
        """The response of a request whose handler has returned before it was over."""
        self._answered: trio.Event | None = None
        """Set when that is over; None: the task does not wait for that."""
        self._scope: trio.CancelScope
        """The scope of the task."""
        self.is_arriving = True
        self.hung_up = hung_up
        limits = shared.limits
        identity = first.request.identity
        self._account = shared.budget.account(identity.principal if identity else "", self._give_way)
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
        shared.watch.add(self.fd, self.stirred)

    def welcome(self, first: Arrived) -> None:
        """Serve from now on."""
        self._go_on(partial(self._take_on, first))
        self._look_again()

    @property
    def queued_bytes(self) -> int:
        """Bytes written that the kernel has not taken yet."""
        return self.outbox.queued_bytes

    @property
    def is_idle(self) -> bool:
        """True if the connection is between two requests."""
        return self._response is None and not self.is_arriving and not self.closed

    def expire(self) -> None:
        """Stop reading: the deadline for a request to arrive has passed."""
        if self._has_task:
            self._scope.cancel()
        elif self.is_arriving:
            self._start(self._leave())
            self._scope.cancel()
        else:
            self.end()

    def stirred(self, hung_up: bool) -> None:
        """The peer has hung up, or has sent something."""
        if hung_up:
            self._leave_response()
        if self._has_task or self.closed or self.shared.is_over:
            return
        if self._pending is not None:
            self._start(self._serve_next())  # which waits for the answer
            return
        size = READ_BYTES if self._body is None else min(max(READ_BYTES, self._body.missing), LARGE_READ_BYTES)
        try:
            data = os.read(self.fd, size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data and self._body is None:
            self.abort()
            return
        self._go_on(partial(self._take if self._body is None else self._take_body, data))
        if self.hung_up or len(data) == size:
            self._look_again()

    def _look_again(self) -> None:
        """Have what is still unread reported, unless there is a task to read it."""
        if not self._has_task and not self.closed:
            self.shared.watch.heed(self.fd, bytes=True)

    def _leave_response(self) -> None:
        """The peer has hung up: it has left, or has only shut down its sending side; the two look the same.

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
        self.outbox.close()
        self._account.close()
        if self._response is not None:
            self._response.detach()
        super().abort()
        self._leave_response()
        self._response = None  # it refers to this connection: a cycle

    def _give_way(self) -> None:
        """Free memory for others: stop waiting for a slow body, or close a connection whose peer does not read."""
        if self.outbox.queued_bytes:
            log.info("a host does not read what it has asked for, and others need the room: it is closed")
            self.abort()
        else:
            self.expire()

    def offer(self, data: bytes, *more: bytes | memoryview) -> bool:
        """Write or queue; False: there is no room, and nothing was written."""
        try:
            self.outbox.put(data, *more)
        except ChannelClosed:
            pass
        except OutboxFull:
            return False
        return True

    async def flush(self) -> None:
        """Wait until the kernel has taken everything written, or the peer is gone."""
        await self.outbox.flush()

    def end(self) -> None:
        self.abort()
        if self._pending is not None and self._pending.cancel is not None:
            self._pending.cancel()

    # --- without a task -----------------------------------------------------------------------------------------------

    def _go_on(self, take: Callable[[], Awaitable[bool] | None]) -> None:
        """Take what has come; the rest of the work on it, or what came behind it, is left to a task."""
        try:
            work = take()
        except Exception as error:  # noqa: BLE001 - a failure ends this connection alone
            self._start(self._leave(error))
            return
        if work is None and self._buffer and not (self.is_arriving or self._has_task or self.closed):
            work = self._serve_next()
        if work is not None:
            self._start(work)

    def _start(self, work: Awaitable[bool]) -> None:
        """Leave the connection to a task, which begins with `work`."""
        self._has_task, self._body = True, None
        self._scope = trio.CancelScope()
        if not self.closed:
            self.shared.watch.heed(self.fd, bytes=False)
        self.shared.nursery.start_soon(self._run, work)

    def _take(self, data: bytes) -> Awaitable[bool] | None:
        """Take the beginning of a request, and answer it, if it can be; else the work that has to be done first. None:
        there is none, or its head is not complete. Raises HttpRefusal: it is malformed."""
        if (arrived := self.read_head(data)) is None:
            return None
        early = self.shared.guard(arrived.request)
        if early is not None or self.shared.draining:
            return self._serve_judged(arrived, early)
        return self._take_on(arrived)

    def _take_on(self, arrived: Arrived) -> Awaitable[bool] | None:
        """Answer a request that has passed the guard, as `_take`, now or once its body is there. Raises HttpRefusal."""
        request, head, length = arrived.request, arrived.head, arrived.length
        if length > self.shared.limits.max_request_body:
            raise HttpRefusal(413, f"The request body has more than {self.shared.limits.max_request_body} bytes")
        if head.method == "POST" and not head.sized and not head.chunked:
            raise HttpRefusal(411, "A POST needs a Content-Length, or chunked coding")
        self.close_after = head.close or (request.identity is None and request.is_anybody)
        if not head.chunked and length <= len(self._buffer):
            request.body, self._buffer = self._buffer[:length], self._buffer[length:]
            return self._answer(request)
        data, self._buffer = self._buffer, b""
        body = ArrivingBody(request, self.shared.now, length, head.chunked or length > FREE_BYTES)
        if head.chunked:
            body.chunks = ChunkedRequestBody(self.shared.limits.max_request_body)
        if data and (done := body.take(data)) is not None:
            request.body, self._buffer = done
            return self._answer(request)
        if head.expects_continue and not self.offer(b"HTTP/1.1 100 Continue\r\n\r\n"):
            self.abort()
        if body.is_counted:
            self._account.belongs_to(request.identity.principal if request.identity else "")
            self._account.sends.start_wait(trio.current_time())
            self._charge_body(len(data))
        self._body = body
        self._extend_deadline(body)
        return None

    def _take_body(self, data: bytes) -> Awaitable[bool] | None:
        """Take a part of the body that is arriving, as `_take`. HttpRefusal: it is the end, and too early; Overloaded:
        there is no room for it."""
        body = self._body
        assert body is not None, "it was begun"
        if body.is_counted:
            self._charge_body(len(data))
        if (done := body.take(data)) is None:
            self._extend_deadline(body)
            return None
        self._body = None
        self._account.sends.end_wait()
        body.request.body, self._buffer = done
        return self._answer(body.request)

    # --- in a task ----------------------------------------------------------------------------------------------------

    async def _run(self, work: Awaitable[bool]) -> None:
        """Serve until nothing more has come, or the peer leaves, breaks the rules, or is too slow. Raises nothing but
        Cancelled."""
        try:
            try:
                with self._scope:
                    await self._serve(work)
            except HttpRefusal as error:  # not kept: its traceback would keep this frame and the body's alive
                self._refuse(refusal_reply(TOO_SLOW if self._is_late else error))
            except Overloaded as error:
                self._refuse(overload_reply(error))
            else:
                if self._is_late:
                    self._refuse(refusal_reply(TOO_SLOW))
            if self._has_task:
                await self._linger()
        except Exception as error:  # noqa: BLE001 - a failure ends this connection alone
            await self._crash(error)
        finally:
            if self._has_task:
                self.end()

    @property
    def _is_late(self) -> bool:
        """True if a request has begun to arrive and its time is up."""
        return self._scope.cancel_called and self.is_arriving

    async def _serve(self, work: Awaitable[bool]) -> None:
        """Do `work`, and serve the requests that have come meanwhile; then the task has nothing more to do."""
        while await work:
            if self.closed or (self.close_after and self._body is None):
                await self._wait_answered()
                return
            if not self._buffer or self.is_arriving:
                self._has_task = False
                self._look_again()
                return
            work = self._serve_next()

    async def _serve_next(self) -> bool:
        """Serve what has come behind the last request, once that is answered. False: no more is served."""
        if self._buffer:
            await checkpoint()  # a peer that pipelines does not starve others
        if self._pending is not None:
            await self._wait_answered()
        if self.close_after or self.closed:
            return False
        work = self._take(b"") if self._buffer else None
        return work is None or await work

    async def _serve_judged(self, arrived: Arrived, early: EarlyReply | Undecided | None) -> bool:
        """Serve a request that the guard has, or may have, something to say about, or that comes while the server
        drains. HttpRefusal: it does."""
        if early is not None and not isinstance(early, EarlyReply):
            early = await early()
            if self.closed:
                return False
        if early is not None:
            self.close_after = True
            self._response = HttpResponse(self, arrived.request)
            self._response.reply(early.status, early.body, early.headers, content_type=early.content_type)
            return False
        if self.shared.draining:
            text = "The hub is stopping; try again in a moment"
            raise HttpRefusal(503, text, (("Retry-After", "1"), (STOPPING, "1")))
        work = self._take_on(arrived)
        return work is None or await work

    async def _leave(self, error: Exception | None = None) -> bool:
        """Serve no more, because of `error`, or since it was said in an answer. False."""
        if error is not None:
            try:
                raise error
            finally:
                del error  # a cycle: the traceback holds this frame
        return False

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _receive(self) -> bytes:
        """Wait for bytes; empty when the peer is gone, or this connection was closed."""
        while not self.closed:
            try:
                await wait_readable(self.fd)
            except trio.ClosedResourceError:
                return b""
            if self.closed:  # in the same step of the loop: the descriptor may be reused by now
                return b""
            try:
                return os.read(self.fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""
        return b""

    def _charge_body(self, received: int) -> None:
        """Charge `received` more bytes of a body to the budget. Overloaded: it is used up."""
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

    def _extend_deadline(self, body: ArrivingBody) -> None:
        limits = self.shared.limits
        self.deadline = body.began + limits.body_timeout_s + body.size / limits.body_bytes_per_s

    # --- answering --------------------------------------------------------------------------------------------------

    def _answer(self, request: HttpRequest) -> Awaitable[bool] | None:
        """Have a request answered. None: it is, or will be, without this connection; else what is to be waited for."""
        self.deadline = inf
        self.is_arriving = False
        response = self._response = HttpResponse(self, request)
        self.shared.running += 1
        try:
            rest = self.shared.handler(request, response)
            if rest is None:
                self._on_handled(request, response)
        except BaseException:
            self._end_request(is_answered=False)
            raise
        return None if rest is None else self._wait_for(rest, request, response)

    async def _wait_for(self, rest: Awaitable[None], request: HttpRequest, response: HttpResponse) -> bool:
        """Wait for the `rest` of the work on a request. True."""
        try:
            await rest
            self._on_handled(request, response)
        except BaseException:
            self._end_request(is_answered=False)
            raise
        return True

    def _on_handled(self, request: HttpRequest, response: HttpResponse) -> None:
        """The handler has returned: the request is over, or pending until its answer is there and has left."""
        request.body = b""  # while this connection waits for the next one
        if response.cancel is not None:
            self._pending = response
            response.at_end = self._on_over
            return
        if not response.started:
            raise RuntimeError(f"nobody answered {request.method} {request.path}")
        response.close_stream()
        if self.outbox.queued_bytes:
            self._pending = response
            self.shared.nursery.start_soon(self._end_pending)
        else:
            self._end_request()

    def _end_request(self, *, is_answered: bool = True) -> None:
        """The request is over, and its answer has left: be ready for the next one, or close."""
        shared = self.shared
        shared.running -= 1
        if shared.draining:
            self.close_after = True
            if not shared.running:
                shared.quiet.set()
        if not is_answered:
            return
        if self._body_bytes:
            self._release_body()
        if not self.closed:
            self._response = None
            if shared.asleep is not None:
                shared.wake()
            self.deadline = shared.now + shared.limits.keepalive_idle_s
        was_pending, self._pending = self._pending is not None, None
        if self._answered is not None:
            self._answered.set()
        if not self.close_after or self.closed or shared.is_over:
            return
        if not self._has_task:
            self._start(self._leave())
        elif was_pending:
            self._scope.cancel()  # the task may be waiting for bytes

    def _on_over(self) -> None:
        """The pending request is over."""
        response = self._pending
        if response is not None and not (response.complete or response.gone):
            log.error("a request was not answered: its connection is closed")
            self.abort()
        if self.outbox.queued_bytes:
            self.shared.nursery.start_soon(self._end_pending)
        else:
            self._end_request()

    async def _end_pending(self) -> None:
        await self.outbox.flush()
        self._end_request()

    async def _wait_answered(self) -> None:
        """Wait until no request is pending, whether the peer is there or not."""
        if self._pending is not None:
            self._answered = trio.Event()
            await self._answered.wait()
            self._answered = None

    def _refuse(self, reply: EarlyReply) -> None:
        if self.closed:
            return
        self._release_body()
        self.close_after = True
        self._response = HttpResponse(self)
        self._response.reply(reply.status, reply.body, reply.headers)

    async def _crash(self, error: Exception) -> None:
        reply = report_fault(error)
        if self.closed or (self._response is not None and self._response.started):
            return
        self._refuse(reply)
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
        self.deadline, self._scope = inf, trio.CancelScope()  # that of the request may be over
        with trio.move_on_after(self.shared.limits.linger_s):
            while dropped < LINGER_BYTES and (data := await self._receive()):
                dropped += len(data)


def refusal_reply(refusal: HttpRefusal) -> EarlyReply:
    """Make the reply that says `refusal`."""
    body = encode_response(None, Failure(INVALID_REQUEST, str(refusal)))
    return EarlyReply(refusal.status, body, refusal.headers)


def overload_reply(error: Overloaded) -> EarlyReply:
    """Make the reply of a hub that has no room."""
    body = encode_response(None, Failure(INTERNAL_ERROR, str(error), raw(error.facts())))
    return EarlyReply(503, body, RETRY_AFTER)


def report_fault(error: Exception) -> EarlyReply:
    """Log a fault of the hub at a request; return the reply that names its place in the log."""
    ref = secrets.token_hex(4)
    log.error("serving a connection failed, ref %s", ref, exc_info=error)
    text = f"The hub failed at this request; its log has ref {ref}"
    return EarlyReply(500, encode_response(None, Failure(INTERNAL_ERROR, text)))
