"""Server-sent events, split at any byte."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.wire.http.sse import KEEP_ALIVE, MAX_FIELD_BYTES, EventTooLong, ServerEvent, SseParser, encode_event

STREAMS = [
    (b"data: a\n\n", [ServerEvent(b"a")]),
    (b"data:a\r\rdata:  b\r\r", [ServerEvent(b"a"), ServerEvent(b" b")]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [ServerEvent(b"a"), ServerEvent(b"b")]),
    (b"data: a\ndata: b\rdata\r\n\n", [ServerEvent(b"a\nb\n")]),
    (b"\xef\xbb\xbfdata: a\n\n", [ServerEvent(b"a")]),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [ServerEvent(b"b")]),
    (b"\xef\xbbdata: a\n\n", []),
    (b"\n\n\r\r\n" + KEEP_ALIVE * 3 + b":data: x\n\n", []),
    (b"event: endpoint\nid: 1\ndata: /post?x=1\n\n", [ServerEvent(b"/post?x=1", "endpoint", "1")]),
    (b"event:\ndata: a\n\n", [ServerEvent(b"a")]),
    (b"event: x\n\ndata: a\n\n", [ServerEvent(b"a")]),
    (b"id: 7\ndata:\n\n", [ServerEvent(b"", id="7")]),
    (b"id: 7\nid: a\0b\ndata: x\n\n", [ServerEvent(b"x", id="7")]),
    (b"id: 7\ndata: x\n\nid\ndata: y\n\n", [ServerEvent(b"x", id="7"), ServerEvent(b"y", id="")]),
    ("id: é\xff\n".encode() + b"data: \xff\n\n", [ServerEvent(b"\xff", id="éÿ")]),
    (b"retry: 3000\ndata: x\n\n", [ServerEvent(b"x")]),
    (b"retry: 0\ndata: x\n\n", [ServerEvent(b"x")]),
    (b"retry: 1.5\nretry: -1\nretry:\nretry: 1e9\ndata: x\n\n", [ServerEvent(b"x")]),
    (b"retry: " + b"9" * 6000 + b"\ndata: x\n\n", [ServerEvent(b"x")]),
    (b"Data: x\n data: y\nfoo\nfoo: bar\ndata\n\n", [ServerEvent(b"")]),
    (b"data: unfinished\n", []),
    (b"data: \xe2\x80\xa8\x0b\x0c\x1c\xc2\x85\n\n", [ServerEvent(b"\xe2\x80\xa8\x0b\x0c\x1c\xc2\x85")]),
]


@pytest.mark.covers("F-R-14", "T-19")
@pytest.mark.parametrize(("stream", "events"), STREAMS)
def test_events_split_at_every_byte(stream: bytes, events: list[ServerEvent]) -> None:
    assert SseParser().feed(stream) == events
    for at in range(min(len(stream), 200)):
        parser = SseParser()
        assert parser.feed(stream[:at]) + parser.feed(b"") + parser.feed(stream[at:]) == events
    parser = SseParser()
    assert [event for at in range(len(stream)) for event in parser.feed(stream[at : at + 1])] == events


@pytest.mark.covers("F-R-14", "T-31")
def test_retry_holds_for_the_stream() -> None:
    parser = SseParser()
    assert parser.retry_ms is None
    assert parser.feed(b"retry: 2000\n\n") == []
    assert parser.retry_ms == 2000
    assert parser.feed(b"id:\ndata: x\n\n") == [ServerEvent(b"x", id="")]
    assert parser.retry_ms == 2000


@pytest.mark.covers("F-R-14")
def test_a_million_empty_comments_are_nothing() -> None:
    parser = SseParser(max_event_bytes=100)
    for _ in range(100):
        assert parser.feed(b":\n" * 10_000) == []


LONG = [
    b"data: " + b"x" * 95,
    b"data: " + b"x" * 95 + b"\n\n",
    b"data: xxxx\n" * 11 + b"\n",
    b": " + b"x" * 99,
    b"id: " + b"x" * 99 + b"\n",
]


def feed_all(parser: SseParser, stream: bytes, size: int, events: list[ServerEvent]) -> None:
    for at in range(0, len(stream) + size, size):
        events += parser.feed(stream[at : at + size])


@pytest.mark.covers("F-R-14", "SEC-13")
@pytest.mark.parametrize("tail", LONG)
def test_the_limit_is_the_same_however_a_stream_is_split(tail: bytes) -> None:
    stream = b"data: fine\n\n" + tail
    for size in (1, 7, 64, len(stream)):
        parser = SseParser(max_event_bytes=100)
        events: list[ServerEvent] = []
        with pytest.raises(EventTooLong):
            feed_all(parser, stream, size, events)
        assert events == [ServerEvent(b"fine")]
        with pytest.raises(EventTooLong):
            parser.feed(b"data: more\n\n")


@pytest.mark.covers("F-R-14")
def test_an_event_of_the_limit_passes() -> None:
    for stream in (b"data: " + b"x" * 94 + b"\n\n", (b"data: xxxx\n" * 10) + b"\n"):
        for size in (1, len(stream)):
            parser = SseParser(max_event_bytes=100)
            assert sum(len(parser.feed(stream[at : at + size])) for at in range(0, len(stream), size)) == 1


def test_a_large_event_in_small_pieces() -> None:
    data = b"x" * (4 << 20)
    parser = SseParser()
    stream = encode_event(data, id="1")
    events = [event for at in range(0, len(stream), 4096) for event in parser.feed(stream[at : at + 4096])]
    assert events == [ServerEvent(data, id="1")]


@pytest.mark.covers("F-R-14", "SEC-13")
def test_an_event_in_short_lines_takes_no_more_than_its_bytes() -> None:
    parser, piece = SseParser(), b"data:abcd\n" * 400
    parser.feed(piece)
    tracemalloc.start()
    for _ in range(100):
        parser.feed(piece)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held <= 100 * len(piece)
    assert parser.held_bytes == 101 * len(piece) - 101 * 400
    (event,) = parser.feed(b"\n")
    assert event.data == b"\n".join([b"abcd"] * 400 * 101)
    assert parser.held_bytes == 0


@pytest.mark.covers("F-R-14", "SEC-13")
def test_of_a_long_id_or_name_no_more_is_kept_than_shows_that_it_is_too_long() -> None:
    parser = SseParser()
    (event,) = parser.feed(b"id: " + b"i" * 100_000 + b"\nevent: " + b"e" * 100_000 + b"\ndata: x\n\n")
    assert event.id == "i" * MAX_FIELD_BYTES
    assert event.event == "e" * MAX_FIELD_BYTES


LINE = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b""))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=10)


@pytest.mark.covers("SEC-12", "F-R-14")
@given(
    st.lists(st.tuples(LINE, st.none() | TEXT, st.none() | st.integers(1000, 10**9)), max_size=4),
    st.lists(st.integers(0, 300), max_size=6),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.booleans(),
)
def test_what_is_written_is_read_however_it_is_cut(
    written: list[tuple[bytes, str | None, int | None]], cuts: list[int], end: bytes, bom: bool
) -> None:
    stream = b"".join(encode_event(data, id=id, retry_ms=retry) + KEEP_ALIVE for data, id, retry in written)
    stream = b"\xef\xbb\xbf" * bom + stream.replace(b"\n", end)
    parser = SseParser()
    events: list[ServerEvent] = []
    edges = [0, *sorted(cuts), len(stream)]
    for start, stop in pairwise(edges):
        events += parser.feed(stream[start:stop])
    events += parser.feed(stream[max(edges) :])
    assert events == [ServerEvent(data, id=id) for data, id, _ in written]


def test_the_bytes_of_an_event() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", id="a-1") == b"event: message\nid: a-1\ndata: {}\n\n"
    assert encode_event(b"", id="a-0", retry_ms=500) == b"id: a-0\nretry: 500\ndata: \n\n"


@pytest.mark.covers("SEC-12")
@pytest.mark.parametrize("data", [b"a\nb", b"a\rb"])
def test_a_line_end_never_enters_an_event(data: bytes) -> None:
    with pytest.raises(AssertionError):
        encode_event(data)
