"""Request heads and chunked bodies: refusals and their statuses do not depend on how the bytes are cut."""

import pytest

from hub.wire.http.request_parser import (
    MAX_HEAD_BYTES,
    MAX_TARGET_BYTES,
    ChunkedRequestBody,
    HeadParser,
    HttpRefusal,
    head_end,
    read_head,
)
from tests.support.tables import each_row

GOOD = b"POST /mcp HTTP/1.1\r\nHost: localhost:8765\r\nContent-Length: 12\r\nAccept: a, b\r\n\r\n"


def fields(*lines: bytes, start: bytes = b"POST /mcp HTTP/1.1", host: bytes = b"Host: localhost") -> bytes:
    return b"\r\n".join((start, host, *lines, b"", b""))


def whole(data: bytes) -> int | None:
    """The status of a refusal; None: accepted; -1: incomplete."""
    try:
        end = head_end(data)
        if not end:
            return -1
        HeadParser(read_head).parse(data[:end])
    except HttpRefusal as refusal:
        return refusal.status
    return None


def trickled(data: bytes) -> int | None:
    """The same, byte by byte, or in crumbs if it is long."""
    start = before = 0
    for size in (*range(1, len(data), 1 if len(data) < 3000 else 97), len(data)):
        try:
            end = head_end(data[:size], start)
            if end:
                assert before < end <= size
                HeadParser(read_head).parse(data[:end])
                return None
        except HttpRefusal as refusal:
            return refusal.status
        start, before = max(0, size - 3), size
    return -1


