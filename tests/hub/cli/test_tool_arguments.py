"""Words of the command line as arguments of a tool."""

import pytest

from hub.cli.tool_arguments import depends_on_schema, parse, split, typed

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
    [found] = typed(split([word]), SCHEMA).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("schema", [{}, {"properties": []}, {"properties": {"a": {"type": 5, "anyOf": [1]}}}])
def test_an_odd_schema_wants_nothing(schema):
    assert typed({"a": "5"}, schema) == {"a": 5}


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_a_word_without_a_name_or_value_is_refused(word):
    with pytest.raises(ValueError, match="expected KEY=VALUE"):
        split(["ok=1", word])


def test_only_ambiguous_values_need_the_schema():
    assert not depends_on_schema({"a": "word", "b": '"5"', "c": ""})
    assert depends_on_schema({"a": "word", "b": "5"})


def test_deep_json_is_text():
    assert parse("[" * 100_000) == "[" * 100_000
