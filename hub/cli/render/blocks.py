"""Blocks of a screen: what commands show people. Sentences, texts with a style, and tables; `terminal` shows them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hub.wire.printable import printable

if TYPE_CHECKING:
    from rich.text import Text

STYLES: Final[Mapping[str, str]] = {
    **{"good": "green", "bad": "red", "warning": "yellow", "dim": "dim", "bold": "bold", "name": "cyan"}
}
"""The meanings of texts, and how each is drawn. Colour is never the only sign of anything."""
SHORT_CELLS: Final = 12
"""Columns that may be shortened keep at least this many cells while others can be dropped."""

Line: TypeAlias = "str | Text"
Cell: TypeAlias = "str | int | Text | None"


class Table(NamedTuple):
    """Columns as wide as they need to be, numbers to the right, empty cells as `-`; narrower where they have to be.

    Where the width is too little, columns of `shorten` lose their ends, but keep `least` cells; then columns of `drop`
    go, those first in which no row says anything, then the first one first; then all that is left is shortened, the
    widest first. A row never takes two lines, unless there are columns that `wrap`: then nothing is cut or left out,
    these columns become narrower one after the other, and cells go on below. Columns are named by their heads or their
    numbers."""

    heads: Sequence[str]
    """(): nothing is shown above the rows."""
    rows: Sequence[Sequence[Cell]]
    shorten: Sequence[str | int] = ()
    drop: Sequence[str | int] = ()
    wrap: Sequence[str | int] = ()
    least: int = SHORT_CELLS
    notes: Sequence[Sequence["str | Text"]] = ()
    """For each row, the lines to show below it."""
    indent: int = 0
    shows_heads: bool = True
    """False: the rows stand below others of the same table."""


Block: TypeAlias = "str | Text | Table"


def paint(text: str, style: str) -> "Text":
    """A text with one of `STYLES`, made safe for a terminal. `paint(a, "bad") + " and more"` is one, too."""
    from rich.text import Text

    return Text(printable(text, keep="\n\t"), STYLES[style])
