"""Tracing: spans of operations, by the OpenTelemetry conventions for MCP (GenAI semantic conventions 1.42.0, still in
development, so all their names stand here).

Each operation of a host has a SERVER span, and each message for it to an upstream a CLIENT span below that; the
upstream is told the latter. Hubs without `[tracing]` have none of these stages, and load nothing for spans.
"""

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio
from msgspec import Struct, field

from config.loading.checks.hub import has_spans
from config.settings import TracingConfig, UpstreamConfig
from hub.calls.chain import Intent, Outcome, Stage
from hub.link.log_context import spell_ref
from hub.link.module_loading import load
from hub.telemetry.operation_record import CANCELLED, NO_FAILURES, Ended, strip_uri, sum_up
from hub.telemetry.record_call_contents import ContentRecorder
from hub.telemetry.span import Attributes, Span
from hub.wire.jsonrpc import Failure, Reply, peek_str
from hub.wire.mcp import COMPLETE, PROMPTS_GET, RESOURCES_READ, TOOLS_CALL, Era
from hub.wire.questions.askable_questions import Question
from hub.wire.trace_context import BAGGAGE, TRACE_KEYS, TRACEPARENT, TRACESTATE, TraceParent, read_parent, write_parent
from upstreams.upstream import ManagedUpstream

if TYPE_CHECKING:
    from hub.telemetry.span_export import SpanExport

TRACED: Final = (TOOLS_CALL, PROMPTS_GET, RESOURCES_READ, COMPLETE)
STOP_S: Final = 2.0
"""Time for the last spans to go out."""
MAX_TEXT: Final = 500
WAITED_S: Final = 0.01
"""A wait in the hub's queue that is worth telling."""
_NAMED: Final = {TOOLS_CALL: "gen_ai.tool.name", PROMPTS_GET: "gen_ai.prompt.name", RESOURCES_READ: "mcp.resource.uri"}


class OpenCall(Struct):
    """An operation of a host that is traced, while it runs."""

    intent: Intent
    trace_id: int
    span_id: int
    parent_id: int
    text: str = ""
    messages: list[tuple[int, float]] = field(default_factory=list)
    """The messages that are with the upstream: their spans, and when they were sent."""


