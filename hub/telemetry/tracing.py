"""Tracing: stages that follow operations, of which a collector is told.

Each operation of a host has a SERVER span, and each message for it to an upstream a CLIENT span below that; the
upstream is told the latter. Hubs without `[tracing]` have none of these stages, and load nothing for spans.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio
from msgspec import Struct, field

from config.loading.checks.hub import has_spans
from config.settings import TracingConfig, UpstreamConfig
from hub.calls.chain import Intent, Outcome, Stage
from hub.link.call_interface import Caller
from hub.link.module_loading import load
from hub.telemetry.operation_record import CANCELLED, OK, Ended, sum_up
from hub.telemetry.record_call_contents import NO_CONTENT, ContentRecorder
from hub.telemetry.span import (
    Attributes,
    SentMessage,
    Span,
    SpanIds,
    TracedOperation,
    describe_question,
    describe_transport,
)
from hub.wire.jsonrpc import Failure, Reply, Result, peek_str
from hub.wire.mcp import COMPLETE, PROMPTS_GET, RESOURCES_READ, TOOLS_CALL
from hub.wire.questions.askable_questions import Question
from hub.wire.trace_context import BAGGAGE, TRACE_KEYS, TRACEPARENT, TRACESTATE, read_parent, write_parent

if TYPE_CHECKING:
    from hub.telemetry.span_export import SpanExport

TRACED: Final = (TOOLS_CALL, PROMPTS_GET, RESOURCES_READ, COMPLETE)
STOP_S: Final = 2.0
"""Time for the last spans to go out."""
MAX_TEXT: Final = 500
MAX_SESSION: Final = 1_024
"""Characters of the id of a session that are looked at; no id of the hub's is longer."""
MAX_TOGETHER: Final = 16
"""Messages of which a collector is told together with their operation. Of those of a long task, which may be
thousands, it is told at once."""


class OpenCall(Struct):
    """An operation of a host that is traced, while it runs."""

    intent: Intent
    ids: SpanIds
    parent_id: int
    text: str = ""
    """What an error said."""
    running: list[tuple[int, float]] = field(default_factory=list)
    """The messages that are with the upstream: their spans, and when they were sent."""
    sent: list[SentMessage] = field(default_factory=list)
    """Messages that are over, of which the collector is told together with the operation."""
    is_over: bool = False


class Tracing(Stage):
    """The spans of one hub, and where they go. `received` has the outer stage of each upstream, which is this object,
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
        self._closing: SpanExport | None = None
        """The one before, which sends what it still has."""
        self._lost = 0
        """Spans that no collector has got of those before these."""
        self._contents: ContentRecorder | None = None
        self.open: dict[int, OpenCall] = {}
        """The operations that are traced and not over, by the numbers of their intents."""

    @property
    def dropped(self) -> int:
        """Spans that no collector has got."""
        return self._lost + sum(each.dropped for each in (self._export, self._closing) if each is not None)

    async def prepare(self, config: TracingConfig) -> bool:
        """Take over a configuration, but for the stages; True: `adjust` has to follow. Cancellation: it may not have
        been taken over."""
        before, export = self._export, None
        if config == self._config or (not config.enabled and before is None):
            return False
        if config.enabled and has_spans():
            await load("hub.telemetry.span_export")
            from hub.telemetry.span_export import SpanExport

            export = await trio.to_thread.run_sync(SpanExport, config, self._wall, self._version)
        self._send_over()
        self._config, self._sample, self._export, self._closing = config, config.sample, export, before
        await _close(before)
        self._closing, self._lost = None, self._lost + (0 if before is None else before.dropped)
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
        if not is_on:
            self.open.clear()
        else:
            listeners.append(self.hear)
            self.received |= dict.fromkeys(configs, self)
        for name, config in configs.items():
            if is_on or not config.trace_context:
                self.sent[name] = SentMessages(self, name, config, is_on=is_on)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Wait until it is over. Cancellation: the last spans go out, if they do so within two seconds."""
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            self._send_over()
            with trio.move_on_after(STOP_S, shield=True):
                await _close(self._export)

    # Every traced call comes by, so all below calls few functions of ours; spans are described when they are sent.

    def admits(self, intent: Intent) -> None:
        """An operation of a host begins. Its caller decides whether it is traced, or else chance."""
        meta, host, bits = intent.operation.meta, intent.host, self._random.getrandbits
        trace_id, parent_id, hear = 0, 0, None
        parent = read_parent(peek_str(meta[TRACEPARENT])) if TRACEPARENT in meta else None
        if parent is None:
            if self._sample >= 1 or self._random.random() < self._sample:
                trace_id = bits(128) or 1
        elif parent.is_sampled:
            trace_id, parent_id = parent.trace_id, parent.span_id
        if trace_id and self._export is not None:  # it may have been turned off a moment ago
            ids = SpanIds(trace_id, bits(64) or 1)
            self.open[intent.ref] = OpenCall(intent, ids, parent_id)
            hear = partial(self._hear_question, ids, intent.ref, host.caller)
        host.follow_questions(hear)  # another operation of the same request may have followed them

    def left(self, intent: Intent, outcome: Outcome) -> None:
        """It is over, as `hear` is told next, but for what an error said."""
        if type(outcome) is not Result and (call := self.open.get(intent.ref)) is not None:
            call.text = _text(outcome)

    def _hear_question(
        self, above: SpanIds, ref: int, caller: Caller, question: Question, took_s: float, reply: Reply | None
    ) -> None:
        """Send the spans of a question that the host of a traced operation was asked; that may be over by now."""
        outcome = CANCELLED if reply is None else str(reply.code) if isinstance(reply, Failure) else ""
        ids = self.new_id(), self.new_id()
        if spans := describe_question(above, ids, ref, question, caller, took_s, outcome, _text(reply)):
            self.add(lambda: spans, len(spans))

    def new_id(self) -> int:
        """The id of a new span."""
        return self._random.getrandbits(64) or 1

    def add(self, describe: Callable[[], Iterable[Span]], count: int) -> None:
        """Send spans of something that ends now, without waiting."""
        if self._export is not None:
            self._export.add(describe, count)

    def hear(self, ended: Ended) -> None:
        """Send the spans of an operation that is over, if it is traced."""
        call = self.open.pop(ended.ref, None)
        if call is None:
            return
        call.is_over = True
        intent = call.intent
        host, headers, meta, content = intent.host, intent.host.headers, intent.operation.meta, NO_CONTENT
        if self._contents is not None and intent.target.upstream.config.record:
            content = self._contents.find(ended.ref)
        ends, session = host.find_ends(), headers.get("mcp-session-id")
        operation = TracedOperation(
            ids=call.ids,
            parent_id=call.parent_id,
            ended=ended,
            text=call.text,
            sent=call.sent,
            request_id=intent.request.id,
            version=host.caller.version,
            profile=host.view.profile,
            session=session and session[:MAX_SESSION],
            address=ends and ends.peer[0],
            state=(peek_str(meta[TRACESTATE]) or "") if TRACESTATE in meta else "",
            link=read_parent(headers[TRACEPARENT]) if TRACEPARENT in headers else None,
            content=content,
        )
        self.add(operation.describe, 1 + len(call.sent))

    def _send_over(self) -> None:
        """Send the messages that are over, of operations that are not."""
        for call in self.open.values():
            for message in call.sent:
                self.send(message)
            call.sent.clear()

    def send(self, message: SentMessage) -> None:
        """Send the span of one message."""
        now = perf_counter()
        self.add(lambda: [message.describe(now)], 1)


