"""One HTTP/1.1 response head, and chunked bodies: raw checks first, then h11. Pure: bytes in, facts out.

The counterpart of `hub.wire.http.request_parser` for what upstreams answer, built from its pieces. h11 takes bare LF,
folded lines and a Content-Length beside a Transfer-Encoding; a connection on which two readings are possible is worth
nothing, so such answers are refused before h11 sees them.
"""

import re
from typing import Final, Literal

import h11
from msgspec import Struct

from hub.wire.http.request_parser import MAX_FIELDS, MAX_HEAD_BYTES, fields_of, flaw_of, forget_frames, will_close

_KEEP_ALIVE = re.compile(r"\btimeout=([0-9]{1,6})\b")
_CHUNKED_HEAD: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class MalformedResponse(Exception):
    """The server sent something that is not one HTTP/1.1 response. The connection must not be used again."""


class ResponseHead(Struct, frozen=True):
    """A response head. Shared between responses: never change `headers`."""

    status: int
    headers: dict[str, str]
    """Lower-case names; repeated fields joined by a comma."""
    framing: Literal["sized", "chunked", "until_close"]
    reusable: bool
    """The connection may carry another request afterwards."""
    keep_alive_s: int | None
    """Time that the server says it keeps an idle connection (`Keep-Alive: timeout=`)."""


def head_end(data: bytes) -> int:
    """The end of the head at the beginning of `data`, blank line included; 0 while it is incomplete. Raises
    MalformedResponse: it never will be a good head."""
    at = data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES)
    if at >= 0:
        return at + 4
    if not (data.startswith(b"HTTP/1.") or b"HTTP/1.".startswith(data)):
        raise MalformedResponse("what it sent is not HTTP/1.1")
    if len(data) >= MAX_HEAD_BYTES:
        raise MalformedResponse(f"its response head has more than {MAX_HEAD_BYTES} bytes")
    if data.count(b"\n") != data.count(b"\r\n"):
        raise MalformedResponse("a line of its response head does not end with CRLF")
    return 0


def is_informational(data: bytes) -> bool:
    """True if the head in `data` is a 1xx, after which another head follows."""
    return data[8:10] == b" 1"


def read_response(data: bytes) -> tuple[ResponseHead, int]:
    """The head of a response, for `HeadParser`, and its Content-Length (0 if there is none). Raises MalformedResponse:
    not a response, or one with two readings."""
    _check_raw(data)
    parser = h11.Connection(h11.CLIENT)
    try:
        parser.receive_data(data)
        response = parser.next_event()
    except h11.RemoteProtocolError as error:
        forget_frames(error)
        raise MalformedResponse(f"its answer is not HTTP/1.1: {error}") from None
    if not isinstance(response, h11.Response):
        raise MalformedResponse("its answer is not HTTP/1.1")
    headers = fields_of(response)
    if "transfer-encoding" in headers and "content-length" in headers:
        raise MalformedResponse("its answer has both a Content-Length and a Transfer-Encoding")
    framing: Literal["sized", "chunked", "until_close"] = "until_close"
    if response.status_code in (204, 304) or "content-length" in headers:
        framing = "sized"
    elif "transfer-encoding" in headers:
        framing = "chunked"
    kept = _KEEP_ALIVE.search(headers.get("keep-alive", "").lower())
    head = ResponseHead(
        status=response.status_code,
        headers=headers,
        framing=framing,
        reusable=framing != "until_close" and response.http_version == b"1.1" and not will_close(headers),
        keep_alive_s=int(kept[1]) if kept else None,
    )
    return head, int(headers.get("content-length", 0))


def _check_raw(data: bytes) -> None:
    """The gate before h11."""
    if flaw := flaw_of(data):
        raise MalformedResponse(f"in its response head {flaw}")
    if data.count(b"\r\n") > MAX_FIELDS + 2:
        raise MalformedResponse(f"its response head has more than {MAX_FIELDS} fields")
    if data.lower().count(b"\r\ncontent-length:") > 1:
        raise MalformedResponse("its response head gives Content-Length twice")


class ResponseChunks:
    """A chunked body on its way in, read by h11.

    A body in crumbs is refused: 8 MiB in chunks of one byte would cost minutes of CPU.
    """

    _FREE_CHUNKS: Final = 256
    _CRUMB_BYTES: Final = 16

    def __init__(self) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._parser.receive_data(_CHUNKED_HEAD)
        self._parser.next_event()
        self.complete = False

    def feed(self, data: bytes) -> bytes:
        """Decode `data`, not empty, to bytes of the body. Sets `complete` at its end. Raises MalformedResponse: bad
        framing, or something behind the end."""
        self._parser.receive_data(data)
        parts: list[bytes] = []
        chunks = 0
        try:
            while (event := self._parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Data):
                    parts.append(event.data)
                    chunks += 1
                    if chunks > self._FREE_CHUNKS + len(data) // self._CRUMB_BYTES:
                        raise MalformedResponse("the chunks of its answer are too small")
                else:
                    self.complete = True
                    break
        except h11.RemoteProtocolError as error:
            forget_frames(error)
            raise MalformedResponse(f"the chunks of its answer are malformed: {error}") from None
        if self.complete and self._parser.trailing_data[0]:
            raise MalformedResponse("it sent more than one answer to one request")
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
