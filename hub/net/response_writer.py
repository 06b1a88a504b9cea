"""The response to an HTTP request, written as a handler says, and the bytes of response heads. Knows nothing of MCP.

Response heads are constants with a few holes: making them with h11 costs as much as everything else here.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from http import HTTPStatus
from typing import Final, Protocol

import trio

from hub.link.hub_errors import Executed, Overloaded
from hub.net.http_request import HttpLimits, HttpRequest
from hub.wire.jsonrpc import Failure, Wire, encode_response, raw
from hub.wire.mcp import INTERNAL_ERROR

log = logging.getLogger(__name__)
ANSWERED: Final = "this request has been answered already"
Fields = Sequence[tuple[str, str]]
"""Header fields."""


class SharedState(Protocol):
    """State shared by all connections of a server, as a response sees it (`open_connections.ServerState`)."""

    limits: HttpLimits
    date: bytes
    draining: bool
    streams: "set[HttpResponse]"
    asleep: trio.Event | None

    def wake(self) -> None: ...


class Carrier(Protocol):
    """The connection that carries a response (`http_connection.Connection`)."""

    close_after: bool
    closed: bool
    hung_up: bool

    @property
    def shared(self) -> SharedState: ...

    @property
    def queued_bytes(self) -> int: ...

    def offer(self, data: bytes, *more: bytes | memoryview) -> bool:
        """Write or queue; False: there is no room, and nothing was written."""

    async def flush(self) -> None: ...

    def take_turns_as(self, sender: Hashable) -> None: ...

    def abort(self) -> None: ...


class HttpResponse:
    """The response to one request: `reply` once, or `open_stream`, any number of `write`, `close_stream`.

    All methods but `drained` return at once, and none raises for what the peer does. Any task may use the response
    until the handler returns; or until `end`, if the handler has said `answer_later`."""

    __slots__ = (
        *("_always", "_bodiless", "_connection", "_on_gone", "_streaming", "at_end"),
        *("cancel", "complete", "gone", "quiet_s", "started"),
    )

    def __init__(self, connection: Carrier, request: HttpRequest | None = None) -> None:
        """`request`: None, if it could not be read."""
        self._always = () if request is None else request.reply_headers
        self._bodiless = request is not None and request.method == "HEAD"
        self._connection = connection
        self._on_gone: Callable[[], None] | None = None
        self.at_end: Callable[[], None] | None = None
        """Called at the `end`."""
        self.cancel: Callable[[], None] | None = None
        """Cancels the request, which is answered after its handler has returned; None: it is answered before that."""
        self._streaming = False
        self.started = False
        """A status line has been sent: neither `reply` nor `open_stream` may be called any more."""
        self.complete = False
        """The whole response has been written."""
        self.gone = False
        """The peer has left, or was given up; writes to the stream are dropped."""
        self.quiet_s = 0.0
        """Seconds since the last write to the stream, as of the last look at all streams."""
        if connection.hung_up:
            self.leave()

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` when the peer leaves before the response is complete: once, and now if it has left already.

        It replaces an earlier one; None: nothing is called. It may run inside `write`, and must not wait."""
        self._on_gone = callback
        if self.gone:
            self._call_on_gone()

    def answer_later(self, cancel: Callable[[], None], *, cancel_if_gone: bool = False) -> None:
        """Let the handler return before the request is answered: `end` must follow then, whatever becomes of the peer.

        `cancel` ends the request before its time; `cancel_if_gone`: also when the peer leaves."""
        self.cancel = cancel
        if cancel_if_gone:
            self._on_gone = cancel

    def end(self) -> None:
        """The request is over that was to be answered later; harmless when called again."""
        callback, self.cancel, self._on_gone, self.at_end = self.at_end, None, None, None
        if callback is not None:
            callback()

    def take_turns_as(self, sender: Hashable) -> None:
        """Have what comes over this connection take turns with what other senders send over theirs."""
        self._connection.take_turns_as(sender)

    @property
    def queued_bytes(self) -> int:
        """Bytes the peer has not taken yet; drop what may be dropped, such as progress, when this grows."""
        return self._connection.queued_bytes

    def reply(
        self, status: int, body: Wire = b"", headers: Fields = (), *, content_type: str = "application/json"
    ) -> None:
        """Write the whole response at once. `headers` come on top of Content-Type and Content-Length."""
        connection = self._connection
        kind = (status, content_type) if body else (status, "")
        first = _FIRST.get(kind) or _first_lines(*kind)
        if self._always:
            headers = (*headers, *self._always)
        more = _encode_fields(headers) if headers else b""
        if self.started:
            raise RuntimeError(ANSWERED)
        self.started = self.complete = True
        if connection.close_after or connection.shared.draining:
            more += b"Connection: close\r\n"
        text, pieces = (body, ()) if isinstance(body, bytes) else (b"", body)
        size = len(text) + sum(map(len, pieces)) if pieces else len(text)
        if self._bodiless:
            text, pieces = b"", ()
        length = b"" if status == 204 else b"Content-Length: %d\r\n" % size
        head = b"".join((first, connection.shared.date, length, more, b"\r\n", text))
        if not connection.offer(head, *pieces):
            self._drop(size)

    def open_stream(self, headers: Fields = (), *, relayed: bool = False) -> None:
        """Start a 200 `text/event-stream`: chunked, not cached, not buffered by proxies, kept alive by comments.

        A `relayed` stream is kept alive by its writer, and need not be written in whole events."""
        connection = self._connection
        fields = _encode_fields((*headers, *self._always))
        if self.started:
            raise RuntimeError(ANSWERED)
        self.started = self._streaming = True
        more = b"Connection: close\r\n" if connection.close_after else b""
        if not connection.closed and not relayed:
            connection.shared.streams.add(self)
        self._send(b"".join((_STREAM, connection.shared.date, fields, more, b"\r\n")))

    def write(self, data: bytes, *, vital: bool = False) -> None:
        """Send whole events. Never blocks: a stream whose peer left 1 MiB unread is closed instead.

        `vital` events, those with an answer, are queued whatever waits before them, for as long as bytes move."""
        if not self._streaming or self.gone or not data:
            return
        connection = self._connection
        shared = connection.shared
        if shared.asleep is not None:
            shared.wake()
        self.quiet_s = 0.0
        if not vital and connection.queued_bytes > shared.limits.stream_queue_bytes:
            log.info("a host left %d bytes of its stream unread; it is closed", connection.queued_bytes)
            connection.abort()
            return
        self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def close_stream(self) -> None:
        """End the stream properly; the connection stays usable. Called for every stream when the handler returns."""
        if not self._streaming:
            return
        self._streaming = False
        self.complete = True
        self._connection.shared.streams.discard(self)
        self._send(b"0\r\n\r\n")

    def _send(self, data: bytes) -> None:
        """Write or queue; close the connection if there is no room. A peer that is gone raises nothing."""
        if not self._connection.offer(data):
            self._connection.abort()

    async def drained(self) -> None:
        """Wait until the kernel has taken everything written, or the peer is gone."""
        await self._connection.flush()

    def is_last(self) -> None:
        """Have the connection closed after this response; to be called before it begins."""
        self._connection.close_after = True

    def cut(self) -> None:
        """Close the connection in the middle of a stream that cannot be ended properly."""
        self._connection.abort()

    def leave(self) -> None:
        """Note that the peer is gone."""
        if self.gone or self.complete:
            return
        self.gone = True
        self._call_on_gone()

    def detach(self) -> None:
        """Forget the stream: its connection is closing."""
        self._streaming = False
        self._connection.shared.streams.discard(self)

    def _drop(self, size: int) -> None:
        """Answer 503 in place of a response of `size` bytes that there is no room for."""
        text = f"The request was carried out, but the hub holds too much to keep its answer of {size} bytes"
        facts = Overloaded(text, executed=Executed.YES, retry_after_ms=1000).facts()
        body = encode_response(None, Failure(INTERNAL_ERROR, text, raw(facts)))
        self.started = self.complete = False
        log.info("an answer of %d bytes was dropped: hosts leave too much unread (global_buffer_bytes)", size)
        self.reply(503, body, (("Retry-After", "1"),))

    def _call_on_gone(self) -> None:
        if self._on_gone is not None:
            callback, self._on_gone = self._on_gone, None
            callback()


STOPPING: Final = "hubd-stopping"
"""Response header of a hub that refuses requests because it is stopping: the request was not carried out."""
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    b"Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
)
_REASONS: Final = {each.value: each.phrase for each in HTTPStatus} | {413: "Content Too Large", 414: "URI Too Long"}
"""RFC 9110, for which Python 3.11 is too old."""
_FIRST: Final[dict[tuple[int, str], bytes]] = {}


def _first_lines(status: int, content_type: str) -> bytes:
    """Make, and remember, the status line and Content-Type."""
    kind = _encode_fields([("Content-Type", content_type)]) if content_type else b""
    first = _FIRST[status, content_type] = f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n".encode() + kind
    return first


def _encode_fields(headers: Fields) -> bytes:
    text = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if text.count("\n") != len(headers) or text.count("\r") != len(headers):
        raise ValueError("a response header holds a line end")
    return text.encode("latin-1")
