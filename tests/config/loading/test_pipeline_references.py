"""References in the arguments of steps: split once, as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.loading.pipeline_references import BadReference, StepReference, split_text
from config.secret_references import texts_in


@pytest.mark.covers("EF-1")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("plain $ {x} $$", ["plain $ {x} $$"]),
        ("${input}", [StepReference("input", ())]),
        ("${input.a.b}", [StepReference("input", ("a", "b"))]),
        ("${read.text}", [StepReference("read", ("text",))]),
        ("a ${read.data.a.0} b", ["a ", StepReference("read", ("data", "a", "0")), " b"]),
        ("${input.a}${input.b}", [StepReference("input", ("a",)), StepReference("input", ("b",))]),
        ("$${input.a}", ["${input.a}"]),
        ("$$${input.a}", ["$${input.a}"]),
        ("x$${y}${input.über}", ["x${y}", StepReference("input", ("über",))]),
    ],
)
def test_a_text_is_split_into_plain_texts_and_references(text, parts):
    assert split_text(text) == parts


@pytest.mark.covers("EF-1")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${", "has no `}`"),
        ("${input.a", "has no `}`"),
        ("${input.${a}}", "has no `}`"),
        ("${}", "means nothing here"),
        ("${HOME}", "means nothing here"),
        ("${secret:TOKEN}", "means nothing here"),
        ("${input..a}", "means nothing here"),
        ("${input.a + 1}", None),
        ("${read}", "of a step there are ${read.text} and ${read.data.NAME}"),
        ("${read.title}", "of a step there are"),
        ("${read.text.a}", "of a step there are"),
    ],
)
def test_what_looks_like_a_reference_and_is_none_is_an_error(text, why):
    if why is None:  # a member of that name, which no schema has
        assert split_text(text) == [StepReference("input", ("a + 1",))]
        return
    with pytest.raises(BadReference) as refused:
        split_text(text)
    assert why in str(refused.value)


@pytest.mark.covers("EF-1")
@given(st.text(st.sampled_from("ab.{}$ input")))
def test_a_text_behind_escapes_is_itself(text):
    assert split_text(text.replace("${", "$${")) == [text] or "$${" in text
    assert "".join(map(str, split_text(text.replace("$", "").replace("{", "")))) == text.replace("$", "").replace(
        "{", ""
    )


def test_texts_in_a_value():
    assert [*texts_in({"a": "x", "b": [1, "y", {"c": "z"}], "d": None})] == ["x", "y", "z"]
