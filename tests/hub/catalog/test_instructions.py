"""How the instructions of many servers become those of the hub."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.instructions import (
    LEAST_TEXT,
    MAX_INSTRUCTIONS,
    ServerWords,
    cut,
    index,
    instructions,
    join,
    shares,
)


@pytest.mark.covers("G-12")
def test_what_fits_stays_as_it_is():
    assert join([]) == ""
    assert join([("a", "One.\n\nTwo."), ("b", "Three")]) == "# a\n\nOne.\n\nTwo.\n\n# b\n\nThree"
    text = "x" * (MAX_INSTRUCTIONS - len("# a\n\n"))
    assert join([("a", text)]) == f"# a\n\n{text}"


@pytest.mark.covers("G-12")
def test_who_says_little_is_heard_in_full_and_who_says_more_is_cut_alike():
    long = "This is a sentence of some length. " * 100
    said = join([("a", long), ("b", "Short."), ("c", long)])
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    a, b, c = (section.partition("\n\n")[2] for section in said.split("\n\n# "))
    assert b == "Short."
    assert a == c
    assert a.endswith("of some length. …")
    assert len(a) > (MAX_INSTRUCTIONS - 50) // 2 - 40


@pytest.mark.covers("G-12")
def test_servers_for_which_there_is_no_room_are_mentioned():
    said = join([(f"server{number}", "x" * 200) for number in range(1000)])
    sections = said.split("\n\n# ")
    assert sections[0].startswith("# server0\n\nxxx")
    assert sections[-1] == "Further servers\n\nThere is no room here for what they say."
    assert 15 < len(sections) < MAX_INSTRUCTIONS // LEAST_TEXT


@pytest.mark.parametrize(
    ("text", "room", "expected"),
    [
        ("One two. Three four.", 20, "One two. Three four."),
        ("One two. Three four.", 19, "One two. …"),
        ("One two\nThree four.", 18, "One two …"),
        ("A. bcdefg hijklmn opq", 20, "A. bcdefg …"),
        ("abcdefghijkl", 10, "abcdef …"),
        ("éééééééé", 10, "ééé …"),
    ],
)
def test_a_text_is_cut_where_it_reads_well(text, room, expected):
    assert cut(text, room) == expected
    assert len(expected.encode()) <= room


@given(st.lists(st.tuples(st.text("aé (", max_size=90), st.text("aé .\n", min_size=1, max_size=900)), max_size=60))
def test_there_is_never_more_than_hosts_show(sections):
    assert len(join(sections).encode()) <= MAX_INSTRUCTIONS


@given(st.lists(st.integers(0, 500)), st.integers(0, 5000))
def test_shares_are_fair(needs, whole):
    found = shares(needs, whole)
    assert sum(found) <= whole
    assert all(share <= need for share, need in zip(found, needs, strict=True))
    less = [share for share, need in zip(found, needs, strict=True) if share < need]
    assert not less or max(found) - min(less) <= 1
    assert not less or whole - sum(found) < len(needs)


def words(number, *, title="", text="", offers="38 tools"):
    return ServerWords(f"server{number}__*", f"server{number}", title, offers, text)


@pytest.mark.covers("EP-9")
def test_a_profiles_own_words_come_first_then_a_line_for_each_server_then_their_texts():
    said = instructions(
        "Ask before you push.", [words(1, title="Issues"), words(2, text="# Notes: all of them.\n\nMore.")]
    )
    assert said == (
        "Ask before you push.\n\n"
        "server1__*: Issues; 38 tools\nserver2__*: Notes: all of them; 38 tools\n\n"
        "# server2 (tools: server2__*)\n\n# Notes: all of them.\n\nMore."
    )
    assert instructions("", []) == ""
    assert instructions(" Only this. ", []) == "Only this."


@pytest.mark.covers("EP-9")
@pytest.mark.parametrize("count", [3, 30, 60])
def test_every_server_has_its_line_however_much_they_say(count):
    servers = [words(number, title="Issues, pull requests and " * 3, text="Use me. " * 100) for number in range(count)]
    said = instructions("", servers)
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    lines = said.split("\n\n")[0].splitlines()
    assert [line.partition(":")[0] for line in lines] == [each.prefix for each in servers]
    assert all(line.endswith("38 tools") for line in lines)
    assert ("Use me." in said) == (count == 3), "lines are not cut before texts"


@pytest.mark.covers("EP-9")
def test_servers_beyond_all_room_are_counted():
    said = instructions("x" * 1_000, [words(number) for number in range(200)])
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    lines = said.split("\n\n")[1].splitlines()
    assert lines[-1] == f"and {200 - len(lines) + 1} more servers"
    assert len(lines) > 30


def test_a_line_is_one_line_whatever_a_server_says():
    said = index([words(1, text="\n\n## A\x00b\u202e\ttitle\nnext"), words(2, text="\n"), words(3, offers="")], 2_000)
    assert said.splitlines() == ["server1__*: A b title; 38 tools", "server2__*: 38 tools", "server3__*"]


_words = st.builds(
    ServerWords,
    st.sampled_from(["", "a__*", "longer-name__*"]),
    st.text("ab", min_size=1, max_size=32),
    st.text("aé ", max_size=80),
    st.sampled_from(["", "1 tool", "38 tools"]),
    st.text("aé .\n#", max_size=400),
)


@given(st.text("xé. ", max_size=2_000), st.lists(_words, max_size=90))
def test_all_together_are_never_more_than_hosts_show(own, servers):
    assert len(instructions(own, servers).encode()) <= MAX_INSTRUCTIONS
