"""Span: what is told a collector of one operation, of one message to an upstream, or of one question, that is over.
Pure.

While calls run, what happens is only noted, in `TracedOperation` and `SentMessage`; their spans are described in the
thread that sends them. Names and attributes are those of OpenTelemetry's conventions for MCP (GenAI semantic
conventions 1.42.0, still in development, so all of them stand here).
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from msgspec import Struct

from hub.link.call_interface import Caller
from hub.link.log_context import spell_ref
from hub.telemetry.operation_record import CANCELLED, NO_FAILURES, Ended, strip_uri
from hub.telemetry.record_call_contents import CallContent
from hub.wire.mcp import PROMPTS_GET, RESOURCES_READ, TOOLS_CALL, Era
from hub.wire.questions.askable_questions import Question
from hub.wire.trace_context import TraceParent

Attributes = dict[str, str | int | float | bool]
"""By names of the conventions."""
WAITED_S: Final = 0.01
"""A wait in the hub's queue that is worth telling."""
_NAMED: Final = {TOOLS_CALL: "gen_ai.tool.name", PROMPTS_GET: "gen_ai.prompt.name", RESOURCES_READ: "mcp.resource.uri"}


class SpanIds(Struct, frozen=True, gc=False):
    """The span of an operation, as those below it name it."""

    trace_id: int
    span_id: int


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
    before_s: float = 0.0
    """Seconds from its end to that of its operation, or to when it was told by itself."""
    state: str = ""
    """The `tracestate`."""
    link: TraceParent | None = None
    """The span that a header names, whose program need not be the host's."""


class SentMessage(Struct, frozen=True, gc=False):
    """One message to an upstream that is over."""

    above: SpanIds
    span_id: int
    ref: int
    method: str
    own: str
    """The upstream's own name of what is asked for."""
    version: str
    address: Attributes
    """The upstream, and the way to it."""
    ended_at: float
    """By `time.perf_counter`."""
    took_s: float
    waited_s: float
    """Seconds in the hub's queue."""
    outcome: str
    """As `Ended.outcome`."""
    text: str
    """What an error said."""

    def describe(self, end: float) -> Span:
        """Its span. `end`: that of its operation, by the same clock; if it is told by itself, the time of that."""
        attributes: Attributes = {
            "mcp.method.name": self.method,
            **_about(self.method, self.own),
            "mcp.protocol.version": self.version,
            **self.address,
            "hubd.ref": spell_ref(self.ref),
            **_error(self.outcome),
        }
        if self.waited_s > WAITED_S:
            attributes["hubd.waited_s"] = self.waited_s
        return Span(
            self.above.trace_id,
            self.span_id,
            self.above.span_id,
            is_server=False,
            name=_name(self.method, self.own),
            took_s=self.took_s,
            attributes=attributes,
            error=_failure(self.outcome),
            text=self.text,
            before_s=max(0.0, end - self.ended_at),
        )


class TracedOperation(Struct, frozen=True, gc=False, kw_only=True):
    """One operation of a host that is over, with messages that were sent for it."""

    ids: SpanIds
    parent_id: int
    ended: Ended
    text: str
    """What an error said."""
    sent: list[SentMessage]
    request_id: str | int
    version: str
    profile: str
    session: str | None
    """The session that a header names."""
    address: str | None
    """The host's."""
    state: str
    link: TraceParent | None
    content: CallContent

    def describe(self) -> Iterable[Span]:
        """Its span, and those of its messages."""
        ended, content = self.ended, self.content
        method, name = ended.method, ended.name
        attributes: Attributes = {
            "mcp.method.name": method,
            **_about(method, name),
            "jsonrpc.request.id": str(self.request_id),
            "mcp.protocol.version": self.version,
            **describe_transport(ended.transport),
            "hubd.ref": spell_ref(ended.ref),
            "hubd.host": ended.host,
            "hubd.cache": ended.cached,
            **_error(ended.outcome),
        }
        if self.profile:
            attributes["hubd.profile"] = self.profile
        if content.arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = content.arguments
        if content.result is not None:
            attributes["gen_ai.tool.call.result"] = content.result
        if self.session is not None:
            attributes["mcp.session.id"] = sha256(self.session.encode()).hexdigest()[:16]
        if self.address is not None:
            attributes["client.address"] = self.address
        yield Span(
            self.ids.trace_id,
            self.ids.span_id,
            self.parent_id,
            is_server=True,
            name=_name(method, name),
            took_s=ended.took_s,
            attributes=attributes,
            error=_failure(ended.outcome),
            text=self.text,
            state=self.state,
            link=self.link,
        )
        for message in self.sent:
            yield message.describe(ended.at)


def describe_question(
    above: SpanIds,
    ids: tuple[int, int],
    ref: int,
    question: Question,
    caller: Caller,
    took_s: float,
    outcome: str,
    text: str,
) -> list[Span]:
    """The spans of a question that the host of an operation was asked: of the hub's own request to the host, and of the
    server's, as it came. `ids`: of both. A modern host is asked by the result of its call, which has a span already."""
    about: list[tuple[int, bool, Attributes]] = []
    if caller.era is Era.LEGACY:
        host: Attributes = {"mcp.protocol.version": caller.version, "hubd.host": caller.identity.host}
        about.append((ids[0], False, describe_transport(caller.transport) | host))
    if question.upstream:
        server: Attributes = {"mcp.protocol.version": question.version, "hubd.upstream": question.upstream}
        about.append((ids[1], True, server))
    method, trace_id, parent_id = question.method, above.trace_id, above.span_id
    attributes: Attributes = {"mcp.method.name": method, "hubd.ref": spell_ref(ref), **_error(outcome)}
    return [
        Span(trace_id, span_id, parent_id, is_server, method, took_s, attributes | more, _failure(outcome), text)
        for span_id, is_server, more in about
    ]


def describe_transport(transport: str) -> Attributes:
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


def _failure(outcome: str) -> str:
    """What went wrong; "": nothing did."""
    return "" if outcome in NO_FAILURES else outcome
