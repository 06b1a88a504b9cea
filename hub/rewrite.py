"""URIs inside results and arguments: which members hold them (naming.md 4), and how they change on their way through.

A result is opened only where a cheap look at its bytes says that there may be a URI, and only the levels that lead to
it are written anew; everything else keeps its bytes. Text, `structuredContent`, blobs and schemas are never touched.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Raw

from hub.wire.jsonrpc import peek_array, peek_object, peek_str, raw

Change = Callable[[str], str]
"""A URI in, the same or another one out."""
_Rewrite = Callable[[Raw, Change], Raw]
"""Returns the very value it was given if nothing changed."""

# Cheap looks at bytes, about 0.3 us per KB each. Letters of a name or value may be written as escapes.
_URI = re.compile(rb'"uri"').search
_META_KEY = re.compile(rb'"_meta"').search
_TAG = re.compile(rb'"hub\.').search
_UI_TAG = re.compile(rb'"ui:').search
_ESCAPE = re.compile(rb"\\u00[2-7]").search

MAX_VALUES: Final = 10_000
"""Of arguments, that are looked at one by one."""
UI_KEYS: Final = ("ui", "ui/resourceUri", "openai/outputTemplate")
"""Members of a tool's or result's `_meta` that name a user interface."""


def unchanged(uri: str) -> str:
    """The change that changes nothing: for endpoints of a single upstream."""
    return uri


def localise(value: Raw, emit: Change) -> Raw:
    """The result `value` of an operation with its URIs as hosts may see them."""
    if emit is unchanged or not (_URI(value) or _META_KEY(value) or _escapes(value)):
        return value
    return _object(value, emit, _RESULT)


def localise_meta(value: Raw, emit: Change) -> Raw:
    """The `_meta` of a list entry, likewise."""
    return _object(value, emit, _META)


def untag_arguments(arguments: Raw, untag: Change) -> Raw:
    """Arguments in which each string that as a whole is a tagged URI is the original again (naming.md 5.6).

    They may be of any size, and it is a host's own loss if there is so much in them that not all is looked at.
    """
    if untag is unchanged or not _may_hold_tag(arguments):
        return arguments
    return _untagged(arguments, untag, iter(range(MAX_VALUES)))


def _untagged(value: Raw, untag: Change, left: Iterator[int]) -> Raw:
    """`value` with its URIs untagged, as far as there is anything `left`."""
    if next(left, None) is None or not _may_hold_tag(value):
        return value
    match bytes(value).lstrip()[:1]:
        case b"{":
            fields = peek_object(value)
            return _replaced(value, fields, {name: _untagged(item, untag, left) for name, item in fields.items()})
        case b"[":
            items = peek_array(value)
            changed = [_untagged(item, untag, left) for item in items]
            return value if all(map(_same, items, changed)) else raw(changed)
    return _uri(value, untag)


# --- the members, level by level -------------------------------------------------------------------------------------


def _uri(value: Raw, change: Change) -> Raw:
    before = peek_str(value)
    if before is None:
        return value
    after = change(before)
    return value if after == before else raw(after)


def _object(value: Raw, change: Change, members: Mapping[str, _Rewrite]) -> Raw:
    fields = peek_object(value)
    found = {name: rewrite(fields[name], change) for name, rewrite in members.items() if name in fields}
    return _replaced(value, fields, found)


def _replaced(value: Raw, fields: dict[str, Raw], changed: dict[str, Raw]) -> Raw:
    if all(fields[name] is item for name, item in changed.items()):
        return value
    return raw({**fields, **changed})


def _each(value: Raw, change: Change, rewrite: _Rewrite) -> Raw:
    items = peek_array(value)
    changed = [rewrite(item, change) for item in items]
    return value if all(map(_same, items, changed)) else raw(changed)


def _same(one: Raw, other: Raw) -> bool:
    return one is other


def _content(value: Raw, change: Change) -> Raw:
    """One content block, or an array of them."""
    if not (_URI(value) or _ESCAPE(value)):
        return value
    if bytes(value).startswith(b"["):
        return _each(value, change, _content)
    members = _BLOCKS.get(peek_str(peek_object(value).get("type")) or "")
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


def _may_hold_tag(value: Raw) -> bool:
    """Whether a string may begin with `hub.` or `ui:`, characters written as escapes included."""
    return bool(_TAG(value) or _UI_TAG(value) or _escapes(value))


def _escapes(value: Raw) -> bool:
    """Whether a letter is written as an escape. Most large payloads have no backslash, which is quickest to see."""
    return b"\\" in bytes(value) and _ESCAPE(value) is not None
