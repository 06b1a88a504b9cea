"""Members of a trace pass if they have the form of the W3C."""

import pytest

from hub.wire.jsonrpc import raw
from hub.wire.trace_context import TraceParent, read_parent, without_malformed, write_parent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.covers("OT-1", "B-20")
@pytest.mark.parametrize(
    ("text", "is_sampled"),
    [
        (GOOD, True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes", True),
        (GOOD.upper(), None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"cc-{TRACE}-{SPAN}-01more", None),
        (f"cc-{TRACE}-{SPAN}-01-{'x' * 600}", None),
        (f"00-{TRACE}-{SPAN}", None),
        (f" {GOOD}", None),
        (f"{GOOD}\n", None),
        ("00-a", None),
        ("", None),
    ],
)
def test_a_parent_has_a_form(text, is_sampled):
    found = read_parent(text)
    assert found == (None if is_sampled is None else TraceParent(int(TRACE, 16), int(SPAN, 16), is_sampled))
    meta = {"traceparent": raw(text), "tracestate": raw("a=1"), "vendor/x": raw(1)}
    assert without_malformed(meta) == (meta if found else {"vendor/x": raw(1)})


@pytest.mark.covers("OT-1", "B-20")
@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", True),
        ("tracestate", "a=" + "x" * 511, False),
        ("tracestate", "", False),
        ("tracestate", "no key", False),
        ("tracestate", "a=1\n", False),
        ("tracestate", "a=é", False),
        ("tracestate", {"a": 1}, False),
        ("baggage", "userId=alice,isProduction=false;p=1", True),
        ("baggage", "a=" + "x" * 8190, True),
        ("baggage", "a=" + "x" * 8191, False),
        ("baggage", ["a=1"], False),
    ],
)
def test_lists_have_a_form(name, value, passes):
    meta = {"traceparent": raw(GOOD), name: raw(value), "vendor/x": raw(1)}
    assert (name in without_malformed(meta)) is passes
    assert without_malformed(meta).keys() >= {"traceparent", "vendor/x"}


def test_a_parent_is_written_as_it_is_read():
    parent = TraceParent(1, 2, True)
    assert write_parent(1, 2) == raw(f"00-{1:032x}-{2:016x}-01")
    assert read_parent(f"00-{1:032x}-{2:016x}-01") == parent
