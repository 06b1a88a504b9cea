"""Text of peers made safe for a terminal. Imports next to nothing, since every command needs it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


def printable(text: str, keep: str = "") -> str:
    """Escape control characters and all else that is not printable, except characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""All that shows nothing but is no control, for a class of a regular expression: what Unicode lets programs ignore, the
blank of Braille, and marks of annotations."""


def visible(text: str) -> str:
    """Escape all that nobody sees: what `printable` escapes, and what counts as printable and shows nothing."""
    if text.isascii():
        return printable(text)
    return _replace_invisible(printable(text), lambda character: character.encode("unicode_escape").decode())


def _replace_invisible(text: str, replace: "Callable[[str], str]") -> str:
    import re  # not above: few texts need it

    return re.sub(f"[{INVISIBLE}]", lambda found: replace(found[0]), text)


def printable_json(text: str) -> str:
    """Escape all that nobody sees in the JSON `text`, without changing its meaning: terminal controls, changes of the
    direction of writing, characters without width. Line ends between tokens stay."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in text)
    return text if text.isascii() else _replace_invisible(text, _escape)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class Printable:
    """A text stream that escapes what is written to it."""

    def __init__(self, stream: "TextIO") -> None:
        self._stream = stream

    @property
    def unescaped(self) -> "TextIO":
        """The stream itself, for whoever makes texts safe before adding colours to them."""
        return self._stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text` with all but line ends and tabs escaped."""
        lines = text.split("\n")
        self._stream.write("\n".join(line if line.isprintable() else printable(line, keep="\t") for line in lines))
        return len(text)
