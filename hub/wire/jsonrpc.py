"""JSON-RPC 2.0 as bytes: decode one message, encode one message, open and close objects one level at a time.

Only this module parses what a peer sent. A message that `decode` returned

- is strict UTF-8, at most `MAX_DEPTH` deep, and holds no CR or LF byte, so that it may be written to a newline-framed
  or SSE peer as it is: a `Raw` passed through untouched could otherwise hide a second message;
- holds only valid JSON without lone surrogates in each `Raw`. Node's `JSON.stringify` emits those for a cut emoji, and
  msgspec refuses the whole message; they become U+FFFD, as `String.prototype.toWellFormed` does;
- unless asked otherwise, has no member name twice in the envelope, in `params` or in `params._meta`: two parsers that
  pick different ones would see two different calls.

`Raw` keeps the whole received message alive: `detach` before storing one.
"""

from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from hub.wire import byte_checks, level_item_limit
from hub.wire.byte_checks import MAX_MEMBERS, READ_ERRORS, UnacceptableBytes, count_some, one_line, sanitize
from hub.wire.excerpt_and_read_large_results import LARGE_BYTES, look_at_result, read_tool_result, tells_error
from hub.wire.level_item_limit import FREE_BYTES, MAX_OPENED, has_too_many_members
from hub.wire.mcp import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from hub.wire.salvage_ids import Salvaged, salvage

MAX_ID_BYTES: Final = 256
MAX_ID: Final = 2**53
MAX_PARTS: Final = 256
"""Messages in one batch."""

RequestId = int | str
Wire = bytes | tuple[bytes | memoryview, ...]
"""A message to be sent: its bytes or, if it is large, the pieces that make it, so that they need not be joined."""


class Request(Struct, frozen=True):
    """A request on one hop. Its id means nothing on any other hop."""

    id: RequestId
    method: str
    params: dict[str, Raw]


class Notification(Struct, frozen=True):
    """A message that is never answered."""

    method: str
    params: dict[str, Raw]


class Result(Struct, frozen=True):
    """A successful answer; `value` is the JSON of the `result` member."""

    value: Raw
    is_plain: bool = False
    """It is surely the result of a tool, on one line, with nothing in it that hosts of any revision but the newest are
    to see otherwise (`hub.wire.excerpt_and_read_large_results`)."""
    says_error: bool | None = None
    """It says that the tool has failed, or does not; None: nobody has looked."""

    def tells_error(self) -> bool:
        """True if it says that the tool has failed."""
        return tells_error(self.value) if self.says_error is None else self.says_error


class PiecedResult(Result, frozen=True):
    """A result that the hub has in pieces, each on one line: joined for who opens it, and not to be sent."""

    pieces: tuple[bytes, ...] = ()

    @property  # type: ignore[misc]
    def value(self) -> Raw:
        return Raw(b"".join(self.pieces))


class Failure(Struct, frozen=True):
    """An error in an answer, a peer's or ours, as JSON-RPC writes it. A value, not an exception: it passes through."""

    code: int
    message: str
    data: Raw | UnsetType = UNSET

    def members(self) -> dict[str, Any]:
        """Its members, to be written into another object."""
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


Reply = Result | Failure


class Response(Struct, frozen=True):
    """A reply and the request it belongs to; `id` None: the sender could not tell which."""

    id: RequestId | None
    reply: Reply


Message = Request | Notification | Response


class RemoteProtocolError(Exception):
    """The peer broke the protocol. `failure` is the answer, if the peer can be answered at all.

    `id` is the id of the offending message, if it could be recovered; `outline` has the facts recovered from it,
    if that was tried.
    """

    outline: Salvaged | None = None

    def __init__(self, code: int, message: str, *, id: RequestId | None = None, data: Raw | UnsetType = UNSET) -> None:
        super().__init__(message)
        self.failure = Failure(code, message, data)
        self.id = id


# --- decoding -----------------------------------------------------------------------------------------------------


