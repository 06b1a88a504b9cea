"""Words of the command line as arguments of a tool."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.client.arguments import (
    MAX_ARGUMENTS,
    MAX_NESTING,
    arguments,
    build_arguments,
    depends_on_schema,
    example,
    kind_of,
    parse,
    signature,
    split,
)
from tests.support.counting import lines_of

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "on": {"type": "boolean"},
        "items": {"type": "array"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}, True]},
        "any": {},
        "odd": 5,
    },
}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=5", "5"),
        ("text=true", "true"),
        ("text=null", "null"),
        ('text={"a": 1}', '{"a": 1}'),
        ('text="5"', "5"),
        ("text=a=b", "a=b"),
        ("text=", ""),
        ("n=5", 5),
        ("n=-5", -5),
        ("n=5.5", 5.5),
        ("n=five", "five"),
        ("x=5", 5),
        ("x=1e3", 1000.0),
        ("x=NaN", "NaN"),
        ("on=true", True),
        ("on=yes", "yes"),
        ("items=[1, 2]", [1, 2]),
        ("maybe=null", None),
        ("maybe=5", "5"),
        ("either=5", 5),
        ("either=true", "true"),
        ("any=5", 5),
        ("odd=5", 5),
        ("unknown=5", 5),
        ("unknown=word", "word"),
    ],
)
def test_a_value_is_what_the_schema_wants(word, value):
    [found] = build_arguments(split([word]), SCHEMA).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": {"type": 5, "anyOf": [1]}}}])
def test_an_odd_schema_wants_nothing(schema):
    assert build_arguments([("a", "5")], schema) == {"a": 5}


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_a_word_without_a_name_or_value_is_refused(word):
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        split(["ok=1", word])


def test_only_ambiguous_values_need_the_schema():
    assert not depends_on_schema(split(["a=word", 'b="5"', "c="]))
    assert depends_on_schema(split(["a=word", "b=5"]))
    assert depends_on_schema(split(["a.b=word"]))
    assert depends_on_schema(split(["a[]=word"]))


def test_deep_json_is_text():
    assert parse("[" * 100_000) == "[" * 100_000


NESTED = {
    "properties": {
        "a.b": {"type": "string"},
        "who": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array"},
        "body": {"type": "object"},
        "note": {"type": "string"},
    }
}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["who.name=5", "who.age=5"], {"who": {"name": "5", "age": 5}}),
        (["a.b=1"], {"a.b": "1"}),
        (["a.c=1"], {"a": {"c": 1}}),
        (["tags[]=1", "tags[]=x"], {"tags": ["1", "x"]}),
        (["numbers[]=1", "numbers[]=[2]"], {"numbers": [1, [2]]}),
        (["deep.er.still=1"], {"deep": {"er": {"still": 1}}}),
        (["deep.list[]=1"], {"deep": {"list": [1]}}),
        (["[]=1"], {"[]": 1}),
        (["a..b=1"], {"a..b": 1}),
        (["note=@alice"], {"note": "@alice"}),
        (["note=@./file"], {"note": "{./file}"}),
        (["note=@~/file"], {"note": "{~/file}"}),
        (["note=@-"], {"note": "{-}"}),
        (["note=@-x"], {"note": "@-x"}),
        (["body=@/file"], {"body": {}}),
        (["unknown=@/file"], {"unknown": "{}"}),
        (["tags[]=@../file"], {"tags": ["{../file}"]}),
        (["who=1", "who=2"], {"who": 2}),
    ],
)
def test_names_may_be_nested_and_values_in_files(words, found):
    assert build_arguments(split(words), NESTED, lambda path: "{}" if path == "/file" else f"{{{path}}}") == found


@pytest.mark.parametrize(
    "words", [["a=1", "a.c=2"], ["tags=x", "tags[]=y"], [".".join(["a"] * (MAX_NESTING + 1)) + "=1"]]
)
def test_what_contradicts_itself_is_refused(words):
    with pytest.raises(ValueError, match=r"within|no list|deep"):
        build_arguments(split(words), {})


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
