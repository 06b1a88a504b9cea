"""Span: what is told a collector of one operation, or of one message to an upstream, that is over. Pure."""

from msgspec import Struct

from hub.wire.trace_context import TraceParent

Attributes = dict[str, str | int | float | bool]
"""By names of the conventions."""


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
    state: str = ""
    """The `tracestate`."""
    link: TraceParent | None = None
    """The span that a header names, whose program need not be the host's."""
