"""HTTP/1.1 request heads and chunked bodies: checks on the raw bytes first, then h11.

h11 is the parser, but a lenient one: it takes bare LF, folded lines, Transfer-Encoding beside Content-Length, any
method case, any target. A request that can be read in two ways can be smuggled, so the bytes pass a gate before h11
sees them. A `RequestHead` has one reading only; it holds each name in `SINGLETONS` at most once; its target starts with
one "/" and holds no fragment, its path no dot segment, encoded slash or control character.

The verdict on a request never depends on how its bytes were cut into packets.
"""

import re
import sys
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import h11
from msgspec import Struct

MAX_HEAD_BYTES: Final = 32 << 10
MAX_FIELDS: Final = 100
MAX_TARGET_BYTES: Final = (8 << 10) + 256
"""Authorization codes of 4 KB come in a target."""
SINGLETONS: Final = frozenset(
    b"host origin authorization content-type content-length transfer-encoding expect last-event-id".split()
)
"""Header fields that may be given once only, as may every field named `mcp-...`."""

_START = re.compile(rb"([A-Z]{1,32}) (/[!-~]*) HTTP/1\.1")
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_BAD_PATH = re.compile(rb"//|[\\]|/\.{1,2}(?:/|\Z)|%(?:2[eEfF]|5[cC]|[01][0-9a-fA-F]|7[fF])")
_BAD_TARGET = re.compile(rb"#|%00|%(?![0-9a-fA-F]{2})")
"""Of an encoded control character in a query whoever reads the query decides: some authorization servers send line ends
in the description of an error."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (0|[1-9][0-9]{0,17})\r\n")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_TOO_LONG = re.compile(rb"[0-9]{19,}")


class HttpRefusal(Exception):
    """A refused request: status, and one sentence for its sender. The connection is not used again."""

    def __init__(self, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


class RequestHead(Struct, frozen=True):
    """A parsed request head. Shared between requests: never change `headers`."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """Lower-case names; repeated fields joined by a comma. The Content-Length may be that of another request."""
    chunked: bool
    sized: bool
    """True if a Content-Length was given."""
    close: bool
    """True if the sender wants the connection closed after the answer."""
    expects_continue: bool


def head_end(data: bytes, start: int = 0) -> int:
    """Find the end of the head at the beginning of `data`, blank line included; 0 while the head is incomplete.

    `start`: the length that earlier calls have searched, less 3 bytes. Raises HttpRefusal: 400, 414 or 431; no further
    bytes can make this a good head."""
    if not b"A" <= data[:1] <= b"Z":
        raise HttpRefusal(400, "Not an HTTP/1.1 request: it does not start with an upper-case method")
    at = data.find(b"\r\n\r\n", start)
    if 0 <= at <= MAX_HEAD_BYTES - 4:
        return at + 4
    seen = data[:MAX_HEAD_BYTES]
    _refuse_bare_lf(seen)
    if len(data) >= MAX_HEAD_BYTES:
        if b"\r\n" not in seen:
            raise HttpRefusal(414, f"The request target has more than {MAX_TARGET_BYTES} bytes")
        raise HttpRefusal(431, f"The request head has more than {MAX_HEAD_BYTES} bytes")
    return 0


AnyHead = TypeVar("AnyHead")


class HeadParser(Generic[AnyHead]):
    """Parses heads of requests or responses by `read`, and remembers the last few hundred.

    A peer repeats its head with every message, except for the length of the body (and, once a second, the date), and
    h11 takes half the time of a small request. A head's meaning is a function of its bytes, so known heads are not
    parsed again; the Content-Length is cut out before the look-up, if it is written in the usual form.
    """

    LIMIT: Final = 256
    LARGEST: Final = 2 << 10

    def __init__(self, read: Callable[[bytes], tuple[AnyHead, int]]) -> None:
        self._read = read
        self._known: dict[bytes, tuple[AnyHead, int]] = {}

    def parse(self, data: bytes) -> tuple[AnyHead, int]:
        """Parse the head that `data` is, cut at `head_end`; also return the Content-Length (0 if there is none).

        Raises: as `read`, which must refuse a second Content-Length.
        """
        length = None
        if found := _LENGTH.search(data):
            length = int(found[1])
            data = data[: found.start(1)] + b"0" + data[found.end(1) :]
        if (known := self._known.get(data)) is None:
            known = self._read(data)
            if len(data) <= self.LARGEST:
                if len(self._known) >= self.LIMIT:
                    self._known.clear()
                self._known[data] = known
        return known if length is None else (known[0], length)


def read_head(data: bytes) -> tuple[RequestHead, int]:
    """Parse the head of a request; also return its Content-Length (0 if there is none). Raises HttpRefusal: 400, 413,
    414, 417, 431."""
    _refuse_bare_lf(data)  # with the message of `head_end`, however the head was cut into packets
    if flaw := flaw_of(data):
        raise HttpRefusal(400, f"The request head is not accepted: {flaw}")
    start, *lines = data[:-4].split(b"\r\n")
    _check_start(start)
    if len(lines) > MAX_FIELDS:
        raise HttpRefusal(431, f"The request has more than {MAX_FIELDS} header fields")
    _check_fields(lines)
    parser = h11.Connection(h11.SERVER)
    try:
        parser.receive_data(data)
        request = parser.next_event()
    except h11.RemoteProtocolError as error:
        forget_frames(error)
        raise HttpRefusal(400, f"Not an HTTP/1.1 request: {error}") from None
    assert isinstance(request, h11.Request), "a complete head makes a request"
    headers = fields_of(request)
    expect = headers.get("expect", "100-continue")
    if expect.lower() != "100-continue":
        raise HttpRefusal(417, "The only expectation that can be met is 100-continue")
    path, _, query = request.target.decode("ascii").partition("?")
    head = RequestHead(
        method=request.method.decode("ascii"),
        path=path,
        query=query,
        headers=headers,
        chunked="transfer-encoding" in headers,
        sized="content-length" in headers,
        close=will_close(headers),
        expects_continue="expect" in headers,
    )
    return head, int(headers.get("content-length", 0))


def forget_frames(error: h11.RemoteProtocolError) -> None:
    """Cut a reference cycle: h11's frames hold the error they raise, and would keep body and connection alive."""
    error.__traceback__ = None


