"""What is kept of what upstreams say, for how long, and what is hidden in it."""

import pytest
import trio

from config.setting_declarations import Secret
from config.settings import UpstreamConfig
from upstreams.journal.events_and_trouble import MAX_KEYS, History
from upstreams.journal.journal import (
    MAX_CHARS,
    MAX_MERGED_CHARS,
    MAX_QUEUED,
    MAX_RECORDS,
    MAX_TEXT_CHARS,
    Follower,
    Journal,
    Journals,
    merge_tails,
)
from upstreams.journal.record_filter import EVERY_RECORD
from upstreams.lifecycle import LOOP_ENDS, LOOP_WINDOW_S, State
from upstreams.redact import Mask
from upstreams.session_contract import Exit
from upstreams.status_facts import JournalRecord


class Clock:
    """A time of day that moves when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def texts(records):
    return [record.text for record in records]


def test_records_are_kept_with_their_times_in_order():
    clock = Clock()
    journal = Journal(clock)
    journal.add("state", "connecting")
    clock.now += 5
    journal.add("stderr", "hello", 7)
    assert journal.tail(10) == [JournalRecord(1000, "state", "connecting"), JournalRecord(1005, "stderr", "hello", 7)]
    assert texts(journal.tail(1)) == ["hello"]
    assert journal.tail(0) == []


def test_each_line_is_a_record():
    journal = Journal(Clock())
    journal.add("state", "one\ntwo\n")
    journal.add("state", "")
    assert texts(journal.tail(10)) == ["one", "two"]


@pytest.mark.covers("I-5", "F-P-23")
def test_the_oldest_go_first():
    journal = Journal(Clock())
    for number in range(MAX_RECORDS + 10):
        journal.add("stderr", str(number))
    assert texts(journal.tail(10**6)) == [str(number) for number in range(10, MAX_RECORDS + 10)]


@pytest.mark.covers("I-5", "F-P-23")
def test_long_lines_are_cut_and_count_by_their_length():
    journal = Journal(Clock())
    for _ in range(500):
        journal.add("stderr", "x" * 10_000)
    kept = journal.tail(10**6)
    assert {len(record.text) for record in kept} == {MAX_TEXT_CHARS}
    assert sum(len(record.text) for record in kept) <= MAX_CHARS < (len(kept) + 1) * MAX_TEXT_CHARS
    for number in range(MAX_RECORDS):
        journal.add("stderr", str(number))
    assert len(journal.tail(10**6)) == MAX_RECORDS


async def test_who_follows_hears_what_comes(nursery):
    journal = Journal(Clock())
    journal.add("stderr", "before")
    with journal.follow() as one, journal.follow() as other:
        heard = []

        async def hear():
            heard.append(await one.next())

        nursery.start_soon(hear)
        await trio.testing.wait_all_tasks_blocked()
        assert heard == []
        journal.add("stderr", "a")
        journal.add("stderr", "b")
        await trio.testing.wait_all_tasks_blocked()
        [(records, lost)] = heard
        assert (texts(records), lost) == (["a", "b"], 0)
        journal.add("stderr", "c")
        assert [texts((await follower.next())[0]) for follower in (one, other)] == [["c"], ["a", "b", "c"]]
    assert not journal._followers


@pytest.mark.covers("I-5")
async def test_who_follows_too_slowly_loses_the_oldest_and_is_told():
    journal = Journal(Clock())
    with journal.follow() as follower:
        for number in range(MAX_QUEUED + 5):
            journal.add("stderr", str(number))
        records, lost = await follower.next()
        assert (len(records), lost, records[0].text) == (MAX_QUEUED, 5, "5")
        journal.add("stderr", "more")
        assert (await follower.next())[1] == 0


def test_journals_outlive_upstreams_of_the_same_name():
    journals = Journals(Clock())
    journals["a"].add("state", "one")
    assert texts(journals["a"].tail(5)) == ["one"]
    assert list(journals) == ["a"]
    journals.pop("a", None)
    journals.pop("a", None)
    assert journals["a"].tail(5) == []


# --- secrets ----------------------------------------------------------------------------------------------------------


def masked(text, *, env=None, headers=None):
    secrets = {name: Secret(value) for name, value in (env or {}).items()}
    config = UpstreamConfig(
        command="x", env=secrets, headers={name: Secret(value) for name, value in (headers or {}).items()}
    )
    return Mask(config)(text)


@pytest.mark.covers("SEC-61", "I-9")
@pytest.mark.parametrize(
    ("text", "settings", "expected"),
    [
        ("key is hunter2!", {"env": {"KEY": "hunter2"}}, "key is ***!"),
        ("short and long: abcd abcdef", {"env": {"A": "abcd", "B": "abcdef"}}, "short and long: *** ***"),
        ("got Bearer tok-12345", {"headers": {"Authorization": "Bearer tok-12345"}}, "got ***"),
        ("token tok-12345 expired", {"headers": {"Authorization": "Bearer tok-12345"}}, "token *** expired"),
        ("-----BEGIN MIIEow+abc/x=", {"env": {"PEM": "-----BEGIN\nMIIEow+abc/x=\n"}}, "*** ***"),
        ("a.b and axb", {"env": {"A": "a.bc"}}, "a.b and axb"),
        ("level info, mode production, on 1", {"env": {"A": "info", "B": "production", "C": "1"}}, None),
        ("nothing to hide", {}, None),
    ],
)
def test_values_of_the_configuration_are_masked(text, settings, expected):
    assert masked(text, **settings) == (expected or text)


def test_a_mask_does_not_show_what_it_hides():
    assert "hunter2" not in repr(Mask(UpstreamConfig(command="x", env={"A": Secret("hunter2")})))


# --- what became of it ------------------------------------------------------------------------------------------------


@pytest.fixture
def story():
    config = UpstreamConfig(command="x", env={"KEY": Secret("hunter2")})
    return History(config, Journal(Clock()), now=0.0)


@pytest.mark.covers("SEC-54", "I-9")
def test_nothing_is_kept_with_secrets_or_control_characters(story):
    error = ValueError("it is hunter2")
    error.add_note("last words: hunter2")
    story.failed(error, 1)
    story.note("red \x1b[31m")
    assert story.note_log("info", "hunter2 \x07") == "*** \\x07"
    assert texts(story.journal.tail(9)) == ["it is ***", "red \\x1b[31m", "info: *** \\x07"]
    assert story.last_error == "it is ***\nlast words: ***"


def test_only_ends_by_itself_count_as_restarts(story):
    for _ in range(2):
        story.attempted()
        story.opened("2025-11-25 over stdio", 7)
        story.failed(ValueError("gone"), 10)
    assert story.restarts == 1
    story.rests(5)
    story.opened("", 7)
    assert story.restarts == 1
    story.failed(ValueError("gone"), 20)
    story.restarted()
    story.opened("", 7)
    trouble = story.trouble(State.CONNECTED, 30)
    assert (trouble.restarts, trouble.last_error, trouble.last_exit, trouble.ends_lately) == (1, None, None, 0)


@pytest.mark.covers("F-P-27", "F-P-01")
def test_how_it_stands(story):
    story.moved(100)
    for _ in range(3):
        story.failed(ValueError("no"), 110)
    story.exited(Exit(7, "exited with status 1", 1, None, True, ("bye",)), 110)
    story.exited(Exit(8, "stopped: exited with status 0", 0, None, False, ()), 111)
    story.pauses(4, 110)
    trouble = story.trouble(State.RECONNECTING, 112)
    assert (trouble.since_s, trouble.next_attempt_s, trouble.ends_lately, trouble.crash_loop) == (12, 2, 3, True)
    assert trouble.last_exit is not None
    assert (trouble.last_exit.how, trouble.last_exit.ago_s, trouble.last_exit.said) == (
        "exited with status 1",
        2,
        ("bye",),
    )
    assert not story.trouble(State.FAILED, 112).crash_loop
    assert story.trouble(State.RECONNECTING, 115).next_attempt_s == 0


@pytest.mark.covers("F-P-27")
def test_what_ended_often_within_minutes_is_a_crash_loop(story):
    def ends(now):
        return story.trouble(State.RECONNECTING, now).ends_lately

    for at in range(LOOP_ENDS):
        story.failed(None, at * 10)
    assert ends(LOOP_ENDS * 10) == LOOP_ENDS
    assert ends(LOOP_WINDOW_S + 5) == LOOP_ENDS - 1
    assert ends(2 * LOOP_WINDOW_S) == 0
    for at in range(1000):
        story.failed(None, at / 10)
    assert ends(100) == 100


@pytest.mark.covers("F-P-27")
def test_an_address_that_refuses_connections_is_in_no_crash_loop():
    """Nothing of the hub's crashes there."""
    story = History(UpstreamConfig(url="http://127.0.0.1:1/mcp"), Journal(Clock()), now=0.0)
    story.moved(100)
    for _ in range(9):
        story.failed(ConnectionRefusedError("refused"), 110)
    trouble = story.trouble(State.RECONNECTING, 112)
    assert (trouble.ends_lately, trouble.crash_loop) == (9, False)