class Tracing:
    """The spans of one hub: stages for its chains, and where spans go. `received` has the outer stage of each upstream
    and `sent` the innermost; both are empty while there is nothing to do."""

    def __init__(self, wall: Callable[[], float], version: str) -> None:
        self.received: dict[str, Stage] = {}
        self.sent: dict[str, Stage] = {}
        self._wall = wall
        self._version = version
        self._random = Random()
        self._sample = 1.0
        self._config = TracingConfig()
        self._export: SpanExport | None = None
        self._contents: ContentRecorder | None = None
        self._open: dict[int, OpenCall] = {}
        """By the numbers of their intents."""

    @property
    def dropped(self) -> int:
        """Spans that no collector has got."""
        return 0 if self._export is None else self._export.dropped

    async def prepare(self, config: TracingConfig) -> bool:
        """Take over a configuration, but for the stages; True: `adjust` has to follow. Cancellation: it may not have
        been taken over."""
        before = self._export
        if config == self._config or (not config.enabled and before is None):
            return False
        self._config, self._sample, self._export = config, config.sample, None
        if config.enabled and has_spans():
            await load("hub.telemetry.span_export")
            from hub.telemetry.span_export import SpanExport

            dropped = 0 if before is None else before.dropped
            work = partial(SpanExport, config, self._wall, self._version, dropped)
            self._export = await trio.to_thread.run_sync(work)
        await _close(before)
        return True

    def adjust(
        self, configs: Mapping[str, UpstreamConfig], listeners: list[Callable[[Ended], None]], contents: ContentRecorder
    ) -> None:
        """Make the stages of upstreams with these configurations, by name. `listeners` hear of operations that are
        over, of which `record_call_contents` has what is recorded."""
        self._contents = contents
        self.received.clear()
        self.sent.clear()
        is_on = self._export is not None
        if self.hear in listeners:
            listeners.remove(self.hear)
        if is_on:
            listeners.append(self.hear)
            self.received |= dict.fromkeys(configs, ReceivedCalls(self))
        for name, config in configs.items():
            if is_on or not config.trace_context:
                self.sent[name] = SentMessages(self, config, is_on=is_on)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until it is over. Cancellation: the last spans go out, if they do so within two seconds."""
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(STOP_S, shield=True):
                await _close(self._export)

    # --- what stages tell ---------------------------------------------------------------------------------------------

    def begin(self, intent: Intent) -> None:
        """An operation of a host begins. Its caller decides whether it is traced, or else chance."""
        meta = intent.operation.meta
        parent = read_parent(peek_str(meta[TRACEPARENT])) if TRACEPARENT in meta else None
        if parent is not None:
            if parent.is_sampled:
                self._open[intent.ref] = OpenCall(intent, parent.trace_id, self.new_id(), parent.span_id)
        elif self._sample >= 1 or self._random.random() < self._sample:
            self._open[intent.ref] = OpenCall(intent, self._random.getrandbits(128) or 1, self.new_id(), 0)

    def hear_question(self, call: OpenCall, question: Question, took_s: float, reply: Reply | None) -> None:
        """Send the spans of a question that the host of `call` was asked: of the server's, as it came, and of the hub's
        own request to the host. A modern host is asked by the result of its call, which has a span already."""
        caller = call.intent.host.caller
        outcome = CANCELLED if reply is None else str(reply.code) if isinstance(reply, Failure) else ""
        ref = {"mcp.method.name": question.method, "hubd.ref": spell_ref(call.intent.ref), **_error(outcome)}
        error, text = "" if outcome in NO_FAILURES else outcome, _text(reply)
        host = {**_network(caller.transport), "mcp.protocol.version": caller.version, "hubd.host": caller.identity.host}
        about: list[tuple[bool, Attributes]] = [(False, host)] if caller.era is Era.LEGACY else []
        if question.upstream:
            about.append((True, {"mcp.protocol.version": question.version, "hubd.upstream": question.upstream}))
        for is_server, more in about:
            ids = call.trace_id, self.new_id(), call.span_id
            self.add(Span(*ids, is_server, question.method, took_s, {**ref, **more}, error, text))

    def find(self, intent: Intent) -> OpenCall | None:
        """The operation that an intent, or one that was made of it, belongs to; None: it is not traced."""
        return self._open.get(intent.ref)

    def new_id(self) -> int:
        """The id of a new span."""
        return self._random.getrandbits(64) or 1

    def add(self, span: Span) -> None:
        """Send a span that ends now, without waiting."""
        if self._export is not None:
            self._export.add(span)

    def hear(self, ended: Ended) -> None:
        """Send the span of an operation that is over, if it is traced."""
        call = self._open.pop(ended.ref, None)
        if call is None:
            return
        intent, host, method = call.intent, call.intent.host, ended.method
        host.follow_questions(None)  # it would hold the call, which holds it
        attributes: Attributes = {
            "mcp.method.name": method,
            **_about(method, ended.name),
            "jsonrpc.request.id": str(intent.request.id),
            "mcp.protocol.version": host.caller.version,
            **_network(ended.transport),
            "hubd.ref": spell_ref(ended.ref),
            "hubd.host": ended.host,
            "hubd.cache": ended.cached,
        }
        if host.view.profile:
            attributes["hubd.profile"] = host.view.profile
        if intent.target.upstream.config.record and self._contents is not None:
            content = self._contents.find(ended.ref)
            found = {"gen_ai.tool.call.arguments": content.arguments, "gen_ai.tool.call.result": content.result}
            attributes |= {name: text for name, text in found.items() if text is not None}
        headers, ends = host.headers, host.find_ends()
        if (session := headers.get("mcp-session-id")) is not None:
            attributes["mcp.session.id"] = sha256(session.encode()).hexdigest()[:16]
        if ends is not None:
            attributes["client.address"] = ends.peer[0]
        self.add(
            Span(
                call.trace_id,
                call.span_id,
                call.parent_id,
                True,
                _name(method, ended.name),
                ended.took_s,
                attributes | _error(ended.outcome),
                "" if ended.outcome in NO_FAILURES else ended.outcome,
                call.text,
                peek_str(intent.operation.meta.get(TRACESTATE)) or "",
                read_parent(headers.get(TRACEPARENT)),
            )
        )


class ReceivedCalls(Stage):
    """Has the operations of hosts traced. `Tracing.hear` hears of their end."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def admits(self, intent: Intent) -> None:
        self._tracing.begin(intent)
        if (call := self._tracing.find(intent)) is not None:
            intent.host.follow_questions(partial(self._tracing.hear_question, call))

    def left(self, intent: Intent, outcome: Outcome) -> None:
        if (call := self._tracing.find(intent)) is not None:
            call.text = _text(outcome)


