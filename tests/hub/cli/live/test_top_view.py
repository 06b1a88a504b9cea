"""What `hubd top` draws, and what keys do."""

import pytest

from hub.cli.live.top_view import KeyAction, Top, spark
from hub.cli.render.layout import lines_of
from hub.control.call_messages import RunningRow
from hub.control.overview_messages import AttachedRow, LastError, LimitRow, Overview, ReloadRow, ServerRow, Totals

pytestmark = pytest.mark.covers("SEE-4")
SLOW = ServerRow(
    name="github", word="connected", health="warning", p95_s=3.2, p50_s=0.2, slow=True, why="slow", calls=9
)
DOWN = ServerRow(name="db", word="failed", health="bad", why="db exited with status 1: Error: no such host \x1b[2J")
GOOD = ServerRow(
    name="files",
    word="connected",
    health="good",
    busy=2,
    rate=0.5,
    cost=12.4,
    failed_ratio=0.5,
    last_error=LastError(error_type="tool_error", ago_s=40.0),
)
HOST = AttachedRow(host="Cursor 1.2", label="cursor", tools=31, tokens=5_100, calls=40, cost=0.1)
RUNNING = [RunningRow(ref=f"{at:08x}", host="cursor", name=f"github__{'x' * 60}", for_s=12.4) for at in range(30)]
SEEN = Overview(
    version="0.4.0",
    servers=(SLOW, DOWN, GOOD),
    hosts=(HOST,),
    running=tuple(RUNNING),
    totals=Totals(busy=3, rate=2.4, failed_ratio=0.2, cost=12.4),
    limits=LimitRow(failed_ratio=0.1),
    inbox=2,
    reload=ReloadRow(problem="a key is missing"),
)


def top_of(seen=SEEN):
    top = Top()
    top.see(seen)
    return top


def drawn(top, columns=100, rows=24):
    lines = lines_of(top.blocks(rows), columns)
    assert len(lines) <= max(rows, 3)
    assert max(line.cell_len for line in lines) <= columns
    return [line.plain for line in lines]


@pytest.mark.parametrize("page", ["servers", "hosts", "log", "calls", "help"])
def test_nothing_wraps_whatever_the_size(page):
    top = top_of()
    top.page, top.problem, top.content = page, "the hub has stopped " * 9, ["a line " * 50] * 90
    for columns in (20, 33, 44, 60, 79, 80, 81, 200):
        for rows in (3, 8, 24, 60):
            text = "\n".join(drawn(top, columns, rows))
            assert "\x1b" not in text
    many = tuple(ServerRow(name=f"server{at}", word="idle", health="off") for at in range(100))
    top = top_of(Overview(servers=many))
    drawn(top, 80, 10)
    for _ in range(120):
        top.press("down")
    assert "> server99" in "\n".join(drawn(top, 80, 10))
    assert drawn(top_of(Overview()), 80, 10)[1].startswith("no servers")


def test_what_is_busy_comes_first_then_what_is_broken():
    top = top_of()
    lines = drawn(top, 110)
    assert [line.split()[-1] if line.startswith(">") else line.split()[0] for line in lines[3:6]] == [
        "ago",
        "db",
        "github",
    ]
    assert lines[0].split("  ")[0] == "hubd 0.4.0"
    assert "20 % failed" in lines[0]
    assert "cost 12.40" in lines[0]
    assert "2 decisions" in lines[0]
    assert "tool_error 40 s ago" in lines[3]
    assert "3.2 s" in lines[5]
    assert lines[6] == "db: db exited with status 1: Error: no such host \\x1b[2J"
    assert lines[7].startswith("RUNNING  00000000  cursor  github__x")
    top.press("s")
    assert "> files" in drawn(top)[3]
    top.press("s")
    assert drawn(top)[3].split()[1] == "github", "the slowest one"


def test_keys_choose_ask_pause_and_turn_pages():
    top = top_of()
    assert top.server == "files"
    top.press("down")
    assert top.server == "db"
    assert top.press("r") is None
    assert drawn(top)[-1].startswith("restart db?")
    assert top.press("q") is None, "any other key than y is a no"
    top.press("r")
    assert top.press("y") == KeyAction("restart", "db")
    top.press("p")
    top.see(Overview())
    assert (top.server, top.is_paused) == ("db", True)
    assert drawn(top)[-1].startswith("PAUSED")
    top.press("p")
    top.see(Overview())
    assert top.server == ""
    for key in ("r", "enter", "up", "x", ""):
        assert top.press(key) is None
    assert top.page == "servers"
    for key, page in (("c", "calls"), ("c", "servers"), ("h", "hosts"), ("?", "help"), ("escape", "servers")):
        top.press(key)
        assert top.page == page
    top.see(SEEN)
    top.press("enter")
    assert top.page == "log"
    assert top.press("s") is None
    assert top.press("q") == KeyAction("quit")


def test_hosts_are_shown_with_what_they_cost():
    top = top_of()
    top.press("h")
    assert drawn(top)[3].split() == ["Cursor", "1.2", "(cursor)", "-", "31", "~5", "100", "0", "s", "0", "40", "0.1"]


def test_a_line_of_bars_shows_the_last_minute():
    assert spark([9] * 240 + [0] * 55 + [1, 1, 1, 1, 3]) == "▁" * 11 + "█"
    assert spark([1] * 300) == "█" * 12
    assert spark([]) == ""
