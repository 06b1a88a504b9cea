"""Schemas of tools: what fits, what is said of the rest, and what no schema may do to the hub."""

import json
import socket
from contextlib import suppress

import pytest
from msgspec import Raw

from hub.wire.mcp import Kind
from hub.wire.upstream_snapshot import ListEntry
from upstreams.inventory.compiled_schemas import MAX_LINES, ToolSchema, Uncheckable, without_fetching
from upstreams.inventory.read_lists import Listing


def compiled(schema):
    return ToolSchema(Raw(json.dumps(schema).encode()))


def reason(schema):
    with pytest.raises(Uncheckable) as caught:
        compiled(schema)
    return caught.value


def nest(times, start, around):
    for _ in range(times):
        start = around(start)
    return start


@pytest.mark.covers("POL-51")
@pytest.mark.parametrize(
    ("schema", "value", "lines"),
    [
        ({"type": "object"}, {}, []),
        (
            {"properties": {"labels": {"items": {"type": "string"}}}},
            {"labels": [5]},
            ['/labels/0: not of type "string"'],
        ),
        ({"properties": {"a/b~c": {"maximum": 5}}}, {"a/b~c": 9}, ["/a~1b~0c: greater than the maximum of 5"]),
        ({"properties": {"s": {"minLength": 9}}}, {"s": "secret"}, ["/s: shorter than 9 characters"]),
        ({"properties": {"s": {"pattern": "^a"}}}, {"s": "secret"}, ['/s: the value does not match "^a"']),
        ({"properties": {"n": {"enum": [1, 2]}}}, {"n": "secret"}, ["/n: not one of 1 or 2"]),
        ({"required": ["q"]}, {}, ['/: "q" is a required property']),
        (True, {"x": 1}, []),
    ],
)
def test_what_does_not_fit_is_said_without_the_value(schema, value, lines):
    assert compiled(schema).misfits(value) == lines


@pytest.mark.covers("POL-51")
def test_so_many_lines_and_no_more():
    found = compiled({"items": {"type": "string"}}).misfits(list(range(99)))
    assert len(found) == MAX_LINES
    assert found[-1] == "and more"


@pytest.mark.covers("POL-50", "SEC-15")
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id", "$recursiveRef"])
def test_nothing_is_ever_fetched(keyword):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        for schema in ({keyword: url}, {"properties": {"a": {keyword: url}}}):
            with suppress(Uncheckable):
                compiled(schema).misfits({"a": 1})
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.covers("POL-50", "SEC-15")
def test_patterns_take_linear_time():
    slow = compiled({"properties": {"a": {"pattern": "^(a+)+$"}}})
    assert slow.misfits({"a": "a" * 100_000 + "b"})
    assert 'not a "regex"' in str(reason({"pattern": "(?=a)b"}))
    assert 'not a "regex"' in str(reason({"pattern": "a{1000}{1000}{1000}"}))


@pytest.mark.covers("POL-50", "SEC-15")
def test_what_would_take_too_long_is_not_checked_by():
    assert "too large" in str(reason(nest(70, {}, lambda inner: {"properties": {"a": inner}})))
    assert "too large" in str(reason({"anyOf": [{"type": "string"}] * 6_000}))
    steps = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    assert "too large" in str(reason({"$defs": {**steps, "a40": {"type": "string"}}, "$ref": "#/$defs/a0"}))


@pytest.mark.covers("POL-50", "SEC-15")
def test_a_schema_that_refers_to_itself_is_checked_by_as_deep_as_that_is_cheap():
    branch = {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["y"]}
    twice = compiled({"$defs": {"n": {"anyOf": [branch, branch]}}, "$ref": "#/$defs/n"})
    assert twice.misfits({"x": {}}) == ["/: not valid under any of the schemas listed in the 'anyOf' keyword"]
    assert twice.misfits(nest(12, {}, lambda inner: {"x": inner})) == ["/: does not fit the schema"]
    assert twice.misfits(nest(40, {}, lambda inner: {"x": inner})) == []
    tree = compiled({"type": "object", "properties": {"child": {"$ref": "#"}}})
    assert tree.misfits(nest(20, 3, lambda inner: {"child": inner})) == ["/child" * 20 + ': not of type "object"']
    compiled({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}).misfits(3)


@pytest.mark.covers("POL-51")
@pytest.mark.parametrize("schema", [{"type": "foo"}, {"$ref": "#/nope"}, {"$ref": "other.json"}, 3])
def test_what_is_no_schema_is_not_checked_by(schema):
    assert not reason(schema).fetches


@pytest.mark.covers("POL-51")
def test_tools_whose_schemas_would_be_fetched_are_left_out():
    near = ListEntry("near", {"inputSchema": Raw(b'{"$schema":"https://json-schema.org/draft/2020-12/schema"}')})
    far = ListEntry("far", {"inputSchema": Raw(b'{"$ref":"https://example.com/x"}')})
    says = ListEntry("says", {"inputSchema": Raw(b"{}"), "outputSchema": Raw(b'{"$ref":"https://example.com/y"}')})
    found = {Kind.TOOL: Listing(entries=(near, far, says)), Kind.PROMPT: Listing()}
    both = "inputSchema", "outputSchema"
    for names, kept in ((both[:1], "near says"), (both, "near"), ((), "near far says")):
        left, reasons = without_fetching(found, names)
        assert [tool.key for tool in left[Kind.TOOL].entries] == kept.split()
        assert len(reasons) == 3 - len(kept.split())
        assert left[Kind.PROMPT] is found[Kind.PROMPT]
