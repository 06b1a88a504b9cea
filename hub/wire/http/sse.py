"""Server-sent events: an incremental parser, and an encoder whose output is one event to every reader. No I/O."""

from typing import Final

from msgspec import Struct

KEEP_ALIVE: Final = b": \n\n"
"""A comment, which keeps a stream alive and means nothing."""
MAX_EVENT_BYTES: Final = 8 << 20
MIN_RETRY_MS: Final = 1000
MAX_FIELD_BYTES: Final = 8 << 10
"""Bytes kept of an event's name or id; the rest is cut off."""
_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True):
    """One event of a stream."""

    data: bytes
    event: str = "message"
    id: str | None = None
    """The id given with this event, if any."""


class EventTooLong(Exception):
    """An event passed the limit before it was complete; the stream cannot be read any further."""


class SseParser:
    """Incremental parser of `text/event-stream` by the rules of the WHATWG: any line end, input split anywhere.

    `retry_ms` says how long to wait before the stream is resumed; events without data, which are not returned, set it,
    too.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.retry_ms: int | None = None
        self.idle_lines = 0
        """Lines without data: comments, blank lines between events, other fields."""
        self.data_lines = 0
        """Lines with data."""
        self.held_bytes = 0
        """Bytes of the incomplete event."""
        self._max_event_bytes = max_event_bytes
        self._partial = bytearray()
        self._at_start = True
        self._after_cr = False
        self._begin_event()

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Parse `data`; return the events that it completes. Raises EventTooLong: after all events before the long one
        were returned; nothing more can be read."""
        data = self._with_lf_only(data)
        if self._at_start:
            data = self._without_bom(data)
        events: list[ServerEvent] = []
        try:
            if b"\n" in data:
                first, *lines = data.split(b"\n")
                data = lines.pop()
                self._take_line(bytes(self._partial) + first, events)
                self._partial.clear()
                for line in lines:
                    self._take_line(line, events)
            self._partial += data
            self._check(len(self._partial))
            self.held_bytes = self._event_bytes + len(self._partial)
        except EventTooLong:
            if not events:
                raise
        return events

    def _with_lf_only(self, data: bytes) -> bytes:
        """Replace every line end in `data` by LF. A CR ends a line at once; an LF right after it adds nothing."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _without_bom(self, data: bytes) -> bytes:
        start = bytes(self._partial) + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return data
        self._at_start = False
        self._partial.clear()
        return start.removeprefix(_BOM)

    def _begin_event(self) -> None:
        self._first: bytes | None = None
        """The first line of the event's data; most events have no other."""
        self._data: bytearray | None = None
        """All lines of data, once there are two: one object per line would take many times the memory."""
        self._event_bytes = 0
        self._event = "message"
        self._id: str | None = None

    def _check(self, line_bytes: int) -> None:
        if self._event_bytes + line_bytes > self._max_event_bytes:
            self._event_bytes = self._max_event_bytes + 1
            raise EventTooLong

    def _take_line(self, line: bytes, events: list[ServerEvent]) -> None:
        self._check(len(line))
        if not line:
            if self._first is not None:
                data = self._first if self._data is None else bytes(self._data)
                events.append(ServerEvent(data, self._event, self._id))
            else:
                self.idle_lines += 1
            self._begin_event()
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            if self._first is None:
                self._first = value
            else:
                if self._data is None:
                    self._data = bytearray(self._first)
                    self._first = b""  # moved to `_data`
                self._data += b"\n"
                self._data += value
            self._event_bytes += len(line)
            self.data_lines += 1
            return
        self.idle_lines += 1
        if field == b"event":
            self._event = value[:MAX_FIELD_BYTES].decode(errors="replace") or "message"
        elif field == b"id" and b"\0" not in value:
            self._id = value[:MAX_FIELD_BYTES].decode(errors="replace")
        elif field == b"retry" and value.isdigit():
            self.retry_ms = max(MIN_RETRY_MS, int(value[:12]))


def encode_event(data: bytes, *, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Encode one event. `data` is one message of `hub.wire.jsonrpc`, or empty to give a stream its first id."""
    assert data.find(b"\n") < 0, "an event holds a line end"
    assert data.find(b"\r") < 0, "an event holds a line end"
    head = b"event: message\n" if data else b""
    if id is not None:
        head += b"id: %b\n" % id.encode()
    if retry_ms is not None:
        head += b"retry: %d\n" % retry_ms
    return b"".join((head, b"data: ", data, b"\n\n"))
