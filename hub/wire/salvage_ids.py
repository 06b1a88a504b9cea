"""Recover the ids in a line that is not JSON, so that requests waiting for these answers fail at once.

A server's mistake is nearly always inside its result: NaN, a raw control character, the backslash of a path. `id`
stands before or after the result. So only the simple members at both ends are read, none inside another: forwards to
the first structured member, and backwards to the last. Two messages on one line are read one by one.
"""

import re
from itertools import pairwise
from typing import Final, NamedTuple

EDGE: Final = 1024
"""Bytes read at each end of a message."""
MOST: Final = 8
"""Messages read in one line."""
MOST_MEMBERS: Final = 8
"""Members read at each end of a message; SDKs write only `id`, `jsonrpc` and `method` there."""
MOST_COMMAS: Final = 4
"""Commas tried as the beginning of a member at the end: a text may hold some."""
MOST_LOOKS: Final = 64
"""Places tried as the beginning of another message."""

_NAME = rb'[ \t\r\n]*+"([^"\\]{1,64})"[ \t\r\n]*+:[ \t\r\n]*+'
_SIMPLE = rb'("(?:[^"\\]|\\.)*+"|[^][{}",: \t\r\n]++)[ \t\r\n]*+'
_FIRST: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+\{")
_MEMBER: Final = re.compile(_NAME + rb"(?:" + _SIMPLE + rb"(?=[,}]))?", re.S)
_LAST: Final = re.compile(rb"," + _NAME + _SIMPLE, re.S)
_BLANK: Final = b" \t\r\n"
_NUMBER: Final = re.compile(rb"-?[0-9]{1,16}")
_TEXT: Final = re.compile(rb'"([ !#-\[\]-~]{0,256})"')


class Salvaged(NamedTuple):
    """The facts recovered from one message."""

    id: int | str | None
    is_request: bool
    is_answer: bool


def salvage(data: bytes) -> list[Salvaged]:
    """Recover the facts of each message in `data`, which is not JSON."""
    seams = [0, *_seams(data), len(data)]
    return [_salvage(data[start:end]) for start, end in pairwise(seams)]


def id_at_edges(begin: bytes, end: bytes) -> int | str | None:
    """The id of a message of which only both ends were kept."""
    return _as_id(_read_edges(begin, end).get(b"id", b""))


def _seams(data: bytes) -> list[int]:
    """Offsets in `data` of further messages: each begins as the first does, right behind a closing brace, which is
    possible nowhere inside JSON."""
    seams: list[int] = []
    head = data[: data.find(b":", 0, EDGE) + 1]
    if not head.startswith(b'{"'):
        return seams
    at = 0
    for _ in range(MOST_LOOKS):
        at = data.find(head, at + 1)
        if at < 0 or len(seams) >= MOST:
            break
        if data[max(0, at - EDGE) : at].rstrip().endswith(b"}"):
            seams.append(at)
    return seams


def _salvage(data: bytes) -> Salvaged:
    found = _read_edges(data, data[-EDGE:]) if _FIRST.match(data) else {}
    return Salvaged(
        _as_id(found.get(b"id", b"")),
        is_request=b"method" in found,
        is_answer=b"method" not in found and not found.keys().isdisjoint((b"result", b"error")),
    )


def _read_edges(begin: bytes, end: bytes) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    if (first := _FIRST.match(begin)) is not None:
        _read_front(begin[first.end() : first.end() + EDGE], found)
    _read_back(end, found)
    return found


def _read_front(edge: bytes, found: dict[bytes, bytes]) -> None:
    """Collect members from the start up to one that is structured or cut off, whose name is collected as well."""
    at = 0
    for _ in range(MOST_MEMBERS):
        if (member := _MEMBER.match(edge, at)) is None:
            return
        found[member[1]] = member[2] or b""
        if member[2] is None or edge[member.end() : member.end() + 1] != b",":
            return
        at = member.end() + 1


def _read_back(edge: bytes, found: dict[bytes, bytes]) -> None:
    """Collect members from the end back to a structured one, if a single brace follows: then they are not nested."""
    end = len(edge.rstrip(_BLANK)) - 1
    if edge[end : end + 1] != b"}":
        return
    for _ in range(MOST_MEMBERS):
        at, member = end, None
        for _ in range(MOST_COMMAS):
            at = edge.rfind(b",", 0, at)
            if at < 0 or (member := _LAST.fullmatch(edge, at, end)):
                break
        if member is None:
            return
        found.setdefault(member[1], member[2])
        end = at


def _as_id(value: bytes) -> int | str | None:
    """Parse an id written without escapes, as the hub writes all of its own."""
    if _NUMBER.fullmatch(value):
        return int(value)
    return text[1].decode() if (text := _TEXT.fullmatch(value)) else None
