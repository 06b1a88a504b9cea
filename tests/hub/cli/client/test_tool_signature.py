"""A tool as a person calls it: its signature, and an example."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.client.arguments import build_arguments, split
from hub.cli.client.tool_signature import MAX_ARGUMENTS, arguments, example, kind_of, signature
from tests.support.counting import lines_of

TIME = {
    "type": "object",
    "properties": {
        "zone": {"type": "string", "description": "IANA name\nsecond line"},
        "format": {"enum": ["long", "short"]},
        "days": {"type": "array", "items": {"type": "integer"}},
        "place": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "floor": {"type": "integer"}},
            "required": ["name"],
        },
        "other": {"$ref": "#/$defs/Other"},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["zone", "days", "place", "other"],
    "$defs": {"Other": {"type": "number", "description": "A number"}},
}


def test_a_signature_names_every_argument_and_its_type():
    assert signature("t__now", TIME) == (
        "t__now(zone: string, days: list[integer], place: object, other: number, "
        'format?: "long" | "short", when?: string | null)'
    )
    assert arguments(TIME)[0].description == "IANA name"


def test_an_example_has_all_that_is_required_and_can_be_called():
    line = example("t__now", TIME)
    assert line == "hubd call t__now zone=ZONE 'days[]=1' place.name=NAME other=1"
    assert build_arguments(split(shlex.split(line)[3:]), TIME) == {
        "zone": "ZONE",
        "days": [1],
        "place": {"name": "NAME"},
        "other": 1,
    }


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, "any"),
        (True, "any"),
        ({"properties": {}}, "object"),
        ({"const": 5}, "5"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array"}, "list"),
        ({"enum": list("abcdefgh")}, '"a" | "b" | "c" | "d" | "e" | "f" | ...'),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({"$ref": "https://example.com"}, "any"),
    ],
)
def test_odd_schemas_have_a_kind(schema, kind):
    assert kind_of(schema, {"$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}) == kind


def test_values_that_the_schema_gives_are_in_the_example():
    schema = {"properties": {"a": {"type": "string", "examples": ["x y"]}, "b": {"enum": [7]}}, "required": ["a", "b"]}
    assert example("t", schema) == "hubd call t 'a=x y' b=7"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "items", "enum", "anyOf", "$ref", "default", "a"]), inner
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["properties", "required", "$defs", "type"]), json_values))
def test_any_schema_is_shown(schema):
    shown = signature("t", schema)
    assert shown.startswith("t(")
    assert shlex.split(example("t", schema))[:3] == ["hubd", "call", "t"]
    json.dumps(arguments(schema))


def test_a_schema_that_refers_to_itself_or_is_huge_ends():
    loop = {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    assert len(example("t", loop)) < 200
    huge = {"properties": {f"a{i}": {"type": "string"} for i in range(10_000)}}
    assert len(arguments(huge)) == MAX_ARGUMENTS
    wide = {"anyOf": [{"anyOf": [{"type": "string"}] * 50}] * 50}
    assert kind_of(wide, {}) == "string"


def test_a_schema_of_many_references_to_itself_costs_little():
    names = [f"a{i}" for i in range(20)]
    loop = {"properties": {name: {"$ref": "#/$defs/self"} for name in names}, "required": names}
    loop["$defs"] = {"self": loop}
    assert lines_of(lambda: example("t", loop)) < 5_000
    assert example("t", loop).endswith(" ...")
    wide = {"$defs": {"x": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/x"}}] * 7}}}
    wide |= {"properties": {name: {"$ref": "#/$defs/x"} for name in names}}
    assert lines_of(lambda: signature("t", wide)) < 500_000
