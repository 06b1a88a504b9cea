"""Forms for older hosts: limits of size, and linear time. Their translation is tested in `test_translate`."""

import json

import pytest
from msgspec import Raw

from hub.wire.jsonrpc import raw
from hub.wire.questions import older_forms_and_sampling as forms
from hub.wire.questions.older_forms_and_sampling import (
    MAX_FIELDS,
    MAX_FORM_BYTES,
    MAX_OPTIONS,
    Inexpressible,
    newer_content,
    older_form,
)
from tests.support.counting import lines_of


def schema(properties, **more) -> Raw:
    return raw({"type": "object", "properties": properties, **more})


def several(*values, **more):
    return {"type": "array", "items": {"type": "string", "enum": list(values)}, **more}


def titled(*values):
    return {"type": "array", "items": {"anyOf": [{"const": value, "title": value.upper()} for value in values]}}


def single(*values):
    return {"type": "string", "oneOf": [{"const": value, "title": value.upper()} for value in values]}


def boxes(form: Raw) -> list[str]:
    return list(json.loads(bytes(older_form(form)))["properties"])


@pytest.mark.covers("SEC-13", "I-3", "F-I-08")
@pytest.mark.parametrize("field", [several("x", "y", "x"), titled("x", "x"), several(*["x"] * MAX_OPTIONS)])
def test_an_option_that_is_given_twice_is_refused(field):
    with pytest.raises(Inexpressible, match="an option is given twice"):
        older_form(schema({"a": field}))
    with pytest.raises(Inexpressible, match="an option is given twice"):
        newer_content(schema({"a": field}), {})


@pytest.mark.covers("SEC-13", "I-3", "F-I-08")
@pytest.mark.parametrize("kind", [several, titled, single])
def test_all_options_of_a_form_are_bounded_together(kind):
    half = [f"o{number}" for number in range(MAX_OPTIONS // 2)]
    assert older_form(schema({"a": kind(*half), "b": kind(*half)}))
    for form in ({"a": kind(*half), "b": kind(*half, "more")}, {"a": several(*half), "b": kind(*half, "more")}):
        with pytest.raises(Inexpressible, match=f"it has more than {MAX_OPTIONS} options"):
            older_form(schema(form))


@pytest.mark.covers("SEC-13", "I-3", "F-I-08")
def test_fields_and_bytes_of_a_form_are_bounded():
    fields = {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS)}
    full = schema(fields, required=list(fields))
    assert older_form(full) is full
    for form, why in (
        (schema(fields | {"more": {}}), f"more than {MAX_FIELDS} fields"),
        (schema(fields, required=[*fields, "f0"]), f"more than {MAX_FIELDS} fields"),
        (schema({"a": {"type": "string", "title": "a" * MAX_FORM_BYTES}}), "more than 256 KiB"),
    ):
        for work in (older_form, lambda form: newer_content(form, {})):
            with pytest.raises(Inexpressible, match=why):
                work(form)


@pytest.mark.covers("SEC-13", "I-5", "F-I-08")
@pytest.mark.parametrize("long", ["name", "title", "description"])
def test_what_each_option_repeats_is_bounded(long, monkeypatch):
    monkeypatch.setattr(forms, "MAX_REPEATED_CHARS", 40)
    text = "n" * 14
    name, more = (text, {}) if long == "name" else ("a", {long: text})
    assert older_form(schema({name: several("x", "y", **more)}))
    with pytest.raises(Inexpressible, match="too long names, titles or descriptions"):
        older_form(schema({name: several("x", "y", "z", **more)}))


@pytest.mark.covers("SEC-13", "I-3")
def test_booleans_whose_names_are_taken_get_numbers():
    form = schema({"a": several("x", "y"), "a::x": {"type": "string"}, "a::x_2": {"type": "string"}})
    assert boxes(form) == ["a::x_3", "a::y", "a::x", "a::x_2"]
    assert newer_content(form, {"a::x_3": raw(True), "a::x": raw("t")}) == {"a::x": raw("t"), "a": raw(["x"])}


@pytest.mark.covers("SEC-13", "I-3")
@pytest.mark.parametrize(
    "form",
    [
        lambda n: {"a": several(*(f"o{i}" for i in range(n)))},
        lambda n: {"a": several(*("_" * i for i in range(n))), **{"a::" + "_" * i: {} for i in range(n)}},
        lambda n: {"a": several(*(f"{i}" for i in range(n)))} | {f"a::{i}_{i + 2}": {} for i in range(n)},
        lambda n: {f"a{i}": several("x") for i in range(n)} | {f"a{i}::x": {} for i in range(n)},
    ],
)
def test_a_form_takes_as_much_work_as_it_has_fields_and_options(form):
    def work(n: int) -> int:
        written = schema(form(n))
        return lines_of(lambda: (older_form(written), newer_content(written, {})))

    first, second, third = work(40), work(80), work(120)
    assert abs((third - second) - (second - first)) < 40, "but for a few lines more once it is large"


@pytest.mark.covers("SEC-13", "I-3")
def test_no_number_is_tried_twice():
    taken = ["a::x::y", *(f"a::x::y_{number}" for number in range(2, 12))]
    form = schema({name: {} for name in taken} | {"a": several("x::y"), "a::x": several("y", "y_13")})
    assert boxes(form)[len(taken) :] == ["a::x::y_12", "a::x::y_13", "a::x::y_13_14"]
