"""Results between every two revisions: the host gets what its revision can read, and nothing else changes."""

import contextlib
import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, Result, encode_response, raw
from hub.wire.mcp import ALL_VERSIONS, L1, L2, L3, L4, MODERN, PREFIX, Kind
from hub.wire.results_for_hosts import MAX_BLOCKS, UnknownResultType, entry_for_host, result_for_host
from hub.wire.total_item_limit import MAX_ITEMS, TooManyItems
from tests.support.schemas import validate
from tests.support.tables import each_row

CALL, PROMPT, READ, COMPLETE = "tools/call", "prompts/get", "resources/read", "completion/complete"
LEGACY = (L1, L2, L3, L4)


def translated(value: object, upstream_version: str, host_version: str, method: str = CALL) -> dict:
    """`value` as the host gets it, judged by the schema of the host's revision."""
    before = value if isinstance(value, Raw) else raw(value)
    after = result_for_host(method, before, upstream="up", upstream_version=upstream_version, host_version=host_version)
    validate(encode_response(1, Result(after)), host_version, sender="server", method=method)
    return json.loads(bytes(after))


TEXT = {"type": "text", "text": "héllo"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK = {
    "type": "resource_link",
    "uri": "file:///a",
    "name": "a",
    "title": "A",
    "mimeType": "text/plain",
    "description": "An a",
    "_meta": {"vendor/x": 1},
}
HUB = {"name": "hubd", "title": "hubd", "version": "0.1.0"}
RESULTS = {
    CALL: {"content": [TEXT], "isError": True},
    PROMPT: {"description": "d", "messages": [{"role": "user", "content": TEXT}]},
    READ: {"contents": [{"uri": "a:b", "text": "x"}]},
    COMPLETE: {"completion": {"values": ["a"], "hasMore": False}},
}
MODERN_MARKS = {"resultType": "complete", "ttlMs": 60000, "cacheScope": "public"}


@pytest.mark.covers("G-16", "SEC-80")
@each_row("method, from_, to", product(RESULTS, LEGACY, LEGACY))
def test_between_legacy_peers_an_ordinary_result_is_not_touched(method: str, from_: str, to: str) -> None:
    value = raw({**RESULTS[method], "vendor": 1, "_meta": {"traceparent": "00-1"}})
    assert result_for_host(method, value, upstream="up", upstream_version=from_, host_version=to) is value
    spaced = Raw(json.dumps(RESULTS[method]).encode())
    assert result_for_host(method, spaced, upstream="up", upstream_version=from_, host_version=to) is spaced


@pytest.mark.covers("B-6", "V-21", "G-14", "K-1", "SEC-80")
@pytest.mark.parametrize(("method", "from_"), list(product(RESULTS, LEGACY)))
def test_a_modern_host_gets_the_marks_of_its_era(method: str, from_: str) -> None:
    value = {**RESULTS[method], "resultType": "whatever", "_meta": {"traceparent": "00-1"}}
    after = translated(value, from_, MODERN, method)
    caching = {"ttlMs": 0, "cacheScope": "private"} if method == READ else {}
    meta = {"traceparent": "00-1", PREFIX + "serverInfo": HUB, "dev.hubd/server": "up"}
    assert after == {**RESULTS[method], **caching, "resultType": "complete", "_meta": meta}


@pytest.mark.covers("B-7", "V-21", "G-14")
@pytest.mark.parametrize("method", RESULTS)
def test_between_modern_peers_identity_is_replaced_and_caching_kept(method: str) -> None:
    theirs = {"name": "their", "version": "1"}
    meta = {PREFIX + "serverInfo": theirs, PREFIX + "subscriptionId": 1, "vendor/x": 1}
    after = translated({**RESULTS[method], **MODERN_MARKS, "_meta": meta}, MODERN, MODERN, method)
    assert after == {
        **RESULTS[method],
        **MODERN_MARKS,
        "_meta": {PREFIX + "serverInfo": HUB, "dev.hubd/server": "up", "dev.hubd/serverInfo": theirs, "vendor/x": 1},
    }
    assert translated(RESULTS[method], MODERN, MODERN, method)["resultType"] == "complete"


@pytest.mark.covers("K-1", "K-9")
@pytest.mark.parametrize(
    ("given_", "ttl_ms", "scope"),
    [({}, 0, "private"), ({"ttlMs": -1, "cacheScope": "shared"}, 0, "private"), ({"ttlMs": 5}, 5, "private")],
)
def test_reads_always_say_how_long_they_last(given_: dict, ttl_ms: int, scope: str) -> None:
    after = translated({**RESULTS[READ], "resultType": "complete", **given_}, MODERN, MODERN, READ)
    assert (after["ttlMs"], after["cacheScope"]) == (ttl_ms, scope)


@pytest.mark.covers("G-2", "G-13")
@pytest.mark.parametrize(("method", "to"), list(product(RESULTS, LEGACY)))
def test_legacy_hosts_see_nothing_of_the_modern_era(method: str, to: str) -> None:
    hop = {PREFIX + "serverInfo": {"name": "x"}, PREFIX + "subscriptionId": "s"}
    value = {**RESULTS[method], **MODERN_MARKS, "_meta": hop}
    assert translated(value, MODERN, to, method) == RESULTS[method]
    value["_meta"] = {**hop, "vendor/x": 1}
    assert translated(value, MODERN, to, method) == {**RESULTS[method], "_meta": {"vendor/x": 1}}
    empty = raw({**RESULTS[method], "_meta": {}})
    assert result_for_host(method, empty, upstream="up", upstream_version=MODERN, host_version=to) is empty


@pytest.mark.covers("X-12", "G-2")
@pytest.mark.parametrize("to", ALL_VERSIONS)
@pytest.mark.parametrize("key", ["io.modelcontextprotocol/related-task", "io.modelcontextprotocol\\/related-task"])
def test_task_marks_of_an_upstream_stay_here(to: str, key: str) -> None:
    value = Raw(f'{{"content":[],"_meta":{{"{key}":{{"taskId":"u-9"}},"a/b":1}}}}'.encode())
    after = translated(value, L4, to)
    assert "related-task" not in json.dumps(after)
    assert after["_meta"]["a/b"] == 1


@pytest.mark.covers("G-16")
def test_audio_in_older_words() -> None:
    value = {"content": [TEXT, AUDIO]}
    for from_, to in product(LEGACY[1:], (L2, L3, L4)):
        assert translated(value, from_, to) == value
    for from_ in (*LEGACY[1:], MODERN):
        assert translated(value, from_, L1)["content"] == [
            TEXT,
            {
                "type": "resource",
                "resource": {"uri": "hubd://up/1/audio", "mimeType": "audio/wav", "blob": "AAAA"},
                "annotations": {"priority": 1},
            },
        ]
    bare = translated({"content": [{"type": "audio"}]}, L2, L1)
    assert bare["content"][0]["resource"] == {
        "uri": "hubd://up/0/audio",
        "mimeType": "application/octet-stream",
        "blob": "",
    }


@pytest.mark.covers("G-16")
@pytest.mark.parametrize("from_", [L3, L4, MODERN])
def test_links_in_older_words(from_: str) -> None:
    older = {"type": "text", "text": "A\na\nfile:///a\ntext/plain\nAn a", "_meta": {"vendor/x": 1}}
    least = {"type": "resource_link", "uri": "file:///b", "name": "b"}
    value = {"content": [LINK, TEXT, least]}
    for to in (L1, L2):
        assert translated(value, from_, to) == {"content": [older, TEXT, {"type": "text", "text": "b\nfile:///b"}]}
    for to in (L3, L4):
        assert translated(value, from_, to) == value


@pytest.mark.covers("G-16")
def test_prompts_in_older_words() -> None:
    value = {"messages": [{"role": "user", "content": block} for block in (TEXT, LINK, AUDIO)]}
    for to in (L1, L2):
        messages = translated(value, MODERN, to, PROMPT)["messages"]
        kinds = [message["content"]["type"] for message in messages]
        assert kinds == ["text", "text", "resource" if to == L1 else "audio"]
        assert {message["role"] for message in messages} == {"user"}
    assert translated(value, MODERN, L3, PROMPT) == value


@pytest.mark.covers("G-16", "S-12", "X-19")
@pytest.mark.parametrize(("from_", "to"), list(product((L4, MODERN), LEGACY)))
def test_structured_content_that_is_no_object(from_: str, to: str) -> None:
    other = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    assert translated({"content": [TEXT], "structuredContent": [1]}, from_, to) == {"content": [TEXT]}
    assert translated({"content": [other], "structuredContent": [1, "é"]}, from_, to) == {
        "content": [other, {"type": "text", "text": '[1,"é"]'}]
    }
    assert translated({"structuredContent": 7}, from_, to) == {"content": [{"type": "text", "text": "7"}]}
    kept = {"content": [other], "structuredContent": {"a": [1.50]}}
    assert translated(kept, from_, to) == kept


def test_structured_content_passes_to_modern_hosts() -> None:
    assert translated({"content": [], "structuredContent": [1]}, MODERN, MODERN)["structuredContent"] == [1]


@pytest.mark.covers("F-P-12", "B-6", "B-7")
@each_row("to", ALL_VERSIONS)
@each_row(
    "method, value",
    [
        (CALL, b'{"content":[],"resultType":"input_required"}'),
        (CALL, b'{"content":[],"resultType":"task"}'),
        (CALL, b'{"content":[],"resultType":7}'),
        (CALL, b'{"content":{}}'),
        (CALL, b'{"content":null}'),
        (CALL, b"[]"),
        (CALL, b"null"),
        (PROMPT, b"{}"),
        (PROMPT, b'{"messages":{}}'),
        (READ, b'{"contents":"x"}'),
        (COMPLETE, b'{"completion":[]}'),
        ("tools/list", b"7"),
    ],
)
def test_nonsense_of_an_upstream(method: str, value: bytes, to: str) -> None:
    with pytest.raises(UnknownResultType):
        result_for_host(method, Raw(value), upstream="up", upstream_version=MODERN, host_version=to)
    if b"resultType" not in value:
        with pytest.raises(UnknownResultType):
            result_for_host(method, Raw(value), upstream="up", upstream_version=L4, host_version=to)


@pytest.mark.parametrize(("from_", "to"), list(product(ALL_VERSIONS, ALL_VERSIONS)))
def test_a_tool_may_forget_its_content(from_: str, to: str) -> None:
    assert translated({}, from_, to)["content"] == []


def test_results_of_other_methods_pass() -> None:
    value = Raw(b'{"x":1}')
    assert result_for_host("vendor/x", value, upstream="up", upstream_version=L4, host_version=L1) is value
    after = result_for_host("vendor/x", value, upstream="up", upstream_version=L4, host_version=MODERN)
    assert json.loads(bytes(after))["resultType"] == "complete"


BLOCKS = st.sampled_from([TEXT, AUDIO, LINK, {"type": "image", "data": "AAAA", "mimeType": "image/png"}])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=5,
)


