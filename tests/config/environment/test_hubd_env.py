"""`hubd.env` as text: what it says, and the block in it that is recorded."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.environment.hubd_env import (
    BEGIN,
    END,
    Assignment,
    CurrentEnvironment,
    NotReadable,
    assignments,
    for_this_process,
    in_block,
    join_own,
    line_for,
    outside,
    with_block,
)

HOSTS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "XDG_STATE_HOME": "/state",
    "HUBD_RUNTIME_DIR": "/run/x",
    "A": "1",
}


@pytest.mark.covers("FH-4")
def test_the_file_wins_but_for_what_says_where_it_is():
    own = {"PATH": "/all", "HOME": "/no", "XDG_STATE_HOME": "/no", "HUBD_RUNTIME_DIR": "/no", "XDG_CACHE_HOME": "/c"}
    assert join_own(HOSTS, own) == {**HOSTS, "PATH": "/all", "XDG_CACHE_HOME": "/c"}
    assert join_own(HOSTS, {}) == HOSTS


def test_the_hub_takes_over_nothing_that_would_move_its_files():
    assert for_this_process(join_own({}, HOSTS)) == {"PATH": "/usr/bin:/bin", "A": "1"}


def test_the_current_environment_is_replaced_as_a_whole():
    current = CurrentEnvironment({"A": "secret"})
    assert "secret" not in repr(current)
    held = dict(current)
    current.replace({"B": "2"})
    assert dict(current) == {"B": "2"}
    assert held == {"A": "secret"}
    assert len(current) == 1


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
VALUES = st.dictionaries(NAMES, st.text(max_size=20), max_size=5)
LINES = st.one_of(
    st.sampled_from(["", "# mine", "export A=1", "B = '2'", 'C="x # y"  # why', "D=", "  E=5  ", "\tF=6\r"]),
    st.from_regex(r"#[ -~]{0,10}", fullmatch=True),
)


@st.composite
def files(draw):
    """A file of the user's, without a block; with and without an end of its last line."""
    return ("\n".join(draw(st.lists(LINES, max_size=6))) + draw(st.sampled_from(["", "\n"]))).encode()


def test_lines_as_a_service_has_them():
    text = "# why\n\nA=1\nexport B='two words' # c\nC=\"a\\nb\"\nD=x # y\nE=\n"
    expected = [(3, "A", "1"), (4, "B", "two words"), (5, "C", "a\nb"), (6, "D", "x"), (7, "E", "")]
    assert [*assignments(text)] == [Assignment(*each) for each in expected]
    with pytest.raises(NotReadable, match="line 2 is not of the form KEY=VALUE"):
        list(assignments("A=1\nnothing\n"))


@given(files(), VALUES)
def test_the_block_is_what_was_written_and_the_rest_is_as_it_was(data, values):
    after = with_block(data, values)
    kept = {name: value for name, value in values.items() if line_for(name, value) is not None}
    assert in_block(after) == (kept or None)
    assert after.endswith(data)
    assert outside(after) == outside(data)
    assert with_block(after, {}) == data


@given(files(), files(), VALUES, VALUES)
def test_a_block_is_replaced_where_it_stands(before, behind, first, second):
    first["PATH"] = "/bin"
    block = with_block(b"", first)
    if before and not before.endswith((b"\n", b"\r")):
        before += b"\n"
    again = with_block(before + block + behind, second)
    assert again.startswith(before)
    assert again.endswith(behind)
    assert with_block(again, second) == again or not in_block(again)


@given(NAMES, st.text(max_size=30))
def test_what_is_written_is_read_again(name, value):
    line = line_for(name, value)
    if line is not None:
        assert [(each.name, each.value) for each in assignments(line)] == [(name, value)]
        assert "\n" not in line


@pytest.mark.parametrize(
    "value",
    ["/usr/bin:/home/me/bin", "/mnt/c/Program Files (x86)", "it's", 'a "b"', "a#b", " x ", "", "ü", "$HOME", "`"],
)
def test_usual_values_can_be_written(value):
    assert line_for("A", value) is not None


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "a\rb", "'\"", "'$", "a\\", "\ud800", "a\u2028b"])
def test_what_two_readers_take_for_different_things_is_not_written(value):
    assert line_for("A", value) is None
    assert line_for("A-B", "x") is line_for("1A", "x") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda block: block.replace(END, b"#"),
        lambda block: block.replace(BEGIN, b"#"),
        lambda block: block + block,
        lambda block: END + b"\n" + block.replace(END, b"#"),
        lambda block: b"A=1\n" + block + BEGIN,
    ],
)
def test_a_damaged_block_is_left_alone(damage):
    data = damage(with_block(b"", {"PATH": "/bin"}))
    for function in (in_block, outside, lambda data: with_block(data, {"A": "1"})):
        with pytest.raises(NotReadable, match="marks of the recorded block"):
            function(data)


@given(st.binary(max_size=60))
def test_whatever_a_file_holds_it_is_read_or_refused(data):
    for function in (in_block, outside):
        with contextlib.suppress(NotReadable):
            function(data)
