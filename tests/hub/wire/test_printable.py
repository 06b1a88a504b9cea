"""Text of peers cannot control a terminal."""

import io
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from hub.wire.printable import Printable, printable, printable_json, visible


@pytest.mark.covers("SEC-54")
def test_what_people_see_of_it_obeys_nothing() -> None:
    assert printable("plain \N{SNOWMAN}") == "plain \N{SNOWMAN}"
    assert printable("a\nb\u202e\x1b[2J\ud800", keep="\n") == "a\nb\\u202e\\x1b[2J\\ud800"


@pytest.mark.covers("SEC-54")
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_that_is_printed_means_the_same_and_hides_nothing(value: object) -> None:
    for indent in (None, 2):
        text = printable_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(text) == value
        assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.covers("SEC-54")
def test_json_escapes_what_is_not_seen() -> None:
    text = json.dumps("a\x7f\x9b\u202e\u200b\U000e0041\ud800\u2028\xe9\N{SNOWMAN}", ensure_ascii=False)
    assert printable_json('{"a":\n"\u2800\u3164\ufe0f\U000e0101"}') == '{"a":\n"\\u2800\\u3164\\ufe0f\\udb40\\udd01"}'
    assert printable_json(text) == '"a\\u007f\\u009b\\u202e\\u200b\\udb40\\udc41\\ud800\\u2028\xe9\N{SNOWMAN}"'


@pytest.mark.covers("SEC-54")
def test_whatever_is_written_to_such_a_stream_obeys_nothing() -> None:
    inner = io.StringIO()
    stream = Printable(inner)
    print("a\tb\x1b[2J\nc\x9b\u202e", "d\r", file=stream, flush=True)
    assert inner.getvalue() == "a\tb\\x1b[2J\nc\\x9b\\u202e d\\r\n"
    assert stream.isatty() is False


@pytest.mark.covers("PIN-04")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, fünf, 五, Ω", "plain, fünf, 五, Ω"),
        ("a\u200bb", "a\\u200bb"),
        ("a\ufe0fb\U000e0101c", "a\\ufe0fb\\U000e0101c"),
        ("\u034f\u115f\u2800\u3164\uffa0", "\\u034f\\u115f\\u2800\\u3164\\uffa0"),
        ("\x1b[2J\t", "\\x1b[2J\\t"),
        ("\U000e0061", "\\U000e0061"),
        ("\u202eb", "\\u202eb"),
    ],
)
def test_all_that_nobody_sees_is_escaped(text, shown):
    assert visible(text) == shown
