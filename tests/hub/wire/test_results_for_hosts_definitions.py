"""Definitions between every two revisions: a host sees schemas and annotations that its revision knows."""

import json

import pytest
from msgspec import Raw

from hub.wire.jsonrpc import Result, encode_response, raw
from hub.wire.mcp import ALL_VERSIONS, L1, L2, L3, L4, MODERN, Kind
from hub.wire.results_for_hosts import entry_for_host
from tests.support.schemas import validate

CALL, PROMPT, READ, COMPLETE = "tools/call", "prompts/get", "resources/read", "completion/complete"
LEGACY = (L1, L2, L3, L4)


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
