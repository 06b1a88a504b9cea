"""The screen: the one place that knows the width and the colours of a terminal.

    screen.show("a line", paint("bad news", "bad"), Table(heads, rows))
    with screen.live_lines() as live:
        live.update(["time: installing 3 s"])

Text given to it may come from servers: it is made safe here, and only this module's own colours reach the terminal.
On a terminal (or where COLUMNS is set) no line is wider than the screen: sentences are wrapped, with what follows
indented, tables drop and shorten columns. Elsewhere nothing is cut and nothing coloured. rich is imported when
something is drawn.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from hub.wire.printable import Printable, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

UNLIMITED: Final = sys.maxsize
"""The width where lines are not cut."""
LEAST_COLUMNS: Final = 20
"""A narrower terminal is taken for this wide: nothing is readable there."""
USUAL_COLUMNS: Final = 80
"""The width of a terminal that does not tell its own."""
COLOURS: Final = ("auto", "always", "never")
"""Values of `--color`."""
STYLES: Final[Mapping[str, str]] = {
    "good": "green",
    "bad": "red",
    "warning": "yellow",
    "dim": "dim",
    "bold": "bold",
    "name": "cyan",
}
"""The meanings of texts, and how each is drawn. Colour is never the only sign of anything."""
GAP: Final = 2
"""Cells between two columns."""
NOTE_INDENT: Final = 4
SHORT_CELLS: Final = 12
"""Columns that may be shortened keep at least this many cells while others can be dropped."""
TINY_CELLS: Final = 3

Block: TypeAlias = "str | Text | Table"
Cell: TypeAlias = "str | int | Text | None"


def paint(text: str, style: str) -> "Text":
    """A text with one of `STYLES`, made safe for a terminal. `paint(a, "bad") + " and more"` is one, too."""
    from rich.text import Text

    return Text(printable(text, keep="\n\t"), STYLES[style])


class Screen:
    """Standard output or error, as wide and as colourful as it is."""

    def __init__(
        self, stream: TextIO | None, *, width: int | None = UNLIMITED, colour: bool = False, live: bool = False
    ) -> None:
        """`width` None: that of the terminal, now and after each change."""
        self._stream = stream
        self._width = width
        self.colour = colour
        """Colours are shown."""
        self.live = live
        """Lines can be drawn again (`live_lines`)."""

    @classmethod
    def of(
        cls, stream: TextIO | None, environ: Mapping[str, str], colour: str = "auto", *, live: bool = True
    ) -> "Screen":
        """The screen behind `stream`. `colour` is one of COLOURS; "auto" means on a terminal, unless `NO_COLOR` is set
        or `TERM` is dumb. `live` False: no lines are drawn again, not even on a terminal."""
        if isinstance(stream, Printable):
            stream = stream.unescaped
        terminal = stream is not None and stream.isatty()
        able = terminal and environ.get("TERM") != "dumb"
        coloured = able and not environ.get("NO_COLOR") if colour == "auto" else colour == "always"
        columns = environ.get("COLUMNS", "")
        width = None if terminal else UNLIMITED
        if columns.isascii() and columns.isdigit() and len(columns) < 6 and int(columns):
            width = max(LEAST_COLUMNS, int(columns))
        return cls(stream, width=width, colour=coloured, live=able and live)

    @property
    def width(self) -> int:
        """Cells in a line; UNLIMITED if lines are not cut."""
        if self._width is not None or self._stream is None:
            return self._width or UNLIMITED
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns
        except OSError:
            columns = 0
        return max(LEAST_COLUMNS, columns) if columns else USUAL_COLUMNS

    def show(self, *blocks: Block) -> None:
        """Write blocks, each on lines of its own.

        Raises:
            OSError: the stream cannot be written.
        """
        if self._stream is not None and blocks:
            self._stream.write(self.render(*blocks))
            self._stream.flush()

    def render(self, *blocks: Block) -> str:
        """The text that `show` writes."""
        with self._console.capture() as captured:
            for line in self._lines(blocks):
                self._console.print(line, soft_wrap=True)
        return captured.get()

    @contextmanager
    def live_lines(self) -> Iterator["LiveLines"]:
        """Lines that can be drawn again, and are gone in the end. Where that is not possible nothing is shown: the
        caller shows in the end what came of it."""
        if not self.live:
            yield LiveLines(None)
            return
        from rich.console import Group
        from rich.live import Live

        # No thread of rich's draws, and print() is left alone.
        with Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as live:

            def draw(blocks: Sequence[Block]) -> None:
                live.update(Group(*self._lines(blocks)), refresh=True)

            yield LiveLines(draw)

    def _lines(self, blocks: Sequence[Block]) -> "list[Text]":
        width = self.width
        lines: list[Text] = []
        for block in blocks:
            lines += block.lines(width) if isinstance(block, Table) else _wrap(_text(block), width)
        return lines

    @cached_property
    def _console(self) -> "Console":
        from rich.console import Console

        return Console(
            file=self._stream,
            width=1 << 16,  # lines are given to it wrapped
            color_system="standard" if self.colour else None,
            force_terminal=self.colour or self.live,
            force_jupyter=False,
            no_color=False,
            markup=False,
            emoji=False,
            highlight=False,
        )


class LiveLines:
    """Lines of a screen that are drawn again with each `update`."""

    def __init__(self, draw: Callable[[Sequence[Block]], None] | None) -> None:
        self._draw = draw

    def update(self, blocks: Sequence[Block]) -> None:
        """Draw `blocks` in place of what was drawn before; of more lines than the terminal has, the first ones."""
        if self._draw is not None:
            self._draw(blocks)


# --- tables -----------------------------------------------------------------------------------------------------------


def _is_number(cell: Cell) -> bool:
    """True for numbers, estimates such as `~4 100`, and empty cells."""
    return isinstance(cell, int | None) or (isinstance(cell, str) and cell[:1] == "~" and cell[1:2].isdigit())


class Table:
    """Columns as wide as they need to be, numbers to the right, empty cells as `-`; narrower where they have to be.

    Where the width is too little, columns of `shorten` lose their ends, but keep `least` cells; then columns of `drop`
    go, those first in which no row says anything, then the first one first; then all that is left is shortened, the
    widest first. A row never takes two lines, unless there are columns that `wrap`: then nothing is cut or left out,
    these columns become narrower one after the other, and cells go on below.
    """

    def __init__(
        self,
        heads: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        *,
        shorten: Sequence[str | int] = (),
        drop: Sequence[str | int] = (),
        wrap: Sequence[str | int] = (),
        least: int = SHORT_CELLS,
        notes: Sequence[Sequence["str | Text"]] = (),
        indent: int = 0,
    ) -> None:
        """`heads` may be empty: then nothing is shown above the rows. Columns are named by their heads or their
        numbers. `notes`: for each row, the lines to show below it."""
        self._heads = heads
        self._rows = rows
        self._shorten = [self._at(column) for column in shorten]
        self._drop = [self._at(column) for column in drop]
        self._wrap = [self._at(column) for column in wrap]
        self._least = least
        self._notes = notes
        self._indent = indent

    def _at(self, column: str | int) -> int:
        return column if isinstance(column, int) else self._heads.index(column)

    def lines(self, width: int) -> "list[Text]":
        """The table's lines, none wider than `width` cells."""
        rows = [[_cell(cell) for cell in row] for row in self._rows]
        table = [[paint(head, "bold") for head in self._heads], *rows] if self._heads else rows
        if not table:
            return []
        widths = self._fit([max(cell.cell_len for cell in column) for column in zip(*table, strict=True)], width)
        right = [bool(rows) and all(_is_number(row[at]) for row in self._rows) for at in range(len(widths))]
        lines = [list(self._row(row, widths, right)) for row in table]
        heads = len(table) - len(rows)
        shown = [line for row in lines[: heads if self._notes else None] for line in row]
        for row, notes in zip(lines[heads:], self._notes, strict=True) if self._notes else ():
            shown += row
            for note in notes:
                shown += _wrap(_indent(_text(note), self._indent + NOTE_INDENT), width)
        return shown

    def _fit(self, natural: list[int], width: int) -> list[int]:
        """The widths of columns; 0: it is left out."""
        widths = [min(each, width) for each in natural]

        def excess() -> int:
            shown = [each for each in widths if each]
            return self._indent + sum(shown) + GAP * (len(shown) - 1) - width

        def shrink(columns: Sequence[int], least: int) -> None:
            """Shorten the widest of `columns`, cell by cell, until all fit or none is wider than `least`."""
            while (over := excess()) > 0:
                at = max(columns, key=lambda at: widths[at], default=None)
                if at is None or widths[at] <= least:
                    return
                second = max((widths[other] for other in columns if other != at), default=0)
                widths[at] = max(least, widths[at] - over, min(second, widths[at] - 1))

        for column in self._wrap:
            shrink([column], min(self._least, natural[column]))
        shrink(self._shorten, self._least)
        for at in sorted(self._drop, key=lambda at: any(row[at] not in (None, "", 0) for row in self._rows)):
            if excess() <= 0:
                break
            widths[at] = 0
            for column in self._shorten:  # what one column leaves may be more than was missing
                widths[column] = min(natural[column], width) if widths[column] else 0
            shrink(self._shorten, self._least)
        shrink(range(len(widths)), TINY_CELLS)
        while excess() > 0 and not self._wrap:
            widths[max(at for at, each in enumerate(widths) if each)] = 0
        return widths

    def _row(self, row: "Sequence[Text]", widths: Sequence[int], right: Sequence[bool]) -> "Iterator[Text]":
        from rich.text import Text

        if not self._wrap:
            yield self._line(row, widths, right)
            return
        cells = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells), default=0)):
            yield self._line([cell[at] if at < len(cell) else Text() for cell in cells], widths, right)

    def _line(self, row: "Sequence[Text]", widths: Sequence[int], right: Sequence[bool]) -> "Text":
        from rich.text import Text

        line = Text(" " * self._indent)
        behind = 0
        for cell, width, to_the_right in zip(row, widths, right, strict=True):
            if not width:
                continue
            cell.truncate(width, overflow="ellipsis")
            blank = " " * (width - cell.cell_len)
            line.append(" " * behind + (blank if to_the_right else ""))
            line.append_text(cell)
            line.append("" if to_the_right else blank)
            behind = GAP
        line.rstrip()
        return line


