"""Fingerprints: what they tell apart, and what they do not."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.rules.fingerprints import (
    INSTRUCTIONS,
    definitions_of,
    fingerprint,
    hash_of,
    key_of,
    read,
    split_key,
    state_of,
    words_of,
)
from hub.wire.mcp import L4, Kind
from hub.wire.upstream_snapshot import Freshness, ListEntry, Snapshot
from tests.support.tables import each_row

pytestmark = pytest.mark.covers("PIN-01")
TOOL = {
    "name": "merge",
    "title": "Merge",
    "description": "Merge it.",
    "inputSchema": {
        "type": "object",
        "title": "T",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer", "description": "Its id.", "default": 1, "enum": [1, 2], "examples": [2]},
            "how": {"anyOf": [{"const": "squash", "title": "Squash"}]},
        },
    },
    "outputSchema": {"type": "object", "properties": {"sha": {"type": "string"}}},
    "annotations": {"readOnlyHint": False, "title": "Merge!"},
    "icons": [{"src": "https://example.com/a.png"}],
    "_meta": {"a/b": {"built": "2026-01-01"}},
    "x-own": 1,
}
WORDS = {
    ("name",): "other",
    ("title",): "other",
    ("description",): "other",
    ("annotations", "title"): "other",
    ("inputSchema", "title"): "other",
    ("inputSchema", "properties", "id", "description"): "other",
    ("inputSchema", "properties", "id", "default"): 2,
    ("inputSchema", "properties", "id", "enum"): [1],
    ("inputSchema", "properties", "id", "examples"): [1],
    ("inputSchema", "properties", "how", "anyOf", 0, "const"): "other",
    ("inputSchema", "properties", "how", "anyOf", 0, "title"): "other",
    ("inputSchema", "properties", "new"): {},
    ("outputSchema", "properties", "other"): {},
}
"""What a model reads, by its place."""
FORM = {
    ("inputSchema", "type"): "array",
    ("inputSchema", "required"): [],
    ("inputSchema", "properties", "id", "type"): "string",
    ("annotations", "readOnlyHint"): True,
    ("icons",): [],
    ("_meta", "a/b", "built"): "2027-01-01",
    ("x-own",): 2,
    ("y-own",): None,
}


def fields(value, **how):
    return {name: Raw(json.dumps(each, **how).encode()) for name, each in value.items()}


def changed(path, value):
    whole = json.loads(json.dumps(TOOL))
    *above, last = path
    place = whole
    for key in above:
        place = place[key]
    place[last] = value
    return whole


def prints(value):
    return fingerprint("tools/merge", fields(value))


@each_row("path", [*WORDS, *FORM])
def test_each_field_alone_counts(path):
    known, found = prints(TOOL), prints(changed(path, (WORDS | FORM)[path]))
    assert found.hash != known.hash
    assert (found.words != known.words) == (path in WORDS)


@each_row("path", [(name,) for name in TOOL if name != "name"])
def test_a_member_that_is_gone_counts(path):
    whole = {name: value for name, value in TOOL.items() if name != path[0]}
    assert prints(whole).hash != prints(TOOL).hash


def mixed(value, random):
    """The same, with its members in another order and its numbers written otherwise."""
    if isinstance(value, dict):
        items = [(name, mixed(each, random)) for name, each in value.items()]
        random.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [mixed(each, random) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@given(st.randoms())
def test_order_of_members_and_spelling_of_numbers_do_not(random):
    assert prints(mixed(TOOL, random)) == prints(TOOL)
    assert fingerprint("tools/merge", fields(TOOL, indent=2)) == prints(TOOL)


@each_row("texts", [("1", "1.0"), ("1", "10e-1"), ("100", "1e2"), ("0", "-0.0"), ("1.5", "15E-1")])
def test_equal_numbers_are_equal(texts):
    one, other = (hash_of("tools/a", {"x": Raw(text.encode())}) for text in texts)
    assert one == other


@each_row("texts", [("1", "2"), ("1", "true"), ("1", '"1"'), ("null", "0"), ("[1,2]", "[2,1]"), ("1e999", "-1e999")])
def test_others_are_not(texts):
    one, other = (hash_of("tools/a", {"x": Raw(text.encode())}) for text in texts)
    assert one != other


def test_the_hash_is_that_of_canonical_json_behind_the_kind():
    found = hash_of("tools/a", {"name": Raw(b'"a"'), "b": Raw(b"1.0"), "a": Raw(b"[]")})
    assert found == sha256(b'hubd-pin/1 tools\0{"a":[],"b":1,"name":"a"}').hexdigest()
    assert hash_of("prompts/a", {"name": Raw(b'"a"')}) != hash_of("tools/a", {"name": Raw(b'"a"')})
    assert hash_of(INSTRUCTIONS, "a") == sha256(b'hubd-pin/1 instructions\0"a"').hexdigest()


@pytest.mark.parametrize(
    ("ignore", "path", "is_same"),
    [
        (["description"], ("description",), True),
        (["description"], ("inputSchema", "properties", "id", "description"), False),
        (["_meta.a/b.built"], ("_meta", "a/b", "built"), True),
        (["_meta.a/b"], ("_meta", "a/b", "built"), True),
        (["_meta"], ("_meta", "a/b", "built"), True),
        (["_meta.a"], ("_meta", "a/b", "built"), False),
        (["inputSchema.properties.id.default"], ("inputSchema", "properties", "id", "default"), True),
        ([], ("_meta", "a/b", "built"), False),
    ],
)
def test_what_is_ignored_does_not_count(ignore, path, is_same):
    known, found = (hash_of("tools/a", fields(each), ignore) for each in (TOOL, changed(path, [3])))
    assert (known == found) is is_same


def test_instructions_can_be_ignored():
    assert hash_of(INSTRUCTIONS, "a", [INSTRUCTIONS]) == hash_of(INSTRUCTIONS, "b", [INSTRUCTIONS])
    assert hash_of("tools/a", {"name": Raw(b'"a"')}, [INSTRUCTIONS]) == hash_of("tools/a", {"name": Raw(b'"a"')})


def test_words_cannot_take_the_place_of_others():
    """A property is called as the place of another word is: neither hides the other."""
    schema = {"properties": {"a": {"title": "evil"}, "a.title": {}}}
    said = words_of({"name": "x", "inputSchema": schema})
    assert ("inputSchema.properties.a.title", "evil") in said
    assert ("inputSchema.properties", "a.title") in said
    prompt = {"name": "p", "arguments": [{"name": "a", "description": "d", "required": True}]}
    assert words_of(prompt) == [("name", "p"), ("arguments.0.name", "a"), ("arguments.0.description", "d")]


def test_strange_shapes_have_fingerprints_too():
    for strange in (
        "null",
        "1",
        "[]",
        '"text"',
        "[[[1]]]",
        '{"properties":[1],"enum":{"a":1}}',
        '{"a":' * 900 + "1" + "}" * 900,
    ):
        value = {"name": Raw(b'"a"'), "inputSchema": Raw(strange.encode()), "arguments": Raw(strange.encode())}
        assert len(fingerprint("tools/a", value).words) == 64
    assert read({"a": Raw(b"{")}) == {"a": "{"}


def test_keys_of_definitions():
    assert split_key(key_of(Kind.TOOL, "a/b")) == (Kind.TOOL, "a/b")
    assert split_key(INSTRUCTIONS) == (None, INSTRUCTIONS)
    tools = tuple(ListEntry("a", {"name": Raw(b'"a"'), "n": Raw(b"%d" % at)}) for at in range(2))
    lists = {Kind.TOOL: tools, Kind.PROMPT: (), Kind.RESOURCE: (ListEntry("u", {}),), Kind.TEMPLATE: ()}
    snapshot = Snapshot("x", L4, {}, {}, "Hello", lists, dict.fromkeys(Kind, Freshness()), True)
    assert definitions_of(snapshot) == {INSTRUCTIONS: "Hello", "tools/a": tools[0].fields}
    assert state_of({"a": "1", "b": "2"}) == state_of({"b": "2", "a": "1"}) != state_of({"a": "2", "b": "1"})