@pytest.mark.covers("G-16", "B-25")
@given(st.lists(BLOCKS, max_size=4), JSON, st.sampled_from(ALL_VERSIONS), st.sampled_from(ALL_VERSIONS))
def test_every_result_is_valid_for_every_host(blocks: list, structured: object, from_: str, to: str) -> None:
    after = translated({"content": blocks, "structuredContent": structured, "vendor": structured}, from_, to)
    assert after["vendor"] == structured
    if to == MODERN or isinstance(structured, dict):
        assert after["structuredContent"] == structured
    if to not in (L1, L2):
        assert after["content"][: len(blocks)] == blocks


@given(JSON, st.sampled_from([*RESULTS, "x"]), st.sampled_from(ALL_VERSIONS), st.sampled_from(ALL_VERSIONS))
def test_no_value_of_an_upstream_is_a_surprise(inner: object, method: str, from_: str, to: str) -> None:
    """Each value alone, and in each place where results are opened."""
    for value in (
        inner,
        dict.fromkeys(("content", "messages", "contents", "completion", "_meta", "structuredContent"), inner),
        {
            "content": [inner],
            "messages": [inner],
            "contents": [inner],
            "completion": {},
            "_meta": {"related-task": inner},
        },
        {"content": [{"type": inner}, {"type": "resource_link", "name": inner}], "messages": [{"content": inner}]},
    ):
        with contextlib.suppress(UnknownResultType):
            result_for_host(method, raw(value), upstream="", upstream_version=from_, host_version=to)
    for fields in ({"inputSchema": inner, "outputSchema": inner}, {"inputSchema": {"properties": {"a": inner}}}):
        entry_for_host(Kind.TOOL, {name: raw(value) for name, value in fields.items()}, to)
    for code in (-32002, -32602, -32021):
        failure = Failure(code, "", raw(inner))
        failure_for_host(failure, method, upstream="", upstream_version=from_, host_version=to, host_capabilities={})


