"""Hints about tools: who says what, and what is believed."""

import pytest
from msgspec import json

from hub.catalog.tool_annotations import hints_for, marks_of, with_hints
from hub.wire.jsonrpc import raw

pytestmark = pytest.mark.covers("POL-07")
HINTS = (("get_*", ("read-only",)), ("*_all", ("destructive", "idempotent")))
WORST = {"destructive", "open-world"}


def marks(annotations, tool="tool", hints=(), *, trusted=True):
    fields = {} if annotations is None else {"annotations": raw(annotations)}
    return marks_of(fields, tool, hints, trusted=trusted)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, WORST),
        ({}, WORST),
        ({"readOnlyHint": True}, {"read-only", "open-world"}),
        ({"readOnlyHint": True, "destructiveHint": True}, {"read-only", "open-world"}),
        ({"destructiveHint": False}, {"open-world"}),
        ({"openWorldHint": False}, {"destructive"}),
        ({"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}, {"idempotent"}),
        ({"readOnlyHint": "true", "destructiveHint": 0, "openWorldHint": None}, WORST),
        ([], WORST),
    ],
)
def test_what_a_trusted_server_says_is_believed_and_what_it_leaves_out_is_the_worst(annotations, expected):
    assert marks(annotations) == expected
    assert marks(annotations, trusted=False) == WORST


def test_the_user_counts_for_more_and_the_later_word_for_most():
    assert marks(None, "get_x", HINTS, trusted=False) == {"read-only", "open-world"}
    assert marks({"readOnlyHint": True}, "get_all", HINTS) == {*WORST, "idempotent"}
    assert marks({"openWorldHint": False}, "get_x", HINTS, trusted=False) == {"read-only", "open-world"}
    assert marks({"openWorldHint": False}, "get_x", HINTS) == {"read-only"}


def test_hosts_are_told_what_the_user_says_and_the_rest_as_it_came():
    fields = {"name": raw("get_x"), "annotations": raw({"title": "X", "readOnlyHint": False})}
    told = with_hints(fields, "get_x", HINTS)
    assert json.decode(told["annotations"]) == {"title": "X", "readOnlyHint": True}
    assert with_hints(fields, "put", HINTS) is fields
    assert hints_for("put", HINTS) == {}
