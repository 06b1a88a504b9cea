import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.catalog.naming_rules import UpstreamRule
from hub.catalog.token_cost import TokenCost, cost_of, text_bytes, tokens_of, tool_bytes
from hub.wire.mcp import Kind
from tests.hub.catalog.test_catalog import alone_in, entry, merged, rules, snapshot

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def compact(tool):
    """Bytes of the compact JSON of what a model is shown of a tool."""
    shown = {name: tool[name] for name in ("name", "description", "inputSchema") if name in tool}
    return len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode())


@given(
    name=st.text(max_size=8), description=st.text(max_size=30), schema=VALUES, spaces=st.booleans(), bare=st.booleans()
)
def test_the_size_of_a_tool_is_that_of_its_compact_json(name, description, schema, spaces, bare):
    separators = (", ", ": ") if spaces else (",", ":")

    def sent(value):
        return Raw(json.dumps(value, separators=separators).encode())

    fields = {
        "inputSchema": sent(schema),
        "outputSchema": sent({"a": "b" * 999}),
        "title": sent("long"),
        "_meta": sent({}),
    }
    tool = {"name": name, "inputSchema": schema}
    if not bare:
        fields["description"], tool["description"] = sent(description), description
    exact = compact(tool)
    found = tool_bytes(name, fields)
    # JSON has several forms of control characters, and a space that is hard to tell from text is counted
    assert exact <= found + 6 * json.dumps(tool).count("\\")
    assert found <= exact + 6 * json.dumps(tool).count("\\") + 8 * (json.dumps(schema).count(" ") if spaces else 0)


@pytest.mark.parametrize("text", ["plain", "größer", "日本語", '"quoted"'])
def test_escapes_and_spaces_cost_nothing(text):
    schema = {"type": "object", "properties": {text: {"type": "string"}}}
    tool = {"name": "a", "description": text, "inputSchema": schema}
    for form in ({}, {"ensure_ascii": False}, {"indent": 2}, {"separators": (",", ":")}):
        fields = {key: Raw(json.dumps(value, **form).encode()) for key, value in tool.items()}
        assert tool_bytes("a", fields) == compact(tool)


def test_what_cannot_be_read_is_counted_as_it_is():
    deep = b"[" * 5000 + rb'"\u00e9"' + b"]" * 5000
    assert tool_bytes("a", {"inputSchema": Raw(deep)}) > 10_000
    assert text_bytes("\ud800é") == 3


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10_000)))
def test_sums(sizes):
    cost = cost_of(sizes)
    assert (cost.tools, cost.bytes) == (len(sizes), sum(sizes.values()))
    assert cost.largest_bytes == max(sizes.values(), default=0) == sizes.get(cost.largest, 0)
    assert cost.tokens == tokens_of(cost.bytes) >= cost.largest_tokens


def test_a_catalogue_counts_what_its_models_are_shown():
    ui = {"_meta": {"ui": {"visibility": ["app"]}}}
    files = snapshot("files", ["read", "delete", entry(Kind.TOOL, "draw", **ui)])
    other = snapshot("other", ["read"])
    catalog = merged(files, other, rule=rules(UpstreamRule("files", tools=("!delete",), apps=True), "other"))
    assert {name: (cost.tools, cost.largest) for name, cost in catalog.costs().items()} == {
        "files": (1, "files__read"),
        "other": (1, "other__read"),
    }
    exact = compact({"name": "files__read", "inputSchema": {"type": "object"}})
    assert catalog.costs()["files"].bytes == exact
    assert alone_in(catalog, "files").costs()["files"].bytes == exact - len("files__")
    assert catalog.costs() is catalog.costs(), "counted once"
    assert merged(snapshot("none")).costs() == {"none": TokenCost()}


def test_a_tool_that_an_earlier_server_hides_costs_nothing():
    hidden = snapshot("b", ["a__x", "y"])
    catalog = merged(snapshot("a", ["x"]), hidden, rule=rules("a", UpstreamRule("b", prefix="")))
    assert {name: cost.tools for name, cost in catalog.costs().items()} == {"a": 1, "b": 1}


@pytest.mark.covers("ET-1")
def test_nothing_is_counted_before_it_is_asked_for(monkeypatch):
    calls = []
    monkeypatch.setattr("hub.catalog.entries.tool_bytes", lambda *tool: calls.append(tool) or 4)
    first = merged(snapshot("a", ["x", "y"]), snapshot("b", ["z"]))
    first.page(Kind.TOOL, "2025-11-25", None)
    assert calls == []
    first.costs()
    snapshots = [part.snapshot for part in first.parts]
    second = merged(*snapshots, claims=first._claims, previous=first)
    second.costs()
    assert len(calls) == 3, "what is known of a server that did not change is kept"
