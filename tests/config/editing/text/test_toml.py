"""Single settings of TOML put in and cut out; tables are in `test_serverfile`."""

import tomllib

import pytest

from config.editing.text.change import EditRefused
from config.editing.text.toml import assign, drop


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("[s.a]\nb = 1\n", "[s.a]\noff = true\nb = 1\n"),
        ("[s.a]", "[s.a]\noff = true\n"),
        ("  [s.a] # here\r\nb = 1\r\n", "  [s.a] # here\r\n  off = true\r\nb = 1\r\n"),
    ],
)
def test_a_setting_stands_below_the_header_and_goes_again(text, changed):
    assert assign(text, ("s", "a"), "off", True).apply(text) == changed
    left = drop(changed, ("s", "a"), "off", True).apply(changed)
    assert left == text or left == f"{text}\n"


@pytest.mark.parametrize("text", ["[s]\na = { b = 1 }\n", "s.a.b = 1\n", "[s]\na.b = 1\n", "[s.a]\noff = false # so\n"])
def test_without_a_header_or_with_a_value_already_it_is_changed_in_place(text):
    changed = assign(text, ("s", "a"), "off", True).apply(text)
    meant = tomllib.loads(text)
    meant["s"]["a"]["off"] = True
    assert tomllib.loads(changed) == meant


@pytest.mark.parametrize("text", ["", "[s]\n", "[s]\na = 1\n", "[s.b]\nc = 1\n"])
def test_there_is_no_such_table(text):
    with pytest.raises(EditRefused, match="there is no table"):
        assign(text, ("s", "a"), "off", True)


@pytest.mark.parametrize(
    "text",
    ["[s.a]\noff = false\n", "[s.a]\noff = true # why\n", "[s]\na = { off = true }\n", "[s.a]\n", "off = true\n", "?"],
)
def test_only_a_line_that_says_just_that_is_cut_out(text):
    with pytest.raises(EditRefused, match="there is no line `off = true`"):
        drop(text, ("s", "a"), "off", True)
