"""Hidden text: characters of a definition that a model reads and nobody sees. Pure.

    tag characters, but for flags of countries' parts      marks and orders of writing that override the text's own
    characters without width, but for joiners               several variation selectors in a row
    controls, but for tabs and line ends

Joiners (U+200C, U+200D) and single variation selectors stay: Persian, Hindi and emoji are written with them.

What a host has to send back as it is, such as the name of a tool or of a property, cannot be cleaned. A definition that
hides something there is left out.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import raw
from hub.wire.mcp import Kind, ListEntry

_FLAG: Final = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,6}\U000e007f"
_SELECTOR: Final = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
HIDDEN: Final = re.compile(
    f"(?P<flag>{_FLAG})|{_SELECTOR}{{2,}}|"
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u180e\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""A hidden character, several selectors, or a flag, which is none."""
_ESCAPE: Final = re.compile(rb"\\[ubf]")
_BOUND: Final = frozenset({"enum", "const", "required", "pattern", "$ref", "uri", "uriTemplate"})
"""Members whose texts are sent back, or compared with what is."""
_NAMED: Final = frozenset({Kind.TOOL, Kind.PROMPT})
"""Kinds of entries that are called by their `name`."""


class Cleaned(NamedTuple):
    """A definition without hidden text."""

    entry: ListEntry | None
    """None: it cannot be cleaned."""
    hidden: int
    """Hidden characters that it had."""


def count(text: str) -> int:
    """The number of hidden characters in a text."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(len(each[0]) for each in HIDDEN.finditer(text) if each["flag"] is None)


def strip(text: str) -> str:
    """A text without hidden characters."""
    while (left := HIDDEN.sub(lambda found: found["flag"] or "", text)) != text:
        text = left  # selectors may have come together
    return text


def clean(kind: Kind, entry: ListEntry) -> Cleaned:
    """An entry of a list without hidden text; the very same one, if it has none."""
    if not any(map(_may_hide, entry.fields.values())) and not count("".join(entry.fields)):
        return Cleaned(entry, 0)
    cleaning = _Cleaning(_BOUND | {"name"} if kind in _NAMED else _BOUND)
    try:
        whole = cleaning.of({name: msgspec.json.decode(value) for name, value in entry.fields.items()})
        fields = {name: raw(value) for name, value in whole.items()} if cleaning.hidden else entry.fields
    except (*READ_ERRORS, UnicodeEncodeError):  # numbers beyond all bounds, say: nobody can tell
        return Cleaned(None, 1)
    if not cleaning.hidden:
        return Cleaned(entry, 0)
    if cleaning.is_bound:
        return Cleaned(None, cleaning.hidden)
    changed = {name: value for name, value in fields.items() if _may_hide(entry.fields[name])}
    return Cleaned(ListEntry(entry.key, {**entry.fields, **changed}), cleaning.hidden)


def _may_hide(value: Raw) -> bool:
    """True if JSON may hold a hidden character; false for nearly all."""
    data = bytes(value)
    if data.isascii():
        return b"\x7f" in data or (b"\\" in data and _ESCAPE.search(data) is not None)
    return _ESCAPE.search(data) is not None or HIDDEN.search(data.decode(errors="replace")) is not None


class _Cleaning:
    """The cleaning of one definition."""

    def __init__(self, bound: frozenset[str]) -> None:
        self._bound = bound
        self.hidden = 0
        self.is_bound = False
        """True if something is hidden where nothing may be changed."""

    def of(self, value: Any, *, bound: bool = False) -> Any:
        """A value of JSON without hidden text; within a `bound` one nothing is changed."""
        if isinstance(value, str):
            if (hidden := count(value)) == 0:
                return value
            self.hidden += hidden
            self.is_bound |= bound
            return value if bound else strip(value)
        if isinstance(value, list):
            return [self.of(each, bound=bound) for each in value]
        if not isinstance(value, dict):
            return value
        for name in value:
            self.of(name, bound=True)
        return {
            name: self.of(each, bound=bound or (name in self._bound and not isinstance(each, dict)))
            for name, each in value.items()  # an object is a property of that name
        }
