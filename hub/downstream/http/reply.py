"""Answers to POSTed requests: one JSON message if the response comes soon and alone, else server-sent events.

An answer becomes a stream when a message has to be sent before the response, or when the response takes long
(`slow_answers`), so that keep-alives flow. The end of the connection cancels a modern request. A legacy answer is
written to a stream of its session, which outlives the connection.
"""

from functools import lru_cache

from msgspec import Struct

from hub.calls.host_exchange import Send
from hub.downstream.http.event_stream import CONGESTED_STREAM_BYTES, EventStream
from hub.downstream.http.session import HttpSession
from hub.downstream.http.slow_answers import SlowAnswers
from hub.net.look_after_connections import HttpResponse
from hub.wire.http.sse import encode_event
from hub.wire.jsonrpc import Failure, Reply, RequestId, Wire, join, response_pieces
from hub.wire.mcp import METHOD_NOT_FOUND, MODERN_ERRORS
from hub.wire.questions.askable_questions import Question


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


class ModernAnswer(Struct, eq=False):
    """The answer to a modern request. `open` opens its stream now; like `send`, it never blocks and never raises."""

    _response: HttpResponse
    _accept: Accepted
    _slow: SlowAnswers

    def open(self) -> None:
        if self._accept.events and not self._response.started:
            self._response.open_stream()

    def send(self, message: bytes, *, vital: bool = False) -> bool:
        self.open()
        if self._response.started and (vital or self._response.queued_bytes <= CONGESTED_STREAM_BYTES):
            self._response.write(encode_event(message), vital=vital)
            return True
        return False

    def finish(self, id: RequestId, reply: Reply | None) -> None:
        """End with a response; None: without one, since the host is gone."""
        response = self._response
        if reply is None:
            if not response.started:
                response.open_stream()
            response.close_stream()
            return
        if not self._accept.json:
            self.open()
        message = response_pieces(id, reply)
        if response.started:
            response.write(encode_event(join(message)), vital=True)
            response.close_stream()
        else:
            response.reply(status_of(reply), message)

    def finish_later(self, id: RequestId, reply: Reply | None) -> None:
        """`finish`, after the handler of the request has returned."""
        try:
            self.finish(id, reply)
        finally:
            self._slow.soon.pop(self, None)
            self._response.end()


def status_of(reply: Reply) -> int:
    """The HTTP status of a modern response that is not streamed."""
    if not isinstance(reply, Failure):
        return 200
    if reply.code == METHOD_NOT_FOUND:
        return 404
    return 400 if reply.code in MODERN_ERRORS else 200


class LegacyAnswer(Struct, eq=False):
    """The answer to a request of a legacy session. If the host leaves before it had an event, it cannot come back.

    Satisfies `hub.calls.host_exchange.AskableHost`: the host is asked on the stream of the answer."""

    session: HttpSession
    """The session, which outlives the request."""
    _response: HttpResponse
    _accept: Accepted
    _slow: SlowAnswers
    _stream: EventStream | None = None

    def open(self) -> None:
        if self._stream is None and self._accept.events and not self._response.gone:
            self._stream = self.session.answer_stream(self._response)

    def send(self, message: bytes, *, vital: bool = False) -> None:
        self.open()
        if self._stream is not None:
            self._stream.send(message, vital=vital)

    async def ask(self, question: Question, send: Send) -> Reply:
        """Ask the host of the session, if there is or can be a stream to ask it on.

        Cancellation: withdraws the question."""
        if self._stream is None and (self._response.gone or not self._accept.events):
            return Failure(METHOD_NOT_FOUND, f"The host of this call cannot be asked; {question.method} needs a stream")
        return await self.session.ask(question, send)

    def withdraw(self, send: Send) -> None:
        """Withdraw the questions of this request."""
        self.session.withdraw(send)

    def finish(self, message: Wire | None) -> None:
        """End with a response; None: the request was cancelled, so that there is none."""
        if message is not None and (self._accept.events_first or not self._accept.json):
            self.open()
        if self._stream is not None:
            self._stream.finish(None if message is None else join(message))
            self.session.retire(self._stream)
        elif message is not None:
            self._response.reply(200, message)
        elif self._accept.events:
            self._response.open_stream()
            self._response.close_stream()
        else:
            self._response.reply(202)

    def finish_later(self, id: RequestId, reply: Reply | None) -> None:
        """`finish`, after the handler of the request has returned."""
        try:
            self.finish(None if reply is None else response_pieces(id, reply))
        finally:
            self._slow.soon.pop(self, None)
            self._response.end()


class BatchAnswer(LegacyAnswer, eq=False):
    """The answer to a batch: one array, or, once there is a stream, an event for each response."""

    _replies: list[bytes] = []

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
