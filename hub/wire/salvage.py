"""Whose a message would have been that is not JSON: the ids of answers in it, found without reading all of it (F-P-10).

What a server writes wrong is nearly always within its result: NaN, a raw control character, a backslash of a path.
`id` stands before it or after it. So the simple members at both ends are looked at, and none that is within another:
up to the first that has a structure, and back to the last one. Two messages on one line are looked at one by one.
"""

import re
from itertools import pairwise
from typing import Final, NamedTuple

EDGE: Final = 1024
"""Bytes of each end of a message that are looked at."""
MOST: Final = 8
"""Messages of one line."""
MOST_LOOKS: Final = 64
"""At places where another message may begin."""

_NAME = rb'[ \t\r\n]*+"([^"\\]{1,64})"[ \t\r\n]*+:[ \t\r\n]*+'
_SIMPLE = rb'("(?:[^"\\]|\\.)*+"|[^][{}",: \t\r\n]++)[ \t\r\n]*+'
_FIRST: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+\{")
_MEMBER: Final = re.compile(_NAME + rb"(?:" + _SIMPLE + rb"(?=[,}]))?", re.S)
_LAST: Final = re.compile(rb"((?:," + _NAME + _SIMPLE + rb")++)\}[ \t\r\n]*+\Z", re.S)
_NUMBER: Final = re.compile(rb"-?[0-9]{1,16}")
_TEXT: Final = re.compile(rb'"([ !#-\[\]-~]{0,256})"')


class Salvaged(NamedTuple):
    """What can still be told of one message."""

    id: int | str | None
    is_request: bool
    is_answer: bool


def salvage(data: bytes) -> list[Salvaged]:
    """What can be told of the message in `data`, which is not JSON, or of each of several."""
    seams = [0, *_seams(data), len(data)]
    return [_salvage(data[start:end]) for start, end in pairwise(seams)]


def id_at_edges(begin: bytes, end: bytes) -> int | str | None:
    """The id of a message of which only both ends are at hand: it was too large to be kept."""
    found: dict[bytes, bytes] = {}
    if (first := _FIRST.match(begin)) is not None:
        _read_front(begin[first.end() :], found)
    _read_back(end, found)
    return _as_id(found.get(b"id", b""))


def _seams(data: bytes) -> list[int]:
    """Where in `data` further messages begin: each as the first does, and right behind a brace, as nothing within JSON
    can."""
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
    found: dict[bytes, bytes] = {}
    if (first := _FIRST.match(data)) is None:
        return Salvaged(None, is_request=False, is_answer=False)
    _read_front(data[first.end() : first.end() + EDGE], found)
    _read_back(data[-EDGE:], found)
    return Salvaged(
        _as_id(found.get(b"id", b"")),
        is_request=b"method" in found,
        is_answer=b"method" not in found and not found.keys().isdisjoint((b"result", b"error")),
    )


def _read_front(edge: bytes, found: dict[bytes, bytes]) -> None:
    """Members from the start up to one that has a structure, or is cut off, whose name is told as well."""
    at = 0
    while member := _MEMBER.match(edge, at):
        found[member[1]] = member[2] or b""
        if member[2] is None or edge[member.end() : member.end() + 1] != b",":
            return
        at = member.end() + 1


def _read_back(edge: bytes, found: dict[bytes, bytes]) -> None:
    """Members from the end up to one that has a structure, if a single brace follows them: so they are within none."""
    if last := _LAST.search(edge):
        for member in _MEMBER.finditer(last[1] + b"}"):
            found.setdefault(member[1], member[2] or b"")


def _as_id(value: bytes) -> int | str | None:
    """An id in plain writing, as all of the hub's own are."""
    if _NUMBER.fullmatch(value):
        return int(value)
    text = _TEXT.fullmatch(value)
    return text[1].decode() if text else None
