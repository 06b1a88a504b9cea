"""Span: what is told a collector of one operation, of one message to an upstream, or of one question, that is over.
Pure.

What happened is written down while calls run, in as few steps as possible. `describe` makes spans of it, by the
OpenTelemetry conventions for MCP (GenAI semantic conventions 1.42.0, still in development, so all their names stand
here); it is called in the thread that sends them.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from hub.link.call_interface import Caller
from hub.link.log_context import spell_ref
from hub.telemetry.operation_record import CANCELLED, NO_FAILURES, Ended, strip_uri
from hub.telemetry.record_call_contents import NO_CONTENT, CallContent
from hub.wire.mcp import PROMPTS_GET, RESOURCES_READ, TOOLS_CALL, Era
from hub.wire.questions.askable_questions import Question
from hub.wire.trace_context import TraceParent

Attributes = dict[str, str | int | float | bool]
"""By names of the conventions."""
WAITED_S: Final = 0.01
"""A wait in the hub's queue that is worth telling."""
_NAMED: Final = {TOOLS_CALL: "gen_ai.tool.name", PROMPTS_GET: "gen_ai.prompt.name", RESOURCES_READ: "mcp.resource.uri"}


class Span(Struct, frozen=True, gc=False):
    """One span that is over."""

    trace_id: int
    span_id: int
    parent_id: int
    """0: it is a root."""
    is_server: bool
    name: str
    took_s: float
    attributes: Attributes
    error: str = ""
    """What went wrong, as `Ended.outcome` has it; "": nothing did."""
    text: str = ""
    """The same in a sentence."""
    ago_s: float = 0.0
    """The time between its end and that of what it is told with."""
    state: str = ""
    """The `tracestate`."""
    link: TraceParent | None = None
    """The span that a header names, whose program need not be the host's."""


class Place(Struct, frozen=True, gc=False):
    """The place of spans in a trace."""

    trace_id: int
    parent_id: int


class Hop(Struct, frozen=True, gc=False):
    """The way to one upstream."""

    upstream: str
    url: str | None
    """None: it is a child of the hub."""

    def describe(self) -> Attributes:
        """Its attributes."""
        if self.url is None:
            return {"network.transport": "pipe", "hubd.upstream": self.upstream}
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
        address: Attributes = {"server.address": parts.hostname or "", "server.port": port}
        return {**_network("tcp"), **address, "hubd.upstream": self.upstream}


class SentMessage(Struct, frozen=True, gc=False):
    """One message to an upstream, and how it ended."""

    hop: Hop
    span_id: int
    ref: int
    method: str
    own: str
    """The upstream's own name of what is asked for."""
    version: str
    ended: float
    """The time of its end, by `time.perf_counter`."""
    took_s: float
    waited_s: float
    """Time in the hub's queue."""
    outcome: str
    """As `Ended.outcome`."""
    text: str

    def describe(self, place: Place, ended: float | None = None) -> Span:
        """Its span. `ended`: the end of what that is told with, by the same clock; None: it is told by itself."""
        attributes: Attributes = {
            "mcp.method.name": self.method,
            **_about(self.method, self.own),
            "mcp.protocol.version": self.version,
            **self.hop.describe(),
            "hubd.ref": spell_ref(self.ref),
        }
        if self.waited_s > WAITED_S:
            attributes["hubd.waited_s"] = self.waited_s
        return Span(
            place.trace_id,
            self.span_id,
            place.parent_id,
            False,
            _name(self.method, self.own),
            self.took_s,
            attributes | _error(self.outcome),
            "" if self.outcome in NO_FAILURES else self.outcome,
            self.text,
            0.0 if ended is None else max(0.0, ended - self.ended),
        )


