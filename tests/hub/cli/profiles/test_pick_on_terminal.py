"""The list to choose from on a terminal, as keys change it."""

import pytest

from hub.cli.profiles.pick_on_terminal import HELP, Chooser, Row
from tests.support.terminal import drawn, widest

pytestmark = pytest.mark.covers("EP-10")

ROWS = [Row(f"files__tool{at}", "~10", f"Does {at}") for at in range(500)]


def chooser(*keys, chosen=(), rows=ROWS, page=10):
    found = Chooser(rows, set(chosen))
    for key in keys:
        assert found.press(key, page) is None
    return found


def numbers(found):
    return sorted(int(name.removeprefix("files__tool")) for name in found.chosen)


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ([" "], [0]),
        ([" ", " "], []),
        (["down", " ", "down", " ", "up", " "], [2]),
        (["up", " "], [0]),
        (["end", " ", "page up", " ", "home", " ", "page down", " "], [0, 10, 489, 499]),
        ([*"/tool49", "\n", "a"], [49, *range(490, 500)]),
        ([*"/TOOL499x", "\x7f", "\n", " "], [499]),
        ([*"/does 7 q", "\x7f", "\n", "down", " "], [17]),
        ([*"/nothing", "\n", " ", "a", "\x1b", " "], [0]),
        (["/", "\x1b", " "], [0]),
        (["a", *"/tool", "\n", "n"], []),
        (["left", "x", "\x1bx", ""], []),
    ],
)
def test_what_keys_choose(keys, chosen):
    assert numbers(chooser(*keys)) == chosen


@pytest.mark.parametrize(("key", "is_written"), [("\n", True), ("\r", True), ("q", False), ("\x1b", False)])
def test_it_ends(key, is_written):
    assert chooser(" ").press(key, 10) is is_written


def test_the_lines_around_the_keys_are_drawn():
    found = chooser(*["down"] * 12, " ")
    lines = drawn(found.rows(5)).splitlines()
    assert lines[0].startswith("  [ ] files__tool8 ")
    assert lines[-1].split() == [">", "[x]", "files__tool12", "~10", "Does", "12"]
    assert drawn(chooser(*["down"] * 3, rows=ROWS[:2]).rows(5)).count("\n") == 2
    assert found.below() == HELP


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_no_line_is_wider_than_the_terminal(width):
    hostile = [Row("x" * 256, "~10", "\u4e2d" * 200), Row("y", "", r"\x1b[2J" * 20)]
    assert widest(drawn(chooser(rows=hostile).rows(5), width=width)) <= width
    assert widest(drawn(chooser(*"/some words", rows=hostile).below(), width=width)) <= width
