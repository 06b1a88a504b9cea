"""Verification finds each change of a log; queries find records."""

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.rules.audit.lines import draft, write_lines
from hub.rules.audit.reading import File, Query, find_open_calls, select, verify

T = "2026-11-22T09:17:00.123Z"


def chain(*records, before="", number=0):
    drafts = [draft(members.get("t", T), {"k": "config", **members}) for members in records]
    return write_lines(drafts, number, before)[0].splitlines(keepends=True)


def files(*parts):
    return [File(f"audit.jsonl.{number}", BytesIO(b"".join(part))) for number, part in enumerate(parts)]


LOG = chain({"k": "open", "prev": ""}, *({"x": number} for number in range(8)))


def test_a_line_says_what_it_is_and_carries_its_hash():
    line, number, h = write_lines([draft(T, {"k": "end", "ref": "1"})], 41, "5c1f")
    assert number == 42
    assert json.loads(line) == {"t": T, "n": 42, "k": "end", "ref": "1", "h": h}
    assert line.startswith(b'{"t":"2026-11-22T09:17:00.123Z","n":42,"k":"end",')
    assert len(h) == 64


@pytest.mark.covers("AUD-02")
def test_a_log_as_it_was_written_is_whole():
    found = verify(files(LOG))
    assert (found.records, found.flaw, found.head) == (9, None, json.loads(LOG[-1])["h"])
    assert verify([]) == verify(files([]))


@pytest.mark.covers("AUD-02")
@pytest.mark.parametrize("at", range(1, 9))
def test_a_file_begins_with_the_last_hash_of_the_one_before(at):
    first = LOG[:at]
    head = json.loads(first[-1])["h"]
    second = chain({"k": "open", "prev": head}, {"x": 1}, before=head, number=at)
    assert verify(files(first, second)).flaw is None
    assert verify(files(second)).flaw is not None, "nobody has said that those before it are no longer kept"
    second = chain({"k": "open", "prev": head, "pruned": at + 1}, {"x": 1}, before=head, number=at)
    assert verify(files(second)).flaw is None
    third_of = files(first[:-1], second) if at > 1 else files(second[1:])
    assert verify(third_of).flaw is not None


@pytest.mark.covers("AUD-07", "SEC-91")
@given(st.data())
def test_each_changed_byte_is_found(data):
    at = data.draw(st.integers(0, len(LOG) - 1))
    place = data.draw(st.integers(0, len(LOG[at]) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte not in (LOG[at][place], 10)))
    line = LOG[at][:place] + bytes([byte]) + LOG[at][place + 1 :]
    found = verify(files([*LOG[:at], line, *LOG[at + 1 :]]))
    assert found.flaw is not None, line
    assert found.flaw.line in (at + 1, at + 2)


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("at", range(1, 9))
def test_each_removed_line_is_found(at):
    flaw = verify(files([*LOG[:at], *LOG[at + 1 :]])).flaw
    assert (flaw is None) == (at == 8), "a cut tail shows by the head only"
    assert flaw is None or flaw.line == at + 1


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("at", range(1, 8))
def test_each_swap_is_found(at):
    log = [*LOG]
    log[at], log[at + 1] = log[at + 1], log[at]
    assert verify(files(log)).flaw.line == at + 1


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("at", range(9))
def test_a_line_that_was_put_in_is_found(at):
    assert verify(files([*LOG[: at + 1], LOG[at], *LOG[at + 1 :]])).flaw.line == at + 2


@pytest.mark.covers("AUD-07")
@pytest.mark.parametrize("kept", range(9))
def test_a_cut_tail_is_found_by_the_head(kept):
    head = json.loads(LOG[-1])["h"]
    assert verify(files(LOG), head).has_head
    assert verify(files(LOG), head[:12]).has_head
    found = verify(files(LOG[:kept]), head)
    assert (found.flaw, found.has_head) == (None, False)


@pytest.mark.covers("AUD-07")
def test_a_tail_that_was_made_anew_is_found_by_what_is_known():
    hashes = [json.loads(line)["h"] for line in LOG]
    assert all(verify(files(LOG), known_as=(n, h)).flaw is None for n, h in enumerate(hashes, 1))
    anew = [*LOG[:6], *chain({"x": 9}, {"x": 9}, {"x": 9}, before=hashes[5], number=6)]
    assert verify(files(anew)).flaw is None
    flaw = verify(files(anew), known_as=(8, hashes[7])).flaw
    assert (flaw.line, flaw.why) == (8, "is not record 8 as the hub has written it")


def test_a_line_that_is_being_written_is_no_flaw():
    assert verify(files([*LOG, b'{"t":"2026'])).flaw is None
    assert verify(files([*LOG, b'{"t":"2026'], [])).flaw.why == "has no end"


def test_calls_without_an_end_are_found():
    records = [
        {"k": "begin", "ref": "1"},
        {"k": "begin", "ref": "2"},
        {"k": "end", "ref": "1"},
        {"k": "end", "ref": "3"},
    ]
    assert find_open_calls([*chain(*records), b"damage\n"]) == ["2"]


BEGIN = {"k": "begin", "host": "cursor", "p": "local", "by": "allow", "rule": "default"}
CALLS = chain(
    {**BEGIN, "ref": "01", "up": "github", "name": "github__merge_pr", "t": "2026-11-22T09:00:00.000Z"},
    {**BEGIN, "ref": "02", "up": "files", "name": "files__read", "host": "codex", "t": "2026-11-22T09:10:00.000Z"},
    {"k": "end", "ref": "01", "out": "ok", "ms": 3, "t": "2026-11-22T09:20:00.000Z"},
    {"k": "end", "ref": "02", "out": "asked", "t": "2026-11-22T09:30:00.000Z"},
    {**BEGIN, "ref": "03", "first": "02", "up": "files", "name": "files__read", "t": "2026-11-22T09:31:00.000Z"},
    {"k": "refuse", "up": "mail", "name": "mail__send", "host": "cursor", "t": "2026-11-22T09:40:00.000Z"},
    {"k": "hook", "name": "mail__send", "decision": "deny", "ref": "04", "t": "2026-11-22T09:50:00.000Z"},
    {"k": "hook", "name": "mail__send", "decision": "allow", "ref": "05", "t": "2026-11-22T09:50:00.000Z"},
    {"k": "deny", "id": "K7F3", "t": "2026-11-22T09:50:00.000Z"},
)


@pytest.mark.covers("AUD-06")
@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"upstream": "github"}, [1, 3]),
        ({"tool": "*__read"}, [2, 4, 5]),
        ({"host": "cursor"}, [1, 3, 5, 6]),
        ({"since": "2026-11-22T09:30:00"}, [4, 5, 6, 7, 8, 9]),
        ({"refused": True}, [6, 7, 9]),
        ({"ref": "02"}, [2, 4, 5]),
        ({"upstream": "files", "since": "2026-11-22T09:31"}, [5]),
        ({"tool": "nothing"}, []),
    ],
)
def test_records_are_found(wanted, numbers):
    found = list(select([*CALLS, b"damage\n"], Query(**wanted)))
    assert [record["n"] for record, _ in found] == numbers


def test_an_end_is_shown_with_its_beginning():
    [(record, shown)] = [pair for pair in select(CALLS, Query(ref="01")) if pair[0]["k"] == "end"]
    assert "name" not in record
    assert (shown["name"], shown["host"], shown["out"]) == ("github__merge_pr", "cursor", "ok")
