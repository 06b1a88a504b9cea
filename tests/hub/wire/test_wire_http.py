"""Server-sent events however they are split, and header values however odd."""

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.http import (
    KEEP_ALIVE,
    EventTooLong,
    InvalidHeader,
    InvalidMirror,
    Mirror,
    ServerEvent,
    SseParser,
    check_mirrors,
    decode_header,
    encode_event,
    encode_header,
    mirror_headers,
    mirrored,
)

# --- events ---------------------------------------------------------------------------------------------------------

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
    (b"retry: 3000\ndata: x\n\n", [ServerEvent(b"x", retry_ms=3000)]),
    (b"retry: 0\ndata: x\n\n", [ServerEvent(b"x", retry_ms=1000)]),
    (b"retry: 1.5\nretry: -1\nretry:\nretry: 1e9\ndata: x\n\n", [ServerEvent(b"x")]),
    (b"retry: " + b"9" * 6000 + b"\ndata: x\n\n", [ServerEvent(b"x", retry_ms=999999999999)]),
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
def test_ids_and_retry_hold_for_the_stream() -> None:
    parser = SseParser()
    assert (parser.last_event_id, parser.retry_ms) == ("", None)
    assert parser.feed(b"id: 5\nretry: 2000\n\n") == []
    assert (parser.last_event_id, parser.retry_ms) == ("5", 2000)
    assert parser.feed(b"data: x\n\n") == [ServerEvent(b"x")]
    assert parser.last_event_id == "5"
    parser.feed(b"id:\ndata: x\n\n")
    assert parser.last_event_id == ""


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
    assert events == [ServerEvent(data, id=id, retry_ms=retry) for data, id, retry in written]


def test_the_bytes_of_an_event() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", id="a-1") == b"event: message\nid: a-1\ndata: {}\n\n"
    assert encode_event(b"", id="a-0", retry_ms=500) == b"id: a-0\nretry: 500\ndata: \n\n"


@pytest.mark.covers("SEC-12")
@pytest.mark.parametrize("data", [b"a\nb", b"a\rb"])
def test_a_line_end_never_enters_an_event(data: bytes) -> None:
    with pytest.raises(AssertionError):
        encode_event(data)


# --- values of headers ----------------------------------------------------------------------------------------------


@pytest.mark.covers("H-6", "H-7", "SEC-14")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", b"us-west1"),
        ("", b""),
        ("two words", b"two words"),
        (" padded ", b"=?base64?IHBhZGRlZCA=?="),
        ("a\tb", b"=?base64?YQli?="),
        ("Hello, 世界", b"=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("line1\nline2", b"=?base64?bGluZTEKbGluZTI=?="),
        ("a\r\nX-Evil: 1", b"=?base64?YQ0KWC1FdmlsOiAx?="),
        ("=?base64?x?=", b"=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?base64?=", b"=?base64?="),
        ("=?BASE64?eA==?=", b"=?BASE64?eA==?="),
        ("a\0", b"=?base64?YQA=?="),
        ("\x7f", b"=?base64?fw==?="),
    ],
)
def test_header_values(text: str, value: bytes) -> None:
    assert encode_header(text) == value
    assert decode_header(value.decode()) == text


@pytest.mark.covers("H-7", "H-8")
@pytest.mark.parametrize(
    "value",
    [
        "é",
        "a\x01",
        "a\nb",
        "\x7f",
        "=?base64?%%%?=",
        "=?base64?eA?=",
        "=?base64?eB==?=",
        "=?base64?eA== ?=",
        "=?base64?/w==?=",
        "=?base64?e-_=?=",
    ],
)
def test_values_that_cannot_be_decoded(value: str) -> None:
    with pytest.raises(InvalidHeader):
        decode_header(value)


def test_an_inner_tab_may_come_bare() -> None:
    assert decode_header("a\tb") == "a\tb"


@pytest.mark.covers("H-6", "SEC-14")
@given(st.text(st.characters(codec="utf-8")))
def test_every_text_travels_in_a_header(text: str) -> None:
    value = encode_header(text)
    assert re.fullmatch(rb"([!-~]([ -~]*[!-~])?)?", value)
    assert decode_header(value.decode()) == text


# --- mirrored parameters --------------------------------------------------------------------------------------------


def schema(properties: object, **more: object) -> Raw:
    return Raw(json.dumps({"type": "object", "properties": properties, **more}).encode())


REGION = {"type": "string", "x-mcp-header": "Region"}


