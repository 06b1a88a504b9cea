"""What a process said on stderr: the last lines are right, and a flood costs the hub and its log next to nothing."""

import pytest

from upstreams.transports.stdio.stderr import (
    DROPPED_EVERY_S,
    RECORD_PRICE,
    STDERR_BURST,
    STDERR_LINE_CHARS,
    STDERR_LINES,
    STDERR_RATE,
    TURN,
    StderrLog,
)

BURST_LINES = STDERR_BURST // (RECORD_PRICE + 1)
"""Lines of one character that are logged at once."""
CHUNK = 1 << 16


def take(said, data, now=0.0):
    """As its reader does; how many turns that takes."""
    said.feed(data)
    turns = 1
    while said.log_lines(now):
        turns += 1
    return turns


def texts(caplog):
    return [record.getMessage().partition(": ")[2] for record in caplog.records]


class Counted:
    """A mask that counts what it is asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, text):
        self.calls += 1
        return text.replace("secret", "***")


def test_the_last_lines_are_kept():
    said = StderrLog("c")
    take(said, b"".join(b"line %d\n" % number for number in range(1000)) + b"unfinished")
    assert said.tail(3) == "line 998\nline 999\nunfinished"
    assert len(said.tail(1000).split("\n")) == STDERR_LINES + 1
    assert said.tail(1000).startswith("line 800\n")


@pytest.mark.covers("F-P-23", "SEC-54")
def test_binary_lines_and_escapes_are_made_visible(caplog):
    caplog.set_level("INFO")
    said = StderrLog("c")
    take(said, b"\x1b[31mred\x1b[0m \xff\0\r\n\r\n")
    assert said.tail() == "\\x1b[31mred\\x1b[0m \N{REPLACEMENT CHARACTER}\\x00"
    assert "\x1b" not in caplog.text


@pytest.mark.covers("F-P-23")
def test_a_line_without_end_is_cut():
    said = StderrLog("c")
    for _ in range(100):
        take(said, b"x" * CHUNK)
    assert len(said.tail()) == STDERR_LINE_CHARS
    take(said, b"\nnext\n")
    assert said.tail(2).split("\n")[1] == "next"


@pytest.mark.covers("F-P-23")
def test_lines_are_whole_however_they_are_read(caplog):
    caplog.set_level("INFO")
    said = StderrLog("c")
    for byte in b"\r\none\r\n\n\ntwo\nthr":
        take(said, bytes([byte]))
    assert texts(caplog) == ["one", "two"]
    assert said.tail() == "one\ntwo\nthr"


@pytest.mark.covers("F-P-23", "F-P-14")
@pytest.mark.parametrize("line", [b"a\n", b"ab\r\n", b"x" * 999 + b"\n", b"\x1b" * 100 + b"\n"])
def test_a_flood_is_kept_out_of_the_log(caplog, line):
    caplog.set_level("INFO")
    said = StderrLog("c")
    chunk = line * (CHUNK // len(line))
    fed = 0
    while fed < 8 * STDERR_BURST:
        take(said, chunk)
        fed += len(chunk)
    price = len(line.strip()) + RECORD_PRICE
    assert len(caplog.records) == STDERR_BURST // price
    assert said.dropped_lines == fed // len(line) - STDERR_BURST // price
    caplog.clear()
    take(said, b"later\n", 10)
    assert texts(caplog) == [
        f"{fed // len(line) - STDERR_BURST // price} lines of its stderr were dropped: it writes more than is logged",
        "later",
    ]


@pytest.mark.covers("F-P-23", "F-P-14")
def test_a_flood_that_lasts_is_logged_at_a_rate_and_its_dropped_lines_are_said_now_and_then(caplog):
    caplog.set_level("INFO")
    heard = []
    said = StderrLog("c", str, heard.append)
    seconds = 60
    for step in range(seconds * 100):
        take(said, b"a\n" * 1000, step / 100)
    said.end(seconds)
    dropped = [text for text in texts(caplog) if "dropped" in text]
    written = texts(caplog).count("a")
    assert BURST_LINES < written <= BURST_LINES + seconds * STDERR_RATE // RECORD_PRICE
    assert len(dropped) <= seconds / DROPPED_EVERY_S + 2
    assert sum(int(text.split()[0]) for text in dropped) + written == seconds * 100 * 1000, "each is accounted for"
    assert len(heard) == len(caplog.records)


@pytest.mark.covers("F-P-23", "F-P-14", "I-3")
def test_what_is_dropped_is_neither_masked_nor_made_printable():
    mask = Counted()
    said = StderrLog("c", mask)
    for _ in range(100):
        take(said, b"a\n" * (CHUNK // 2))
    assert mask.calls == BURST_LINES
    take(said, b"the secret\n")
    assert said.tail(2) == "a\nthe ***"
    assert mask.calls == BURST_LINES + 2, "of the last lines only those that are shown"


@pytest.mark.covers("F-P-23", "F-P-14", "I-3")
def test_a_chunk_of_short_lines_is_logged_in_turns(caplog):
    caplog.set_level("INFO")
    said = StderrLog("c")
    said.feed(b"a\n" * (CHUNK // 2))
    more, turns = True, 0
    while more:
        before = len(caplog.records)
        more = said.log_lines(0)
        turns += 1
        assert len(caplog.records) - before <= TURN
    assert turns == BURST_LINES // TURN + 1
    assert take(said, b"a\n" * (CHUNK // 2)) == 1, "beyond the limit a chunk is one turn"


@pytest.mark.covers("F-P-23", "I-3")
def test_empty_lines_are_no_lines(caplog):
    caplog.set_level("INFO")
    said = StderrLog("c")
    take(said, b"last words\n")
    for _ in range(100):
        assert take(said, b"\n" * CHUNK) == 1
        assert take(said, b"\r\n" * (CHUNK // 2)) == 1
    assert texts(caplog) == ["last words"]
    assert said.tail() == "last words"
    assert said.dropped_lines == 0


@pytest.mark.covers("F-P-23")
def test_what_was_not_logged_in_time_comes_next_and_in_order(caplog):
    caplog.set_level("INFO")
    said = StderrLog("c")
    said.feed(b"".join(b"%d\n" % number for number in range(2 * TURN)))
    assert said.log_lines(0)  # whoever reads is cancelled here
    take(said, b"last\n")
    assert texts(caplog) == [*map(str, range(2 * TURN)), "last"]
    said.feed(b"never\nlogged\n")
    said.end(0)
    assert texts(caplog)[-1].startswith("2 lines of its stderr were dropped")


def test_the_error_is_told_although_its_stack_trace_is_long():
    said = StderrLog("c", str)
    take(said, b"Error: boom \x1b[31m\n" + b"    at f (x.js:1)\n" * 100)
    assert said.tail(3) == "Error: boom \\x1b[31m\n" + "\n".join(["    at f (x.js:1)"] * 2)
