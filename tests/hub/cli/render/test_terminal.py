"""The screen: widths, colours, tables, and lines that are drawn again."""

import io
import re
import sys
from textwrap import dedent

import pytest
from rich.cells import cell_len

from hub.cli.render.blocks import Table, paint
from hub.cli.render.layout import lines_of
from hub.cli.render.terminal import UNLIMITED, Screen
from hub.wire.printable import Printable
from tests.support.terminal import Terminal, drawn, shown, widest

WIDTHS = (20, 60, 80, 120, 200)
WIDE = "日本語のサーバー"


class Tty(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no descriptor")


def table(**options):
    rows = [
        (WIDE * 3, "connected", "3 h", 14, "a description of many words " * 5),
        ("files", paint("failed", "bad"), None, 1000, "short"),
    ]
    return Table(("NAME", "STATE", "AGE", "TOOLS", "DESCRIPTION"), rows, **options)


# --- what the screen is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "option", "colour", "live"),
    [
        ({}, "auto", True, True),
        ({"NO_COLOR": "1"}, "auto", False, True),
        ({"NO_COLOR": ""}, "auto", True, True),
        ({"NO_COLOR": "1"}, "always", True, True),
        ({"TERM": "dumb"}, "auto", False, False),
        ({"TERM": "dumb"}, "always", True, False),
        ({}, "never", False, True),
    ],
)
def test_colour_on_a_terminal(environ, option, colour, live):
    screen = Screen.of(Tty(), {"TERM": "xterm", **environ}, option)
    assert (screen.colour, screen.live) == (colour, live)


@pytest.mark.parametrize(("option", "colour"), [("auto", False), ("never", False), ("always", True)])
def test_colour_elsewhere(option, colour):
    screen = Screen.of(io.StringIO(), {"TERM": "xterm"}, option)
    assert (screen.colour, screen.live, screen.width) == (colour, False, UNLIMITED)


@pytest.mark.parametrize(
    ("stream", "columns", "expected"),
    [
        (io.StringIO(), "100", 100),
        (io.StringIO(), "", UNLIMITED),
        (io.StringIO(), "0", UNLIMITED),
        (io.StringIO(), "-5", UNLIMITED),
        (io.StringIO(), "9" * 5000, UNLIMITED),
        (Tty(), "100", 100),
        (Tty(), "3", 20),
        (Tty(), "many", 80),
        (None, "", UNLIMITED),
    ],
)
def test_width(stream, columns, expected):
    assert Screen.of(stream, {"COLUMNS": columns}).width == expected


def test_nothing_is_shown_where_there_is_no_stream():
    Screen.of(None, {}).show("text")


# --- sentences --------------------------------------------------------------------------------------------------------


def test_a_sentence_is_wrapped_and_goes_on_further_in():
    text = "  one idea after the other, until the line is full"
    assert drawn(text, width=30) == "  one idea after the other,\n    until the line is full\n"
    assert drawn(text) == f"{text}\n"


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_screen(width):
    blocks = [f"{WIDE * 9} {'x' * 300}", paint(f"{'ü' * 300}\n\tz", "good"), f"{' ' * 300}deep", table()]
    out = drawn(*blocks, width=width, colour=True)
    assert widest(out) <= width
    assert shown(out).count("x") == 300
    assert shown(out).count("ü") == 300


@pytest.mark.covers("SEC-54")
def test_codes_of_others_are_shown_and_our_own_are_obeyed():
    stream = io.StringIO()
    screen = Screen.of(Printable(stream), {}, "always")
    screen.show(paint("a\x1b[2J", "bad"), "b\x1b[2J\u202e", Table((), [("c\x07\nd", paint("e\n\r", "good"))]))
    assert stream.getvalue() == "\x1b[31ma\\x1b[2J\x1b[0m\nb\\x1b[2J\\u202e\nc\\x07\\nd  e\\n\\r\n"


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_takes_what_it_needs():
    rows = [("files", "connected", 14), ("a", None, 3), ("b", "", None)]
    assert drawn(Table(("NAME", "STATE", "TOOLS"), rows)) == dedent(
        """\
        NAME   STATE      TOOLS
        files  connected     14
        a      -              3
        b      -              -
        """
    )
    assert drawn(Table((), rows[1:], indent=2)) == "  a  -  3\n  b  -  -\n"
    assert drawn(Table((), [])) == ""
    assert drawn(Table(("A", "B"), [])) == "A  B\n"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("options", [{}, {"shorten": ("NAME", "DESCRIPTION")}, {"drop": ("AGE", "DESCRIPTION")}])
def test_a_row_is_one_line(width, options):
    lines = drawn(table(**options), width=width).splitlines()
    assert len(lines) == 3
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_where_columns_wrap_nothing_is_cut(width):
    rows = [
        ("Claude Desktop", "~/.config/Claude/claude_desktop_config.json", "the hub, without filesystem, memory, time"),
        ("hubd", "a" * 300, "~2 000 tokens"),
    ]
    wrapped = Table(("WHERE", "FILE", "CHANGE"), rows, wrap=("CHANGE", "FILE", "WHERE"), indent=2, notes=[[], ["n"]])
    out = drawn(wrapped, width=width)
    assert "…" not in out
    assert widest(out) <= width
    assert out.count("a" * 10) >= 280 // width
    assert re.sub(r"[^a]", "", out.partition("hubd")[2]) == "a" * 300
    assert "2 000" in out, "a number is one word"
    for _, path, change in rows[:1]:
        text = "".join(out.split())
        assert all(part in text for part in path.split("/"))
        assert all(word in text for word in change.split())


