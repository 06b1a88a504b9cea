"""Events of an answer: the messages on an event stream, or in a JSON body, and which of them is the response."""

from collections.abc import Callable
from typing import Final, Self

import trio
from trio.lowlevel import checkpoint

from hub.link.hub_errors import Executed, HubError, ResultTooLarge, UpstreamProtocolError
from hub.link.memory_budget import FREE_BYTES
from hub.link.rate_limits import ReadPace
from hub.wire import jsonrpc
from hub.wire.http.sse import EventTooLong, SseParser
from hub.wire.jsonrpc import Failure, Notification, RemoteProtocolError, Reply, Request, decode
from upstreams.transports.http.client import HttpReply

OnMessage = Callable[[Request | Notification], None]
"""Given every message of an answer that is not the response; must not block."""

DEFAULT_RETRY_S: Final = 1.0
MAX_EVENT_ID: Final = 1024
PIECE_BYTES: Final = 4 << 10
FREE_LINES: Final = 64
"""That cost no time; and how many may be in a piece that is parsed at once, however long it is."""
DATA_LINES: Final = 32
"""Lines with data that count as one without: an answer may be laid out in thousands of them."""
STREAM_END_S: Final = 0.02
"""Time limit for a stream to end behind its response before its connection is given up."""


class AnswerStream:
    """The events of an answer, and of those that continue it. An event that is cut off is dropped.

    Leaving the `with` block closes the connection, unless the stream has ended in good order.
    """

    def __init__(self, reply: HttpReply, name: str, pace: ReadPace) -> None:
        self._name = name
        self.pace = pace
        """After a message that nobody has waited for, reading goes on when it is time."""
        self._rest = b""
        """Bytes that were read and not parsed yet."""
        self._retry_ms: int | None = None
        self.last_id = ""
        """The id of the last complete event that had one: where to resume."""
        self.events = 0
        self.go_on(reply)

    def go_on(self, reply: HttpReply) -> None:
        """Read on in another answer, from the server's idea of `last_id`."""
        self._reply = reply
        self._rest = b""
        self._parser = SseParser()
        self._empty_events = 0
        self.paced_lines = 0
        """Lines that have cost their time."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reply.__exit__()

    @property
    def retry_s(self) -> float:
        """Time that the server wants us to wait before we come back; at least a second."""
        if self._parser.retry_ms is not None:
            self._retry_ms = self._parser.retry_ms
        return DEFAULT_RETRY_S if self._retry_ms is None else self._retry_ms / 1000

    async def receive(self) -> list[tuple[str, bytes]] | None:
        """Kind and data of the events that the next bytes complete, possibly none; None at the end of the stream.

        Raises:
            UpstreamLost, UpstreamProtocolError: as `HttpReply.receive`.
            ResultTooLarge: an event is; whether it is the response cannot be known.
            Overloaded: as `HttpReply.hold`. Events count until the next call.
        """
        data = await self._receive()
        if not data:
            return None
        try:
            events = self._parser.feed(data)
        except EventTooLong:
            text = f"{self._name} sent an event that is too large; ask for less"
            raise ResultTooLarge(text, upstream=self._name, executed=Executed.UNKNOWN) from None
        size = self._parser.held_bytes + len(self._rest)
        for event in events:
            size += len(event.data)
            self.events += 1
            if event.id is not None:
                may_go_into_a_header = len(event.id) <= MAX_EVENT_ID and event.id.isprintable()
                self.last_id = event.id if may_go_into_a_header else ""
            if not event.data:
                self._empty_events += 1
        if size > FREE_BYTES or self._reply.held:
            self._reply.hold(size)
        lines = self._empty_events + self._parser.idle_lines + self._parser.data_lines // DATA_LINES
        if lines - self.paced_lines > FREE_LINES:
            due, self.paced_lines = lines - self.paced_lines, lines
            await self.pace.keep(messages=due)
        return [(event.event, event.data) for event in events if event.data]

    async def _receive(self) -> bytes:
        """The next bytes; of many short lines a piece at a time."""
        if self._rest:
            data = self._rest
            await checkpoint()
        else:
            data = await self._reply.receive()
        self._rest = b""
        if len(data) > PIECE_BYTES and data.count(b"\n") + data.count(b"\r") > FREE_LINES:
            data, self._rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
        return data

    async def response(self, id: int, on_message: OnMessage) -> Reply | None:
        """Read on to the response to request `id`; None: the stream ended without. Raises UpstreamLost,
        UpstreamProtocolError, ResultTooLarge: as `receive`, or an event is not a message."""
        while (events := await self.receive()) is not None:
            for kind, data in events:
                if kind != "message":
                    await self.pace.keep(len(data))
                elif jsonrpc.is_batch(data):
                    if (reply := await pick_of_batch(data, id, on_message, self._name, self.pace)) is not None:
                        await self._await_end()
                        return reply
                elif (reply := pick(data, id, on_message, self._name)) is not None:
                    await self._await_end()
                    return reply
                else:
                    await self.pace.keep(len(data))
        return None

    async def _await_end(self) -> None:
        """The response has come, so the stream is over: wait for its end a moment, to keep the connection."""
        with trio.move_on_after(STREAM_END_S):
            try:
                while await self._reply.receive():
                    pass
            except HubError:
                pass  # the connection is closed; the answer was complete


def stream_headers(headers: bytes, last_id: str = "") -> bytes:
    """The lines of a GET for events, `headers` among them; with `last_id` for what came after that event."""
    resume = b"Last-Event-ID: %b\r\n" % last_id.encode() if last_id else b""
    return b"".join((b"Accept: text/event-stream\r\n", headers, resume))


def pick(data: bytes, id: int, on_message: OnMessage, name: str) -> Reply | None:
    """The response to request `id`, if a message is that; all else goes to `on_message`. Raises UpstreamProtocolError:
    not a message, or a response to another request."""
    try:
        message: jsonrpc.Message = decode(data, strict=False)
    except RemoteProtocolError as error:
        raise _no_message(name, error) from None
    if not isinstance(message, jsonrpc.Response):
        on_message(message)
        return None
    if message.id == id or (message.id is None and isinstance(message.reply, Failure)):
        return message.reply
    raise UpstreamProtocolError(f"{name} answered a request that was not asked on this connection", upstream=name)


async def pick_of_batch(data: bytes, id: int, on_message: OnMessage, name: str, pace: ReadPace) -> Reply | None:
    """`pick` for an array of messages (2025-03-26): each is taken when it is time, as if it had come by itself."""
    await pace.turn(len(data))
    try:
        parts = jsonrpc.split_batch(data)
    except RemoteProtocolError as error:
        raise _no_message(name, error) from None
    found: Reply | None = None
    for part in parts:
        reply = pick(part, id, on_message, name)
        if reply is None:
            await pace.keep(len(part))
        else:
            found = reply
            await pace.turn(len(part))
    return found


def _no_message(name: str, error: RemoteProtocolError) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"{name} sent what is not an MCP message: {error}", upstream=name)
