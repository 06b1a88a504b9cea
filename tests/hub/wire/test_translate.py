"""Payloads between every two revisions: the host gets what its revision can read, and nothing else changes."""

import contextlib
import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from hub.wire.item_limits import MAX_ITEMS, TooManyItems
from hub.wire.jsonrpc import Failure, Result, encode_response, raw
from hub.wire.mcp import ALL_VERSIONS, L1, L2, L3, L4, MODERN, PREFIX, Kind
from hub.wire.translate import (
    MAX_BLOCKS,
    UnknownResultType,
    entry_for_host,
    failure_for_host,
    params_for_upstream,
    result_for_host,
)
from tests.support.schemas import validate

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

# --- results --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("G-16", "SEC-80")
@pytest.mark.parametrize(("method", "from_", "to"), list(product(RESULTS, LEGACY, LEGACY)))
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
        "_meta": {
            PREFIX + "serverInfo": HUB,
            "dev.hubd/server": "up",
            "dev.hubd/serverInfo": theirs,
            "vendor/x": 1,
        },
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
@pytest.mark.parametrize("to", ALL_VERSIONS)
@pytest.mark.parametrize(
    ("method", "value"),
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


# --- errors ---------------------------------------------------------------------------------------------------------

ERRORS = [
    # method, code, from, to host, code the host gets
    *((CALL, -32602, from_, to, -32602) for from_, to in product(ALL_VERSIONS, ALL_VERSIONS)),
    *((READ, -32002, from_, to, -32002) for from_, to in product(ALL_VERSIONS, LEGACY)),
    *((READ, -32002, from_, MODERN, -32602) for from_ in ALL_VERSIONS),
    *((READ, -32602, MODERN, to, -32002) for to in LEGACY),
    *((READ, -32602, from_, to, -32602) for from_, to in product(LEGACY, ALL_VERSIONS)),
    (READ, -32602, MODERN, MODERN, -32602),
    *((CALL, code, L4, L4, code) for code in (-32601, -32000, -32019, -32002, -32042, -32050)),
    *((CALL, code, L4, MODERN, -32603) for code in (-32601, -32000, -32019, -32002, -32042, -32050, -32099)),
    *((CALL, code, MODERN, to, -32603) for code, to in product((-32020, -32022), ALL_VERSIONS)),
    *((CALL, -32042, L4, to, -32603) for to in (L1, L2, L3)),
    *((CALL, code, L4, to, code) for code, to in product((-32700, -32600, -32603, -32100, -1, 0, 7), ALL_VERSIONS)),
]


@pytest.mark.covers("E-1", "E-2", "E-4", "E-8", "E-9", "S-8", "S-9", "S-28", "C-15", "P-13")
@pytest.mark.parametrize(("method", "code", "from_", "to", "wanted"), ERRORS)
def test_errors(method: str, code: int, from_: str, to: str, wanted: int) -> None:
    said = {"uri": "up:x", "elicitations": []}
    failure = Failure(code, "Because", raw(said))
    after = failure_for_host(failure, method, upstream="up", upstream_version=from_, host_version=to, uri="hub.up+up:x")
    validate(encode_response(1, after), to, sender="server", method=method)
    assert (after.code, after.message) == (wanted, "Because")
    assert after.data is not UNSET
    data = json.loads(bytes(after.data))
    uri = {"uri": "hub.up+up:x"} if method == READ else {}
    if wanted == code:
        assert data == {**said, **uri}
    else:
        original = {"server": "up", "code": code, "message": "Because", "data": said}
        assert data == {"upstream": original, **uri}


def test_an_error_without_data() -> None:
    mapped = failure_for_host(Failure(-32601, "No"), CALL, upstream="up", upstream_version=L4, host_version=MODERN)
    assert mapped.data == Raw(b'{"upstream":{"server":"up","code":-32601,"message":"No"}}')
    plain = Failure(-32602, "No")
    for method in (READ, CALL):
        assert failure_for_host(plain, method, upstream="up", upstream_version=MODERN, host_version=L4) is plain
    not_found = Failure(-32002, "No")
    assert (
        failure_for_host(not_found, READ, upstream="up", upstream_version=L4, host_version=L4, uri="x:y") is not_found
    )


@pytest.mark.covers("S-6", "E-8")
@pytest.mark.parametrize(
    ("capabilities", "wanted"),
    [(None, -32021), ({}, -32021), ({"roots": Raw(b"{}")}, -32021), ({"sampling": Raw(b"{}")}, -32603)],
)
@pytest.mark.parametrize("to", [L4, MODERN])
def test_a_missing_capability_is_the_hosts_or_ours(capabilities: dict | None, wanted: int, to: str) -> None:
    failure = Failure(-32021, "Needs sampling", Raw(b'{"requiredCapabilities":{"sampling":{}}}'))
    after = failure_for_host(
        failure, CALL, upstream="up", upstream_version=MODERN, host_version=to, host_capabilities=capabilities
    )
    assert after.code == wanted
    assert (after is failure) == (wanted == -32021)
    validate(encode_response(1, after), to, sender="server")


def test_a_missing_mode_of_a_capability_is_the_hosts() -> None:
    failure = Failure(-32021, "Needs a visit", Raw(b'{"requiredCapabilities":{"elicitation":{"url":{}}}}'))
    for capabilities, wanted in ((b"{}", -32021), (b'{"form":{}}', -32021), (b'{"url":{}}', -32603)):
        after = failure_for_host(
            failure,
            CALL,
            upstream="up",
            upstream_version=L4,
            host_version=MODERN,
            host_capabilities={"elicitation": Raw(capabilities)},
        )
        assert after.code == wanted


# --- definitions ----------------------------------------------------------------------------------------------------


def shown(tool: dict, to: str) -> dict:
    """A tool as a host sees it, judged as part of a list."""
    entry = entry_for_host(Kind.TOOL, {name: raw(value) for name, value in tool.items()}, to)
    marks = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if to == MODERN else {}
    listing = encode_response(1, Result(raw({"tools": [entry], **marks})))
    validate(listing, to, sender="server", method="tools/list")
    return {name: json.loads(bytes(value)) for name, value in entry.items()}


OBJECT = {"type": "object"}
PLAIN = {"name": "x", "title": "X", "inputSchema": {**OBJECT, "additionalProperties": False}, "_meta": {"ui": {}}}


@pytest.mark.parametrize("to", ALL_VERSIONS)
def test_an_ordinary_definition_is_not_touched(to: str) -> None:
    for tool in (PLAIN, {**PLAIN, "outputSchema": {**OBJECT, "properties": {"a": {"const": True}}}}):
        fields = {name: raw(value) for name, value in tool.items()}
        assert entry_for_host(Kind.TOOL, fields, to) is fields
    for kind in (Kind.PROMPT, Kind.RESOURCE, Kind.TEMPLATE):
        odd = {"name": raw("x"), "execution": raw({})}
        assert entry_for_host(kind, odd, to) is odd


@pytest.mark.covers("G-16", "X-14", "H-18")
@pytest.mark.parametrize("to", ALL_VERSIONS)
def test_definitions(to: str) -> None:
    nested = {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "C"}, "d": True}}
    tool = {
        **PLAIN,
        "execution": {"taskSupport": "optional"},
        "inputSchema": {
            "type": "object",
            "properties": {
                "a": True,
                "b": False,
                "n": nested,
                "x": {"type": "string"},
                "x-mcp-header": {"type": "integer"},
            },
            "required": ["a"],
        },
        "outputSchema": {"type": "array", "items": {}},
    }
    after = shown(tool, to)
    legacy = to != MODERN
    properties = after["inputSchema"]["properties"]
    assert "execution" not in after
    assert ("outputSchema" in after) != legacy
    assert properties["a"] == ({} if legacy else True)
    assert properties["b"] == ({"not": {}} if legacy else False)
    mirror = {} if legacy else {"x-mcp-header": "C"}
    inner = {"c": {"type": "string", **mirror}, "d": {} if legacy else True}
    assert properties["n"] == {"type": "object", "properties": inner}
    assert properties["x-mcp-header"] == {"type": "integer"}
    assert list(after["inputSchema"]) == ["type", "properties", "required"]
    assert list(after) == [name for name in tool if name != "execution" and not (legacy and name == "outputSchema")]