class SentMessages(Stage):
    """Has the messages to one upstream traced, and tells it of the trace what its configuration allows."""

    def __init__(self, tracing: Tracing, name: str, config: UpstreamConfig, *, is_on: bool) -> None:
        self._tracing = tracing
        self._tells = config.trace_context
        self._calls: dict[int, OpenCall] = {}
        """Those with messages under way, by the numbers of their intents: a round of a host may be over before these
        are."""
        hidden = TRACE_KEYS if not config.trace_context else {BAGGAGE} if is_on and not config.trace_baggage else ()
        self._hidden = frozenset(hidden)
        self._address: Attributes = {"network.transport": "pipe", "hubd.upstream": name}
        if config.url is not None:
            parts = urlsplit(config.url)
            port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
            self._address |= {**describe_transport("tcp"), "server.address": parts.hostname or "", "server.port": port}

    def admits(self, intent: Intent) -> None:
        meta = intent.operation.meta  # that of this operation alone, written when it is sent, which is next
        if not self._hidden.isdisjoint(meta):
            for name in self._hidden:
                meta.pop(name, None)
        if (call := self._tracing.open.get(intent.ref)) is not None:
            span_id = self._tracing.new_id()
            call.running.append((span_id, perf_counter()))
            self._calls[intent.ref] = call
            if self._tells:
                meta[TRACEPARENT] = write_parent(call.ids.trace_id, span_id)

    def left(self, intent: Intent, outcome: Outcome) -> None:
        call = self._calls.get(intent.ref)
        if call is None:
            return
        span_id, began = call.running.pop()
        if not call.running:
            del self._calls[intent.ref]
        is_plain = type(outcome) is Result and outcome.says_error is False
        operation, target, now = intent.operation, intent.target, perf_counter()
        message = SentMessage(
            call.ids,
            span_id,
            intent.ref,
            operation.method,
            target.route.original,
            target.upstream.offered.snapshot.version,
            self._address,
            now,
            now - began,
            operation.waited_s,
            OK if is_plain else sum_up(outcome).outcome,
            "" if is_plain else _text(outcome),
        )
        if call.is_over or len(call.sent) >= MAX_TOGETHER:
            self._tracing.send(message)
        else:
            call.sent.append(message)


async def _close(export: "SpanExport | None") -> None:
    """Close it, in a thread that is left alone when this is cancelled."""
    if export is not None:
        await trio.to_thread.run_sync(export.close, abandon_on_cancel=True)


def _text(outcome: Outcome) -> str:
    """What an error says; nothing of a tool's own, which may hold what it was told."""
    if isinstance(outcome, Failure):
        return outcome.message[:MAX_TEXT]
    return str(outcome)[:MAX_TEXT] if isinstance(outcome, Exception) else ""
