"""JSON-RPC as the shim reads and writes it. Pure. Without the json package, whose import costs as much as all of a
shim's start; its C scanner is a module of its own.

Short lines are parsed whole. Of long ones only the ends are read: they hold `id` and `method` whoever wrote them, since
`params` is the one large member.
"""

import _json

from hub.wire.vocabulary import CANCELLED, DRAINING, INTERNAL_ERROR, UPDATED, UPSTREAM_LOST, UPSTREAM_UNAVAILABLE

SMALL_BYTES = 256
"""Up to this length it is cheaper to parse a whole line than to look for its parts."""
EDGE = 512
"""The part of each end of a long line that is read."""
LARGE_BYTES = 1 << 20
"""A longer line whose ends say nothing stays unread."""
METHOD_FIRST, THEN_ID = b'{"method":"', b',"jsonrpc":"2.0","id":'
ID_FIRST, THEN_METHOD = b'{"jsonrpc":"2.0","id":', b',"method":"'
ID_EDGE = 64
"""The part of the end of a line in which an id is looked for first."""

Id = int | str


class _Plain:
    """The scanner's settings, those of `json.loads`."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = str


_scan = _json.make_scanner(_Plain)  # type: ignore[arg-type]
quoted = _json.encode_basestring_ascii
"""A string as JSON."""
UNREADABLE = (ValueError, SystemError, RecursionError, IndexError, StopIteration)
"""Exceptions of a line that cannot be read. The scanner looks for its class of errors in the json package; without that
it fails without an exception, which the interpreter makes a SystemError."""


def parse(line: bytes) -> object:
    """The JSON value of a line; None: it cannot be read."""
    try:
        text = line.decode().strip(" \t\r\n")
        value, end = _scan(text, 0)
    except UNREADABLE:
        return None
    return value if end == len(text) else None


def members(line: bytes) -> object:
    """The members of a message by name, or a list of messages; None: it cannot be read. Of a long line some members
    are missing, and those that are not simple values are None."""
    if (found := _usual(line)) is not None:
        return found
    if len(line) <= SMALL_BYTES:
        return parse(line)
    found = ends(line)
    if "id" in found or str(found.get("method")).startswith("notifications/"):
        return found
    return parse(line) if len(line) <= LARGE_BYTES else None


def members_of_ends(line: bytes) -> dict[str, object]:
    """The same of a line whose middle is left out, so that only its ends can be read."""
    return _usual(line) or ends(line)


def _usual(line: bytes) -> dict[str, object] | None:
    """Method and id of a request in one of the forms that the SDKs write, at a fifth of the cost of parsing; else None.

    {"method":"M", ... ,"jsonrpc":"2.0","id":N}
    {"jsonrpc":"2.0","id":N,"method":"M", ... }"""
    if line.startswith(METHOD_FIRST):
        method = line[len(METHOD_FIRST) : EDGE]
        _, both, id = line[-ID_EDGE:-2].rpartition(THEN_ID)
    elif line.startswith(ID_FIRST):
        id, both, method = line[len(ID_FIRST) : EDGE].partition(THEN_METHOD)
    else:
        return None
    name, quote, _ = method.partition(b'"')
    if not (both and quote and id.isdigit() and len(id) < 20) or b"\\" in name:
        return None
    return {"method": name.decode(errors="replace"), "id": int(id)}


def ends(line: bytes) -> dict[str, object]:
    """The simple members at both ends of an object with at most a blank between them."""
    found: dict[str, object] = {}
    try:
        _front(line[:EDGE].decode(errors="replace"), found)
        _back(line[-EDGE:].decode(errors="replace").rstrip("\r\n"), found)
    except UNREADABLE:  # cut within a value, or more white space
        pass
    return found


def _front(text: str, found: dict[str, object]) -> None:
    """Members from the start up to the first array or object, whose value is given as None."""
    at = 0
    while text[at] in "{,":
        at = _step(text, at, 1)
        if text[at] != '"':
            return
        name, at = _json.scanstring(text, at + 1, True)
        at = _step(text, at, 1)
        if text[at] in "{[":
            found[name] = None
            return
        if text[at] == '"' and text.find('"', at + 1) < 0:
            return  # a string that goes on beyond what is looked at
        value, at = _scan(text, at)
        if at == len(text):
            return  # which may have cut a number short
        found[name] = value


def _back(text: str, found: dict[str, object]) -> None:
    """Members from the end back to the last array or object.

    From the last brace on nothing is within a string. So the last quote before it closes a string, and the last one
    before that opens it, unless a backslash precedes; and so on backwards."""
    end = len(text) - 1
    while text[end] in "},":
        if text[end - 1] == '"':
            start = text.rindex('"', 0, end - 1)
            value: Id = text[start + 1 : end - 1]
        else:
            start = end
            while text[start - 1] in "-0123456789":
                start -= 1
            value = int(text[start:end])
        colon = _step(text, start, -1)
        opening = text.rindex('"', 0, colon - 1)
        name = text[opening + 1 : colon - 1]
        end = _step(text, opening, -1)
        if text[colon - 1 : colon + 1] != '":' or text[end] not in "{," or "\\" in f"{value}{name}":
            return
        found.setdefault(name, value)


def _step(text: str, at: int, by: int) -> int:
    """The next place in this direction, a blank left out."""
    return at + by * (2 if text[at + by] == " " else 1)


def first_id(data: bytes, at: int, end: int) -> tuple[Id | None, int]:
    """The id at `at` in bytes of the hub, and where it ends; None: it cannot be read."""
    stop = at
    try:
        if data[at] != 0x22:
            stop = data.find(b",", at, end)
            return int(data[at:stop]), stop
        stop = data.find(b'","', at + 1, end) + 1
        if stop > 0:  # else the line is cut within the id
            return _json.scanstring(data[at:stop].decode(), 1, True)[0], stop
    except UNREADABLE:
        pass
    return None, stop


def as_id(value: object) -> Id | None:
    """`value`, if it can be an id."""
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def as_object(value: object) -> dict[str, object]:
    """`value`, if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def params_of(line: bytes, message: dict[str, object]) -> dict[str, object]:
    """The params of a message; of a long line only some members were read."""
    return as_object(message.get("params") or as_object(parse(line)).get("params"))


