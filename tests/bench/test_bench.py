"""The harness of the comparison, by one tiny round with hubd; figures of time are not looked at."""

import pytest

from hub.wire.mcp import HUBD_VERSION
from tests.bench.callers import Echo, decode_reply
from tests.bench.compare import BLOCK, README, compare
from tests.bench.faults import ANSWER, CALLERS
from tests.bench.gateways import Gateway, Hubd, Relay
from tests.bench.measure import CASES
from tests.bench.report import ABSENT, FAULT_ROWS
from tests.bench.responses import CallFailed, Response
from tests.bench.scene import Kind

JSON = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: S1\r\nContent-Length: 8\r\n\r\n{"id":1}'


def _events(*chunks: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


@pytest.mark.parametrize(
    "data",
    [
        JSON,
        b"HTTP/1.1 100 Continue\r\n\r\n" + JSON,
        _events(b": hello\n\nda", b'ta: {"id":1}\n\n'),
        _events(b"event: message\r\nda", b'ta: {"id":1}\r\n\r\n', b":\r\n\r\n"),
    ],
    ids=["sized", "after 100", "events", "events with carriage returns"],
)
def test_a_response_may_come_in_any_two_pieces(data: bytes) -> None:
    for cut in range(1, len(data)):
        response = Response()
        response.feed(data[:cut])
        assert not response.is_done
        response.feed(data[cut:])
        assert (response.is_done, response.messages) == (True, [b'{"id":1}']), cut
    assert response.session in ("", "S1")


@pytest.mark.parametrize(
    "reply",
    [
        b'{"id":10000005,"result":{"content":[{"text":"10000004xx"}]}}',
        b'{"id":10000005,"result":{"content":[{"text":"10000005x"}]}}',
        b'{"id":10000005,"result":{"content":[{"text":"10000005xx"}],"isError":true}}',
        b'{"id":10000005,"result":{"content":[]}}',
        b'{"id":10000005,"error":{"code":-32603,"message":"no"}}',
    ],
    ids=["another id", "too short", "tool error", "empty", "error"],
)
def test_a_reply_that_is_not_the_right_one_is_no_success(reply: bytes) -> None:
    echo = Echo("echo", 10, 0)
    echo.check(decode_reply(b'{"id":10000005,"result":{"content":[{"text":"10000005xx"}]}}'))
    with pytest.raises(CallFailed):
        echo.check(decode_reply(reply))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "all"),
    [("http", [Hubd()]), pytest.param("stdio", [Hubd(), Relay()], marks=pytest.mark.everything)],
    ids=["http", "stdio"],
)
def test_one_tiny_round_fills_each_row(kind: Kind, all: list[Gateway]) -> None:
    found = compare(kind, all, 1, 0.01)
    assert not any(each.failures for samples in found.samples.values() for each in samples.values())
    [faults] = found.faults.values()
    assert faults.stopped.failures == 0
    assert faults.killed.outcomes.total() == CALLERS
    assert ANSWER not in faults.killed.outcomes
    head, _, *rows = [line.strip("| ").split(" | ") for line in found.table().splitlines()]
    assert head[1] == f"hubd {HUBD_VERSION}"
    assert ABSENT not in [row[1] for row in rows], "hubd has a figure in each"
    assert {f"CPU a call, {case.title}" for case in CASES} | FAULT_ROWS.keys() < {row[0] for row in rows}
    assert {len(row) for row in rows} == {1 + len(found.targets)}


def test_the_readme_has_a_place_for_the_tables() -> None:
    assert BLOCK.search(README.read_text(encoding="utf-8"))