def test_a_result_the_hub_made_has_no_upstream() -> None:
    after = result_for_host(CALL, raw(RESULTS[CALL]), upstream="", upstream_version="", host_version=MODERN)
    assert json.loads(bytes(after))["_meta"] == {PREFIX + "serverInfo": HUB}


def test_a_large_result_of_few_items_passes():
    rows = {"rows": [{"a": number, "b": [1, 2, {}]} for number in range(20_000)]}
    value = raw({"content": [{"type": "text", "text": json.dumps(rows)}], "structuredContent": rows})
    for from_, to in product((L4, MODERN), (L1, L4, MODERN)):
        after = result_for_host("tools/call", value, upstream="up", upstream_version=from_, host_version=to)
        assert len(json.loads(bytes(after))["content"]) == 1


@pytest.mark.covers("I-3", "SEC-13")
@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("tools/call", {"content": [{"type": "audio"}] * (MAX_BLOCKS + 1)}),
        ("tools/call", {"content": [{"type": "audio"}] * (MAX_ITEMS + 1)}),
        ("prompts/get", {"messages": [{"content": {"type": "audio"}}] * (MAX_BLOCKS + 1)}),
        ("tools/call", {"content": [{"type": "image"}] * (MAX_BLOCKS + 1), "structuredContent": 7}),
    ],
)
def test_what_is_put_into_older_words_block_by_block_has_so_many_blocks_at_most(method, value):
    with pytest.raises(TooManyItems, match=r"of this revision the hub reads 5000 at most|has more than 100000 items"):
        result_for_host(method, raw(value), upstream="a", upstream_version=L4, host_version=L1)
