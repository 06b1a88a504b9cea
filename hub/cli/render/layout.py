"""Layout of blocks as lines of rich's: tables are fitted to the width, texts are wrapped. Loaded when something is
drawn."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich.cells import get_character_cell_size
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hub.cli.render.blocks import Block, Cell, Table, paint
from hub.wire.printable import printable

GAP: Final = 2
"""Cells between two columns."""
NOTE_INDENT: Final = 4
TINY_CELLS: Final = 3

Widths = dict[tuple[tuple[str, ...], int], list[int]]
"""Of the columns of tables that were drawn before, by their heads and the width of the screen."""


def lines_of(blocks: Iterable[Block], width: int, before: Widths | None = None) -> list[Text]:
    """The lines of blocks, none wider than `width` cells. `before`: tables in it keep their columns; it is filled."""
    drawn = (
        _table(block, width, before) if isinstance(block, Table) else _wrap(_text(block), width) for block in blocks
    )
    return [line for lines in drawn for line in lines]


@contextmanager
def draw_live(console: Console, width: Callable[[], int]) -> Iterator[Callable[[Sequence[Block]], None]]:
    """As `Screen.live_lines`. No thread of rich's draws, and print() is left alone. What has no room is cut here: rich
    would put its mark for that into the middle of a line as wide as the console."""
    before: Widths = {}

    def fit(blocks: Sequence[Block]) -> Group:
        lines, room = lines_of(blocks, width(), before), max(1, console.height - 1)
        cut = [*lines[: room - 1], paint(f"... {len(lines) - room + 1} more lines", "dim")]
        return Group(*(lines if len(lines) <= room else cut))

    with Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as live:
        yield lambda blocks: live.update(fit(blocks), refresh=True)


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(table: Table, width: int, before: Widths | None) -> list[Text]:
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    shown = [[paint(head, "bold") for head in table.heads], *rows] if table.heads else rows
    if not shown:
        return []
    natural = [max(cell.cell_len for cell in column) for column in zip(*shown, strict=True)]
    key = tuple(table.heads), width
    known = None if before is None or table.wrap else before.get(key)
    widths = _fit(table, natural, width) if known is None else _fit_again(table, natural, width, known)
    if before is not None and table.heads:
        before[key] = widths
    if not table.shows_heads:
        shown = rows
    right = [bool(rows) and all(_is_number(row[at]) for row in table.rows) for at in range(len(widths))]
    lines = [list(_row(table, row, widths, right)) for row in shown]
    notes = [*[()] * (len(shown) - len(rows)), *(table.notes or [()] * len(rows))]
    found = []
    for row_lines, row_notes in zip(lines, notes, strict=True):
        found += row_lines
        for note in row_notes:
            found += _wrap(_indent(_text(note), table.indent + NOTE_INDENT), width)
    return found


def _is_number(cell: Cell) -> bool:
    """True for numbers, estimates such as `~4 100`, and empty cells."""
    return isinstance(cell, int | None) or (isinstance(cell, str) and cell[:1] == "~" and cell[1:2].isdigit())


def _fit_again(table: Table, natural: list[int], width: int, before: list[int]) -> list[int]:
    """The widths of the columns that were drawn before: none comes or goes, and none becomes narrower but for those
    that may be shortened, where another one needs more room."""
    wider = [max(each, was) if was else 0 for each, was in zip(natural, before, strict=True)]
    free = width - table.indent - sum(wider) - GAP * (sum(map(bool, wider)) - 1)
    for least in (before, [TINY_CELLS] * len(before)):
        for column in table.shorten:
            at = column if isinstance(column, int) else table.heads.index(column)
            spare = max(0, min(-free, wider[at] - least[at]))
            wider[at], free = wider[at] - spare, free + spare
    return wider if free >= 0 else before


def _fit(table: Table, natural: list[int], width: int) -> list[int]:
    """The widths of columns; 0: it is left out."""
    shorten, drop, wrap = (
        [column if isinstance(column, int) else table.heads.index(column) for column in columns]
        for columns in (table.shorten, table.drop, table.wrap)
    )
    widths = [min(each, width) for each in natural]

    def excess() -> int:
        shown = [each for each in widths if each]
        return table.indent + sum(shown) + GAP * (len(shown) - 1) - width

    def shrink(columns: Sequence[int], least: int) -> None:
        """Shorten the widest of `columns`, cell by cell, until all fit or none is wider than `least`."""
        while (over := excess()) > 0:
            at = max(columns, key=lambda at: widths[at], default=None)
            if at is None or widths[at] <= least:
                return
            second = max((widths[other] for other in columns if other != at), default=0)
            widths[at] = max(least, widths[at] - over, min(second, widths[at] - 1))

    for column in wrap:
        shrink([column], min(table.least, natural[column]))
    shrink(shorten, table.least)
    for at in sorted(drop, key=lambda at: any(row[at] not in (None, "", 0) for row in table.rows)):
        if excess() <= 0:
            break
        widths[at] = 0
        for column in shorten:  # what one column leaves may be more than was missing
            widths[column] = min(natural[column], width) if widths[column] else 0
        shrink(shorten, table.least)
    shrink(range(len(widths)), TINY_CELLS)
    while excess() > 0 and not wrap:
        widths[max(at for at, each in enumerate(widths) if each)] = 0
    return widths


def _row(table: Table, row: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> Iterator[Text]:
    if not table.wrap:
        yield _line(table.indent, row, widths, right)
        return
    cells = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    for at in range(max(map(len, cells), default=0)):
        part = [cell[at] if at < len(cell) else Text() for cell in cells]
        yield _line(table.indent, part, widths, right)


def _line(indent: int, row: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> Text:
    cells = []
    for cell, width, to_the_right in zip(row, widths, right, strict=True):
        if width:
            cell.truncate(width, overflow="ellipsis")
            blank = Text(" " * (width - cell.cell_len))
            cells.append(blank + cell if to_the_right else cell + blank)
    line = Text(" " * indent) + Text(" " * GAP).join(cells)
    line.rstrip()
    return line


# --- texts ------------------------------------------------------------------------------------------------------------


def _cell(value: Cell) -> Text:
    if value is None or value == "":
        value = "-"
    return _text(str(value) if isinstance(value, int) else value, keep="").copy()


def _text(value: str | Text, keep: str = "\n\t") -> Text:
    """`value`, made safe for a terminal."""
    if isinstance(value, str):
        return Text(printable(value, keep))
    safe = printable(value.plain, keep)
    return value if safe == value.plain else Text(safe)


def _fold(text: Text, width: int) -> list[Text]:
    """`text` in lines of `width` cells: between words, but not within numbers such as `~2 000`; behind the parts of a
    path; and elsewhere only where nothing else is possible."""
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


def _indent(text: Text, cells: int) -> Text:
    return Text("\n").join(Text(" " * cells) + line for line in text.split("\n", allow_blank=True))


def _wrap(text: Text, width: int) -> list[Text]:
    """The lines of `text`; those too wide are wrapped, further in than they begin."""
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
