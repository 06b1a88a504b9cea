"""Texts of an entry, made of what a publisher fixed and what the user typed. Pure.

Only the user's own words may hold references: `${secret:NAME}` that a publisher wrote, or that comes together where a
publisher's text and an answer meet, is plain text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]*)\}")


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    typed: bool = False
    """True if it is the user's own."""


def names_in(template: str, known: Mapping[str, object]) -> list[str]:
    """The names in braces that are known, each once, in order."""
    return list(dict.fromkeys(name for name in _NAME.findall(template) if name in known))


def fill_template(template: str, piece_of: Callable[[str], Piece | None]) -> list[Piece]:
    """The pieces of a template. What is in braces stays if `piece_of` knows nothing of it."""
    pieces, end = [], 0
    for found in _NAME.finditer(template):
        piece = piece_of(found[1])
        if piece is None:
            continue
        pieces += [Piece(template[end : found.start()]), piece]
        end = found.end()
    return [*pieces, Piece(template[end:])]


def as_setting(pieces: Sequence[Piece]) -> str:
    """The text as a setting has it: each `${` that the user did not type as a whole is escaped."""
    text = "".join(piece.text for piece in pieces)
    if "${" not in text:
        return text
    live: set[int] = set()
    at = 0
    for piece in pieces:
        if piece.typed:
            live |= {at + found.start() for found in re.finditer(r"\$\{", piece.text)}
        at += len(piece.text)
    return re.sub(r"\$\{", lambda found: "${" if found.start() in live else "$${", text)


def literal_parts(template: str, known: Mapping[str, object]) -> list[tuple[str, str]]:
    """The template as pairs: a text, and the name behind it; the last name is ""."""
    parts, end = [], 0
    for found in _NAME.finditer(template):
        if found[1] in known:
            parts.append((template[end : found.start()], found[1]))
            end = found.end()
    return [*parts, (template[end:], "")]