class _Envelope(Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _OpenedRequest(Struct):
    """A request or a notification whose params are opened in the same pass."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | UnsetType = UNSET
    params: dict[str, Raw] | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Outline(Struct):
    id: int | str | UnsetType | None = UNSET
    method: Raw | UnsetType = UNSET


_decode_opened = msgspec.json.Decoder(_OpenedRequest).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_outline = msgspec.json.Decoder(_Outline).decode
_decode_meta = level_item_limit.members_decoder("_meta").decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
_decode_str = msgspec.json.Decoder(str).decode
encode: Final = msgspec.json.Encoder().encode
"""Encodes any value as compact JSON. A str with a lone surrogate raises UnicodeEncodeError."""

_BOM = b"\xef\xbb\xbf"
EMPTY: Final = Raw(b"{}")
NULL: Final = Raw(b"null")


def decode(data: bytes, *, strict: bool = True) -> Message:
    """Decode the one message in `data` (no newline needed at its end).

    `strict` refuses duplicate member names. Upstreams are read without it: their messages are re-encoded, and some of
    them open their output with a byte order mark. Raises RemoteProtocolError: not JSON (-32700), not a JSON-RPC message
    or an id of a forbidden kind (-32600), params that are not an object (-32602). Its `id` is set whenever it could be
    read."""
    if not strict:
        data = data.removeprefix(_BOM)
        if len(data) > LARGE_BYTES and (found := read_tool_result(data)):
            return Response(found[0], Result(*found[1:]))
    try:
        data = sanitize(data)
        few = strict and (len(data) <= 5 * MAX_MEMBERS or count_some(data, b":", MAX_MEMBERS) <= MAX_MEMBERS)
        if few:
            try:
                opened = _decode_opened(data)
            except READ_ERRORS:
                pass  # a response, or an error that is found below
            else:
                if opened.result is UNSET and opened.error is UNSET:
                    known = None if isinstance(opened.id, UnsetType) else _sound_id(opened.id)
                    return _request(data, known, opened.method, opened.params, strict)
        try:
            envelope = _decode_envelope(data)
        except msgspec.DecodeError as error:
            data = _repair(data, error)
            envelope = _decode_envelope(data)
    except READ_ERRORS as error:
        raise _complaint(data, error) from None
    if envelope.method is UNSET:
        return _response(data, envelope, strict)
    known = None if isinstance(envelope.id, UnsetType) else _sound_id(envelope.id)
    if envelope.result is not UNSET or envelope.error is not UNSET:
        raise RemoteProtocolError(INVALID_REQUEST, "A message is a request or a response, not both", id=known)
    _refuse_too_many_members(data, envelope, known)
    try:
        params = UNSET if isinstance(envelope.params, UnsetType) else _decode_fields(envelope.params)
    except READ_ERRORS:
        raise RemoteProtocolError(INVALID_PARAMS, "params is a JSON object, if it is given", id=known) from None
    return _request(data, known, envelope.method, params, strict)


def _request(
    data: bytes, id: RequestId | None, method: str, params: dict[str, Raw] | UnsetType, strict: bool
) -> Request | Notification:
    if strict:
        _refuse_duplicates(data, method, params, id)
    fields = {} if isinstance(params, UnsetType) else params
    return Notification(method, fields) if id is None else Request(id, method, fields)


def _response(data: bytes, envelope: _Envelope, strict: bool) -> Response:
    id = envelope.id
    if isinstance(id, UnsetType) or (envelope.result is UNSET) == (envelope.error is UNSET):
        raise RemoteProtocolError(
            INVALID_REQUEST,
            "Not a JSON-RPC message: it needs a method, or an id with either a result or an error",
            id=_repeatable_id(id),
        )
    if strict:
        _refuse_too_many_members(data, envelope, _repeatable_id(id))
        if byte_checks.has_duplicates(data, _decode_fields(data)):
            raise RemoteProtocolError(INVALID_REQUEST, "A member of the message is given twice")
    if not isinstance(envelope.result, UnsetType):
        return Response(id, Result(envelope.result, *(() if strict else look_at_result(envelope.result))))
    try:
        return Response(id, _decode_failure(cast(Raw, envelope.error)))
    except READ_ERRORS:
        text = "An error has an integer code and a string message"
        raise RemoteProtocolError(INVALID_REQUEST, text, id=_repeatable_id(id)) from None


def split_batch(data: bytes) -> list[bytes]:
    """Split a JSON array into messages, each still to be decoded (2025-03-26 only). Raises RemoteProtocolError: not an
    array, or one that is empty or has more than `MAX_PARTS`."""
    decode_batch = level_item_limit.list_decoder(Raw, MAX_PARTS).decode
    try:
        data = sanitize(data)
        try:
            batch = decode_batch(data)
        except msgspec.DecodeError as error:
            batch = decode_batch(_repair(data, error))
        parts = [bytes(part) for part in structs.astuple(batch) if part]
    except READ_ERRORS as error:
        raise _complaint(data, error) from None
    if not parts:
        raise RemoteProtocolError(INVALID_REQUEST, "An empty batch is not a message")
    return parts


def is_batch(data: bytes) -> bool:
    """True if `data` starts like a JSON array."""
    return data.lstrip(b" \t\r\n")[:1] == b"["


def _repair(data: bytes, error: msgspec.DecodeError) -> bytes:
    """Replace the lone surrogates for which `data` was refused with `error`; raise `error` if there are none."""
    if isinstance(error, msgspec.ValidationError) or (repaired := byte_checks.well_formed(data)) == data:
        raise error
    return repaired


def _complaint(data: bytes, error: Exception) -> RemoteProtocolError:
    code, text = PARSE_ERROR, f"Not JSON: {error}"
    if isinstance(error, UnacceptableBytes):
        text = str(error)
    elif isinstance(error, msgspec.ValidationError):
        code, text = INVALID_REQUEST, f"Not a JSON-RPC message: {error}"
    outline = _outline(data)
    complaint = RemoteProtocolError(code, text, id=outline and outline.id)
    complaint.outline = outline
    return complaint


def recover_ids(data: bytes, error: RemoteProtocolError) -> list[Salvaged]:
    """Recover the ids of the requests and answers in `data`, which `decode` refused with `error`.

    With them, callers that wait for these answers can be told at once.
    """
    outline = error.outline or _outline(data)
    return salvage(data) if outline is None else [outline]


def _outline(data: bytes) -> Salvaged | None:
    """Recover the facts of a refused message, if it is JSON at least."""
    try:
        outline = _decode_outline(data)
    except READ_ERRORS:
        return None
    is_request = outline.method is not UNSET
    return Salvaged(_repeatable_id(outline.id), is_request=is_request, is_answer=not is_request)


def _repeatable_id(id: int | str | UnsetType | None) -> RequestId | None:
    """`id` if it may be repeated in an answer, else None."""
    try:
        return None if isinstance(id, UnsetType) else _sound_id(id)
    except RemoteProtocolError:
        return None


def _sound_id(id: int | str | None) -> RequestId:
    if isinstance(id, int):
        if -MAX_ID <= id <= MAX_ID:
            return id
        raise RemoteProtocolError(INVALID_REQUEST, "A numeric request id lies within ±2^53")
    if id is None:
        raise RemoteProtocolError(INVALID_REQUEST, "A request id is a string or an integer, never null")
    if len(id.encode()) > MAX_ID_BYTES:
        raise RemoteProtocolError(INVALID_REQUEST, f"A request id has at most {MAX_ID_BYTES} bytes")
    return id


# --- limits and duplicates --------------------------------------------------------------------------------------------


def _refuse_too_many_members(data: bytes, envelope: _Envelope, id: RequestId | None) -> None:
    """Refuse objects with too many members before they are opened, which takes 300 bytes for each member."""
    try:
        # too many small members show in the prefix already
        first, second, third = byte_checks.members(data[: level_item_limit.PREFIX_BYTES])
        if len(data) > level_item_limit.PREFIX_BYTES and max(first, second) <= MAX_MEMBERS:
            first, second, third = (0, 0, 0) if _is_bulk(data, envelope) else byte_checks.members(data)
    except UnacceptableBytes as error:
        raise RemoteProtocolError(INVALID_REQUEST, str(error), id=id) from None
    if first > MAX_MEMBERS:
        raise RemoteProtocolError(INVALID_REQUEST, f"The message has more than {MAX_MEMBERS} members", id=id)
    if isinstance(envelope.params, UnsetType):
        return
    if second > MAX_MEMBERS:
        raise RemoteProtocolError(INVALID_PARAMS, f"params has more than {MAX_MEMBERS} members", id=id)
    if third > MAX_MEMBERS and byte_checks.members(_meta(envelope.params))[0] > MAX_MEMBERS:
        raise RemoteProtocolError(INVALID_PARAMS, f"params._meta has more than {MAX_MEMBERS} members", id=id)


def _is_bulk(data: bytes, envelope: _Envelope) -> bool:
    """True if so little stands outside of members that may be large, such as arguments, that it cannot be too much."""
    if count_some(data, b":", MAX_MEMBERS) <= MAX_MEMBERS:
        return True
    value = envelope.result if isinstance(envelope.params, UnsetType) else envelope.params
    try:
        bulk = 0 if isinstance(value, UnsetType) else level_item_limit.bulk_bytes(value)
    except READ_ERRORS:  # no object
        return False
    return len(data) - bulk <= 5 * MAX_MEMBERS  # a member has five bytes: `"":0,`


def _meta(params: Raw) -> bytes:
    try:
        return bytes(_decode_meta(params)._meta)
    except READ_ERRORS:  # no object
        return b""


def _refuse_duplicates(data: bytes, method: str, params: dict[str, Raw] | UnsetType, id: RequestId | None) -> None:
    least = len('{"jsonrpc":"2.0","method":""}') + len(method)  # without whitespace, escapes or further members
    if id is not None:
        least += len(',"id":') + len(encode(id))
    if not isinstance(params, UnsetType):
        least += len(',"params":{}') + max(0, len(params) - 1)
        for name, value in params.items():
            least += len('"":') + len(name) + len(memoryview(value))
        if (meta := params.get("_meta")) is not None and byte_checks.has_duplicates(meta, peek_object(meta)):
            raise RemoteProtocolError(INVALID_PARAMS, "A member of params._meta is given twice", id=id)
    if len(data) == least:  # no room for a member that is given twice
        return
    opened = _decode_fields(data)
    if not isinstance(params, UnsetType) and byte_checks.has_duplicates(opened["params"], params):
        raise RemoteProtocolError(INVALID_PARAMS, "A member of params is given twice", id=id)
    if byte_checks.has_duplicates(data, opened):
        raise RemoteProtocolError(INVALID_REQUEST, "A member of the message is given twice")


# --- objects, one level at a time -----------------------------------------------------------------------------------


def open_object(raw: Raw | bytes) -> dict[str, Raw]:
    """The members of a JSON object, values unread. Raises RemoteProtocolError: -32602, `raw` is not an object, or has
    more than `MAX_OPENED` members."""
    try:
        if memoryview(raw).nbytes > FREE_BYTES and has_too_many_members(raw):
            raise RemoteProtocolError(INVALID_PARAMS, f"An object has more than {MAX_OPENED} members")
        return _decode_fields(raw)
    except READ_ERRORS:
        raise RemoteProtocolError(INVALID_PARAMS, "Expected a JSON object") from None


def read_object(text: str) -> Raw:
    """The JSON object in `text`, as if it had been a part of a message; its items are not many (`total_item_limit`).

    Raises: one of `READ_ERRORS`, when it is none.
    """
    data = sanitize(text.strip().encode())
    try:
        _decode_fields(data)
    except msgspec.DecodeError as error:
        data = _repair(data, error)
        _decode_fields(data)
    return Raw(data)


def peek_object(raw: Raw | bytes | None, *, counted: bool = False) -> dict[str, Raw]:
    """The members of a JSON object; empty for anything else, and if there are more than `MAX_OPENED`.

    `counted`: the caller has counted all items already (`hub.wire.total_item_limit`), so this limit does not apply.
    """
    if raw is None:
        return {}
    try:
        if not counted and memoryview(raw).nbytes > FREE_BYTES and has_too_many_members(raw):
            return {}
        return _decode_fields(raw)
    except READ_ERRORS:
        return {}


def peek_array(raw: Raw | bytes | None, *, counted: bool = False) -> list[Raw]:
    """The items of a JSON array; empty for anything else, and if there are more than `MAX_OPENED`.

    `counted`: as for `peek_object`.
    """
    if raw is None:
        return []
    try:
        if not counted and memoryview(raw).nbytes > FREE_BYTES and bytes(raw).count(b",") >= MAX_OPENED:
            items = level_item_limit.first_items(raw, MAX_OPENED + 1)
            return items if len(items) <= MAX_OPENED else []
        return _decode_array(raw)
    except READ_ERRORS:
        return []


def own_items(raw: Raw, name: str) -> list[Raw]:
    """All items of the array `name` in an object that the hub has written itself."""
    return _decode_array(_decode_fields(raw)[name])


def peek_str(raw: Raw | bytes | None) -> str | None:
    """A JSON string; None for anything else."""
    if raw is None:
        return None
    try:
        return _decode_str(raw)
    except READ_ERRORS:
        return None


def raw(value: Any) -> Raw:
    """Encode `value` as JSON."""
    return Raw(encode(value))


def detach(value: Raw) -> Raw:
    """Copy `value`, so that it does not keep its whole message alive."""
    return value.copy()


# --- encoding -------------------------------------------------------------------------------------------------------


def encode_request(id: RequestId, method: str, params: dict[str, Raw]) -> bytes:
    """Encode a request, without newline."""
    message = encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    return message if message.isascii() else one_line(message)


def encode_notification(method: str, params: dict[str, Raw]) -> bytes:
    """Encode a notification, without newline."""
    if not params:
        return one_line(b'{"jsonrpc":"2.0","method":%b}' % encode(method))
    return one_line(b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (encode(method), encode(params)))


def response_pieces(id: RequestId | None, reply: Reply) -> Wire:
    """A response, without newline; a large result is a piece of its own, and the bytes that came if it is plain.

    With `id` None the member is left out, as 2025-11-25 and later require.
    """
    head = b'{"jsonrpc":"2.0",' if id is None else b'{"jsonrpc":"2.0","id":%b,' % encode(id)
    if not isinstance(reply, Result):
        return one_line(b"".join((head, b'"error":', encode(reply), b"}")))
    if isinstance(reply, PiecedResult):
        pieces = (head + b'"result":', *reply.pieces, b"}")
        return pieces if sum(map(len, pieces)) > LARGE_BYTES else b"".join(pieces)
    if (value := memoryview(reply.value)).nbytes <= LARGE_BYTES:
        message = b"".join((head, b'"result":', value, b"}"))
        return message if reply.is_plain else one_line(message)
    return head + b'"result":', value if reply.is_plain else one_line(bytes(value)), b"}"


def encode_response(id: RequestId | None, reply: Reply) -> bytes:
    """Encode a response, without newline, as `response_pieces` does."""
    return join(response_pieces(id, reply))


def join(message: Wire) -> bytes:
    """The bytes of a message."""
    return message if isinstance(message, bytes) else b"".join(message)
