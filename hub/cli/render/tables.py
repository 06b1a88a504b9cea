"""Tables, durations and sizes as people read them. Pure.

Texts of cells may come from servers, so control characters are shown, not obeyed.
"""

from collections.abc import Sequence

from hub.wire.printable import printable

Row = Sequence[object]


def table(heads: Row, rows: Sequence[Row]) -> list[str]:
    """Columns as wide as they need to be, numbers to the right, empty cells as `-`."""
    cells = [[_cell(cell) for cell in row] for row in (*([heads] if heads else []), *rows)]
    if not cells:
        return []
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row[at], int | None) for row in rows) for at in range(len(widths))]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def duration(seconds: float) -> str:
    """`42 s`, `3 min`, `5 h`, `2 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def size(count: int) -> str:
    """`812 B`, `3.4 KiB`, `64 MiB`."""
    number, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if number < 1023.5:
            break
        number, unit = number / 1024, larger
    return f"{number:.1f}".removesuffix(".0") + f" {unit}" if number < 9.95 else f"{number:.0f} {unit}"


def about(count: int) -> str:
    """A number that is only an estimate, with two digits: `~13`, `~4 100`, `~91 000`."""
    digits = max(0, len(str(count)) - 2)
    return f"~{round(count, -digits):,}".replace(",", " ")


def times(number: int) -> str:
    """`once`, `3 times`."""
    return "once" if number == 1 else f"{number} times"


def shorten(text: str, width: int) -> str:
    """At most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"