@pytest.mark.covers("H-9", "H-10")
def test_mirrors_are_found_along_properties() -> None:
    found = mirrored(
        schema(
            {
                "region": REGION,
                "plain": {"type": "string"},
                "limits": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "x-mcp-header": "N"}}},
                "x-mcp-header": {"type": "boolean", "x-mcp-header": "b.c"},
                "odd": True,
            }
        )
    )
    assert found == (
        Mirror("Mcp-Param-Region", ("region",)),
        Mirror("Mcp-Param-N", ("limits", "n")),
        Mirror("Mcp-Param-b.c", ("x-mcp-header",)),
    )
    assert mirrored(schema({"x": {"type": "string", "description": "\u00e9"}})) == ()
    assert mirrored(schema({"x": {"type": "string"}})) == ()
    assert mirrored(schema({"x": {"type": "string", "default": {"x-mcp-header": "no annotation"}}})) == ()
    assert mirrored(Raw(rb'{"properties":{"a":{"type":"string","x\u002dmcp-header":"A"}}}')) == (
        Mirror("Mcp-Param-A", ("a",)),
    )


@pytest.mark.covers("H-10", "C-19")
@pytest.mark.parametrize(
    "wrong",
    [
        schema({"a": {"type": "string", "x-mcp-header": ""}}),
        schema({"a": {"type": "string", "x-mcp-header": "a b"}}),
        schema({"a": {"type": "string", "x-mcp-header": "a\r\nb"}}),
        schema({"a": {"type": "string", "x-mcp-header": "é"}}),
        schema({"a": {"type": "string", "x-mcp-header": 7}}),
        schema({"a": {"type": "number", "x-mcp-header": "A"}}),
        schema({"a": {"type": "object", "x-mcp-header": "A"}}),
        schema({"a": {"type": ["string", "integer"], "x-mcp-header": "A"}}),
        schema({"a": {"x-mcp-header": "A"}}),
        schema({"a": REGION, "b": {"type": "string", "x-mcp-header": "rEGION"}}),
        schema({"a": {"type": "array", "items": REGION}}),
        schema({"a": {"type": "array", "items": [REGION]}}),
        schema({"a": {"anyOf": [{"properties": {"b": REGION}}]}}),
        schema({}, **{"$defs": {"a": REGION}}),
        schema({}, additionalProperties=REGION),
        schema({}, **{"x-mcp-header": "A", "type": "string"}),
    ],
)
def test_mirrors_that_break_the_rules(wrong: Raw) -> None:
    with pytest.raises(InvalidMirror):
        mirrored(wrong)


MIRRORS = (Mirror("Mcp-Param-Region", ("region",)), Mirror("Mcp-Param-N", ("limits", "n")))


@pytest.mark.covers("H-9", "SEC-14")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu", "limits": {"n": 7}}, [("Mcp-Param-Region", b"eu"), ("Mcp-Param-N", b"7")]),
        ({"region": True, "limits": {"n": False}}, [("Mcp-Param-Region", b"true"), ("Mcp-Param-N", b"false")]),
        ({"region": "a\r\nX: y", "limits": 7}, [("Mcp-Param-Region", b"=?base64?YQ0KWDogeQ==?=")]),
        ({"region": None, "limits": {"n": 7.0}}, [("Mcp-Param-N", b"7")]),
        ({"region": {}, "limits": {"n": 7.5}}, []),
        ({"region": [], "limits": {"n": 2**53}}, []),
        (
            {"region": "", "limits": {"n": 1 - 2**53}},
            [("Mcp-Param-Region", b""), ("Mcp-Param-N", b"-9007199254740991")],
        ),
        ({}, []),
    ],
)
def test_headers_of_a_call(arguments: object, headers: list[tuple[str, bytes]]) -> None:
    raw = Raw(json.dumps(arguments).encode())
    assert mirror_headers(MIRRORS, raw) == headers
    check_mirrors(MIRRORS, {name.lower(): value.decode() for name, value in headers}, raw)


@pytest.mark.covers("H-11", "H-12", "H-13")
def test_headers_are_compared_with_arguments() -> None:
    arguments = Raw(b'{"region":"1","limits":{"n":1e2}}')
    right = {"mcp-param-region": "1", "mcp-param-n": "100", "mcp-param-else": "ignored"}
    check_mirrors(MIRRORS, right, arguments)
    check_mirrors(MIRRORS, {**right, "mcp-param-n": "100.0"}, arguments)
    for wrong in (
        {"mcp-param-region": "1.0"},
        {"mcp-param-region": ""},
        {"mcp-param-region": "=?base64?!?="},
        {"mcp-param-n": "101"},
        {"mcp-param-n": "1_00"},
        {"mcp-param-n": "nan"},
    ):
        with pytest.raises(InvalidHeader):
            check_mirrors(MIRRORS, {**right, **wrong}, arguments)
    for missing in ("mcp-param-region", "mcp-param-n"):
        with pytest.raises(InvalidHeader, match="missing"):
            check_mirrors(MIRRORS, {name: value for name, value in right.items() if name != missing}, arguments)
    check_mirrors(MIRRORS, {"mcp-param-region": "anything"}, Raw(b'{"region":null}'))
