"""The screen: the one place that knows the width and the colours of a terminal.

    screen.show("a line", paint("bad news", "bad"), Table(heads, rows))
    with screen.live_lines() as redraw:
        redraw(["time: installing 3 s"])

Text given to it may come from servers: it is made safe here, and only this module's own colours reach the terminal.
On a terminal (or where COLUMNS is set) no line is wider than the screen: sentences are wrapped, with what follows
indented, tables drop and shorten columns. Elsewhere nothing is cut and nothing coloured. rich, and `layout`, which
is made of it, are imported when something is drawn.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, TextIO

from hub.cli.render.blocks import Block
from hub.wire.printable import Printable

if TYPE_CHECKING:
    from rich.console import Console

    from hub.cli.render.layout import Widths

UNLIMITED: Final = sys.maxsize
"""The width where lines are not cut."""
LEAST_COLUMNS: Final = 20
"""A narrower terminal is taken for this wide: nothing is readable there."""
USUAL_COLUMNS: Final = 80
"""The width of a terminal that does not tell its own."""
COLOURS: Final = ("auto", "always", "never")
"""Values of `--color`."""


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

    def show(self, *blocks: Block, before: "Widths | None" = None) -> None:
        """Write blocks, each on lines of its own. `before`: as for `lines_of`. Raises OSError: the stream cannot be
        written."""
        if self._stream is not None and blocks:
            self._stream.write(self.render(*blocks, before=before))
            self._stream.flush()

    def render(self, *blocks: Block, before: "Widths | None" = None) -> str:
        """The text that `show` writes."""
        from hub.cli.render.layout import lines_of

        with self._console.capture() as captured:
            for line in lines_of(blocks, self.width, before):
                self._console.print(line, soft_wrap=True)
        return captured.get()

    @contextmanager
    def live_lines(self) -> "Iterator[Callable[[Sequence[Block]], None]]":
        """A function that draws lines in place of those before, as many as the terminal has; all are gone in the end.
        Where that is not possible nothing is shown: the caller shows in the end what came of it."""
        if not self.live:
            yield lambda blocks: None
            return
        from hub.cli.render.layout import draw_live

        with draw_live(self._console, lambda: self.width) as redraw:
            yield redraw

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