# --- several journals -------------------------------------------------------------------------------------------------


async def test_several_journals_are_read_by_time_and_followed_together():
    clock = Clock()
    journals, own = Journals(clock), Journal(clock, "hub")
    for number in range(3):
        for journal in (journals["a"], own, journals["b"]):
            clock.now += 1
            journal.add("state", str(number))
    found = merge_tails([*journals.tails(10, EVERY_RECORD), own.tail(10)], 4)
    assert [(record.name, record.text) for record in found] == [("b", "1"), ("a", "2"), ("hub", "2"), ("b", "2")]
    assert merge_tails([], 5) == merge_tails([own.tail(10)], 0) == []
    follower = Follower()
    with journals.follow(follower), own.follow(follower):
        for journal in (own, journals["a"], journals["new"]):
            journal.add("state", "news")
        records, lost = await follower.next()
        assert ([record.name for record in records], lost) == (["hub", "a", "new"], 0)
    own.add("state", "later")
    journals["a"].add("state", "later")
    with trio.move_on_after(0) as nothing_came:
        await follower.next()
    assert nothing_came.cancelled_caught


@pytest.mark.covers("I-5")
def test_what_is_read_together_is_bounded():
    journals = Journals(Clock())
    for number in range(20):
        for _ in range(200):
            journals[str(number)].add("stderr", "x" * 4000)
    found = merge_tails(journals.tails(10**6, EVERY_RECORD), 10**6)
    assert 0 < sum(len(record.text) for record in found) <= MAX_MERGED_CHARS


def test_a_process_that_says_what_the_last_one_said_is_known_for_it(story):
    crash = ("at 10:01 Error: boom", "    at x.js:17")
    assert [story.said(line, 7) for line in crash] == [False, False]
    story.exited(Exit(7, "exited with status 1", 1, None, True, ()), 1.0)
    assert [story.said(line, 8) for line in ("at 10:02 Error: boom", "    at x.js:17", "another")] == [
        True,
        True,
        False,
    ]
    story.exited(Exit(8, "stopped", 0, None, False, ()), 2.0)
    assert story.said(crash[0], 9)
    story.restarted()
    assert not story.said(crash[0], 9)
    for number in range(2 * MAX_KEYS):
        story.said(chr(number + 200), 9)
    story.exited(Exit(9, "exited with status 1", 1, None, True, ()), 3.0)
    assert not story.said(chr(2 * MAX_KEYS + 150), 10)
