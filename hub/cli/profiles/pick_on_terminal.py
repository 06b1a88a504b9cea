"""The list of `hubd tools --pick` on a terminal: arrows move, space chooses.

`Chooser` is the list as keys change it; pure.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from hub.cli.keyboard import ESCAPE, keys
from hub.cli.render.blocks import Table, paint
from hub.cli.render.terminal import Screen

HELP: Final = "space chooses, a all, n none, / searches, Enter writes, q leaves everything as it is"
SEARCHING: Final = "Enter keeps what is found, Esc shows all again"
LEAST_ROWS: Final = 3


class Row(Struct, frozen=True):
    """One line to choose."""

    name: str
    cost: str
    text: str


class Chooser:
    """A list of which some lines are chosen."""

    def __init__(self, rows: Sequence[Row], chosen: set[str]) -> None:
        self.chosen = chosen
        self._rows = rows
        self._found = rows
        self._at = 0
        self._top = 0
        """The first line of those that are drawn."""
        self._searched = ""
        self._is_typing = False

    def press(self, key: str, page: int) -> bool | None:
        """Do what a key means. `page`: the lines that are drawn. True: the choice is to be written; False: it is given
        up; None: more keys follow."""
        if key in ("up", "down", "page up", "page down", "home", "end"):
            steps = {"up": -1, "down": 1, "page up": -page, "page down": page, "home": -self._at}
            self._at = max(0, min(len(self._found) - 1, self._at + steps.get(key, len(self._found))))
        elif key == ESCAPE and (self._searched or self._is_typing):
            self._is_typing = False
            self._search("")
        elif self._is_typing:
            self._type(key)
        elif key in (ESCAPE, "q"):
            return False
        elif key in ("\n", "\r"):
            return True
        elif key == " " and self._found:
            self.chosen ^= {self._found[self._at].name}
        elif key in ("a", "n"):
            found = {each.name for each in self._found}
            self.chosen = self.chosen | found if key == "a" else self.chosen - found
        elif key == "/":
            self._is_typing = True
        return None

    def _type(self, key: str) -> None:
        if key in ("\n", "\r"):
            self._is_typing = False
        elif key in ("\x7f", "\b"):
            self._search(self._searched[:-1])
        elif key.isprintable():
            self._search(self._searched + key)

    def _search(self, text: str) -> None:
        self._searched, self._at = text, 0
        words = text.lower().split()
        self._found = [each for each in self._rows if all(word in f"{each.name} {each.text}".lower() for word in words)]

    def rows(self, height: int) -> Table:
        """The lines around the one where the keys are."""
        self._top = max(self._at - height + 1, min(self._top, self._at, len(self._found) - height), 0)
        width = max((len(each.name) for each in self._rows), default=0)
        cells = []
        for at, each in enumerate(self._found[self._top : self._top + height], self._top):
            mark = f"{'>' if at == self._at else ' '} [{'x' if each.name in self.chosen else ' '}]"
            name = f"{mark} {each.name:{width}}"
            cells.append((paint(name, "bold") if at == self._at else name, each.cost or " ", each.text or " "))
        return Table((), cells, shorten=(2, 0))

    def below(self) -> str:
        """The line below the list: what keys do."""
        if not (self._is_typing or self._searched):
            return HELP
        found = f"/{self._searched}{'_' if self._is_typing else ''}  {len(self._found)} of {len(self._rows)}"
        return f"{found}  {SEARCHING if self._is_typing else HELP}"


def choose(chooser: Chooser, heading: Callable[[], str], screen: Screen) -> bool:
    """Have somebody choose at the terminal; True: the choice is to be written."""
    with screen.live_lines() as redraw, keys(sys.stdin.fileno()) as pressed:
        size: os.terminal_size | None = None
        got = [""]
        while True:
            above, below = paint(heading(), "bold"), paint(chooser.below(), "dim")
            now = os.get_terminal_size(sys.stderr.fileno())
            height = max(LEAST_ROWS, now.lines - screen.render(above, below).count("\n") - 2)
            if got or now != size:
                redraw([above, chooser.rows(height), "", below])
            size, got = now, pressed()
            for key in got:
                if (is_to_be_written := chooser.press(key, height)) is not None:
                    return is_to_be_written