class SentMessages(Stage):
    """Has the messages to one upstream traced, and tells it of the trace what its configuration allows."""

    def __init__(self, tracing: Tracing, config: UpstreamConfig, *, is_on: bool) -> None:
        self._tracing = tracing
        self._tells = config.trace_context
        self._calls: dict[int, OpenCall] = {}
        """Those with messages under way, by the numbers of their intents: a round of a host may be over before these
        are."""
        hidden = TRACE_KEYS if not config.trace_context else {BAGGAGE} if is_on and not config.trace_baggage else ()
        self._hidden = frozenset(hidden)
        self._address: Attributes = {"network.transport": "pipe"}
        if config.url is not None:
            parts = urlsplit(config.url)
            port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
            self._address = {**_network("tcp"), "server.address": parts.hostname or "", "server.port": port}

    def admits(self, intent: Intent) -> None:
        meta = intent.operation.meta  # that of this operation alone, written when it is sent, which is next
        if not self._hidden.isdisjoint(meta):
            for name in self._hidden:
                meta.pop(name, None)
        if (call := self._tracing.find(intent)) is not None:
            span_id = self._tracing.new_id()
            call.messages.append((span_id, perf_counter()))
            self._calls[intent.ref] = call
            if self._tells:
                meta[TRACEPARENT] = write_parent(TraceParent(call.trace_id, span_id, True))

    def left(self, intent: Intent, outcome: Outcome) -> None:
        call = self._calls.get(intent.ref)
        if call is None:
            return
        span_id, began = call.messages.pop()
        if not call.messages:
            del self._calls[intent.ref]
        upstream: ManagedUpstream = intent.target.upstream
        method, own, result = intent.operation.method, intent.target.route.original, sum_up(outcome).outcome
        attributes: Attributes = {
            "mcp.method.name": method,
            **_about(method, own),
            "mcp.protocol.version": upstream.snapshot.version,
            **self._address,
            "hubd.upstream": upstream.name,
            "hubd.ref": spell_ref(intent.ref),
        }
        if (waited := intent.operation.waited_s) > WAITED_S:
            attributes["hubd.waited_s"] = waited
        self._tracing.add(
            Span(
                call.trace_id,
                span_id,
                call.span_id,
                False,
                _name(method, own),
                perf_counter() - began,
                attributes | _error(result),
                "" if result in NO_FAILURES else result,
                _text(outcome),
            )
        )


async def _close(export: "SpanExport | None") -> None:
    """Close it, in a thread that is left alone when this is cancelled."""
    if export is not None:
        await trio.to_thread.run_sync(export.close, abandon_on_cancel=True)


def _name(method: str, name: str) -> str:
    """The name of a span: no URI is in it, since there is no end of those."""
    return f"{method} {name}" if method in (TOOLS_CALL, PROMPTS_GET) else method


def _about(method: str, name: str) -> Attributes:
    """The attributes of what is asked for."""
    if method == TOOLS_CALL:
        return {"gen_ai.tool.name": name, "gen_ai.operation.name": "execute_tool"}
    key = _NAMED.get(method)
    return {} if key is None else {key: strip_uri(name) if method == RESOURCES_READ else name}


def _network(transport: str) -> Attributes:
    """The attributes of a way of messages."""
    return {"network.transport": transport, **({"network.protocol.name": "http"} if transport == "tcp" else {})}


def _error(outcome: str) -> Attributes:
    """The attributes of how it ended."""
    if outcome in NO_FAILURES and outcome != CANCELLED:
        return {}
    is_code = outcome.lstrip("-").isdigit()
    return {"error.type": outcome, **({"rpc.response.status_code": outcome} if is_code else {})}


def _text(outcome: Outcome) -> str:
    """What an error says; nothing of a tool's own, which may hold what it was told."""
    if isinstance(outcome, Failure):
        return outcome.message[:MAX_TEXT]
    return str(outcome)[:MAX_TEXT] if isinstance(outcome, Exception) else ""