def test_a_path_goes_on_below_behind_one_of_its_parts():
    out = drawn(Table((), [("~/.config/Claude/desktop.json", "x")], wrap=(0,)), width=20)
    assert out == "~/.config/Claude/  x\ndesktop.json\n"


def test_long_columns_are_shortened_then_others_dropped():
    options = {"shorten": ("NAME", "DESCRIPTION"), "drop": ("AGE", "TOOLS")}
    at_80 = drawn(table(**options), width=80).splitlines()
    assert at_80[0].split() == ["NAME", "STATE", "AGE", "TOOLS", "DESCRIPTION"]
    assert at_80[1].endswith("…")
    assert cell_len(at_80[1]) in (79, 80)
    at_40 = drawn(table(**options), width=45).splitlines()
    assert at_40[0].split() == ["NAME", "STATE", "TOOLS", "DESCRIPTION"]
    assert drawn(table(**options)).splitlines()[1].startswith(WIDE * 3)


def test_wide_characters_stay_in_their_columns():
    lines = drawn(Table(("NAME", "STATE"), [(WIDE, "x"), ("a", "x")])).splitlines()
    assert [cell_len(line[: line.index("x")]) for line in lines[1:]] == [cell_len(WIDE) + 2] * 2


def test_notes_stand_below_their_rows():
    rows = [("a", 1), ("b", 2)]
    out = drawn(Table(("NAME", "N"), rows, notes=[["one\ntwo", "many words of this"], []]), width=20)
    assert out == "NAME  N\na     1\n    one\n    two\n    many words of\n      this\nb     2\n"


def test_a_huge_cell_takes_no_time():
    rows = [("x" * 1_000_000, "y" * 1_000_000)]
    assert cell_len(drawn(Table((), rows), width=60).rstrip("\n")) == 60


# --- lines that are drawn again ---------------------------------------------------------------------------------------

DRAWS = """
import os, sys
from hub.cli.render.blocks import paint
from hub.cli.render.terminal import Screen
screen = Screen.of(sys.stdout, os.environ)
with screen.live_lines() as redraw:
    redraw(["one: starting", paint("two: \x1b[2J", "bad")])
    redraw(["one: \\x1b[31mconnected" + " ." * 50])
screen.show("one: done")
"""


def draw(columns, **env):
    with Terminal([sys.executable, "-c", DRAWS], env, columns=columns) as terminal:
        return terminal.end()


@pytest.mark.parametrize("columns", [60, 80])
def test_live_lines_give_way_to_what_came_of_them(columns):
    code, out = draw(columns)
    assert code == 0
    assert "one: starting\ntwo" in shown(out)
    assert "\x1b[31mtwo" in out
    assert "\x1b[31mconnected" not in out
    assert "one: \\x1b[31mconnected" in shown(out)
    assert out.index("\x1b[2K") > out.index("starting")  # erased
    assert shown(out).rstrip().endswith("one: done")
    assert widest(out.replace("\x1b[2K", "\n")) <= columns


LONG = """
import os, sys
from hub.cli.render.blocks import Table
from hub.cli.render.terminal import Screen
screen = Screen.of(sys.stdout, os.environ)
with screen.live_lines() as redraw:
    redraw([Table(("NAME", "AGE"), [(f"row {number}", "1 s") for number in range(40)]), "behind"])
    sys.stdin.readline()
"""


def test_more_lines_than_the_terminal_has_are_cut_at_its_foot():
    with Terminal([sys.executable, "-c", LONG], {}, columns=80, rows=24) as terminal:
        terminal.see("20 more lines")
        assert "row 0 " in terminal.text
        assert "row 20" in terminal.text
        assert "row 21" not in terminal.text
        assert " " * 80 not in terminal.output
        terminal.type("\n")
        assert terminal.end()[0] == 0


def test_a_table_keeps_its_columns_from_one_drawing_to_the_next():
    def columns(*ages, width, before):
        rows = [("server", "connected", age) for age in ages]
        table = Table(("SERVER", "STATE", "AGE"), rows, shorten=(0,), drop=(2,), least=6)
        return [line.plain for line in lines_of([table], width, before)]

    before = {}
    assert columns("1 min", width=24, before=before) == ["SERVER  STATE      AGE", "server  connected  1 min"]
    assert columns("10 min", width=24, before=before)[1] == "serv…  connected  10 min"
    assert columns("9 s", width=24, before=before) == ["SERV…  STATE      AGE", "serv…  connected  9 s"]
    gone = {}
    assert columns("10 min", width=24, before=gone) == ["SERVER  STATE", "server  connected"]
    assert columns("9 s", width=24, before=gone) == ["SERVER  STATE", "server  connected"]
    assert columns("9 s", width=30, before=gone)[0] == "SERVER  STATE      AGE"


def test_a_dumb_terminal_gets_the_end_only():
    assert draw(80, TERM="dumb") == (0, "one: done\n")
