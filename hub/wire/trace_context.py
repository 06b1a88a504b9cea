"""Trace context: the members of `_meta` by which traces go on from one program to the next, in the form of W3C Trace
Context and Baggage. Pure."""

import re
from typing import Final, NamedTuple

from msgspec import Raw

from hub.wire.jsonrpc import peek_str

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
BAGGAGE: Final = "baggage"
TRACE_KEYS: Final = frozenset({TRACEPARENT, TRACESTATE, BAGGAGE})

_PARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_LIST: Final = re.compile(r"[ -~\t]*=[ -~\t]*")
_MOST_CHARS: Final = {TRACESTATE: 512, BAGGAGE: 8192}


class TraceParent(NamedTuple):
    """A span of somebody else, under which the next one stands."""

    trace_id: int
    span_id: int
    is_sampled: bool


def read_parent(text: str | None) -> TraceParent | None:
    """Read a `traceparent`; None: it is none, or not well-formed."""
    found = None if text is None or len(text) > _MOST_CHARS[TRACESTATE] else _PARENT.fullmatch(text)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(span, 16):
        return None
    return TraceParent(int(trace, 16), int(span, 16), bool(int(flags, 16) & 1))


def write_parent(trace_id: int, span_id: int) -> Raw:
    """The member of `_meta` that names a span that is sampled."""
    return Raw(b'"00-%032x-%016x-01"' % (trace_id, span_id))


def without_malformed(meta: dict[str, Raw]) -> dict[str, Raw]:
    """`meta` without the members of a trace that are not well-formed; nobody's `tracestate` is without a parent."""
    if read_parent(peek_str(meta.get(TRACEPARENT))) is None:
        meta = {name: member for name, member in meta.items() if name not in (TRACEPARENT, TRACESTATE)}
    for name, most in _MOST_CHARS.items():
        if name in meta:
            text = peek_str(meta[name])
            if text is None or len(text) > most or not _LIST.fullmatch(text):
                meta = {each: member for each, member in meta.items() if each != name}
    return meta
