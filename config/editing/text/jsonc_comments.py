"""Comments in JSON that belong to one member: they go when it goes. Pure.

A member that has its lines for itself owns the comments behind it, and those directly above it. It does not own

- a comment with an empty line below it,
- one on the line of what comes before: that is the neighbour's, or of the object as a whole,
- a member that is commented out,
- the heading of a group: where others have comments above them, too, one at the beginning of the object or below an
  empty line, if the next member has none.
"""

import re
from typing import Final

from config.loading.json_scanner import Member, Node, skip

_BEHIND = re.compile(r"(?:[ \t]++|/\*(?:[^*\n]|\*(?!/))*+\*/)*+(?://[^\r\n]*+)?")
"""Blanks and comments, up to the end of the line."""
_COMMENT = re.compile(r"//[^\r\n]*+|/\*.*?\*/", re.S)
_CODE: Final = re.compile(r'[\s/*]*(?:"[^"]*"\s*:|[{}\[\],]+\s*(?:\*/)?\s*$)')
"""The text of a comment that is a member, or a part of one, that was commented out."""


def own_text(text: str, node: Node, member: Member) -> tuple[int, int]:
    """The text of a member with its own comments; its comma is in it if there is one behind it on the same line."""
    at = node.members.index(member)
    before = _end_of_previous(text, node, at)
    end = _end_with_comments(text, member)
    if end is None or "\n" not in text[before : member.start]:
        return member.start, member.end
    return _start_with_comments(text, node, at, before), end


def _end_of_previous(text: str, node: Node, at: int) -> int:
    """The position behind the comma before a member, or behind the bracket that opens the object."""
    return node.start + 1 if at == 0 else skip(text, node.members[at - 1].end) + 1


def _end_with_comments(text: str, member: Member) -> int | None:
    """The end of a member, its comma, and the comments behind it; None: something else is on its last line."""
    comma = _behind(text, member.end)
    end = _behind(text, comma + 1) if text[comma : comma + 1] == "," else comma
    if text[end : end + 1] not in ("\n", "\r"):
        return None
    return member.end + len(text[member.end : end].rstrip(" \t"))


def _behind(text: str, at: int) -> int:
    found = _BEHIND.match(text, at)
    return found.end() if found else at


def _start_with_comments(text: str, node: Node, at: int, before: int) -> int:
    member = node.members[at]
    start = member.start
    comments = [found.span() for found in _COMMENT.finditer(text, before, member.start)]
    for first, last in reversed(comments):
        if "\n" not in text[before:first] or text.count("\n", last, start) > 1 or _CODE.match(text, first, last):
            break
        start = first
    return member.start if start != member.start and _is_heading(text, node, at, before, start) else start


def _is_heading(text: str, node: Node, at: int, before: int, start: int) -> bool:
    """True if the comments at `start` are rather about the members below them than about the first of these."""
    above = [_gap(text, node, number).partition("\n")[2] for number in range(len(node.members))]
    has_groups = any(number != at and _COMMENT.search(gap) for number, gap in enumerate(above))
    if not has_groups or at + 1 == len(node.members) or not (at == 0 or _ends_empty(text[before:start])):
        return False
    following = node.members[at + 1]
    behind = text[following.end : _end_with_comments(text, following) or following.end]
    return not (_COMMENT.search(above[at + 1]) or _COMMENT.search(behind) or "\n" in above[at + 1])


def _gap(text: str, node: Node, at: int) -> str:
    """The text between a member and the comma or bracket before it."""
    return text[_end_of_previous(text, node, at) : node.members[at].start]


def _ends_empty(gap: str) -> bool:
    """True if there is an empty line at the end."""
    return gap.rstrip(" \t").replace("\r", "").endswith("\n\n")
