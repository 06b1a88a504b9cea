"""The record of an operation that is over: how it ended, and what is left out of URIs."""

import pytest
from msgspec import Raw

from hub.link.call_interface import Interim
from hub.link.hub_errors import DeadlineExceeded, Overloaded, UpstreamLost
from hub.telemetry.operation_record import strip_uri, sum_up
from hub.wire.jsonrpc import Failure, Result

FORM = b'{"resultType":"input_required","inputRequests":{}}'
TASK = b'{"resultType":"task","taskId":"1"}'


@pytest.mark.covers("OM-1")
@pytest.mark.parametrize(
    ("outcome", "said", "executed"),
    [
        (Result(Raw(b'{"content":[]}')), "", ""),
        (Result(Raw(b'{"content":[],"isError":false}')), "", ""),
        (Result(Raw(b'{"isError": true,"content":[]}')), "tool_error", ""),
        (Result(Raw(b'{"content":[{"type":"text","text":"%b"}],"isError":true}' % (b"x" * 200_000))), "tool_error", ""),
        (Result(Raw(b'{"structuredContent":{"isError":true},"content":[]}')), "", ""),
        (Result(Raw(b'{"isError":"perhaps"}')), "", ""),
        (Interim(Raw(FORM)), "asked", ""),
        (Interim(Raw(TASK)), "", ""),
        (Failure(-32602, "Unknown"), "-32602", ""),
        (Failure(-32042, "Visit a page"), "asked", ""),
        (UpstreamLost("gone"), "upstream_lost", "unknown"),
        (DeadlineExceeded("late"), "upstream_timeout", "unknown"),
        (Overloaded("full"), "overloaded", "no"),
        (ZeroDivisionError(), "internal", ""),
        (None, "cancelled", ""),
    ],
    ids=range(15),
)
def test_how_an_operation_ended(outcome, said, executed):
    found = sum_up(outcome)
    assert (found.outcome, found.executed) == (said, executed)
    assert not isinstance(outcome, Result) or found.size == memoryview(outcome.value).nbytes
    assert found.is_task == (isinstance(outcome, Interim) and TASK in bytes(outcome.value))


@pytest.mark.covers("AUD-05")
@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://a/b?token=x", "https://a/b"),
        ("https://a/b#x?y", "https://a/b"),
        ("https://me:secret@a/b", "https://a/b"),
        ("https://a/b@c", "https://a/b@c"),
        ("file:///a b", "file:///a b"),
        ("note:1", "note:1"),
    ],
)
def test_what_is_left_of_a_uri(uri, shown):
    assert strip_uri(uri) == shown