def fields_of(event: h11.Request | h11.Response) -> dict[str, str]:
    """Header fields by lower-case name; repeated fields joined by a comma. Names take memory once."""
    headers: dict[str, str] = {}
    for raw_name, value in event.headers:
        name, text = sys.intern(raw_name.decode("ascii")), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def will_close(headers: dict[str, str]) -> bool:
    """True if the sender announces the end of the connection."""
    return "close" in headers.get("connection", "").lower().replace(" ", "").split(",")


def flaw_of(data: bytes) -> str | None:
    """Describe the first thing in the lines of a head that could be read in two ways; None: there is none."""
    ends = data.count(b"\r\n")
    if data.count(b"\n") != ends or data.count(b"\r") != ends:
        return "a line does not end with CRLF"
    if b"\r\n " in data or b"\r\n\t" in data:
        return "a line is folded"
    return "it holds a control character" if _CONTROL.search(data) else None


def _refuse_bare_lf(data: bytes) -> None:
    if data.count(b"\n") != data.count(b"\r\n"):
        raise HttpRefusal(400, "Lines of a request head end with CRLF")


def _check_start(line: bytes) -> None:
    parts = line.split(b" ")
    if len(parts) > 1 and len(parts[1]) > MAX_TARGET_BYTES:
        raise HttpRefusal(414, f"The request target has more than {MAX_TARGET_BYTES} bytes")
    if (found := _START.fullmatch(line)) is None:
        if len(parts) == 3 and _VERSION.fullmatch(parts[2]) and parts[2] != b"HTTP/1.1":
            raise HttpRefusal(400, "Only HTTP/1.1 is spoken here")
        raise HttpRefusal(400, "The request line is an upper-case method, a target that starts with / and HTTP/1.1")
    target = found[2]
    if _BAD_TARGET.search(target) or _BAD_PATH.search(target.partition(b"?")[0]):
        raise HttpRefusal(400, "The request target holds a dot segment, an encoded slash, a fragment or a control")


def _check_fields(lines: list[bytes]) -> None:
    values: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon:
            raise HttpRefusal(400, "A header line has no colon")
        if name in values and (name in SINGLETONS or name.startswith(b"mcp-")):
            raise HttpRefusal(400, f"{name.decode('latin-1')} is given twice")
        values[name] = value.strip(b" \t")
    length, coding = values.get(b"content-length"), values.get(b"transfer-encoding")
    if length is not None and coding is not None:
        raise HttpRefusal(400, "Content-Length and Transfer-Encoding exclude each other")
    if length is not None and not _DIGITS.fullmatch(length):
        if _TOO_LONG.fullmatch(length):
            raise HttpRefusal(413, "The request body is too large")
        raise HttpRefusal(400, "Content-Length is a number")
    if coding is not None and coding.lower() != b"chunked":
        raise HttpRefusal(400, "The only transfer coding accepted is chunked")


class ChunkedRequestBody:
    """An incoming chunked body, parsed by h11.

    Trailers are refused, as are tiny chunks: 16 MiB in 1-byte chunks would cost minutes of CPU. h11 accepts a bare LF
    as the last line, so the end is checked here, too. h11's own limit, on incomplete input, would depend on packets.
    """

    _FREE_CHUNKS: Final = 4096
    _CRUMB_BYTES: Final = 64

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._limit_framing = (64 << 10) + limit_bytes // 8
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 30)
        self._parser.receive_data(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._parser.next_event()
        self._parts: list[bytes] = []
        self._chunks = 0
        self._tail = b""
        self._fed = 0
        self.size = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Add received bytes; return the body and the bytes after it once the body is complete. Raises HttpRefusal:
        400, 413."""
        self._parser.receive_data(data)
        self._fed += len(data)
        self._tail = self._tail[-4:] + data
        try:
            while (event := self._parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    self._take(event)
                elif isinstance(event, h11.EndOfMessage):
                    return self._finish(event)
        except h11.RemoteProtocolError as error:
            forget_frames(error)
            raise HttpRefusal(400, "The chunked body is malformed") from None
        self._check_framing(self._fed)
        return None

    def _take(self, event: h11.Data) -> None:
        self.size += len(event.data)
        if self.size > self._limit_bytes:
            raise HttpRefusal(413, f"The request body has more than {self._limit_bytes} bytes")
        self._chunks += event.chunk_end  # h11 forgets chunk_start when a size line comes alone
        if self._chunks > self._FREE_CHUNKS + self.size // self._CRUMB_BYTES:
            raise HttpRefusal(400, "The chunks of the body are too small")
        self._parts.append(bytes(event.data))

    def _check_framing(self, consumed: int) -> None:
        if consumed - self.size > self._limit_framing:
            raise HttpRefusal(400, "The chunked body is malformed")

    def _finish(self, event: h11.EndOfMessage) -> tuple[bytes, bytes]:
        rest = self._parser.trailing_data[0]
        self._check_framing(self._fed - len(rest))
        end = len(self._tail) - len(rest)
        if event.headers or self._tail[max(0, end - 4) : end] != b"\r\n\r\n":
            raise HttpRefusal(400, "The chunked body is malformed")
        return b"".join(self._parts), rest
