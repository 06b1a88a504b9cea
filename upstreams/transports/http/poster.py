"""Poster: one MCP message out by POST, its answer back; statuses, JSON or an event stream, `Retry-After`.

The answer is read in the frame of whoever posted, so a message on it belongs to that request and to no other: what is
not the response itself is handed to the caller's `take`. Knows no era; sessions do.
"""

from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from typing import Final, Self
from urllib.parse import urljoin

import trio
from trio.lowlevel import checkpoint

from hub.link.budget import FREE_BYTES
from hub.link.errors import Executed, HubError, Overloaded, ResultTooLarge, UpstreamProtocolError, UpstreamUnauthorized
from hub.link.read_pace import ReadPace
from hub.wire.http.sse import EventTooLong, SseParser
from hub.wire.jsonrpc import (
    Failure,
    Message,
    Notification,
    RemoteProtocolError,
    Reply,
    Request,
    Response,
    decode,
    encode,
    is_batch,
    peek_object,
    split_batch,
)
from upstreams.transports.http.client import HttpClient, HttpReply
from upstreams.transports.http.connection import parse_url

Take = Callable[[Request | Notification], None]
"""Given every message of an answer that is not the response; must not block."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
CONTENT: Final = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
"""The headers of every POST, of either era."""
MAX_RETRY_AFTER_S: Final = 60.0
MAX_REFUSAL_BYTES: Final = 64 << 10
DEFAULT_RETRY_S: Final = 1.0
MAX_EVENT_ID: Final = 1024
LARGE_BYTES: Final = 1 << 20
"""Bytes of an answer beyond which other tasks have their turn before it is passed on."""
PIECE_BYTES: Final = 4 << 10
FREE_LINES: Final = 64
"""That cost no time; and how many may be in a piece that is parsed at once, however long it is."""
DATA_LINES: Final = 32
"""Lines with data that count as one without: an answer may be laid out in thousands of them."""
SETTLE_S: Final = 0.02
"""Time limit for a stream to end behind its response before its connection is given up."""


class UpstreamDenied(UpstreamUnauthorized):
    """The upstream knows who asks, and refuses (403)."""

    kind = "denied"


class StatusError(UpstreamProtocolError):
    """An answer with a status that is none of MCP's. The body is not shown: it may hold anything."""

    def __init__(self, message: str, *, upstream: str, status: int, failure: Failure | None = None) -> None:
        super().__init__(message, upstream=upstream)
        self.status = status
        self.failure = failure
        """The JSON-RPC error in the body, if there was one."""


class SessionUnknown(StatusError):
    """404: the upstream does not know the session (any more). Nothing was executed."""

    executed = Executed.NO


class EventStream:
    """The events of an answer, and of those that continue it. An event that is cut off is dropped.

    Leaving the `with` block closes the connection, unless the stream has ended in good order.
    """

    def __init__(self, reply: HttpReply, name: str, pace: ReadPace) -> None:
        self._name = name
        self._pace = pace
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
        self._paced_lines = 0
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
                self.last_id = event.id if _is_sendable(event.id) else ""
            if not event.data:
                self._empty_events += 1
        if size > FREE_BYTES or self._reply.held:
            self._reply.hold(size)
        lines = self._empty_events + self._parser.idle_lines + self._parser.data_lines // DATA_LINES
        if lines - self._paced_lines > FREE_LINES:
            due, self._paced_lines = lines - self._paced_lines, lines
            await self._pace.keep(messages=due)
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

    async def hold_back(self, data: bytes) -> None:
        """Go on when it is time after a message that nobody has waited for."""
        await self._pace.keep(len(data))

    async def split(self, data: bytes) -> list[bytes]:
        """The messages of an array, read when it is this stream's turn.

        Raises:
            RemoteProtocolError: as `split_batch`.
        """
        await self._pace.turn(len(data))
        return split_batch(data)

    async def response(self, id: int, take: Take) -> Reply | None:
        """Read on to the response to request `id`; None: the stream ended without.

        Raises:
            UpstreamLost, UpstreamProtocolError, ResultTooLarge: as `receive`, or an event is not a message.
        """
        while (events := await self.receive()) is not None:
            for kind, data in events:
                if kind != "message":
                    await self.hold_back(data)
                elif is_batch(data):
                    if (reply := await pick_of_batch(data, id, take, self._name, self._pace)) is not None:
                        await self._settle()
                        return reply
                elif (reply := pick(data, id, take, self._name)) is not None:
                    await self._settle()
                    return reply
                else:
                    await self.hold_back(data)
        return None

    async def _settle(self) -> None:
        """The response has come, so the stream is over: wait for its end a moment, to keep the connection."""
        with trio.move_on_after(SETTLE_S):
            try:
                while await self._reply.receive():
                    pass
            except HubError:
                pass  # the connection is closed; the answer was complete


