"""Event streams of a legacy HTTP session: they outlive their connections, so that a host may resume them.

    attached --connection lost--> detached --GET with Last-Event-ID--> attached
       |                             |
       +----------- finish ----------+--> done; a connection gets the missed events, then the end

Every event has the id `<stream>-<n>`, unique in the session. The last `RING_EVENTS` events of a stream are kept while
it lives. A stream that no connection and no request uses goes into the `StreamArchive`, which forgets it after `KEEP_S`
or when there are too many.
"""

from collections.abc import Callable
from typing import Final

import trio
from msgspec import Struct

from hub.link.memory_budget import Account
from hub.net.look_after_connections import HttpResponse
from hub.wire.http.sse import encode_event

RING_EVENTS: Final = 256
RING_BYTES: Final = 1 << 20
"""Bytes kept of messages that may be dropped."""
VITAL_BYTES: Final = 16 << 20
"""Bytes kept of questions and answers. The newest is kept whatever its size, until the archive is full."""
KEEP_S: Final = 300.0
RETRY_MS: Final = 1000
LISTEN_RETRY_MS: Final = 3000
"""SSE `retry`: for a stream with an answer, and for one without. A host may try only once (Python's SDK), and a killed
hub takes time to start."""
SLACK_BYTES: Final = 1 << 10
"""Largest difference between the bytes kept and the bytes counted for the account."""
CONGESTED_STREAM_BYTES: Final = 512 << 10
"""Unread bytes beyond which messages that may be dropped are dropped."""


class EventStream(Struct, eq=False):
    """One stream, attached to the connection of a POST or GET, or detached."""

    name: str
    primed: bool
    """The first event only gives an id, and how soon to come back; for sessions of 2025-11-25, since hosts of older
    ones try to parse it."""
    retry_ms: int = RETRY_MS
    account: Account | None = None
    number: int = 0
    done: bool = False
    bytes_kept: int = 0
    _held: int = 0
    """Bytes counted for the account."""
    _events: list[tuple[int, bytes, bool]] = []
    _vital_bytes: int = 0
    _response: HttpResponse | None = None
    _on_left: Callable[[], None] | None = None

    @property
    def attached(self) -> bool:
        """True if a connection carries it now."""
        return self._response is not None

    @property
    def congested(self) -> bool:
        """True if the host reads too slowly."""
        return self._response is not None and self._response.queued_bytes > CONGESTED_STREAM_BYTES

    def attach(
        self, response: HttpResponse, *, after: int | None = None, on_left: Callable[[], None] | None = None
    ) -> None:
        """Carry on over `response`: with the events after number `after` if the host has been here before.

        `on_left` is called once, when this response carries the stream no longer. A connection that carried it before
        is ended: an event goes to one connection only."""
        self.detach()
        response.open_stream()
        if response.gone:
            if on_left is not None:
                on_left()
            return
        self._response, self._on_left = response, on_left
        response.when_gone(self._forget_connection)
        missed = [event for number, event, _ in self._events if after is None or number > after]
        if after is None and self.primed:
            missed.insert(0, encode_event(b"", id=f"{self.name}-0", retry_ms=self.retry_ms))
        if missed:
            response.write(b"".join(missed))
        if self.done:
            self.detach()

    def send(self, message: bytes, *, vital: bool = False) -> None:
        """Send and keep one message, before the end. One not `vital` is dropped if the host does not keep up."""
        if self.done or (self.congested and not vital):
            return
        self.number += 1
        event = encode_event(message, id=f"{self.name}-{self.number}")
        self._keep(event, vital)
        if self._response is not None:
            self._response.write(event, vital=vital)

    def _keep(self, event: bytes, vital: bool) -> None:
        self._events.append((self.number, event, vital))
        self.bytes_kept += len(event)
        self._vital_bytes += len(event) if vital else 0
        while self.bytes_kept - self._vital_bytes > RING_BYTES:
            self._forget_oldest(vital=False)
        while self._vital_bytes > VITAL_BYTES and self._vital_bytes > len(event):
            self._forget_oldest(vital=True)
        while len(self._events) > RING_EVENTS:
            self._forget_oldest(vital=all(vital for _, _, vital in self._events))
        if self.account is not None and abs(self.bytes_kept - self._held) > SLACK_BYTES:
            self._count(self.account)

    def _count(self, account: Account) -> None:
        """Count the kept bytes for the account; if it has no room, keep less."""
        now = trio.current_time()
        while (more := self.bytes_kept - self._held) > 0 and not account.take(more, now):
            self._forget_oldest(vital=self._events[0][2])
        if more < 0:
            account.give(-more)
        self._held += more

    def forget(self) -> None:
        """Forget all events."""
        self._events.clear()
        self.bytes_kept = self._vital_bytes = 0
        if self.account is not None:
            self._count(self.account)

    def _forget_oldest(self, *, vital: bool) -> None:
        """Forget the oldest event that is `vital`, or that is not."""
        at = next(at for at, event in enumerate(self._events) if event[2] is vital)
        size = len(self._events[at][1])
        del self._events[at]
        self.bytes_kept -= size
        self._vital_bytes -= size if vital else 0

    def finish(self, message: bytes | None = None) -> None:
        """End the stream, with its last message if it has one."""
        if message is not None:
            self.send(message, vital=True)
        self.done = True
        self.detach()

    def detach(self) -> None:
        """End the connection that carries the stream, if there is one; the stream lives on."""
        response = self._response
        if response is not None:
            response.when_gone(None)
            response.close_stream()
            self._forget_connection()

    def _forget_connection(self) -> None:
        self._response = None
        on_left, self._on_left = self._on_left, None
        if on_left is not None:
            on_left()


class StreamArchive:
    """Detached streams of all sessions, kept for hosts that come back; the oldest give way."""

    LIMIT_BYTES: Final = 64 << 20
    PER_SESSION: Final = 32
    PER_SESSION_BYTES: Final = 8 << 20

    def __init__(self) -> None:
        self._kept: dict[EventStream, tuple[dict[str, EventStream], float]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, stream: EventStream, session: dict[str, EventStream], now: float) -> None:
        """Keep a stream for `KEEP_S`; then it is taken out of `session`, too."""
        self.remove(stream)
        self._kept[stream] = (session, now)
        self._bytes += stream.bytes_kept
        mine = [other for other in session.values() if other in self._kept]
        size = sum(other.bytes_kept for other in mine)
        for oldest in mine[:-1]:
            if len(mine) <= self.PER_SESSION and size <= self.PER_SESSION_BYTES:
                break
            mine.remove(oldest)
            size -= oldest.bytes_kept
            self._forget(oldest)
        while self._bytes > self.LIMIT_BYTES:
            self._forget(next(iter(self._kept)))

    def remove(self, stream: EventStream) -> None:
        """Remove a stream: it is read again, or its session is over."""
        if self._kept.pop(stream, None) is not None:
            self._bytes -= stream.bytes_kept

    def expire(self, now: float) -> None:
        """Forget streams kept for longer than `KEEP_S`."""
        for stream, (_, since) in list(self._kept.items()):
            if now - since < KEEP_S:
                break
            self._forget(stream)

    def _forget(self, stream: EventStream) -> None:
        session, _ = self._kept[stream]
        self.remove(stream)
        stream.forget()
        session.pop(stream.name, None)
