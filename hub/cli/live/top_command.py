"""`hubd top`: servers and what runs, on the whole terminal, drawn each second by curses of the standard library."""

import curses
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hub.cli.context import CommandFailed, Context, Output, client
from hub.cli.live.logs_command import record
from hub.cli.live.top_view import KeyAction, Top
from hub.cli.parser import add
from hub.cli.render.calls import call_table
from hub.control.client import ControlClient
from hub.control.client_errors import ControlFailed, HubHangs, HubNotRunning
from hub.control.interruptible_wait import SLICE_S, now_s, readable
from hub.control.methods import CALLS, LOGS, RESTART, WATCH
from hub.control.overview_messages import Overview

if TYPE_CHECKING:
    from rich.text import Text

NO_TERMINAL: Final = "hubd top needs a terminal; for a pipe use: hubd status --watch --json"
EVERY_S: Final = 1.0
RETRY_S: Final = 1.0
ESCAPE_MS: Final = 25
"""Milliseconds in which the rest of what one key sends has come."""
_COLOURS: Final = {"green": 2, "red": 1, "yellow": 3, "cyan": 6}
"""Numbers of the colours of terminals."""
_KEYS: Final = {
    curses.KEY_UP: "up", ord("k"): "up", curses.KEY_DOWN: "down", ord("j"): "down", 27: "escape",
    curses.KEY_ENTER: "enter", ord("\n"): "enter", ord("\r"): "enter",
}  # fmt: skip


def add_commands(commands: Any) -> None:
    """`top`."""
    add(commands, "top", _top)


def _top(options: Context, output: Output) -> None:
    if not (sys.stdin is not None and sys.stdin.isatty() and output.screen.live):
        raise CommandFailed(NO_TERMINAL)
    with OverviewFeed() as feed:
        try:
            curses.wrapper(_run, feed, has_colours=output.screen.colour)
        except curses.error as error:  # the terminal is unknown, or can do nothing
            raise CommandFailed(f"{NO_TERMINAL} ({error})") from None


class OverviewFeed:
    """The overviews of the hub, which may go away and come back."""

    def __init__(self) -> None:
        """Raises HubNotRunning: there is none, or HubHangs."""
        self._opened = ExitStack()
        self._hub: ControlClient | None = None
        self._retry_at = 0.0
        self.latest = self._connect()

    def __enter__(self) -> "OverviewFeed":
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()

    def _connect(self) -> Overview:
        hub = self._opened.enter_context(client())
        overview = hub.request(WATCH, every_s=EVERY_S)
        self._hub = hub
        return overview

    def wait(self, terminal: int) -> bool:
        """Wait for the hub or for keys; True if it was keys."""
        ready = readable([terminal, *(() if self._hub is None else (self._hub.fileno(),))], SLICE_S)
        return terminal in ready

    def take(self) -> tuple[bool, str]:
        """Take what the hub has sent, if it has: whether `latest` is another one, and the reason why it is none."""
        hub = self._hub
        if hub is None and now_s() < self._retry_at:
            return False, ""
        try:
            if hub is None:
                self.latest = self._connect()
                return True, ""
            if not (hub.has_more or readable([hub.fileno()], 0)):
                return False, ""
            self.latest = hub.further(WATCH)
        except (HubNotRunning, HubHangs) as error:
            self._opened.close()
            self._hub, self._retry_at = None, now_s() + RETRY_S
            return False, str(error)
        return True, ""


def _run(window: curses.window, feed: OverviewFeed, *, has_colours: bool) -> None:
    curses.set_escdelay(ESCAPE_MS)
    with suppress(curses.error):
        curses.curs_set(0)
    window.nodelay(True)
    styles, top, terminal = _styles(has_colours=has_colours), Top(), sys.stdin.fileno()
    top.see(feed.latest)
    while True:
        _draw(window, top, styles)
        if feed.wait(terminal):
            keys = list(_read_keys(window))
            if not keys:  # the terminal is gone
                return
            for key in keys:
                wish = top.press(key)
                if wish is not None and wish.what == "quit":
                    return
                _fulfil(top, wish, window.getmaxyx()[0])
        is_new, problem = feed.take()
        if is_new:
            top.see(feed.latest)
            _fulfil(top, None, window.getmaxyx()[0])
        top.problem = problem or top.problem


def _read_keys(window: curses.window) -> Iterator[str]:
    while (key := window.getch()) != curses.ERR:
        yield _KEYS.get(key, chr(key) if key < 128 else "")


def _fulfil(top: Top, wish: KeyAction | None, rows: int) -> None:
    """Do what is wanted, and fetch what the page shows."""
    try:
        if wish is not None:
            with client() as hub:
                hub.request(RESTART, name=wish.name)
            top.note = f"restarting {wish.name}"
        if top.page in ("log", "calls") and not (top.is_paused and top.content):
            with client() as hub:
                if top.page == "calls":
                    calls = hub.request(CALLS, n=rows).calls[-max(1, rows - 5) :]
                    top.content = [call_table(calls)] if calls else ["no call since the hub started"]
                else:
                    top.content = [record(each) for each in hub.request(LOGS, name=top.server, lines=rows).records]
    except (HubNotRunning, HubHangs, ControlFailed) as error:
        top.note = str(error)


def _styles(*, has_colours: bool) -> dict[str, int]:
    """How the terminal draws styles, by their names."""
    found = {"bold": curses.A_BOLD, "dim": curses.A_DIM}
    if has_colours and curses.has_colors():
        curses.use_default_colors()
        for style, number in _COLOURS.items():
            curses.init_pair(number, number, -1)
            found[style] = curses.color_pair(number)
    return found


def _draw(window: curses.window, top: Top, styles: dict[str, int]) -> None:
    from hub.cli.render.layout import lines_of  # after the first frame was asked for: it takes a moment

    rows, columns = window.getmaxyx()
    window.erase()
    for at, line in enumerate(lines_of(top.blocks(rows), columns)[:rows]):
        with suppress(curses.error):  # the last cell of the screen was written
            window.move(at, 0)
            for text, attributes in _pieces(line, styles):
                window.addstr(text, attributes)
    window.refresh()


def _pieces(line: "Text", styles: dict[str, int]) -> Iterator[tuple[str, int]]:
    """The parts of a line that are drawn alike."""
    cuts = sorted({0, len(line), *(at for span in line.spans for at in (span.start, span.end))})
    for begin, end in pairwise(cuts):
        names = [line.style, *(span.style for span in line.spans if span.start <= begin and end <= span.end)]
        attributes = 0
        for name in names:
            attributes |= styles.get(str(name), 0)
        yield line.plain[begin:end], attributes
