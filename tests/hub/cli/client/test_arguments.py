"""Words of the command line as arguments of a tool."""

import pytest

from hub.cli.client.arguments import MAX_NESTING, build_arguments, depends_on_schema, parse, split

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
