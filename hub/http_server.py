"""HTTP/1.1 on trio: connections, bodies, streams, limits. Knows nothing of MCP.

A handler gets a whole `HttpRequest` and an `HttpResponse`; it answers with one `reply`, or opens a stream of server-sent
events and writes to it. One request of a connection is handled at a time, in order (F-H-12).
"""

from collections.abc import Awaitable, Callable, Sequence

import trio
from msgspec import Struct

from hub.access import Denied
from hub.link.exchange import Identity


class HttpRequest(Struct):
    """One request. Header names are lower case, values as sent without outer blanks; singletons appear once (SEC-10)."""

    method: str
    path: str
    """Without query; never percent-decoded."""
    headers: dict[str, str]
    body: bytes = b""
    query: str = ""
    """Behind the "?"."""
    identity: Identity | None = None
    """Set by the guard (`Access.guard`), so that handlers need not check again."""


class HttpResponse:
    """The answer to one request: `reply` once, or `open_stream`, any `write`, `close_stream`.

    All methods return at once and never raise for what the peer does. Usable from any task until the handler returns.
    """

    started: bool
    """A status line has been sent: no `reply` nor `open_stream` any more."""
    gone: bool
    """The peer has left, or was given up. Writes are dropped."""
    on_gone: Callable[[], None] | None
    """Called once, when the peer leaves before the answer was complete; possibly from inside `write`. Must not raise."""

    @property
    def queued_bytes(self) -> int:
        """What the peer has not taken yet; drop what may be dropped when this grows (F-H-04)."""
        raise NotImplementedError

    def reply(
        self,
        status: int,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
        *,
        content_type: str = "application/json",
    ) -> None:
        """The whole answer, in one write. `headers` come on top of Content-Type and Content-Length."""
        raise NotImplementedError

    def open_stream(self, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Start a 200 `text/event-stream`: chunked, not cached, not buffered by proxies, kept alive by comments."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send whole events. Never blocks: when the peer has 1 MiB to read already, the connection is closed instead."""
        raise NotImplementedError

    def close_stream(self) -> None:
        """End the stream properly; the connection stays usable. Happens by itself when the handler returns."""
        raise NotImplementedError


Handler = Callable[[HttpRequest, HttpResponse], Awaitable[None]]
Guard = Callable[[HttpRequest], Denied | None]


class HttpServer:
    """Serves HTTP/1.1. `guard` sees each head before the body is read and may refuse it."""

    draining: bool

    def __init__(self, handler: Handler, guard: Guard) -> None:
        raise NotImplementedError

    async def serve(
        self, listeners: Sequence[trio.SocketListener], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Accept and serve until cancelled or drained; closes the listeners and all connections.

        Cancellation: ends every request at once.
        """
        raise NotImplementedError

    async def drain(self) -> None:
        """Stop accepting, answer 503 to requests that still come, return when the running ones are answered.

        A stream that its handler keeps open is a running request: end it first, or put a deadline around this.
        """
        raise NotImplementedError
