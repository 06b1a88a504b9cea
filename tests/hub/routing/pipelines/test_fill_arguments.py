"""Values in place of references: whole ones with their type, in texts as text; nothing that comes in is read again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from config.loading.pipeline_references import StepReference
from hub.routing.pipelines.fill_arguments import MAX_FILLED_BYTES, MAX_VALUE_BYTES, MissingValue, PipelineValues
from hub.wire.jsonrpc import raw

RESULT = {
    "content": [{"type": "text", "text": "one"}, {"type": "image", "text": "no"}, {"type": "text", "text": "two"}],
    "structuredContent": {"title": "T", "list": [1, {"a": None}, "${input.a}"], "": 0},
}


def values(given=None, **results):
    found = PipelineValues(raw(given or {}))
    for id, result in results.items():
        found.keep(id, raw(result))
    return found


def fill(args, *rest, **results):
    return json.loads(bytes(values(*rest, **results).fill(args)))


@pytest.mark.covers("EF-1")
@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${input.n}", 7),
        ("${input}", {"n": 7, "s": "x", "o": {"a": [True]}}),
        ("n ${input.n} ${input.o} ${input.s}", 'n 7 {"a":[true]} x'),
        ("${input.o.a.0}", True),
        ("${r.text}", "one\ntwo"),
        ("${r.data.list.1.a}", None),
        ("<${r.data.list.1.a}>", "<null>"),
        ("${r.data.title}!", "T!"),
        ("${r.data.list}", [1, {"a": None}, "${input.a}"]),
        ("${r.data.list.2}", "${input.a}"),
        ("a $${r.data.list.2}", "a ${r.data.list.2}"),
    ],
)
def test_values_come_in_place_of_references(text, filled):
    arguments = {"n": 7, "s": "x", "o": {"a": [True]}}
    assert fill({"a": text, "deep": [{"b": text}], "n": 1}, arguments, r=RESULT) == {
        "a": filled,
        "deep": [{"b": filled}],
        "n": 1,
    }


@pytest.mark.covers("EF-5")
@pytest.mark.parametrize(
    "text",
    [
        "${input.x}",
        "${input.n.a}",
        "${r.data.list.9}",
        "${r.data.list.-1}",
        "${r.data.list.01x}",
        "${r.data.x.y}",
        "${e.text}",
    ],
)
def test_a_value_that_is_not_there_is_an_error(text):
    with pytest.raises(MissingValue, match="there is no"):
        fill({"a": f"x {text}"}, {"n": 7}, r=RESULT, e={"content": [{"type": "image"}]})


@pytest.mark.covers("EF-1")
def test_numbers_are_inserted_as_they_were_written():
    found = PipelineValues(Raw(b'{"n":1.10,"big":123456789012345678901234567890}'))
    assert bytes(found.fill({"a": "${input.n}", "b": "${input.big}"})) == (
        b'{"a":1.10,"b":123456789012345678901234567890}'
    )


@pytest.mark.covers("EF-6")
def test_what_is_inserted_is_bounded():
    large = {"content": [{"type": "text", "text": "x" * MAX_VALUE_BYTES}]}
    with pytest.raises(MissingValue, match="the result of r has 1048"):
        fill({"a": "${r.text}"}, r=large)
    half = {"content": [{"type": "text", "text": "x" * (MAX_VALUE_BYTES // 2)}]}
    assert len(fill({"a": "${r.text}" * 7}, r=half)["a"]) < MAX_FILLED_BYTES
    with pytest.raises(MissingValue, match="more than 4194304 bytes in all"):
        fill({"a": "${r.text}" * 9}, r=half)
    many = Raw(b'{"structuredContent":[' + b",".join([b"1"] * 120_000) + b"]}")
    found = values()
    found.keep("r", many)
    with pytest.raises(MissingValue, match="more than 100000 items"):
        found.find(StepReference("r", ("data", "0")))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.sampled_from("${}input.ar.text ")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "${input.a}"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.covers("EF-1")
@given(JSON, st.text(st.sampled_from("${}input.ar.text $")))
def test_no_value_is_ever_read_as_a_reference_again(value, text):
    result = {"content": [{"type": "text", "text": text}], "structuredContent": value}
    args = {"v": "${input.a}", "t": "<${r.text}|${input.t}>", "d": ["${r.data}"], "p": "$${input.a}"}
    filled = fill(args, {"a": value, "t": text}, r=result)
    assert filled == {"v": value, "t": f"<{text}|{text}>", "d": [value], "p": "${input.a}"}
