"""What is read of a line agrees with what a JSON parser would say, or it is nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.shim.mini_jsonrpc import (
    LARGE_BYTES,
    SMALL_BYTES,
    as_id,
    ends,
    first_id,
    json_of,
    loss,
    members,
    parse,
    quoted,
    resource_change,
)
from hub.wire.jsonrpc import Result, encode_response, raw

IDS = st.one_of(
    st.integers(-(10**12), 10**12), st.text(max_size=20), st.sampled_from(['"id":7}', 'a"', "\\", "}", ","])
)
TEXTS = st.sampled_from(
    ['","jsonrpc":"2.0","id":7}', '{"id":7', '\\","id":7,"', "x", '"', "\\", "\n", "é\U0001f980", "]}"]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@given(
    id=IDS,
    method=st.sampled_from(["tools/call", "ping", "odd", 'm"', "notifications/cancelled", None]),
    values=st.lists(VALUES, max_size=3),
    order=st.permutations(["jsonrpc", "id", "method", "params", "result"]),
    left_out=st.sets(st.sampled_from(["jsonrpc", "id", "method", "result"])),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    ascii=st.booleans(),
    long=st.booleans(),
)
def test_it_is_what_a_parser_says_or_nothing(id, method, values, order, left_out, separators, ascii, long):
    params = [*values, "x" * 4 * SMALL_BYTES if long else ""]
    whole = {"jsonrpc": "2.0", "id": id, "method": method, "params": params, "result": values}
    message = {name: whole[name] for name in order if name not in left_out}
    line = json.dumps(message, separators=separators, ensure_ascii=ascii).encode() + b"\n"
    expected = json.loads(line)
    for found in (members(line), ends(line)):
        for name in ("id", "method"):
            assert name not in found or found[name] == expected[name]
    found = members(line)
    if "id" in expected and not str(expected.get("method")).startswith("notifications/"):
        assert found["id"] == expected["id"]
        assert found.get("method") == expected.get("method")


LARGE = "x" * 100_000


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"method":"tools/call","params":{"a":"%s"},"jsonrpc":"2.0","id":7}', ("tools/call", 7)),
        ('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"%s"}}', ("tools/call", 7)),
        ('{"jsonrpc":"2.0","id":"a-\\u00e9","method":"tools/call","params":{"a":"%s"}}', ("tools/call", "a-é")),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"a": "%s"}}', ("tools/call", 7)),
        ('{"method": "tools/call", "params": {"a": "%s"}, "jsonrpc": "2.0", "id": "b"}', ("tools/call", "b")),
        ('{"result":{"a":"%s"},"jsonrpc":"2.0","id":"hub-1"}', (None, "hub-1")),
        ('{"jsonrpc":"2.0","method":"notifications/x","params":{"a":"%s"}}', ("notifications/x", None)),
        ('{"params":{"a":"%s"},"id":7,"z":{},"method":"tools/call"}', ("tools/call", 7)),
    ],
)
def test_long_lines_as_hosts_write_them(line, expected):
    found = members((line % LARGE).encode() + b"\n")
    assert (found.get("method"), found.get("id")) == expected


def test_a_very_long_line_that_hides_its_id_is_not_parsed():
    line = b'{"params":{"a":"%s"},"id":7,"z":{},"method":"tools/call"}\n' % (b"x" * LARGE_BYTES)
    assert members(line) is None


@pytest.mark.parametrize(
    "line", [b"\n", b"{", b"nonsense\n", b'{"a":1} 2\n', b'"\xff"', b"[" * 100_000, b'{"id":' + b"9" * 5000 + b"}"]
)
def test_what_is_no_json_is_nothing(line):
    assert parse(line) is None
    assert not members(line)


@given(IDS)
def test_ids_that_the_hub_writes(id):
    line = encode_response(id, Result(raw({"a": 1}))) + b"\n"
    assert first_id(line, 22, len(line)) == (id, line.index(b',"result"'))
    assert json.loads(json_of(id)) == id


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}])
def test_other_values_are_no_ids(value):
    assert as_id(value) is None


def test_what_a_shim_says_is_json():
    assert json.loads(resource_change('a"\\é'))["params"] == {"uri": 'a"\\é'}
    assert json.loads(quoted("\n")) == "\n"
    error = json.loads(loss('"', harmless=False, orderly=True))
    assert error["id"] == '"'
    assert error["error"]["data"] == {"hub": "draining", "executed": "unknown", "retryable": False}
