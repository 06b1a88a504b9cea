"""Arguments that a profile fixes: no way of writing them gets past, and no schema shows them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hub.catalog.profiles.fixed_arguments import (
    MAX_JUDGED_BYTES,
    CannotFix,
    FixedArguments,
    FixedArgumentSent,
    misfits,
    without,
)
from hub.wire.jsonrpc import RemoteProtocolError, raw
from tests.support.tables import each_row

FIXED = FixedArguments("coding", {"owner": "acme", "repo": "app"})
REFUSED = '"owner" is fixed by profile coding; leave it out'

VALUES = ['"mine"', '"acme"', "null", "true", "0", "1e400", "-0", "[]", "{}", '""', '["acme"]', '{"owner":"x"}']
KEYS = [
    '"owner"',
    '"\\u006fwner"',
    '"o\\u0077ner"',
    '"own\\u0065r"',
    '"\\u006f\\u0077\\u006e\\u0065\\u0072"',
    '"\\u006F\\u0077\\u006E\\u0065\\u0072"',
]
SPACED = ["{%s:%s}", "{ %s : %s }", "{\n%s\t:\r\n%s}", '{"a":1,%s:%s}', '{%s:%s,"z":{}}', '{"owner":1,%s:%s}']
WAYS = [shape % (key, value) for key in KEYS for value in VALUES[:3] for shape in SPACED[:3]]
WAYS += [shape % ('"owner"', value) for value in VALUES for shape in SPACED]


@pytest.mark.covers("EP-6")
@each_row("written", WAYS)
def test_however_a_host_sends_a_fixed_argument_it_is_refused(written):
    assert len(WAYS) >= 50
    with pytest.raises(FixedArgumentSent) as refused:
        FIXED.fill(Raw(written.encode()))
    assert str(refused.value) == REFUSED


@pytest.mark.covers("EP-6")
@pytest.mark.parametrize(
    "written",
    ["null", "[]", '"{}"', "1", "true", '[{"owner":"x"}]', '"owner"', "{", '{"owner"}', "", "\xff", "[" * 5000],
)
def test_what_is_no_object_is_no_arguments(written):
    with pytest.raises(RemoteProtocolError):
        FIXED.fill(Raw(written.encode("latin-1")))


def test_other_arguments_pass_and_the_fixed_ones_are_there():
    assert json.loads(bytes(FIXED.fill(None))) == {"owner": "acme", "repo": "app"}
    written = b'{"Owner":"x","owner ":1,"own":2,"n":123456789012345678901234567890,"deep":{"owner":"x"}}'
    sent = bytes(FIXED.fill(Raw(written)))
    assert json.loads(sent) == {**json.loads(written), "owner": "acme", "repo": "app"}
    assert b"123456789012345678901234567890" in sent


@pytest.mark.covers("EP-6")
@given(st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=5), max_size=6))
def test_what_is_sent_holds_the_fixed_values_or_nothing_is_sent(arguments):
    written = Raw(json.dumps(arguments).encode())
    if {"owner", "repo"} & arguments.keys():
        with pytest.raises(FixedArgumentSent):
            FIXED.fill(written)
    else:
        assert json.loads(bytes(FIXED.fill(written))) == {**arguments, "owner": "acme", "repo": "app"}


def test_values_do_not_show_themselves():
    fixed = FixedArguments("p", {"token": "s3cret"})
    assert "s3cret" not in repr(fixed)
    with pytest.raises(FixedArgumentSent) as refused:
        fixed.fill(Raw(b'{"token":"s3cret2"}'))
    assert "s3cret" not in str(refused.value)


# --- schemas ----------------------------------------------------------------------------------------------------------

PROPERTIES = {"owner": {"type": "string"}, "title": {"type": "string"}}


def shown(schema, *names):
    return json.loads(bytes(without(Raw(json.dumps(schema).encode()), names or ("owner",))))


@pytest.mark.covers("EP-6")
def test_a_fixed_argument_leaves_the_schema():
    schema = {"type": "object", "properties": PROPERTIES, "required": ["owner", "title"], "additionalProperties": False}
    assert shown(schema) == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": False,
    }
    assert "required" not in shown(schema, "owner", "title")
    assert shown({**schema, "examples": [{"owner": "x"}]}) == shown(schema), "examples would show it"
    assert shown({**schema, "anyOf": [{"required": ["title"]}]})["anyOf"] == [{"required": ["title"]}]


@pytest.mark.covers("EP-6")
@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        {},
        {"type": "object"},
        {"type": "object", "properties": {"title": {}}},
        {"type": "object", "properties": []},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": PROPERTIES}}},
        {"$ref": "#/$defs/a", "properties": PROPERTIES, "$defs": {"a": {"properties": PROPERTIES}}},
        {"$dynamicRef": "#a", "properties": PROPERTIES},
        {"allOf": [{"properties": PROPERTIES}]},
        {"properties": PROPERTIES, "allOf": [{"required": ["owner"]}]},
        {"properties": PROPERTIES, "allOf": [{"$ref": "#/$defs/a"}]},
        {"properties": PROPERTIES, "oneOf": [{"properties": {"owner": {"const": "x"}}}, {}]},
        {"properties": PROPERTIES, "if": {"properties": {"owner": {}}}, "then": {"required": ["title"]}},
        {"properties": PROPERTIES, "dependentRequired": {"title": ["owner"]}},
        {"properties": PROPERTIES, "dependentSchemas": {"owner": {"required": ["title"]}}},
    ],
    ids=str,
)
def test_a_tool_whose_schema_says_it_otherwise_cannot_be_shown(schema):
    with pytest.raises(CannotFix):
        without(None if schema is None else Raw(json.dumps(schema).encode()), ("owner",))


PLAIN = {"type": "object", "properties": {"owner": {"type": "string"}, "to": {"type": "string"}, "a/b~%": {}}}


def changed(**members):
    return Raw(json.dumps({**PLAIN, **members}).encode())


def to(reference):
    return {"properties": {**PLAIN["properties"], "to": {"type": "array", "items": {"$ref": reference}}}}


@pytest.mark.covers("EP-6")
@pytest.mark.parametrize(
    "members",
    [
        to("#/properties/owner"),
        to("#/properties/owner/x"),
        to("#/properties/%6fwner"),
        to("#/properties"),
        to("#"),
        to(""),
        {**to("https://x.example/s"), "$id": "https://x.example/s"},
        {**to("https://x.example/s#/properties/owner"), "$id": "https://x.example/s"},
        {"$defs": {"d": {"anyOf": [{"$dynamicRef": "#/properties/owner"}]}}},
        {"properties": {**PLAIN["properties"], "owner": {"$anchor": "o"}}},
        {"patternProperties": {"^own": {"type": "string"}}},
        {"propertyNames": {"enum": ["owner", "to"]}},
        {"const": {"owner": "acme", "to": "you"}},
        {"enum": [{"owner": "acme"}, {"owner": "other"}]},
    ],
    ids=json.dumps,
)
def test_what_other_parts_of_a_schema_need_cannot_be_fixed(members):
    with pytest.raises(CannotFix):
        without(changed(**members), ["owner"])


def test_the_least_number_of_arguments_is_the_servers_affair():
    left = json.loads(bytes(without(changed(minProperties=2), ["owner"])))
    assert "minProperties" not in left


@pytest.mark.parametrize(
    "members",
    [
        to("#/$defs/owner"),
        to("#/properties/owners"),
        to("#owner"),
        to("https://x.example/s"),
        {"patternProperties": {}},
        {"propertyNames": {"pattern": "^[a-z]+$"}},
        {"properties": {**PLAIN["properties"], "$ref": {"type": "string"}}},
    ],
    ids=json.dumps,
)
def test_what_does_not_lead_to_the_argument_stays(members):
    schema = json.loads(bytes(without(changed(**members), ["owner"])))
    expected = {**PLAIN, **members}
    expected["properties"] = {name: value for name, value in expected["properties"].items() if name != "owner"}
    assert schema == expected


def test_a_name_is_found_however_a_reference_writes_it():
    for reference in ("#/properties/a~1b~0%25", "#/properties/a~1b~0%25/items"):
        with pytest.raises(CannotFix):
            without(changed(**to(reference)), ["a/b~%"])


def test_a_schema_too_deep_to_be_read_cannot_be_fixed():
    deep = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    with pytest.raises(CannotFix):
        without(Raw(b'{"properties":{"owner":{},"to":%b}}' % deep), ["owner"])


@pytest.mark.parametrize(
    ("said", "value", "clause"),
    [
        ({"type": "integer"}, "seven", "is to be a whole number, and is a text"),
        ({"type": "integer"}, 1.5, "is to be a whole number, and is a number"),
        ({"type": "integer"}, True, "is to be a whole number, and is true or false"),
        ({"type": "number"}, False, "is to be a number, and is true or false"),
        ({"type": "boolean"}, 1, "is to be true or false, and is a whole number"),
        ({"type": "string"}, ["s3cret"], "is to be a text, and is a list"),
        ({"type": ["integer", "null", "integer"]}, {}, "is to be a whole number or nothing, and is a table"),
        ({"enum": ["a", "b"]}, "s3cret", "is none of the values that its input schema lists"),
        ({"type": "string", "enum": ["a"]}, "A", "is none of the values that its input schema lists"),
        ({"enum": [1]}, True, "is none of the values that its input schema lists"),
        ({"type": "integer"}, 7.0, ""),
        ({"type": "number"}, 7, ""),
        ({"type": ["string", "integer"]}, 7, ""),
        ({"type": "object"}, {}, ""),
        ({"type": "array"}, [], ""),
        ({"type": "boolean"}, True, ""),
        ({"enum": ["a", 2]}, 2.0, ""),
        ({"enum": [["a"]]}, ["b"], ""),
        ({"type": "whatever"}, 7, ""),
        ({"type": [["string"]]}, 7, ""),
        ({"type": []}, 7, ""),
        ({"type": {}, "enum": {}}, 7, ""),
        ({"type": "integer", "$ref": "#/$defs/x"}, "seven", ""),
        ({"anyOf": [{"type": "integer"}]}, "seven", ""),
        ({"enum": ["x" * MAX_JUDGED_BYTES]}, "y", ""),
        (True, "seven", ""),
    ],
)
def test_a_value_that_plainly_does_not_fit_is_told_without_the_value(said, value, clause):
    schema = raw({"type": "object", "properties": {"a": said}})
    found = list(misfits(schema, {"a": value}))
    assert found == ([f'"a" {clause}'] if clause else [])
    assert "s3cret" not in str(found)


@pytest.mark.parametrize(
    "schema", [None, Raw(b"[]"), Raw(b'{"properties":3}'), Raw(b'{"properties":{"a":{"type":{]}}}')]
)
def test_a_schema_that_says_nothing_is_no_reason_to_doubt(schema):
    assert list(misfits(schema, {"a": "seven"})) == []
