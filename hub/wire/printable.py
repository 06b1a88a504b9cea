"""Text of peers made safe for a terminal. Imports next to nothing, since every command needs it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def printable(text: str, keep: str = "") -> str:
    """Escape control characters and all else that is not printable, except characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")


def _is_seen(character: str) -> bool:
    """True if a character is printable, and no such one that shows nothing."""
    is_selector = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return character.isprintable() and character not in _UNSEEN and not is_selector


def visible(text: str) -> str:
    """Escape all that nobody sees: what `printable` escapes, and what counts as printable and shows nothing."""
    if text.isascii():
        return printable(text)
    return "".join(c if _is_seen(c) else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """Escape all that is not printable in the JSON `text`, without changing its meaning: terminal controls, changes of
    the direction of writing, characters without width. Line ends between tokens stay."""
    if text.isprintable():
        return text
    return "\n".join(line if line.isprintable() else "".join(map(_escape, line)) for line in text.split("\n"))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
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