class TracedOperation(Struct, frozen=True, gc=False):
    """One operation of a host that is over, with the messages that were sent for it."""

    place: Place
    span_id: int
    ended: Ended
    text: str
    """What an error said."""
    sent: list[SentMessage]
    request_id: str | int
    version: str
    profile: str
    session: str
    """The session that a header names; "": none does."""
    address: str
    """That of the host; "": it has none."""
    state: str
    link: TraceParent | None
    content: CallContent = NO_CONTENT

    def describe(self) -> Iterable[Span]:
        """Its span, and those of its messages."""
        ended = self.ended
        method, name = ended.method, ended.name
        attributes: Attributes = {
            "mcp.method.name": method,
            **_about(method, name),
            "jsonrpc.request.id": str(self.request_id),
            "mcp.protocol.version": self.version,
            **_network(ended.transport),
            "hubd.ref": spell_ref(ended.ref),
            "hubd.host": ended.host,
            "hubd.cache": ended.cached,
        }
        if self.profile:
            attributes["hubd.profile"] = self.profile
        if self.content.arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = self.content.arguments
        if self.content.result is not None:
            attributes["gen_ai.tool.call.result"] = self.content.result
        if self.session:
            attributes["mcp.session.id"] = sha256(self.session.encode()).hexdigest()[:16]
        if self.address:
            attributes["client.address"] = self.address
        yield Span(
            self.place.trace_id,
            self.span_id,
            self.place.parent_id,
            True,
            _name(method, name),
            ended.took_s,
            attributes | _error(ended.outcome),
            "" if ended.outcome in NO_FAILURES else ended.outcome,
            self.text,
            state=self.state,
            link=self.link,
        )
        below = Place(self.place.trace_id, self.span_id)
        for message in self.sent:
            yield message.describe(below, ended.at)


def describe_question(
    place: Place,
    ids: tuple[int, int],
    ref: int,
    question: Question,
    caller: Caller,
    took_s: float,
    outcome: str,
    text: str,
) -> list[Span]:
    """The spans of a question that the host of an operation was asked: of the server's, as it came, and of the hub's
    own request to the host. A modern host is asked by the result of its call, which has a span already. `ids`: of
    both."""
    to_host, from_server = ids
    about: list[tuple[int, bool, Attributes]] = []
    if caller.era is Era.LEGACY:
        host: Attributes = {"mcp.protocol.version": caller.version, "hubd.host": caller.identity.host}
        about.append((to_host, False, _network(caller.transport) | host))
    if question.upstream:
        server: Attributes = {"mcp.protocol.version": question.version, "hubd.upstream": question.upstream}
        about.append((from_server, True, server))
    method, error = question.method, "" if outcome in NO_FAILURES else outcome
    attributes: Attributes = {"mcp.method.name": method, "hubd.ref": spell_ref(ref), **_error(outcome)}
    return [
        Span(place.trace_id, span_id, place.parent_id, is_server, method, took_s, attributes | more, error, text)
        for span_id, is_server, more in about
    ]


def _network(transport: str) -> Attributes:
    """The attributes of a way of messages."""
    return {"network.transport": transport, **({"network.protocol.name": "http"} if transport == "tcp" else {})}


def _name(method: str, name: str) -> str:
    """The name of a span: no URI is in it, since there is no end of those."""
    return f"{method} {name}" if method in (TOOLS_CALL, PROMPTS_GET) else method


def _about(method: str, name: str) -> Attributes:
    """The attributes of what is asked for."""
    if method == TOOLS_CALL:
        return {"gen_ai.tool.name": name, "gen_ai.operation.name": "execute_tool"}
    key = _NAMED.get(method)
    return {} if key is None else {key: strip_uri(name) if method == RESOURCES_READ else name}


def _error(outcome: str) -> Attributes:
    """The attributes of how it ended."""
    if outcome in NO_FAILURES and outcome != CANCELLED:
        return {}
    is_code = outcome.lstrip("-").isdigit()
    return {"error.type": outcome, **({"rpc.response.status_code": outcome} if is_code else {})}
