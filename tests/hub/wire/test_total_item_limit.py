"""Limits of values: items are counted as a parser would count them, without parsing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire import total_item_limit
from hub.wire.jsonrpc import RemoteProtocolError, raw
from hub.wire.mcp import INVALID_PARAMS
from hub.wire.total_item_limit import (
    MAX_STRINGS,
    TooManyItems,
    has_too_many_items,
    open_result,
    peek_limited,
    read_strings,
    refuse_too_many_items,
)

VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a,":{}[]\\é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a,"\\', max_size=3), inner, max_size=4),
    max_leaves=30,
)


def separators(value: object) -> int:
    """How many commas it takes to write a value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return max(0, len(value) - 1) + sum(map(separators, inner))
    return 0


@pytest.mark.covers("SEC-13")
@given(VALUES, st.booleans(), st.integers(1, 12))
def test_the_items_of_all_levels_are_counted(value, escaped, most):
    text = json.dumps(value, ensure_ascii=escaped).encode()
    assert has_too_many_items(text, most) is (len(text) > 2 * most and separators(value) >= most)


@pytest.mark.covers("SEC-13")
def test_many_strings_with_commas_are_a_crowd_before_they_are_counted(monkeypatch):
    monkeypatch.setattr(total_item_limit, "_MAX_QUOTES", 6)
    assert has_too_many_items(b'["a,","b,","c,","d,",""]', 8)
    assert not has_too_many_items(b'["a,","b,","c,",",,,,,,,,,"]'.replace(b'"a,",', b""), 8)


@pytest.mark.covers("SEC-13")
def test_a_large_object_of_many_members_is_not_opened(monkeypatch):
    monkeypatch.setattr(total_item_limit, "SMALL_BYTES", 0)
    few, many = (
        Raw(b'{"a":[1,2,3],"b":"1,2"}'),
        Raw(b"{%b}" % b",".join(b'"%d":1' % i for i in range(total_item_limit.MAX_ITEMS + 1))),
    )
    assert list(peek_limited(few)) == ["a", "b"]
    assert peek_limited(many) == peek_limited(None) == peek_limited(Raw(b"7")) == {}
    refuse_too_many_items(few, "it")
    with pytest.raises(TooManyItems, match="it has more than 100000 items"):
        refuse_too_many_items(many, "it")


@pytest.mark.covers("SEC-13", "I-3")
def test_what_the_hub_need_not_open_does_not_make_a_result_a_crowd():
    rows = b"[%b]" % b",".join([b"[1,2]"] * total_item_limit.MAX_ITEMS)
    assert list(open_result(Raw(b'{"content":%b,"structuredContent":{"a":%b},"x":1}' % (rows, rows)))) == [
        "content",
        "structuredContent",
        "x",
    ]
    with pytest.raises(TooManyItems, match="a result has more than"):
        open_result(Raw(b'{"content":[],"x":%b}' % rows))
    assert open_result(Raw(rows)) == {}


def test_each_string_once():
    assert read_strings(raw(["b", "a", "b", ""]), "uris") == ["b", "a", ""]
    assert read_strings(raw([]), "uris") == []


@pytest.mark.covers("F-H-24")
def test_as_many_as_anybody_needs():
    most = [str(number) for number in range(MAX_STRINGS)]
    assert read_strings(raw(most), "uris") == most
    with pytest.raises(RemoteProtocolError, match=f"uris is a list of at most {MAX_STRINGS} strings") as error:
        read_strings(raw(["a"] * (MAX_STRINGS + 1)), "uris")
    assert error.value.failure.code == INVALID_PARAMS


@pytest.mark.parametrize("value", [{}, "a", None, 1, [1], ["a", None], [["a"]]])
def test_what_is_no_list_of_strings(value):
    with pytest.raises(RemoteProtocolError, match="uris is a list"):
        read_strings(raw(value), "uris")
