"""Hidden text: characters of a definition that a model reads and nobody sees. Pure.

    controls, but for tabs and line ends
    what shows nothing (`INVISIBLE`), but for what people write with:
        joiners (U+200C, U+200D), two in a row, and U+FE0E or U+FE0F behind what is seen and not ASCII
        selectors of variants behind ideographs and Mongolian letters; keycaps; the flags of England, Scotland and Wales

What a host has to send back as it is, such as the name of a tool or of a property, cannot be cleaned. A definition that
hides something there is left out.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from hub.wire.byte_checks import READ_ERRORS
from hub.wire.jsonrpc import raw
from hub.wire.mcp import Kind
from hub.wire.printable import INVISIBLE
from hub.wire.upstream_snapshot import ListEntry

_SEEN: Final = f"(?<=[^\x00-\x9f{INVISIBLE}])"
_IDEOGRAPH: Final = "(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af])"
_FLAG: Final = "".join(
    f"|\U0001f3f4{''.join(chr(0xE0000 + ord(each)) for each in part)}\U000e007f" for part in ("gbeng", "gbsct", "gbwls")
)
HIDDEN: Final = re.compile(
    f"(?P<plain>{_SEEN}(?:[\ufe0e\ufe0f][\u200c\u200d]{{0,2}}|[\u200c\u200d]{{1,2}})|[#*0-9]\ufe0f\u20e3{_FLAG}"
    f"|{_IDEOGRAPH}[\ufe00-\ufe0f\U000e0100-\U000e01ef]|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f])"
    f"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{INVISIBLE}]"
)
"""A hidden character; or `plain` ones, which people write with."""
_ESCAPE: Final = re.compile(rb"\\[ubf]")
_BOUND: Final = frozenset({"enum", "const", "required", "pattern", "$ref", "uri", "uriTemplate"})
"""Members whose texts are sent back, or compared with what is."""
_NAMED: Final = frozenset({Kind.TOOL, Kind.PROMPT})
"""Kinds of entries that are called by their `name`."""


def count(text: str) -> int:
    """The number of hidden characters in a text."""
    if text.isascii() and text.isprintable():
        return 0
    return sum(len(each[0]) for each in HIDDEN.finditer(text) if each["plain"] is None)


def strip(text: str) -> str:
    """A text without hidden characters."""
    return HIDDEN.sub(lambda found: found["plain"] or "", text)


def clean(kind: Kind, entry: ListEntry) -> tuple[ListEntry | None, int]:
    """An entry of a list without hidden text, and the number of hidden characters that it had; the very same one, if it
    has none; None: it cannot be cleaned."""
    if not any(map(_may_hide, entry.fields.values())) and not count("".join(entry.fields)):
        return entry, 0
    cleaning = _Cleaning(_BOUND | {"name"} if kind in _NAMED else _BOUND)
    try:
        whole = cleaning.of({name: msgspec.json.decode(value) for name, value in entry.fields.items()})
        fields = {name: raw(value) for name, value in whole.items()} if cleaning.hidden else entry.fields
    except (*READ_ERRORS, UnicodeEncodeError):  # numbers beyond all bounds, say: nobody can tell
        return None, 1
    if cleaning.is_bound or not cleaning.hidden:
        return None if cleaning.is_bound else entry, cleaning.hidden
    changed = {name: value for name, value in fields.items() if _may_hide(entry.fields[name])}
    return ListEntry(entry.key, {**entry.fields, **changed}), cleaning.hidden


def _may_hide(value: Raw) -> bool:
    """True if JSON may hold a hidden character; false for nearly all."""
    data = bytes(value)
    if data.isascii():
        return b"\x7f" in data or (b"\\" in data and _ESCAPE.search(data) is not None)
    return _ESCAPE.search(data) is not None or count(data.decode(errors="replace")) > 0


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
