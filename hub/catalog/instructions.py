"""Instructions for the model: what a profile says, one line for each server, then what the servers say. Pure.

All in a text of bounded size, in which the lines are never cut before what servers say. Hosts that load tools when they
are needed search by little else.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from hub.catalog.token_cost import text_bytes
from hub.wire.mcp import Kind

MAX_INSTRUCTIONS: Final = 2000
"""Bytes in all: there are hosts that cut what is longer than 2 KiB."""
MAX_TITLE_CHARS: Final = 80
LEAST_TEXT: Final = 60
"""Bytes of a server's instructions without which its heading is left out, too."""
_MORE: Final = "# Further servers\n\nThere is no room here for what they say."
_FURTHER: Final = "and {} more servers"
_MAX_SENTENCE: Final = 500
LEAST_ABOUT: Final = 6
"""Bytes without which the line of a server says nothing of what it is about."""
_GAP: Final = "\n\n"
_ELLIPSIS: Final = " …"
_END: Final = re.compile(r"[.!?](?=\s)|(?=\n)")
"""Of a sentence or a line."""


class ServerWords(Struct, frozen=True):
    """The words about one server."""

    prefix: str
    """The beginning of the names of its tools, such as "github__*"; "": they have their own names."""
    name: str
    title: str
    """"": it has none."""
    offers: str
    """Its offer, counted, such as "38 tools"; "": nothing that is listed."""
    text: str
    """Its own instructions."""

    @property
    def about(self) -> str:
        """Its subject, on one line; "": nobody knows."""
        return self.title or one_line(_first_sentence(self.text)) or ("" if self.prefix else self.name)

    @property
    def heading(self) -> str:
        """The heading of its text: it tells a model whose tools that is about, even if two servers share a title."""
        title = self.title or self.name
        return f"{title} (tools: {self.prefix})" if self.prefix else title

    def line(self, about: str) -> str:
        """Its line among those of all servers."""
        who, what = (self.prefix, about) if self.prefix else (about or self.name, "")
        said = "; ".join(filter(None, (what, self.offers)))
        return f"{who}: {said}" if said else who


def offer_of(counts: Mapping[Kind, int]) -> str:
    """The offer of a server, counted: its tools, or else its prompts or its resources; "": none of these."""
    for kind in (Kind.TOOL, Kind.PROMPT, Kind.RESOURCE):
        if counts[kind]:
            return f"{counts[kind]} {kind.value if counts[kind] != 1 else kind.value.removesuffix('s')}"
    return ""


def instructions(own: str, servers: Sequence[ServerWords]) -> str:
    """The instructions of a view, in at most `MAX_INSTRUCTIONS` bytes: `own`, then lines, then texts of the servers."""
    own = cut(own.strip(), MAX_INSTRUCTIONS)
    room = MAX_INSTRUCTIONS - text_bytes(own) - (text_bytes(_GAP) if own else 0)
    lines = index(servers, room)
    room -= text_bytes(lines) + (text_bytes(_GAP) if lines else 0)
    sections = [(each.heading, text) for each in servers if (text := each.text.strip())]
    return _GAP.join(filter(None, (own, lines, join(sections, room))))


def index(servers: Sequence[ServerWords], room: int) -> str:
    """One line for each server, in at most `room` bytes: what each is about shares what is left beside the names."""
    bare = [text_bytes(each.line("")) for each in servers]
    room += 1  # no line break after the last
    left = room - sum(bare) - len(bare)
    if left >= 0:
        abouts = [each.about for each in servers]
        needs = [text_bytes(each.line(about)) - size for each, about, size in zip(servers, abouts, bare, strict=True)]
        missing = [need - most for need, most in zip(needs, shares(needs, left), strict=True)]
        shorter = [_shorten(about, text_bytes(about) - less) for about, less in zip(abouts, missing, strict=True)]
        return "\n".join(each.line(about) for each, about in zip(servers, shorter, strict=True))
    most = room - text_bytes(_FURTHER.format(len(servers)))
    shown = sum(size <= most for size in accumulate(size + 1 for size in bare))
    found = [each.line("") for each in servers[:shown]]
    further = _FURTHER.format(len(servers) - shown)
    return "\n".join([*found, further] if shown or text_bytes(further) < room else found)


def _shorten(about: str, room: int) -> str:
    """`about` in so many bytes; "" if that says too little."""
    if text_bytes(about) <= room:
        return about
    return cut(about, room) if room >= LEAST_ABOUT else ""


def _first_sentence(text: str) -> str:
    text = text.lstrip("# \t\n")[:_MAX_SENTENCE]
    end = _END.search(text)
    return (text if end is None else text[: end.end()]).rstrip(" .:\n")


def one_line(title: str) -> str:
    """A title from a server, bounded and fit for a heading."""
    clean = "".join(char if char.isprintable() else " " for char in title[: 4 * MAX_TITLE_CHARS])
    return " ".join(clean.split())[:MAX_TITLE_CHARS]


def join(sections: Sequence[tuple[str, str]], room: int = MAX_INSTRUCTIONS) -> str:
    """Instructions of several servers, each text below its heading, in at most `room` bytes. They share these fairly: a
    short text stays whole, and what it leaves is for those that are longer."""
    heads = [f"# {heading}{_GAP}" for heading, _ in sections]
    fixed = [len((head + _GAP).encode()) for head in heads]
    needs = [len(text.encode()) for _, text in sections]
    least = list(accumulate(size + min(need, LEAST_TEXT) for size, need in zip(fixed, needs, strict=True)))
    room, more = room + len(_GAP), []
    if least and least[-1] > room:
        room, more = room - len(_MORE + _GAP), [_MORE]
    count = sum(size <= room for size in least)
    if not count:
        return ""
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
