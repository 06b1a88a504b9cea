"""URIs inside results and arguments: which members hold them, and how they change on their way through.

A result is opened only where a cheap look at its bytes says that there may be a URI, and only the levels that lead to
it are written anew; everything else keeps its bytes. Text, `structuredContent`, blobs and schemas are never touched.
Arguments are not opened at all: tagged URIs are looked for in their bytes, and put right in place.

Whoever sends them chooses how many URIs there are and how much else, so all of it takes linear time, and there are
bounds on what costs more than a look at a byte. What is beyond them is refused: passed on as it is, it would name
things that nobody knows by these names.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Raw

from hub.wire.excerpt_and_read_large_results import excerpt
from hub.wire.jsonrpc import RemoteProtocolError, peek_array, peek_object, peek_str, raw
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.total_item_limit import SMALL_BYTES, TooManyItems, open_result, refuse_too_many_items

Change = Callable[[str], str]
"""A URI in, the same or another one out."""
_Rewrite = Callable[[Raw, Change], Raw]
"""Returns the very value it was given if nothing changed."""

LARGE_BYTES: Final = 1 << 20
"""To untag more than this takes so long that it is a matter for a thread: 0.2 s for 16 MiB, if there are escapes."""
MAX_TAGS: Final = 10_000
"""Most tagged URIs in the arguments of one call. Putting so many right takes 20 ms."""
MAX_LOOKALIKES: Final = 100_000
"""Most strings in one call's arguments that begin like a tag but may be none, as host names do. Checks take 40 ms."""
MAX_SPELLED_BYTES: Final = 1 << 20
"""Most bytes of tagged URIs with escapes in one call, since their ends are searched step by step."""
MAX_URIS: Final = 5_000
"""Most URIs in one large result. Looking up so many takes 40 ms."""

# Cheap looks at bytes, about 0.3 us per KB each. Letters of a name or value may be written as escapes.
_URI = re.compile(rb'"uri"').search
_ESCAPE = re.compile(rb"\\u00[2-7]").search
_ESCAPED_URI_KEYS = (rb'"\u0075', rb'"u\u0072', rb'"ur\u0069')

# How a string with a tag may begin: as far as it is plain or, where somebody writes letters so, up to an escape. Lower
# case stands for both.
_TAGS = (b'"hub.', b'"ui:')
_ESCAPED_TAGS = (rb'"h\u00', rb'"hu\u00', rb'"hub\u00', rb'"u\u00', rb'"ui\u00')
_ESCAPED_FIRST = (rb'"\u0068', rb'"\u0048', rb'"\u0075', rb'"\u0055')
_SID = rb"(?:[a-z0-9-]|\\u00(?:2d|3[0-9]|[46][1-9a-f]|[57][0-9a]))++"
_HUB_TAG = rb"(?:h|\\u00[46]8)(?:u|\\u00[57]5)(?:b|\\u00[46]2)(?:\.|\\u002e)" + _SID + rb"(?:\+|\\u002b)"
_UI_TAG = rb"(?:u|\\u00[57]5)(?:i|\\u00[46]9)(?::|\\u003a)(?:\\?/|\\u002f){2}" + _SID + rb"(?:~|\\u007e)"
_TAG_AT = re.compile(rb'"(?:' + _HUB_TAG + rb"|" + _UI_TAG + rb")").match
_STRING_AT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S).match
_BEFORE_VALUE = re.compile(rb"[ \t\r\n]*+:").match

UI_KEYS: Final = ("ui", "ui/resourceUri", "openai/outputTemplate")
"""Members of a tool's or result's `_meta` that name a user interface."""


def identity(uri: str) -> str:
    """The change that changes nothing: for endpoints of a single upstream."""
    return uri


# --- results ----------------------------------------------------------------------------------------------------------


def localise(value: Raw, emit: Change) -> Raw:
    """The result `value` of an operation with its URIs as hosts may see them.
    Raises: TooManyItems, if it is large, and has more URIs, or more around them, than the hub looks through."""
    if emit is identity:
        return value
    text = excerpt(value)
    if text.find(b'"uri"') < 0 and text.find(b'"_meta"') < 0 and (text.find(b"\\") < 0 or not _ESCAPE(text)):
        return value
    if memoryview(value).nbytes > SMALL_BYTES:
        _refuse_many_uris(open_result(value))
    return _object(value, emit, _RESULT)


def localise_meta(value: Raw, emit: Change) -> Raw:
    """The `_meta` of a list entry, likewise."""
    return _object(value, emit, _META)


def _refuse_many_uris(fields: Mapping[str, Raw]) -> None:
    """Raises: TooManyItems."""
    uris = 0
    for name in ("content", "contents", "messages"):
        if name not in fields:
            continue
        if _escapes_keys(fields[name]):
            raise TooManyItems(f"the {name} of a large result have members whose names are written with escapes")
        if found := bytes(fields[name]).count(b'"uri"'):
            refuse_too_many_items(fields[name], f"the {name} of a result")
            uris += found
    if uris > MAX_URIS:
        raise TooManyItems(f"a result has {uris} URIs; the hub looks up {MAX_URIS} of them at most")
    if memoryview(fields.get("_meta", b"")).nbytes > SMALL_BYTES:
        refuse_too_many_items(fields["_meta"], "the _meta of a result")


def _uri(value: Raw, change: Change) -> Raw:
    before = peek_str(value)
    if before is None:
        return value
    after = change(before)
    return value if after == before else raw(after)