@pytest.mark.covers("C-19")
def test_an_argument_no_host_may_repeat_in_a_header_is_not_marked() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}
    assert shown({**PLAIN, "inputSchema": wrong}, MODERN)["inputSchema"]["properties"] == {"a": {"type": "array"}}


@pytest.mark.covers("G-16", "S-13")
def test_output_schemas_of_legacy_hosts_are_objects() -> None:
    for schema in (True, {}, {"anyOf": [OBJECT]}, {"type": ["object", "null"]}):
        for to in LEGACY:
            assert "outputSchema" not in shown({**PLAIN, "outputSchema": schema}, to)
    assert shown({**PLAIN, "outputSchema": {**OBJECT, "properties": {"a": True}}}, L4)["outputSchema"][
        "properties"
    ] == {"a": {}}


def test_schemas_that_are_none_are_left_to_the_catalogue() -> None:
    for odd in (b'{"properties":[true]}', b'{"properties":{"a":7,"b":false}}', b"false", b'"x-mcp-header"'):
        fields = {"name": raw("x"), "inputSchema": Raw(odd)}
        after = entry_for_host(Kind.TOOL, fields, L4)["inputSchema"]
        assert bytes(after) == odd.replace(b"false}", b'{"not":{}}}')
    assert entry_for_host(Kind.TOOL, {"name": raw("x")}, L4) == {"name": raw("x")}


# --- requests -------------------------------------------------------------------------------------------------------


@pytest.mark.covers("X-11", "R-19", "G-2")
def test_what_was_meant_for_the_hub_goes_no_further() -> None:
    params = {"name": raw("x"), "arguments": raw({"task": 1})}
    assert params_for_upstream(params) is params
    more = {**params, "task": raw({}), "inputResponses": raw({}), "requestState": raw("s")}
    assert params_for_upstream(more) == params


# --- crowds -----------------------------------------------------------------------------------------------------------


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


@pytest.mark.covers("I-3", "SEC-13")
def test_details_of_an_error_that_are_a_crowd_are_not_opened():
    failure = Failure(-32602, "no", raw({"uri": "x", "more": [1] * (MAX_ITEMS + 1)}))
    found = failure_for_host(
        failure, "resources/read", upstream="a", upstream_version=L4, host_version=L4, uri="hub.a+x"
    )
    assert found is failure
