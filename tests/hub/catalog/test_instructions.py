"""How the instructions of many servers become those of the hub."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.catalog.instructions import LEAST_TEXT, MAX_INSTRUCTIONS, cut, joined, shares


@pytest.mark.covers("G-12")
def test_what_fits_stays_as_it_is():
    assert joined([]) == ""
    assert joined([("a", "One.\n\nTwo."), ("b", "Three")]) == "# a\n\nOne.\n\nTwo.\n\n# b\n\nThree"
    text = "x" * (MAX_INSTRUCTIONS - len("# a\n\n"))
    assert joined([("a", text)]) == f"# a\n\n{text}"


@pytest.mark.covers("G-12")
def test_who_says_little_is_heard_in_full_and_who_says_more_is_cut_alike():
    long = "This is a sentence of some length. " * 100
    said = joined([("a", long), ("b", "Short."), ("c", long)])
    assert len(said.encode()) <= MAX_INSTRUCTIONS
    a, b, c = (section.partition("\n\n")[2] for section in said.split("\n\n# "))
    assert b == "Short."
    assert a == c
    assert a.endswith("of some length. …")
    assert len(a) > (MAX_INSTRUCTIONS - 50) // 2 - 40


@pytest.mark.covers("G-12")
def test_servers_for_which_there_is_no_room_are_mentioned():
    said = joined([(f"server{number}", "x" * 200) for number in range(1000)])
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
    assert len(joined(sections).encode()) <= MAX_INSTRUCTIONS


@given(st.lists(st.integers(0, 500)), st.integers(0, 5000))
def test_shares_are_fair(needs, whole):
    found = shares(needs, whole)
    assert sum(found) <= whole
    assert all(share <= need for share, need in zip(found, needs, strict=True))
    less = [share for share, need in zip(found, needs, strict=True) if share < need]
    assert not less or max(found) - min(less) <= 1
    assert not less or whole - sum(found) < len(needs)