# --- what a shim says itself ------------------------------------------------------------------------------------------


def json_of(id: Id) -> str:
    """An id as JSON."""
    return quoted(id) if isinstance(id, str) else str(id)


def notification(method: str, params: str = "") -> bytes:
    """A notification as a line; `params` are members as JSON."""
    params = params and f',"params":{{{params}}}'
    return f'{{"jsonrpc":"2.0","method":"{method}"{params}}}\n'.encode()


def resource_change(uri: str, more: str = "") -> bytes:
    """The line that says that a resource has changed."""
    return notification(UPDATED, f'"uri":{quoted(uri)}{more}')


def cancellation(id: Id) -> bytes:
    """The line that withdraws a question of a hub that is gone."""
    return notification(CANCELLED, f'"requestId":{json_of(id)},"reason":"The hub that asked is gone"')


_DIED = "The hub died while this request was running, and is being started again."
_SILENT = "The hub did not answer this request in time."
_STOPPED = "The hub was stopped before this request had ended."
_UNKNOWN = "It is not known whether it was carried out: find out before you repeat it."
_HARMLESS = "It changes nothing, so it can be repeated."


def loss(id: Id, *, harmless: bool, orderly: bool, silent: bool = False) -> bytes:
    """The error for a request whose hub is gone: `draining` if it was told to stop, `upstream_lost` if it died, or is
    `silent`. `harmless`: it may be repeated."""
    text = f"{_SILENT if silent else _STOPPED if orderly else _DIED} {_HARMLESS if harmless else _UNKNOWN}"
    return _error(id, text, DRAINING if orderly else UPSTREAM_LOST, executed="unknown", retryable=harmless)


def refusal(id: Id, why: str) -> bytes:
    """The error for a request of a host that the hub refuses, with the reason that it gave."""
    return _error(id, f"The hub refused this host: {why}", UPSTREAM_UNAVAILABLE, executed="no", retryable=False)


def _error(id: Id, text: str, kind: str, *, executed: str, retryable: bool) -> bytes:
    data = f'{{"hub":"{kind}","executed":"{executed}","retryable":{"true" if retryable else "false"}}}'
    error = f'{{"code":{INTERNAL_ERROR},"message":{quoted(text)},"data":{data}}}'
    return f'{{"jsonrpc":"2.0","id":{json_of(id)},"error":{error}}}\n'.encode()