def _object(value: Raw, change: Change, members: Mapping[str, _Rewrite]) -> Raw:
    fields = peek_object(value, counted=True)
    found = {name: rewrite(fields[name], change) for name, rewrite in members.items() if name in fields}
    if all(fields[name] is item for name, item in found.items()):
        return value
    return raw({**fields, **found})


def _each(value: Raw, change: Change, rewrite: _Rewrite) -> Raw:
    """An array with each of its items rewritten in which there may be a URI."""
    if not (_URI(value) or (_ESCAPE(value) and _escapes_keys(value))):
        return value
    items = peek_array(value, counted=True)
    may_hold: list[object] = list(map(_URI, items))
    if _escapes_keys(value):
        may_hold = [found or _escapes_keys(item) for found, item in zip(may_hold, items, strict=True)]
    changed = {at: rewrite(items[at], change) for at, found in enumerate(may_hold) if found}
    if all(items[at] is item for at, item in changed.items()):
        return value
    return raw([changed.get(at, item) for at, item in enumerate(items)])


def _content(value: Raw, change: Change) -> Raw:
    if not (_URI(value) or _ESCAPE(value)):
        return value
    return _each(value, change, _block) if memoryview(value)[0] == ord("[") else _block(value, change)


def _block(value: Raw, change: Change) -> Raw:
    members = _BLOCKS.get(peek_str(peek_object(value, counted=True).get("type")) or "")
    return value if members is None else _object(value, change, members)


def _members(members: Mapping[str, _Rewrite]) -> _Rewrite:
    return lambda value, change: _object(value, change, members)


def _array_of(members: Mapping[str, _Rewrite]) -> _Rewrite:
    return lambda value, change: _each(value, change, _members(members))


_META: Final[Mapping[str, _Rewrite]] = {"ui": _members({"resourceUri": _uri})} | dict.fromkeys(UI_KEYS[1:], _uri)
_BLOCKS: Final[Mapping[str, Mapping[str, _Rewrite]]] = {
    "resource_link": {"uri": _uri},
    "resource": {"resource": _members({"uri": _uri})},
}
_RESULT: Final[Mapping[str, _Rewrite]] = {
    "content": _content,
    "contents": _array_of({"uri": _uri}),
    "messages": _array_of({"content": _content}),
    "_meta": _members(_META),
}


def _escapes_keys(value: Raw) -> bool:
    """True if a member `uri` may be written with escapes. Most large payloads have no backslash, which is quickest to
    see."""
    data = bytes(value)
    return b"\\" in data and _ESCAPE(data) is not None and any(key in data for key in _ESCAPED_URI_KEYS)


# --- arguments --------------------------------------------------------------------------------------------------------


def untag_arguments(arguments: Raw, untagger: Callable[[], Change]) -> Raw:
    """Arguments in which each string that as a whole is a tagged URI is the original again. `untagger` makes the change
    of such a string; most arguments need none.
    Raises: RemoteProtocolError, -32602, if there are more of them than the hub looks up."""
    data = bytes(arguments)
    text = (data if len(data) <= SMALL_BYTES else excerpt(data)).lower()
    if text.find(b'"hub.') < 0 and text.find(b'"ui:') < 0 and text.find(b"\\u00") < 0:
        return arguments
    if (untag := untagger()) is identity:
        return arguments
    pieces: list[bytes] = []
    done, spelled = 0, 0
    for start in _tags_in(data.lower()):
        end = data.find(b'"', start + 1) + 1
        if data.find(b"\\", start, end) >= 0:
            found = _STRING_AT(data, start, start + 1 + MAX_SPELLED_BYTES - spelled)
            if found is None:
                raise _too_much(f"{MAX_SPELLED_BYTES} bytes of tagged URIs that are written with escapes")
            end = found.end()
            spelled += end - start
        if _BEFORE_VALUE(data, end):  # it is the name of a member
            continue
        before = peek_str(data[start:end]) or ""
        after = untag(before)
        if after != before:
            pieces += (data[done:start], raw(after))
            done = end
    return Raw(b"".join((*pieces, data[done:]))) if pieces else arguments


def _tags_in(folded: bytes) -> list[int]:
    """Offsets of the strings that begin with a tag, of whatever server, in JSON in lower case."""
    beginnings: tuple[bytes, ...] = _TAGS
    if folded.find(b"\\u00") >= 0:
        beginnings += _ESCAPED_TAGS
        if b'"\\u00' in folded:
            beginnings += _ESCAPED_FIRST
    found: list[int] = []
    alike = 0
    for beginning in beginnings:
        at = folded.find(beginning)
        while at >= 0:
            alike += 1
            if alike > MAX_LOOKALIKES:
                raise _too_much(f"{MAX_LOOKALIKES} strings that begin as tagged URIs do")
            # After a backslash it is a quote inside of a string.
            if _TAG_AT(folded, at) and folded[max(0, at - 1) : at] != b"\\":
                found.append(at)
            at = folded.find(beginning, at + 1)
    if len(found) > MAX_TAGS:
        raise _too_much(f"{MAX_TAGS} URIs with a tag of the hub")
    return sorted(found)


def _too_much(what: str) -> RemoteProtocolError:
    text = f"The arguments hold more than {what}, more than the hub puts right in one call; pass fewer at a time"
    return RemoteProtocolError(INVALID_PARAMS, text)