# --- texts ------------------------------------------------------------------------------------------------------------


def _cell(value: Cell) -> "Text":
    if value is None or value == "":
        value = "-"
    return _text(str(value) if isinstance(value, int) else value, keep="").copy()


def _text(value: "str | Text", keep: str = "\n\t") -> "Text":
    """`value`, made safe for a terminal."""
    from rich.text import Text

    if isinstance(value, str):
        return Text(printable(value, keep))
    safe = printable(value.plain, keep)
    return value if safe == value.plain else Text(safe)


def _fold(text: "Text", width: int) -> "list[Text]":
    """`text` in lines of `width` cells: between words, but not within numbers such as `~2 000`; behind the parts of a
    path; and elsewhere only where nothing else is possible."""
    from rich.cells import get_character_cell_size

    plain, breaks, begin, used, best = text.plain, [], 0, 0, 0
    for at, character in enumerate(plain):
        size = get_character_cell_size(character)
        if used + size > width and character != " ":
            end = best if best > begin else at
            breaks.append(end)
            begin, used = end, sum(map(get_character_cell_size, plain[end:at]))
        used += size
        is_within_number = plain[at - 1 : at].isdigit() and plain[at + 1 : at + 2].isdigit()
        if (character == " " and not is_within_number) or (character == "/" and at > begin + 1):
            best = at + 1
    lines = list(text.divide(breaks))
    for line in lines:
        line.rstrip()
    return lines


def _indent(text: "Text", cells: int) -> "Text":
    from rich.text import Text

    return Text("\n").join(Text(" " * cells) + line for line in text.split("\n", allow_blank=True))


def _wrap(text: "Text", width: int) -> "list[Text]":
    """The lines of `text`; those too wide are wrapped, further in than they begin."""
    from rich.text import Text

    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        line.expand_tabs(8)
        if line.cell_len <= width:
            lines.append(line)
            continue
        blank = len(line) - len(line.plain.lstrip(" "))
        indent = min(blank, width // 2)
        parts = line[blank:].wrap(_NO_CONSOLE, width - indent - GAP, overflow="fold")
        for at, part in enumerate(parts):
            part.rstrip()
            lines.append(Text(" " * (indent + GAP if at else indent)) + part)
    return lines


_NO_CONSOLE: Final[Any] = None
"""`Text.wrap` uses a console only to justify."""
