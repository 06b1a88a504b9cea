"""Texts of peers as a terminal may be given them. Light, since every command needs it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def printable(text: str, keep: str = "") -> str:
    """`text` with control characters escaped, but for those in `keep` (SEC-54)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """JSON that means the same as `text`, in which everything that is not plainly seen is escaped: what a terminal
    would obey, what turns the direction of writing, what has no width. Line ends between its tokens stay."""
    if text.isprintable():
        return text
    return "\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class Printable:
    """A text stream, to which everything is written as a terminal may be given it."""

    def __init__(self, stream: "TextIO") -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Line ends and tabs stay."""
        lines = text.split("\n")
        self._stream.write("\n".join(line if line.isprintable() else printable(line, keep="\t") for line in lines))
        return len(text)
