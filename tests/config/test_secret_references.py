"""References to what is read when a server starts: their forms, their marks, and texts that only look like them."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.secret_references import (
    Malformed,
    Reference,
    blank_references,
    fill_references,
    is_name,
    mark_reference,
    read,
    references_in,
    spell_references,
)

NAMES = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64)
WORDS = st.text(st.characters(exclude_characters="\0{}'\"\\", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
REFERENCES = st.one_of(
    st.builds(Reference, st.just("secret"), NAMES, st.text("0123456789abcdef", max_size=16)),
    st.builds(Reference, st.just("credential"), NAMES, st.just("")),
    st.builds(Reference, st.just("cmd"), WORDS, st.just("")),
)
PLAIN = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
TEXTS = st.lists(st.one_of(PLAIN, REFERENCES), max_size=6)


def made(parts):
    return "".join(mark_reference(part) if isinstance(part, Reference) else part for part in parts)


@given(TEXTS)
def test_what_is_marked_is_found_and_nothing_else(parts):
    assert references_in(made(parts)) == [part for part in parts if isinstance(part, Reference)]


@given(TEXTS)
def test_shown_it_is_as_files_write_it(parts):
    assert spell_references(made(parts)) == "".join(map(str, parts))
    assert "\0" not in spell_references(made(parts)) + blank_references(made(parts))


@given(TEXTS, st.data())
def test_values_take_the_places_of_their_references_and_are_not_looked_at_again(parts, data):
    values = {
        part: data.draw(st.one_of(PLAIN, st.just("${secret:x}"))) for part in parts if isinstance(part, Reference)
    }
    assert fill_references(made(parts), values) == "".join(values.get(part, part) for part in parts)


@given(REFERENCES)
def test_what_is_shown_is_read_as_the_same(reference):
    assert read(str(reference)[2:-1]) == reference._replace(version="")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_a_reference_or_none_or_malformed(inner):
    try:
        found = read(inner)
    except Malformed:
        assert inner.startswith(("secret:", "credential:", "cmd:"))
        return
    assert (found is None) == (not inner.startswith(("secret:", "credential:", "cmd:")))
    if found is not None and found.kind == "cmd":
        assert found.argv[0]
    elif found is not None:
        assert is_name(found.text)


@given(st.text())
def test_a_name_is_what_the_rule_says(name):
    assert is_name(name) == (re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) is not None)


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("secret:", "a name is 1 to 64"),
        ("secret:a/b", "a name is 1 to 64"),
        ("credential:..", "a name is 1 to 64"),
        ("credential:../x", "a name is 1 to 64"),
        ("cmd:", "names no program"),
        ("cmd:''", "names no program"),
        ("cmd:op 'x", "no closing quotation"),
    ],
)
def test_those_that_make_no_sense_say_why(inner, why):
    with pytest.raises(Malformed, match=why):
        read(inner)


def test_a_command_is_split_like_a_shell_does_and_not_run_by_one():
    reference = read("cmd:op read 'op://My Vault/x' \"$HOME\"; ls")
    assert reference is not None
    assert reference.argv == ["op", "read", "op://My Vault/x", "$HOME;", "ls"]
