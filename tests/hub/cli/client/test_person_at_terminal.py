"""Answers of people to the forms of servers."""

import pytest

from hub.cli.client.person_at_terminal import MAX_CHOICES, MAX_FIELDS, Invalid, fields

COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def field(schema, required=False):
    [found] = fields({"properties": {"x": schema}, "required": ["x"] if required else []})
    return found


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "a, b", "a, b"),
        ({}, "5", "5"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "5", 5),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "no", False),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A!", "B!"]}, "a!", "a"),
        ({"type": "string", "oneOf": COLOURS}, "green", "g"),
        ({"type": "array", "items": {"anyOf": COLOURS}}, "1, 2,1", ["r", "g"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "b", ["b"]),
        ({"type": "string", "format": "email"}, "a@b", "a@b"),
        ({"type": "string", "format": "unheard-of"}, "a", "a"),
    ],
)
def test_a_text_is_read_as_the_form_wants_it(schema, text, value):
    found = field(schema).read(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "integer"}, "2.5", "a whole number"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "number"}, "1" * 400, "a number"),
        ({"type": "integer", "maximum": 9}, "10", "at most 9"),
        ({"type": "boolean"}, "maybe", "y or n"),
        ({"type": "string", "enum": ["a", "b"]}, "3", "1 to 2"),
        ({"type": "string", "minLength": 2}, "a", "at least 2 characters"),
        ({"type": "string", "format": "date"}, "tomorrow", "2026-07-28"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "1,2", "at most 1"),
    ],
)
def test_a_wrong_answer_says_what_is_expected(schema, text, expected):
    with pytest.raises(Invalid, match=expected):
        field(schema).read(text)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": []},
        {"properties": {str(i): {} for i in range(MAX_FIELDS + 1)}},
        {"properties": {"x": 5}},
        {"properties": {"x": {"type": "object"}}},
        {"properties": {"x": {"type": "array"}}},
        {"properties": {"x": {"enum": [str(i) for i in range(MAX_CHOICES + 1)]}}},
    ],
)
def test_what_is_no_form_is_refused(schema):
    with pytest.raises(Invalid, match=r"form|question"):
        fields(schema)


def test_the_order_is_that_of_the_form():
    found = fields({"properties": {"b": {"title": "B"}, "a": {"type": "integer"}}, "required": ["a"]})
    assert [(each.title, each.required, each.hint()) for each in found] == [
        ("B", False, ""),
        ("a", True, "a whole number"),
    ]