class Poster:
    """Posts messages to one MCP endpoint. Holds back while the upstream has asked for quiet (`Retry-After`)."""

    def __init__(self, client: HttpClient) -> None:
        self.client = client
        self.name = client.name
        self.pace = ReadPace()
        """Rate limit of everything on any stream that is no response."""
        self._quiet_until = float("-inf")

    async def tell(self, headers: bytes, body: bytes, *, target: str | None = None, resend: bool = False) -> None:
        """Post a message that is not answered on this connection; `target` in place of the client's own.

        `resend`: it may be sent twice.

        Raises:
            HubError: as `open`, or it was not accepted.
        """
        with await self.open(headers, body, target=target, resend=resend) as reply:
            if not 200 <= reply.status < 300:
                await self.refused(reply, None)

    async def open(self, headers: bytes, body: bytes, *, target: str | None = None, resend: bool = False) -> HttpReply:
        """Post one message, return the answer, its status not yet judged.

        An upstream that says 429 or 503 with `Retry-After` is asked once more after that time, if the deadline of the
        caller allows for it.

        Raises:
            Overloaded: it does not.
            HubError: as `HttpClient.request`.
        Cancellation: closes the connection.
        """
        await self._be_quiet()
        reply = await self.client.request("POST", headers, body, target=target, resend=resend)
        if reply.status in (429, 503) and self._heed(reply):
            reply.discard()
            await self._be_quiet()
            reply = await self.client.request("POST", headers, body, target=target, resend=resend)
            self._heed(reply)
        return reply

    async def read(self, reply: HttpReply, id: int, take: Take) -> Reply:
        """The response to request `id`. A stream that ends without it is an error.

        Raises:
            HubError: as `refused`, or the answer is not a response to this request.
        """
        if reply.status != 200:
            return await self.refused(reply, id)
        if reply.content_type == JSON:
            return await self._read_json(reply, id, take)
        response = await self.event_stream(reply).response(id, take)
        if response is None:
            raise self.no_response()
        return response

    async def _read_json(self, reply: HttpReply, id: int, take: Take) -> Reply:
        body = await reply.read()
        if is_batch(body):
            response = await pick_of_batch(body, id, take, self.name, self.pace)
        else:
            response = pick(body, id, take, self.name)
        if response is None:
            raise self.error(f"{self.name} answered a request with something else than a response")
        if len(body) > LARGE_BYTES:
            await trio.lowlevel.cancel_shielded_checkpoint()  # what becomes of it takes as long as reading it did
        return response

    def event_stream(self, reply: HttpReply) -> EventStream:
        """The event stream that `reply` must be.

        Raises:
            UpstreamProtocolError: it is something else, a web page for instance.
        """
        if reply.content_type != EVENTS:
            raise self.error(
                f"{self.name} answered status {reply.status} with a body that is neither JSON nor an event stream; "
                "is its URL the one of an MCP endpoint?"
            )
        return EventStream(reply, self.name, self.pace)

    async def refused(self, reply: HttpReply, id: int | None) -> Reply:
        """Judge an answer that is not 200: a JSON-RPC error that answers `id` is its response, all else is raised.

        Statuses that are about who asks, or when, say more than any body: 401, 403, and what has a `Retry-After`.

        Raises:
            UpstreamUnauthorized, UpstreamDenied: 401, 403.
            Overloaded: 429, 503.
            SessionUnknown: 404.
            StatusError: anything else.
        """
        status = reply.status
        if status == 401:
            text = f"{self.name} needs a sign-in (HTTP 401): set `headers.Authorization` in its configuration"
            raise UpstreamUnauthorized(text, upstream=self.name)
        if status == 403:
            raise UpstreamDenied(f"{self.name} refuses access with these credentials (403)", upstream=self.name)
        if status in (429, 503) and retry_after_s(reply.headers) is not None:
            raise self._overloaded()
        failure = await self._failure(reply, id) if 400 <= status < 500 else None
        if failure is not None and failure[0]:
            return failure[1]
        if status in (429, 503):
            raise self._overloaded(Executed.UNKNOWN if status == 503 else Executed.NO)
        raise self._status_error(reply, None if failure is None else failure[1])

    async def _failure(self, reply: HttpReply, id: int | None) -> tuple[bool, Failure] | None:
        """The JSON-RPC error in the body and whether it is surely about request `id`."""
        if reply.content_type != JSON:
            return None
        try:
            body = await reply.read(MAX_REFUSAL_BYTES)
            fields = peek_object(body)
            if "id" not in fields:  # an error need not say to which request
                body = encode({"id": None, **fields})
            message = decode(body, strict=False)
        except (HubError, RemoteProtocolError):
            return None
        if isinstance(message, Response) and isinstance(message.reply, Failure):
            return id is not None and message.id == id, message.reply
        return None

    def _status_error(self, reply: HttpReply, failure: Failure | None) -> StatusError:
        status = reply.status
        if status == 404:
            text = f"{self.name} answered 404: it knows neither this path nor this session"
            return SessionUnknown(text, upstream=self.name, status=404, failure=failure)
        text = f"{self.name} answered with HTTP status {status}"
        if 300 <= status < 400 and (place := self._origin(reply.headers.get("location", ""))):
            text += f", a redirect to {place}, which is not followed; put the final address into its url"
        elif 200 <= status < 300:
            text += " where a response was due"
        return StatusError(text, upstream=self.name, status=status, failure=failure)

    def _origin(self, location: str) -> str:
        """The origin of a redirect; never more, since the rest may hold secrets."""
        try:
            target = urljoin(self.client.url.origin + self.client.url.target, location)
            return parse_url(target).origin
        except ValueError:
            return "something that is not HTTP"

    # --- Retry-After --------------------------------------------------------------------------------------------------

    def _heed(self, reply: HttpReply) -> bool:
        """Remember how long the upstream wants quiet; False if it does not say."""
        seconds = retry_after_s(reply.headers)
        if reply.status not in (429, 503) or seconds is None:
            return False
        self._quiet_until = trio.current_time() + seconds
        return True

    async def _be_quiet(self) -> None:
        if self._quiet_until <= trio.current_time():
            return
        if self._quiet_until >= trio.current_effective_deadline():
            raise self._overloaded()
        await trio.sleep_until(self._quiet_until)

    def _overloaded(self, executed: Executed = Executed.NO) -> Overloaded:
        wait_s = self._quiet_until - trio.current_time()
        known = wait_s > 0
        return Overloaded(
            f"{self.name} is overloaded" + (f"; try again in {wait_s:.0f} seconds" if known else ""),
            upstream=self.name,
            executed=executed,
            retry_after_ms=int(wait_s * 1000) if known else None,
        )

    def no_response(self) -> UpstreamProtocolError:
        return self.error(f"The event stream of {self.name} ended without a response")

    def error(self, text: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(text, upstream=self.name)


def field_lines(fields: Iterable[tuple[str, bytes]]) -> bytes:
    """Header fields as lines."""
    return b"".join([b"%b: %b\r\n" % (name.encode("ascii"), value) for name, value in fields])


def stream_headers(headers: bytes, last_id: str = "") -> bytes:
    """The lines of a GET for events, `headers` among them; with `last_id` for what came after that event."""
    resume = b"Last-Event-ID: %b\r\n" % last_id.encode() if last_id else b""
    return b"".join((b"Accept: text/event-stream\r\n", headers, resume))


def _is_sendable(id: str) -> bool:
    """True if an event id may go into a header. One that may not is as good as none."""
    return len(id) <= MAX_EVENT_ID and id.isprintable()


def pick(data: bytes, id: int, take: Take, name: str) -> Reply | None:
    """The response to request `id`, if a message is that; all else goes to `take`.

    Raises:
        UpstreamProtocolError: not a message, or a response to another request.
    """
    try:
        message: Message = decode(data, strict=False)
    except RemoteProtocolError as error:
        raise _no_message(name, error) from None
    if not isinstance(message, Response):
        take(message)
        return None
    if message.id == id or (message.id is None and isinstance(message.reply, Failure)):
        return message.reply
    raise UpstreamProtocolError(f"{name} answered a request that was not asked on this connection", upstream=name)


async def pick_of_batch(data: bytes, id: int, take: Take, name: str, pace: ReadPace) -> Reply | None:
    """`pick` for an array of messages (2025-03-26): each is taken when it is time, as if it had come by itself."""
    await pace.turn(len(data))
    try:
        parts = split_batch(data)
    except RemoteProtocolError as error:
        raise _no_message(name, error) from None
    found: Reply | None = None
    for part in parts:
        reply = pick(part, id, take, name)
        if reply is None:
            await pace.keep(len(part))
        else:
            found = reply
            await pace.turn(len(part))
    return found


def _no_message(name: str, error: RemoteProtocolError) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"{name} sent what is not an MCP message: {error}", upstream=name)


def retry_after_s(headers: dict[str, str]) -> float | None:
    """The seconds of `Retry-After`, at most a minute. A date is measured against the server's own `Date`."""
    value = headers.get("retry-after", "")
    if value.isascii() and value.isdigit():
        return min(float(value[:9]), MAX_RETRY_AFTER_S)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait.total_seconds(), 0.0), MAX_RETRY_AFTER_S)
