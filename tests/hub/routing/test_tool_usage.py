"""The record of which tools are called: what is counted, how long it is kept, and how much it can hold."""

import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.remembered_facts import Memory
from hub.routing import tool_usage
from hub.routing.tool_usage import MAX_CALLED, MAX_NAME, RecentUse, ToolUsage

DAY = 86_400.0
NOON = 1_795_435_200.0
"""2026-11-23, 12:00."""

pytestmark = pytest.mark.covers("ET-3")


class Clock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


def call(usage, server="files", tool="read", host="cursor", times=1):
    for _ in range(times):
        called = server, tool, host
        try:
            usage.calls[called] += 1
        except KeyError:
            usage.begin(called)


def test_calls_are_counted_by_host():
    usage = ToolUsage(Memory(None), Clock())
    call(usage, times=3)
    call(usage, host="codex")
    call(usage, tool="write")
    assert usage.recent() == {
        ("files", "read"): RecentUse({"cursor": 3, "codex": 1}, "2026-11-23"),
        ("files", "write"): RecentUse({"cursor": 1}, "2026-11-23"),
    }
    assert usage.since == "2026-11-23"


def test_a_restart_keeps_the_record_and_nothing_but_names_and_counts_is_in_it(tmp_path):
    path, clock = tmp_path / "usage.json", Clock()
    usage = ToolUsage(Memory(path), clock)
    call(usage)
    usage.fold()
    usage.memory.save()
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["sections"] == {
        "facts": {"since": "2026-11-23", "seen": "2026-11-23"},
        "calls": {"files": {"read": {"cursor": {"2026-11-23": 1}}}},
    }
    clock.now += DAY
    again = ToolUsage(Memory(path), clock)
    call(again)
    assert again.recent() == {("files", "read"): RecentUse({"cursor": 2}, "2026-11-24")}
    assert again.since == "2026-11-23"
    clock.now -= 30 * DAY
    assert again.since == again.today, "the clock was ahead"


def test_after_30_days_a_call_is_not_recent_and_after_90_it_is_forgotten():
    clock = Clock()
    usage = ToolUsage(Memory(None), clock)
    call(usage)
    call(usage, "gone", "tool")
    usage.fold()
    clock.now += 29 * DAY
    assert usage.recent()["files", "read"].calls == {"cursor": 1}
    clock.now += DAY
    assert usage.recent()["files", "read"] == RecentUse({}, "2026-11-23")
    clock.now += 59 * DAY
    assert usage.recent()["files", "read"] == RecentUse({}, "2026-11-23")
    clock.now += DAY
    assert usage.recent() == {}
    assert usage.memory.keys("calls") == []


def test_a_clock_that_is_years_ahead_for_once_loses_nothing():
    clock = Clock()
    usage = ToolUsage(Memory(None), clock)
    call(usage)
    usage.fold()
    clock.now += 3650 * DAY
    call(usage)
    assert usage.recent()["files", "read"].calls == {"cursor": 1}
    clock.now = NOON
    assert usage.recent()["files", "read"].calls == {"cursor": 1}


def test_a_clock_that_goes_back_loses_nothing():
    clock = Clock()
    usage = ToolUsage(Memory(None), clock)
    call(usage)
    usage.fold()
    clock.now = 0.0
    assert usage.recent()["files", "read"] == RecentUse({}, "")
    clock.now = NOON
    assert usage.recent()["files", "read"].calls == {"cursor": 1}


def test_without_keep_what_was_counted_is_forgotten(tmp_path):
    path = tmp_path / "usage.json"
    usage = ToolUsage(Memory(path), Clock())
    call(usage)
    usage.fold()
    usage.memory.save()
    assert b"read" in path.read_bytes()
    usage.adjust(keep=False)
    call(usage)
    assert usage.recent() == {}
    assert usage.since == ""
    usage.memory.save()
    assert b"read" not in path.read_bytes()
    usage.adjust(keep=True)
    call(usage)
    assert usage.recent()["files", "read"].calls == {"cursor": 1}


def test_names_that_are_too_long_are_not_counted():
    usage = ToolUsage(Memory(None), Clock())
    call(usage, tool="x" * (MAX_NAME + 1))
    call(usage, host="x" * (MAX_NAME + 1))
    call(usage, tool="x" * MAX_NAME)
    assert [tool for _, tool in usage.recent()] == ["x" * MAX_NAME]


def test_the_tools_called_between_two_looks_are_bounded():
    usage = ToolUsage(Memory(None), Clock())
    for number in range(MAX_CALLED + 10):
        call(usage, tool=f"t{number}")
    assert len(usage.calls) == MAX_CALLED
    assert len(usage.recent()) == MAX_CALLED


def test_of_too_many_numbers_those_go_first_that_were_not_called_for_the_longest_time(monkeypatch):
    monkeypatch.setattr(tool_usage, "MAX_NUMBERS", 20)
    clock = Clock()
    usage = ToolUsage(Memory(None), clock)
    call(usage, "old", "one")
    call(usage, "old", "two")
    usage.fold()
    clock.now += DAY
    for number in range(18):
        call(usage, tool=f"t{number}")
    assert len(usage.recent()) == 20
    clock.now += DAY
    call(usage, tool="another")
    found = usage.recent()
    assert ("files", "another") in found
    assert len(found) == 18
    assert usage.memory.keys("calls") == ["files"]


@pytest.mark.parametrize(
    "calls",
    [
        {"files": 5},
        {"files": {"read": []}},
        {"files": {"read": {"cursor": {"2026-11-23": "many"}}}},
        {"files": {"read": {"cursor": {"zzzz": 1}}}},
    ],
)
def test_what_is_no_record_is_left_out_and_the_rest_stays(tmp_path, calls):
    path = tmp_path / "usage.json"
    sections = {"calls": {**calls, "sound": {"read": {"cursor": {"2026-11-23": 2}}}}, "facts": {"since": 4}}
    path.write_text(json.dumps({"format": 1, "sections": sections}))
    usage = ToolUsage(Memory(path), Clock())
    assert list(usage.recent()) == [("sound", "read")]
    assert usage.since == "2026-11-23"
    call(usage)
    assert usage.recent()["files", "read"].calls == {"cursor": 1}


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["calls", "facts", "more"]), st.dictionaries(st.text(max_size=8), ANYTHING)))
def test_whatever_the_file_holds_the_record_goes_on(sections):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "usage.json")
        path.write_bytes(msgspec.json.encode({"format": 1, "sections": sections}))
        usage = ToolUsage(Memory(path), Clock())
        call(usage, "a server", "a tool")
        assert usage.recent()["a server", "a tool"].calls["cursor"] >= 1
        usage.memory.save()
        assert ToolUsage(Memory(path), Clock()).recent() == usage.recent()


def test_a_broken_file_is_an_empty_record(tmp_path):
    path = tmp_path / "usage.json"
    path.write_bytes(b"{")
    usage = ToolUsage(Memory(path), Clock())
    call(usage)
    assert len(usage.recent()) == 1
