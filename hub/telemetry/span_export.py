"""Export of spans: to a collector, by the SDK of OpenTelemetry, in a thread of that. The only module that imports it.

Nobody waits for a collector: the queue is bounded, what does not fit or does not arrive is counted, and what the SDK
complains of is one line a minute in the hub's log.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from threading import Lock
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from msgspec import Struct
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from config.settings import TracingConfig
from hub.telemetry.operation_record import TOOL_ERROR
from hub.telemetry.span import Span

log = logging.getLogger("hubd.tracing")
QUEUE: Final = 2_048
"""Operations that may wait for a collector, each with its messages. What comes beyond that is dropped, and counted."""
BATCH: Final = 256
"""Operations that are sent at once."""
SCHEMA: Final = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
SILENCE_S: Final = 60.0
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
_NANO: Final = 1_000_000_000


class PendingSpans(Struct, frozen=True, gc=False):
    """Spans of an operation that is over, as the SDK's queue takes them; they are made in the SDK's thread."""

    context: ClassVar = SimpleNamespace(trace_flags=SimpleNamespace(sampled=True))
    """All that the queue looks at."""
    describe: Callable[[], Iterable[Span]]
    count: int
    end: int
    """The end of the operation, in nanoseconds since 1970."""


class SpanExport:
    """Sends spans to the collector of a configuration. `wall` tells the time."""

    def __init__(self, config: TracingConfig, wall: Callable[[], float], version: str) -> None:
        endpoint = f"{config.endpoint.rstrip('/')}/v1/traces" if config.endpoint else None
        headers = {name: value.reveal() for name, value in config.headers.items()}
        self._wall = wall
        self._counted = CountedExport(OTLPSpanExporter(endpoint=endpoint, headers=headers or None), self._read)
        self._processor = BatchSpanProcessor(self._counted, max_queue_size=QUEUE, max_export_batch_size=BATCH)
        about = {"service.name": "hubd", "service.version": version, "service.instance.id": token_hex(8)}
        self._resource = Resource.create(about)
        self._scope = InstrumentationScope("hubd", version, SCHEMA)
        self._given = 0
        self._overflow = 0
        hear_complaints()

    @property
    def dropped(self) -> int:
        """Spans that no collector has got."""
        return self._overflow + self._counted.failed

    def add(self, describe: Callable[[], Iterable[Span]], count: int) -> None:
        """Send spans of something that ends now, without waiting: so many, which `describe` makes in another thread."""
        if self._given - self._counted.taken >= QUEUE:
            self._overflow += count
            COMPLAINTS.hear("the queue is full", self._wall())
            return
        pending: Any = PendingSpans(describe, count, int(self._wall() * _NANO))
        self._processor.on_end(pending)
        self._given += 1

    def _read(self, span: Span, end: int) -> ReadableSpan:
        """A span in the form of the SDK. `end`: the end of its operation."""
        end -= int(span.before_s * _NANO)
        context = SpanContext(span.trace_id, span.span_id, False, _SAMPLED, _state(span.state))
        parent = None
        if span.parent_id:
            parent = SpanContext(span.trace_id, span.parent_id, span.is_server, _SAMPLED)
        links: Sequence[Link] = ()
        if span.link is not None:
            flags = TraceFlags(span.link.is_sampled)
            links = (Link(SpanContext(span.link.trace_id, span.link.span_id, True, flags)),)
        status = _UNSET
        if span.error:
            status = Status(StatusCode.ERROR, None if span.error == TOOL_ERROR else span.text or None)
        return ReadableSpan(
            span.name,
            context,
            parent,
            self._resource,
            span.attributes,
            links=links,
            kind=SpanKind.SERVER if span.is_server else SpanKind.CLIENT,
            status=status,
            start_time=end - int(span.took_s * _NANO),
            end_time=end,
            instrumentation_scope=self._scope,
        )

    def close(self) -> None:
        """Send what is left, and end it. Blocks, for up to half a minute if the collector hangs."""
        self._processor.shutdown()


class CountedExport:
    """An exporter of spans, as the SDK has them, that makes these, and counts which did not arrive."""

    def __init__(self, inner: OTLPSpanExporter, read: Callable[[Span, int], ReadableSpan]) -> None:
        """`read`: a span in the form of the SDK, told the end of its operation."""
        self._inner = inner
        self._read = read
        self.taken = 0
        """What has left the queue."""
        self.failed = 0
        """Spans that did not arrive."""

    def export(self, batch: Sequence[Any]) -> SpanExportResult:
        self.taken += len(batch)
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export([self._read(span, each.end) for each in batch for span in each.describe()])
        finally:
            if result is not SpanExportResult.SUCCESS:
                self.failed += sum(each.count for each in batch)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return bool(self._inner.force_flush(timeout_millis))


class Complaints(logging.Filter):
    """Logs one line a minute in place of all that the SDK logs, and for spans that have no room in its queue."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0.0
        self._more = 0
        self._mutex = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        self.hear(record.getMessage(), record.created)
        return False

    def hear(self, text: str, now: float) -> None:
        """Log a complaint, if a minute has passed since the last one."""
        with self._mutex:
            if now < self._next:
                self._more += 1
                return
            more, self._more, self._next = self._more, 0, now + SILENCE_S
        text = f"spans do not reach the collector: {text[:300]}"
        log.warning("%s%s", text, f" (and {more} more complaints)" if more else "")


COMPLAINTS: Final = Complaints()


def hear_complaints() -> None:
    """Have all that the SDK logs pass `COMPLAINTS`."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("opentelemetry."):
            logging.getLogger(name).addFilter(COMPLAINTS)


def _state(text: str) -> TraceState | None:
    return TraceState.from_header([text]) if text else None
