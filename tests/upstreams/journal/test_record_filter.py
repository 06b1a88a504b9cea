"""The records that somebody wants to see."""

import pytest

from upstreams.journal.journal import Journal
from upstreams.journal.record_filter import LEVELS, RecordFilter
from upstreams.status_facts import JournalRecord

RECORDS = [
    JournalRecord(1, "stderr", "a", 7, "github"),
    JournalRecord(2, "log", "debug: b", None, "github", "debug"),
    JournalRecord(3, "log", "warning: c", None, "github", "warning"),
    JournalRecord(4, "exit", "d", 7, "files", "warning"),
    JournalRecord(5, "error", "e", None, "hub", "error", "c7f3a9b2", "github"),
    JournalRecord(6, "info", "f", None, "hub", "info", "c7f3a9b3"),
    JournalRecord(7, "log", "g", None, "files", "shout"),
]


@pytest.mark.covers("OL-5")
@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (RecordFilter(), "abcdefg"),
        (RecordFilter(level="debug"), "abcdefg"),
        (RecordFilter(level="info"), "acdefg"),
        (RecordFilter(level="warning"), "cde"),
        (RecordFilter(level="error"), "e"),
        (RecordFilter(level="emergency"), ""),
        (RecordFilter(since=5), "efg"),
        (RecordFilter(ref="c7f3a9b2"), "e"),
        (RecordFilter(servers=frozenset({"github"})), "abce"),
        (RecordFilter(servers=frozenset({"hub"})), "ef"),
        (RecordFilter(level="warning", since=3, servers=frozenset({"github"})), "ce"),
    ],
)
def test_what_is_wanted(wanted, texts):
    assert "".join(each.text[-1] for each in RECORDS if wanted.passes(each)) == texts


def test_levels_are_those_of_mcp_in_their_order():
    assert LEVELS[0] == "debug"
    assert LEVELS[-1] == "emergency"


def test_the_last_ones_are_of_those_that_are_wanted():
    journal = Journal(lambda: 1.0, "github")
    for number in range(10):
        journal.add("log", str(number), level="warning" if number % 3 == 0 else "info")
    assert [each.text for each in journal.tail(2, RecordFilter("warning"))] == ["6", "9"]
    assert journal.tail(0, RecordFilter("warning")) == []
