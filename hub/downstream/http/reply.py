"""Answers to POSTed requests: one JSON message if the response comes soon and alone, else server-sent events.

An answer becomes a stream when a message has to be sent before the response, or when the response takes longer than
`SSE_AFTER_S`, so that keep-alives flow. The end of the connection cancels a modern request. A legacy answer is written
to a stream of its session, which outlives the connection.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct

from hub.downstream.http.event_stream import CONGESTED_STREAM_BYTES, EventStream
from hub.downstream.http.session import HttpSession
from hub.net.http_server import HttpResponse
from hub.routing.host_exchange import Send
from hub.wire.http.sse import encode_event
from hub.wire.jsonrpc import Failure, Reply, Wire, join
from hub.wire.mcp import METHOD_NOT_FOUND, MODERN_ERRORS
from hub.wire.questions.question import Question

SSE_AFTER_S: Final = 2.0


class Accepted(Struct, frozen=True):
    """Content types that a host accepts. Without the header: both."""

    json: bool = True
    events: bool = True
    events_first: bool = False
    """Both, and events named first. Order weighs nothing (RFC 9110), but SDKs name JSON first: others want events."""


@lru_cache(maxsize=256)
def read_accept(header: str | None) -> Accepted:
    """Read an `Accept` header; weights other than 0 make no difference."""
    if header is None:
        return Accepted()
    ranges = set()
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        if not any(piece.startswith("q=") and not piece[2:].strip("0.") for piece in parameters):
            ranges.add(name)
    json = not ranges.isdisjoint(("application/json", "application/*", "*/*"))
    events = not ranges.isdisjoint(("text/event-stream", "text/*", "*/*"))
    first = -1 < header.lower().find("text/event-stream") < header.lower().find("application/json")
    return Accepted(json, events, events_first=json and events and first)


@lru_cache(maxsize=256)
def is_json(content_type: str | None) -> bool:
    """True if a body is JSON by its `Content-Type`; anything else could come from a form of a web page."""
    name, *parameters = (content_type or "").lower().split(";")
    charsets = {"".join(parameter.split()).replace('"', "") for parameter in parameters}
    return name.strip() == "application/json" and charsets <= {"charset=utf-8", ""}


class ModernAnswer:
    """The answer to a modern request. `open` opens its stream now; like `send`, it never blocks and never raises."""

    __slots__ = ("_accept", "_response")

    def __init__(self, response: HttpResponse, accept: Accepted) -> None:
        self._response = response
        self._accept = accept

    def open(self) -> None:
        if self._accept.events and not self._response.started:
            self._response.open_stream()

    def send(self, message: bytes, *, vital: bool = False) -> bool:
        self.open()
        if self._response.started and (vital or self._response.queued_bytes <= CONGESTED_STREAM_BYTES):
            self._response.write(encode_event(message), vital=vital)
            return True
        return False

    def finish(self, message: Wire, reply: Reply) -> None:
        """End with a response."""
        if not self._accept.json:
            self.open()
        if self._response.started:
            self._response.write(encode_event(join(message)), vital=True)
            self._response.close_stream()
        else:
            self._response.reply(status_of(reply), message)

    def abandon(self) -> None:
        """End without a response: the host is gone."""
        if not self._response.started:
            self._response.open_stream()
        self._response.close_stream()


def status_of(reply: Reply) -> int:
    """The HTTP status of a modern response that is not streamed."""
    if not isinstance(reply, Failure):
        return 200
    if reply.code == METHOD_NOT_FOUND:
        return 404
    return 400 if reply.code in MODERN_ERRORS else 200


class LegacyAnswer:
    """The answer to a request of a legacy session. If the host leaves before it had an event, it cannot come back.

    Satisfies `hub.routing.host_exchange.AskableHost`: the host is asked on the stream of the answer.
    """

    __slots__ = ("_accept", "_response", "_session", "_stream")

    def __init__(self, session: HttpSession, response: HttpResponse, accept: Accepted) -> None:
        self._session = session
        self._response = response
        self._accept = accept
        self._stream: EventStream | None = None

    def open(self) -> None:
        if self._stream is None and self._accept.events and not self._response.gone:
            self._stream = self._session.answer_stream(self._response)

    def send(self, message: bytes, *, vital: bool = False) -> None:
        self.open()
        if self._stream is not None:
            self._stream.send(message, vital=vital)

    @property
    def session(self) -> HttpSession:
        """The session, which outlives the request."""
        return self._session

    async def ask(self, question: Question, send: Send) -> Reply:
        """Ask the host of the session, if there is or can be a stream to ask it on.

        Cancellation: withdraws the question.
        """
        if self._stream is None and (self._response.gone or not self._accept.events):
            return Failure(METHOD_NOT_FOUND, f"The host of this call cannot be asked; {question.method} needs a stream")
        return await self._session.ask(question, send)

    def withdraw(self, send: Send) -> None:
        """Withdraw the questions of this request."""
        self._session.withdraw(send)

    def finish(self, message: Wire | None) -> None:
        """End with a response; None: the request was cancelled, so that there is none."""
        if message is not None and (self._accept.events_first or not self._accept.json):
            self.open()
        if self._stream is not None:
            self._stream.finish(None if message is None else join(message))
            self._session.retire(self._stream)
        elif message is not None:
            self._response.reply(200, message)
        elif self._accept.events:
            self._response.open_stream()
            self._response.close_stream()
        else:
            self._response.reply(202)


class BatchAnswer(LegacyAnswer):
    """The answer to a batch: one array, or, once there is a stream, an event for each response."""

    __slots__ = ("_replies",)

    def __init__(self, session: HttpSession, response: HttpResponse, accept: Accepted) -> None:
        super().__init__(session, response, accept)
        self._replies: list[bytes] = []

    def open(self) -> None:
        super().open()
        if self._stream is not None:
            for message in self._replies:
                self._stream.send(message, vital=True)
            self._replies.clear()

    def add(self, message: bytes) -> None:
        """Add one response."""
        self._replies.append(message)
        if self._stream is not None:
            self.open()

    def end(self) -> None:
        """End the answer: all responses are there."""
        if not self._accept.json:
            self.open()
        self.finish(b"[%b]" % b",".join(self._replies) if self._replies and self._stream is None else None)
