"""Instructions of several servers for the model, joined into one text of bounded size. Pure."""

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

MAX_INSTRUCTIONS: Final = 2000
"""Bytes in all: there are hosts that cut what is longer than 2 KiB."""
MAX_TITLE_CHARS: Final = 80
LEAST_TEXT: Final = 60
"""Bytes of a server's instructions without which its heading is left out, too."""
_MORE: Final = "# Further servers\n\nThere is no room here for what they say."
_GAP: Final = "\n\n"
_ELLIPSIS: Final = " …"
_END: Final = re.compile(r"[.!?](?=\s)|(?=\n)")
"""Of a sentence or a line."""


def heading(title: str, sid: str | None) -> str:
    """A heading that tells a model which tools a text is about, even if two servers share a title.

    `sid`: the server id that begins the names of its tools; None: they have their own names.
    """
    return title if sid is None else f"{title} (tools: {sid}__*)"


def one_line(title: str) -> str:
    """A title from a server, bounded and fit for a heading."""
    clean = "".join(char if char.isprintable() else " " for char in title[: 4 * MAX_TITLE_CHARS])
    return " ".join(clean.split())[:MAX_TITLE_CHARS]


def joined(sections: Sequence[tuple[str, str]]) -> str:
    """Instructions of several servers, each text below its heading, in at most `MAX_INSTRUCTIONS` bytes.

    They share these fairly: a short text stays whole, and what it leaves is for those that are longer.
    """
    heads = [f"# {heading}{_GAP}" for heading, _ in sections]
    fixed = [len((head + _GAP).encode()) for head in heads]
    needs = [len(text.encode()) for _, text in sections]
    least = list(accumulate(size + min(need, LEAST_TEXT) for size, need in zip(fixed, needs, strict=True)))
    room, more = MAX_INSTRUCTIONS + len(_GAP), []
    if least and least[-1] > room:
        room, more = room - len(_MORE + _GAP), [_MORE]
    count = sum(size <= room for size in least)
    rooms = shares(needs[:count], room - sum(fixed[:count]))
    parts = [head + cut(text, most) for head, (_, text), most in zip(heads, sections, rooms, strict=False)]
    return _GAP.join(parts + more)


def shares(needs: Sequence[int], whole: int) -> list[int]:
    """Shares of `whole`: each gets what it needs, or else as much as everybody else who needs more."""
    found = [0] * len(needs)
    for rank, at in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        found[at] = min(needs[at], whole // (len(needs) - rank))
        whole -= found[at]
    return found


def cut(text: str, room: int) -> str:
    """`text` in at most `room` bytes; what is left of it ends where a sentence or a line does, else a word."""
    data = text.encode()
    if len(data) <= room:
        return text
    start = data[: room - len(_ELLIPSIS.encode())].decode(errors="ignore")
    end = max((match.end() for match in _END.finditer(start)), default=0)
    if end < len(start) // 2:
        end = max(start.rfind(" "), end)
    return start[: end or len(start)].rstrip() + _ELLIPSIS