REFUSED = {
    "both lengths": (400, fields(b"Content-Length: 2", b"Transfer-Encoding: chunked")),
    "two lengths": (400, fields(b"Content-Length: 2", b"Content-Length: 3")),
    "two equal lengths": (400, fields(b"Content-Length: 2", b"Content-Length: 2")),
    "length list": (400, fields(b"Content-Length: 2, 2")),
    "signed length": (400, fields(b"Content-Length: +2")),
    "length with underscore": (400, fields(b"Content-Length: 0_2")),
    "hexadecimal length": (400, fields(b"Content-Length: 0x2")),
    "empty length": (400, fields(b"Content-Length:")),
    "absurd length": (413, fields(b"Content-Length: " + b"9" * 30)),
    "unknown coding": (400, fields(b"Transfer-Encoding: gzip")),
    "coding list": (400, fields(b"Transfer-Encoding: chunked, identity")),
    "two codings": (400, fields(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked")),
    "x-chunked": (400, fields(b"Transfer-Encoding: xchunked")),
    "two hosts": (400, fields(b"Host: localhost")),
    "no host": (400, b"GET / HTTP/1.1\r\nAccept: a\r\n\r\n"),
    "two origins": (400, fields(b"Origin: http://a", b"origin: http://a")),
    "two authorizations": (400, fields(b"Authorization: a", b"Authorization: a")),
    "two content types": (400, fields(b"Content-Type: a", b"Content-Type: a")),
    "two session ids": (400, fields(b"Mcp-Session-Id: a", b"Mcp-Session-Id: b")),
    "two versions": (400, fields(b"MCP-Protocol-Version: a", b"mcp-protocol-version: a")),
    "two methods": (400, fields(b"Mcp-Method: a", b"Mcp-Method: b")),
    "two names": (400, fields(b"Mcp-Name: a", b"Mcp-Name: b")),
    "two parameters": (400, fields(b"Mcp-Param-X: a", b"Mcp-Param-X: b")),
    "two event ids": (400, fields(b"Last-Event-ID: a", b"Last-Event-ID: b")),
    "other expectation": (417, fields(b"Expect: tea")),
    "HTTP/1.0": (400, fields(start=b"GET / HTTP/1.0")),
    "HTTP/1.2": (400, fields(start=b"GET / HTTP/1.2")),
    "HTTP/2.0": (400, fields(start=b"GET / HTTP/2.0")),
    "HTTP/2 preface": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    "lower-case method": (400, fields(start=b"post /mcp HTTP/1.1")),
    "mixed-case method": (400, fields(start=b"Post /mcp HTTP/1.1")),
    "absolute form": (400, fields(start=b"GET http://localhost/mcp HTTP/1.1")),
    "authority form": (400, fields(start=b"CONNECT localhost:1 HTTP/1.1")),
    "asterisk form": (400, fields(start=b"OPTIONS * HTTP/1.1")),
    "two slashes": (400, fields(start=b"GET //evil.test/mcp HTTP/1.1")),
    "dot segment": (400, fields(start=b"GET /mcp/../x HTTP/1.1")),
    "dot segment at the end": (400, fields(start=b"GET /mcp/.. HTTP/1.1")),
    "single dot": (400, fields(start=b"GET /./mcp HTTP/1.1")),
    "encoded dots": (400, fields(start=b"GET /mcp/%2e%2E/x HTTP/1.1")),
    "encoded slash": (400, fields(start=b"GET /mcp%2fx HTTP/1.1")),
    "encoded backslash": (400, fields(start=b"GET /mcp%5Cx HTTP/1.1")),
    "backslash": (400, fields(start=b"GET /mcp\\x HTTP/1.1")),
    "fragment": (400, fields(start=b"GET /mcp#x HTTP/1.1")),
    "fragment in the query": (400, fields(start=b"GET /mcp?a#x HTTP/1.1")),
    "encoded control": (400, fields(start=b"GET /mcp%0d%0a HTTP/1.1")),
    "encoded NUL in the query": (400, fields(start=b"GET /mcp?%00 HTTP/1.1")),
    "broken escape": (400, fields(start=b"GET /mcp%g HTTP/1.1")),
    "control in the target": (400, fields(start=b"GET /mcp\x01 HTTP/1.1")),
    "tab in the target": (400, fields(start=b"GET /m\tcp HTTP/1.1")),
    "raw UTF-8 in the target": (400, fields(start="GET /ä HTTP/1.1".encode())),
    "two spaces": (400, fields(start=b"GET  / HTTP/1.1")),
    "space behind": (400, fields(start=b"GET / HTTP/1.1 ")),
    "bare LF lines": (400, b"GET / HTTP/1.1\nHost: localhost\n\n"),
    "one bare LF": (400, b"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n"),
    "bare CR": (400, fields(b"X: a\rb")),
    "CR CR LF": (400, fields(b"X: a\r")),
    "folded": (400, fields(b"X: a", b" b")),
    "folded by a tab": (400, fields(b"X: a", b"\tb")),
    "folded at the start": (400, b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    "NUL": (400, fields(b"X: a\0b")),
    "escape": (400, fields(b"X: a\x1bb")),
    "space before the colon": (400, fields(b"X : a")),
    "space in a name": (400, fields(b"X y: a")),
    "no name": (400, fields(b": a")),
    "no colon": (400, fields(b"Xa")),
    "leading blank line": (400, b"\r\n" + GOOD),
    "blank lines only": (400, b"\r\n\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "too many fields": (431, fields(*[b"X-%d: a" % n for n in range(100)])),
    "long target": (414, fields(start=b"GET /" + b"a" * MAX_TARGET_BYTES + b" HTTP/1.1")),
    "very long target": (414, fields(start=b"GET /" + b"a" * 40_000 + b" HTTP/1.1")),
    "large head": (431, fields(b"X: " + b"a" * MAX_HEAD_BYTES)),
    "endless head": (431, b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD_BYTES),
    "500 KB at once": (431, fields(b"X: " + b"a" * 500_000)),
    "5000 lines at once": (431, fields(*[b"X-%d: a" % n for n in range(5000)])),
}


@pytest.mark.covers("SEC-10", "M-09", "F-H-10")
@each_row("status, data", REFUSED.values())
def test_refused(status, data):
    assert whole(data) == status
    if len(data) < 60_000:
        assert trickled(data) == status


ACCEPTED = {
    "usual": GOOD,
    "no length": fields(start=b"GET /mcp HTTP/1.1"),
    "query": fields(start=b"GET /mcp?a=%2F..//x HTTP/1.1"),
    "escapes": fields(start=b"GET /mcp/caf%C3%A9 HTTP/1.1"),
    "dots in names": fields(start=b"GET /mcp/..a/b.. HTTP/1.1"),
    "chunked": fields(b"Transfer-Encoding: Chunked"),
    "expectation": fields(b"Expect: 100-Continue", b"Content-Length: 1"),
    "100 fields": fields(*[b"X-%d: a" % n for n in range(99)]),
    "target of 4 KiB": fields(start=b"GET /" + b"a" * 4095 + b" HTTP/1.1"),
    "head of 32 KiB": fields(b"X: " + b"a" * (MAX_HEAD_BYTES - len(fields(b"X: ")))),
    "latin-1": fields(b"X: \xe4"),
    "empty value": fields(b"X:"),
}


@pytest.mark.covers("SEC-10")
@pytest.mark.parametrize("data", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(data):
    assert whole(data) is None
    assert trickled(data) is None


def test_incomplete():
    for size in range(1, len(GOOD)):
        assert head_end(GOOD[:size]) == 0
    assert head_end(GOOD + b"\n more") == len(GOOD)


def test_what_a_head_says():
    head, length = read_head(
        b"POST /mcp/a?b=c?d HTTP/1.1\r\nHost: h:1\r\nAccept: x\r\naccept:  y \r\nContent-Length:7\r\n"
        b"Connection: Foo, Close\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (head.method, head.path, head.query, length) == ("POST", "/mcp/a", "b=c?d", 7)
    assert head.headers["accept"] == "x, y"
    assert (head.chunked, head.sized, head.close, head.expects_continue) == (False, True, True, True)


class Parser(HeadParser):
    """Notes what it has to read."""

    def __init__(self):
        self.read = []
        super().__init__(self._look)

    def _look(self, data):
        self.read.append(data)
        return read_head(data)


@pytest.mark.parametrize("code", [*range(1, 0x20), 0x7F])
def test_an_encoded_control_character_stays_encoded_in_a_query_and_is_none_of_a_path(code):
    head, _ = read_head(b"GET /mcp?a=%%%02x HTTP/1.1\r\nHost: localhost\r\n\r\n" % code)
    assert (head.path, head.query) == ("/mcp", f"a=%{code:02x}")
    with pytest.raises(HttpRefusal):
        read_head(b"GET /mcp%%%02x?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n" % code)


def test_memory_changes_nothing():
    parser = Parser()
    for length in (0, 1, 12, 999_999_999_999):
        for data in (
            fields(b"Content-Length: %d" % length),
            fields(b"content-length: %d" % length),
            fields(b"CONTENT-LENGTH: %d" % length),
            fields(b"Content-Length:%d" % length),
            fields(b"Content-Length: 00%d" % length),
        ):
            for _ in range(2):
                head, found = parser.parse(data)
                assert found == length
                assert head.method == "POST"
    assert len(parser.read) <= 14


def test_memory_does_not_hide_a_second_length():
    parser = HeadParser(read_head)
    parser.parse(fields(b"Content-Length: 5"))
    for data in (fields(b"Content-Length: 5", b"Content-Length: 5"), fields(b"Content-Length: 5", b"content-length:5")):
        with pytest.raises(HttpRefusal):
            parser.parse(data)


def test_memory_is_bounded():
    parser = Parser()
    heads = [fields(b"X: %d" % number) for number in range(1000)]
    for head in [*heads, *reversed(heads)]:
        parser.parse(head)
    known = 2 * len(heads) - len(parser.read)
    assert 0 < known <= HeadParser.LIMIT
    large = fields(b"X: " + b"a" * HeadParser.LARGEST)
    parser.parse(large)
    parser.parse(large)
    assert parser.read[-2:] == [large, large]


CHUNKED = {
    "one": (b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
    "several": (b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc"),
    "extension": (b"3;x=y\r\nabc\r\n0;z\r\n\r\n", b"abc"),
    "upper-case size": (b"A\r\n0123456789\r\n000\r\n\r\n", b"0123456789"),
    "empty": (b"0\r\n\r\n", b""),
    "long extension": (b"3;" + b"x" * 60_000 + b"\r\nabc\r\n0\r\n\r\n", b"abc"),
    "very long extension": (b"3;" + b"x" * 70_000 + b"\r\nabc\r\n0\r\n\r\n", 400),
    "bare LF at the end": (b"3\r\nabc\r\n0\r\n\n", 400),
    "bare LF behind a size": (b"3\nabc\r\n0\r\n\r\n", 400),
    "bare LF behind a chunk": (b"3\r\nabc\n0\r\n\r\n", 400),
    "missing line end": (b"3\r\nabc0\r\n\r\n", 400),
    "hexadecimal prefix": (b"0x3\r\nabc\r\n0\r\n\r\n", 400),
    "negative": (b"-3\r\nabc\r\n0\r\n\r\n", 400),
    "trailer": (b"0\r\nX: y\r\n\r\n", 400),
    "too large": (b"400\r\n" + b"a" * 1024 + b"\r\n0\r\n\r\n", 413),
    "absurd": (b"FFFFFFFFFFFF\r\n" + b"a" * 1024, 413),
    "absurder": (b"F" * 30 + b"\r\n" + b"a" * 1024, 400),
}


@pytest.mark.covers("SEC-10", "F-H-10")
@each_row("data, expected", CHUNKED.values())
@each_row("step", [1, 2, 3, 7, 5000, 1 << 20])
def test_chunked(data, expected, step):
    if len(data) > 10_000:
        step = max(step, 99)
    assert read_chunked(data + b"GET /next", step, 1000)[0] == expected


def read_chunked(data: bytes, step: int, limit: int) -> tuple[bytes | int | None, bytes]:
    body = ChunkedRequestBody(limit)
    for at in range(0, len(data), step):
        try:
            done = body.feed(data[at : at + step])
        except HttpRefusal as refusal:
            return refusal.status, b""
        if done:
            assert (done[1] + data[at + step :]).startswith(b"GET /next")
            return done
    return None, b""


@pytest.mark.covers("SEC-13")
@pytest.mark.parametrize("step", [5, 100, 1 << 16])
def test_crumbs(step):
    assert read_chunked(b"1\r\na\r\n" * 4000 + b"0\r\n\r\nGET /next", step, 1 << 20)[0] == b"a" * 4000
    assert read_chunked(b"1\r\na\r\n" * 5000, step, 1 << 20)[0] == 400
    assert (
        read_chunked(b"40\r\n%b\r\n" % (b"a" * 64) * 5000 + b"0\r\n\r\nGET /next", step, 1 << 20)[0] == b"a" * 320_000
    )
