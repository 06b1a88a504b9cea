"""What MCP puts into HTTP: server-sent events in and out, and values mirrored into headers.

Read in this order: events, values of headers, parameters mirrored by `x-mcp-header`. Bytes in, facts out; nothing here
knows a socket. What always holds: an event written here is one event to every reader (SEC-12); a header written here
is visible ASCII without line ends, so no argument of a tool can add a header (SEC-14).
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Raw, Struct

from hub.wire.jsonrpc import peek_array, peek_object, peek_str

# --- server-sent events -----------------------------------------------------------------------------------------------

KEEP_ALIVE: Final = b": \n\n"
"""A comment: keeps a stream alive and means nothing (T-19)."""
MAX_EVENT_BYTES: Final = 8 << 20
MIN_RETRY_MS: Final = 1000
_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True):
    """One event of a stream."""

    data: bytes
    event: str = "message"
    id: str | None = None
    """The id this event was given; None if it was given none."""
    retry_ms: int | None = None


class EventTooLong(Exception):
    """An event passed the limit before it was complete; the stream cannot be read on."""


class SseParser:
    """An incremental reader of `text/event-stream`, by the rules of the WHATWG: any line end, split anywhere.

    `last_event_id` is where to resume from, `retry_ms` how long the server wants us to wait before that; both hold
    for the stream and are also set by events without data, which are not returned.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id = ""
        self.retry_ms: int | None = None
        self._max_event_bytes = max_event_bytes
        self._partial = bytearray()
        self._at_start = True
        self._after_cr = False
        self._begin_event()

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that `data` completes.

        Raises:
            EventTooLong: once all events before the long one were returned; nothing more can be read.
        """
        data = self._with_lf_only(data)
        if self._at_start:
            data = self._without_bom(data)
        events: list[ServerEvent] = []
        try:
            if b"\n" in data:
                first, *lines = data.split(b"\n")
                data = lines.pop()
                self._take_line(bytes(self._partial) + first, events)
                self._partial.clear()
                for line in lines:
                    self._take_line(line, events)
            self._partial += data
            self._check(len(self._partial))
        except EventTooLong:
            if not events:
                raise
        return events

    def _with_lf_only(self, data: bytes) -> bytes:
        """`data` with every line end turned into LF. A CR ends a line at once; an LF right after it adds nothing."""
        if self._after_cr and data:
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _without_bom(self, data: bytes) -> bytes:
        start = bytes(self._partial) + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            return data
        self._at_start = False
        self._partial.clear()
        return start.removeprefix(_BOM)

    def _begin_event(self) -> None:
        self._data: list[bytes] = []
        self._event_bytes = 0
        self._event = "message"
        self._id: str | None = None
        self._retry_ms: int | None = None

    def _check(self, line_bytes: int) -> None:
        if self._event_bytes + line_bytes > self._max_event_bytes:
            self._event_bytes = self._max_event_bytes + 1
            raise EventTooLong

    def _take_line(self, line: bytes, events: list[ServerEvent]) -> None:
        self._check(len(line))
        if not line:
            if self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(ServerEvent(data, self._event, self._id, self._retry_ms))
            self._begin_event()
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._event_bytes += len(line)
        elif field == b"event":
            self._event = value.decode(errors="replace") or "message"
        elif field == b"id" and b"\0" not in value:
            self._id = self.last_event_id = value.decode(errors="replace")
        elif field == b"retry" and value.isdigit():
            self._retry_ms = self.retry_ms = max(MIN_RETRY_MS, int(value[:12]))


def encode_event(data: bytes, *, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """One event. `data` is one message of `hub.wire.jsonrpc`, or empty to give a stream its first id (T-30)."""
    assert b"\n" not in data, "an event holds a line end (SEC-12)"
    assert b"\r" not in data, "an event holds a line end (SEC-12)"
    head = b"event: message\n" if data else b""
    if id is not None:
        head += b"id: %b\n" % id.encode()
    if retry_ms is not None:
        head += b"retry: %d\n" % retry_ms
    return b"".join((head, b"data: ", data, b"\n\n"))


# --- values of headers ------------------------------------------------------------------------------------------------

_PREFIX, _SUFFIX = "=?base64?", "?="
_is_plain = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?", re.A).fullmatch
_is_field = re.compile(r"[\t -~]*", re.A).fullmatch
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.A).fullmatch


class InvalidHeader(ValueError):
    """A header value that cannot be decoded, or that contradicts the body."""


def encode_header(value: str) -> bytes:
    """`value` as the value of `Mcp-Name` or `Mcp-Param-*` (H-6)."""
    if _is_plain(value) and not _is_wrapped(value):
        return value.encode()
    return b"=?base64?" + b64encode(value.encode()) + b"?="


def decode_header(value: str) -> str:
    """The text of such a header, as it came off the wire.

    Raises:
        InvalidHeader: characters a header must not hold, or bad Base64 in the wrapper (H-7).
    """
    if not _is_field(value):
        raise InvalidHeader("it holds characters that belong into the Base64 form")
    if not _is_wrapped(value):
        return value
    coded = value[len(_PREFIX) : -len(_SUFFIX)].encode()
    try:
        plain = b64decode(coded, validate=True)
        text = plain.decode()
    except ValueError:
        raise InvalidHeader("its Base64 form is not Base64 of UTF-8") from None
    if b64encode(plain) != coded:
        raise InvalidHeader("its Base64 form is not canonical")
    return text


def _is_wrapped(value: str) -> bool:
    return value.startswith(_PREFIX) and value.endswith(_SUFFIX) and len(value) >= len(_PREFIX + _SUFFIX)


# --- parameters mirrored into headers ---------------------------------------------------------------------------------

X_MCP_HEADER: Final = "x-mcp-header"
_MIRRORED_TYPES = frozenset({"string", "integer", "boolean"})
_MAX_INTEGER = 2**53 - 1
_is_number = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.A).fullmatch
_ONE_SCHEMA = (
    *("not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"),
)
_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS_OF_SCHEMAS = ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")


class InvalidMirror(ValueError):
    """A tool that asks for headers in a way the revision forbids; it is left out of the list (C-19)."""


class Mirror(Struct, frozen=True):
    """One argument of a tool that its server wants to see in a header."""

    header: str
    """With `Mcp-Param-` before it."""
    path: tuple[str, ...]
    """Names of properties, from the root of the arguments."""


def mirrored(input_schema: Raw) -> tuple[Mirror, ...]:
    """The mirrors a tool's `inputSchema` asks for.

    Raises:
        InvalidMirror: H-10 is broken.
    """
    text = bytes(input_schema)
    if b"x-mcp-header" not in text and b"\\u00" not in text:
        return ()
    mirrors = tuple(_find(input_schema, ()))
    if len({mirror.header.lower() for mirror in mirrors}) != len(mirrors):
        raise InvalidMirror("two parameters ask for the same header")
    return mirrors


def _find(schema: Raw, path: tuple[str, ...] | None) -> Iterator[Mirror]:
    """The mirrors in a schema. `path` None: it is not reached by `properties` alone, so there may be none."""
    members = peek_object(schema)
    if X_MCP_HEADER in members:
        yield _mirror(members, path)
    for name, property in peek_object(members.get("properties")).items():
        yield from _find(property, None if path is None else (*path, name))
    for keyword in _ONE_SCHEMA:
        if keyword in members:
            yield from _find(members[keyword], None)
    for keyword in _LISTS_OF_SCHEMAS:
        for inner in peek_array(members.get(keyword)):
            yield from _find(inner, None)
    for keyword in _MAPS_OF_SCHEMAS:
        for inner in peek_object(members.get(keyword)).values():
            yield from _find(inner, None)


def _mirror(members: dict[str, Raw], path: tuple[str, ...] | None) -> Mirror:
    if not path:
        raise InvalidMirror("x-mcp-header stands where properties alone do not lead")
    name = peek_str(members[X_MCP_HEADER])
    if name is None or not _is_token(name):
        raise InvalidMirror(f"the x-mcp-header of {path[-1]!r} is not a header name")
    declared = members.get("type")
    types = {peek_str(declared), *map(peek_str, peek_array(declared))} - {None, "null"}
    if len(types) != 1 or not types <= _MIRRORED_TYPES:
        raise InvalidMirror(f"the x-mcp-header of {path[-1]!r} needs the type string, integer or boolean")
    return Mirror("Mcp-Param-" + name, path)


def mirror_headers(mirrors: Sequence[Mirror], arguments: Raw) -> list[tuple[str, bytes]]:
    """The headers for one call (H-9). An argument that is absent, null or of another type has none."""
    texts = ((mirror, _text(_value(mirror, arguments))) for mirror in mirrors)
    return [(mirror.header, encode_header(text)) for mirror, text in texts if text is not None]


def check_mirrors(mirrors: Sequence[Mirror], headers: Mapping[str, str], arguments: Raw) -> None:
    """Compare the headers of a call (lower-case names) with its arguments (H-11, H-12).

    Raises:
        InvalidHeader: one is missing, contradicts its argument, or cannot be decoded.
    """
    for mirror in mirrors:
        value = _value(mirror, arguments)
        wanted = _text(value)
        if wanted is None:
            continue
        found = headers.get(mirror.header.lower())
        if found is None:
            raise InvalidHeader(f"{mirror.header} is missing")
        text = decode_header(found)
        if text != wanted and (peek_str(value) is not None or _integer(text) != wanted):
            raise InvalidHeader(f"{mirror.header} differs from the argument")


def _value(mirror: Mirror, arguments: Raw) -> Raw | None:
    value: Raw | None = arguments
    for name in mirror.path:
        value = peek_object(value).get(name)
    return value


def _text(value: Raw | None) -> str | None:
    """A string, boolean or safe integer as a header says it; None for anything else."""
    if value is None:
        return None
    text = peek_str(value)
    if text is not None:
        return text
    text = bytes(value).decode()
    return text if text in ("true", "false") else _integer(text)


def _integer(text: str) -> str | None:
    """A JSON number with an integral, safe value, in decimal: `1`, `1.0` and `1e0` are one (H-12)."""
    number = float(text) if _is_number(text) else 0.5
    return str(int(number)) if number.is_integer() and abs(number) <= _MAX_INTEGER else None
