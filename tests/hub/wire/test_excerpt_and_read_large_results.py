"""Cheap looks at large messages agree with what a whole look finds."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.bridge.questions_in_results import may_want_input
from hub.bridge.tasks.translate_tasks import may_be_task
from hub.catalog.rewrite_embedded_uris import localise
from hub.wire import excerpt_and_read_large_results, jsonrpc
from hub.wire.byte_checks import MAX_DEPTH, one_line
from hub.wire.excerpt_and_read_large_results import (
    LARGE_BYTES,
    MAX_QUOTES,
    MAX_TEXTS,
    STRETCH_BYTES,
    excerpt,
    look_at_result,
    read_tool_result,
)
from hub.wire.jsonrpc import RemoteProtocolError, Result, decode
from hub.wire.mcp import L4, LEGACY_VERSIONS, MODERN
from hub.wire.results_for_hosts import make_plain_modern, result_for_host

LONG = "x" * LARGE_BYTES
TEXT = {"type": "text", "text": LONG}


def test_a_small_value_is_its_own_excerpt():
    value = b'{"a":"' + b"x" * (LARGE_BYTES - 10) + b'"}'
    assert excerpt(value) is value
    assert excerpt(Raw(value)) == value


def test_an_excerpt_has_all_short_strings_and_the_beginnings_of_long_ones():
    value = json.dumps({"content": [{"text": "hub.begin" + LONG}, {"uri": "u", "n": [1] * LARGE_BYTES}]}).encode()
    found = excerpt(value)
    assert found.startswith(b'{"content": [{"text": "hub.begin' + b"x" * (STRETCH_BYTES - 9) + b'"}, {"uri": "u", "n"')
    assert len(found) < 3 * STRETCH_BYTES


def test_a_value_with_many_quotes_is_its_own_excerpt():
    few, many = (json.dumps(["q"] * (quotes // 2) + ["x" * LARGE_BYTES]).encode() for quotes in (500, MAX_QUOTES))
    assert len(excerpt(few)) < len(few)
    assert excerpt(many) is many


@given(st.lists(st.sampled_from(['"', "uri", "\\", "_meta", "x" * 700, "{", "y" * STRETCH_BYTES]), max_size=30))
def test_an_excerpt_has_a_quoted_word_exactly_if_the_value_has(parts):
    value = "".join(parts).encode() + b"z" * LARGE_BYTES
    for word in (b'"uri"', b'"_meta"'):
        assert (word in excerpt(value)) == (word in value)


BLOCKS = [
    {"type": "text", "text": "é"},
    {"type": "text", "text": "a\x01\n\\u00"},
    {"type": "text", "text": 'says "uri" and "_meta"'},
    {"type": "image", "data": "aa", "mimeType": "image/png"},
    {"type": "audio", "data": "aa", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "file:///x", "name": "x"},
    {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}, "_meta": {"ui": {"resourceUri": "ui://x"}}},
]
MEMBERS = {
    "isError": True,
    "structuredContent": [1],
    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}, "ui": {"resourceUri": "ui://x"}},
    "resultType": "input_required",
    "task": {"taskId": "1"},
    "extra": {"uri": "file:///x", "content": []},
}


@given(
    st.lists(st.sampled_from(BLOCKS), max_size=3),
    st.sets(st.sampled_from(sorted(MEMBERS))),
    st.sampled_from([(False, None), (True, None), (False, ("uri", r"\u0075ri")), (False, ("_meta", r"_m\u0065ta"))]),
    st.sampled_from(sorted(LEGACY_VERSIONS)),
)
def test_a_plain_result_is_for_every_host_of_a_handshake_as_it_is(blocks, members, spelling, version):
    spelled, escape = spelling
    result = {"content": blocks, **{name: MEMBERS[name] for name in sorted(members)}}
    text = json.dumps(result, separators=(",", ":"), ensure_ascii=spelled)
    value = Raw((text if escape is None else text.replace(*escape)).encode())
    if not look_at_result(value)[0]:
        return
    same = result_for_host("tools/call", value, upstream="a", upstream_version=L4, host_version=version)
    assert localise(same, lambda uri: "hub.a+" + uri) is value
    assert not may_want_input(Result(value))
    assert not may_be_task(Result(value))
    assert one_line(bytes(value)) == bytes(value)
    newest = result_for_host("tools/call", value, upstream="a", upstream_version=L4, host_version=MODERN)
    assert bytes(make_plain_modern(value, "a")) == bytes(localise(newest, lambda uri: "hub.a+" + uri))


def test_a_result_in_another_order_is_opened_for_the_newest_hosts():
    value = Raw(b'{"isError":false,"content":[]}')
    assert look_at_result(value) == (True, False)
    assert make_plain_modern(value, "a") is None


def test_most_results_are_plain_and_others_are_not():
    text = b'{"content":[{"type":"text","text":"the \\"uri is uri, \\"isError\\":true"}],"isError":%b}'
    assert look_at_result(Raw(text % b"false")) == (True, False)
    assert look_at_result(Raw(text % b"true")) == (True, True)
    assert look_at_result(Raw(text.replace(b"uri is", "ü".encode()) % b"true")) == (False, True)
    large = b'{"content":["' + LARGE_BYTES * b"x" + b'"],"isError":%b}'
    assert [look_at_result(Raw(large % each))[1] for each in (b"false", b"true")] == [False, True]
    assert decode(b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}', strict=False).reply.is_plain
    for block in BLOCKS[0], *BLOCKS[4:]:
        assert look_at_result(Raw(dumps({"content": [block]}).encode())) == (False, False)
    for name, value in MEMBERS.items():
        assert look_at_result(Raw(dumps({"content": [], name: value}).encode()))[0] == (name == "isError")
    assert look_at_result(Raw(dumps({"tools": []}).encode())) == (False, None)


def message(result: str, before: str = '{"jsonrpc":"2.0","id":7,"result":', behind: str = "}") -> bytes:
    return (before + result + behind).encode()


def dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


PLAIN = dumps({"content": [TEXT]})
FRAMES = [
    ('{"jsonrpc":"2.0","id":7,"result":', "}"),
    ('{"jsonrpc": "2.0", "id": 7, "result": ', "}"),
    ('{"result":', ',"jsonrpc":"2.0","id":7}'),
]


@pytest.mark.parametrize(("before", "behind"), FRAMES)
@pytest.mark.parametrize(
    ("result", "is_plain"),
    [
        (PLAIN, True),
        (json.dumps({"content": [TEXT] * 10, "isError": False}), True),
        (dumps({"isError": True, "content": [{"text": LONG, "type": "text"}]}), True),
        (dumps({"content": [TEXT], "structuredContent": {"a": [{"uri": "u"}]}}), True),
        (dumps({"content": [TEXT], "structuredContent": [1]}), False),
        (dumps({"content": [TEXT], "_meta": {"a": 1}}), False),
        (dumps({"content": [TEXT], "resultType": "complete"}), False),
        (dumps({"content": [{"type": "text", "text": LONG + '"ü{[\\'}]}), True),
    ],
)
def test_the_text_of_a_tool_is_read_at_once(result, is_plain, before, behind):
    data = message(result, before, behind)
    found = read_tool_result(data)
    assert found is not None
    says_error = json.loads(result).get("isError", False)
    assert (found[0], bytes(found[1]), *found[2:]) == (7, result.encode(), is_plain, says_error)
    assert decode(data, strict=False).reply == Result(found[1], is_plain, says_error)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


ODD = [
    *(PLAIN[:at] + PLAIN[at + 1 :] for at in (0, 1, 9, 10, 13, -1, -2, -3)),
    PLAIN + "}",
    PLAIN + ',"id":8',
    PLAIN + ',"result":{}',
    PLAIN.replace('"text"', '"uri"'),
    PLAIN.replace("xx", "x\n", 1),
    PLAIN.replace("xx", "\\ud800", 1),
    PLAIN.replace("xx", "\u2028", 1),
    PLAIN.replace("xx", "\u2028", 1).replace("}", "\n}"),
    PLAIN.replace("xx", "\x01", 1),
    dumps({"content": [{"type": "text", "text": ""}] * MAX_TEXTS + [TEXT]}),
    dumps({"content": [{"type": "image", "data": LONG, "mimeType": "a"}]}),
    dumps({"content": [{**TEXT, "annotations": {}}]}),
    dumps({"contents": [{"uri": "u", "text": LONG}]}),
    dumps({"content": [TEXT], "task": {}}),
    dumps({"content": LONG}),
    dumps([TEXT]),
    *(
        form.replace("DEEP", nested(depth))
        for depth in (40, MAX_DEPTH - 3, MAX_DEPTH, MAX_DEPTH + 2, 400)
        for form in (
            PLAIN[:-1] + ',"structuredContent":{"a":DEEP}}',
            PLAIN[:-1] + ',"_meta":DEEP}',
            PLAIN[:-1] + ',"structuredContent":DEEP,"structuredContent":{}}',
            '{"content":[{"type":"text","text":DEEP,"text":""}],' + PLAIN[1:],
            '{"content":[{"type":"text","text":DEEP},' + PLAIN[12:],
        )
    ),
]


@pytest.mark.parametrize(("before", "behind"), FRAMES)
@pytest.mark.parametrize("result", ODD)
def test_anything_else_is_read_or_refused_as_if_it_were_small(result, before, behind, monkeypatch):
    data = message(result, before, behind)
    found = outcome(data)
    monkeypatch.setattr(jsonrpc, "read_tool_result", lambda _: None)
    assert found == outcome(data)


def outcome(data: bytes) -> object:
    try:
        response = decode(data, strict=False)
    except RemoteProtocolError as error:
        return str(error), error.id
    return response.id, bytes(response.reply.value)


@pytest.mark.parametrize("id", ["-1", "01", '"7"', "1.0", "null", "1" * 16])
def test_an_unusual_id_is_none_of_a_tool_result(id):
    assert read_tool_result(message(PLAIN, f'{{"jsonrpc":"2.0","id":{id},"result":')) is None


def test_bytes_that_are_not_utf8_are_refused():
    data = message(PLAIN).replace(b"xx", b"\xff", 1)
    assert read_tool_result(data) is None
    with pytest.raises(RemoteProtocolError, match=re.escape("Not UTF-8")):
        decode(data, strict=False)


def test_hosts_are_read_by_all_rules():
    assert not decode(message(PLAIN)).reply.is_plain


def test_no_name_that_is_looked_for_is_longer_than_what_is_kept_of_it():
    assert 6 * len("io.modelcontextprotocol/related-task") < STRETCH_BYTES < excerpt_and_read_large_results.LARGE_BYTES
