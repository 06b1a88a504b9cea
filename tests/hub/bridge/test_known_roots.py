"""What modern hosts once said of their roots."""

import pytest

from hub.bridge.known_roots import MAX_ROOTS, ROOTS_VALID_S, KnownRoots
from hub.link.interface import Caller, Identity
from hub.wire.jsonrpc import raw
from hub.wire.mcp import ELICIT, L4, LIST_ROOTS, MODERN
from hub.wire.questions.question import Question, QuestionRefusal

ROOTS = raw({"roots": [{"uri": "file:///w"}]})
ASKED = Question(LIST_ROOTS, {}, "files", L4)


def caller(host="desk", **more) -> Caller:
    return Caller(Identity("me", host), MODERN, more.pop("capabilities", {"roots": raw({})}), **more)


def test_they_answer_for_a_while():
    known = KnownRoots()
    known.remember(caller(), ROOTS, 0)
    assert known.answer(ASKED, caller(), ROOTS_VALID_S - 1) == ROOTS
    assert known.answer(ASKED, caller(), ROOTS_VALID_S) is None
    known.sweep(ROOTS_VALID_S - 1)
    assert len(known) == 1
    known.sweep(ROOTS_VALID_S)
    assert len(known) == 0


def test_nothing_else_is_answered():
    known = KnownRoots()
    known.remember(caller(), ROOTS, 0)
    assert known.answer(Question(ELICIT, {}, "files", L4), caller(), 1) is None


@pytest.mark.covers("F-I-01", "R-5")
def test_who_has_no_roots_any_more_is_not_asked_for_any():
    known = KnownRoots()
    known.remember(caller(), ROOTS, 0)
    with pytest.raises(QuestionRefusal):
        known.answer(ASKED, caller(capabilities={}), 1)


@pytest.mark.covers("I-2")
def test_each_host_has_its_own():
    known = KnownRoots()
    known.remember(caller(lasting=True), ROOTS, 0)
    assert known.answer(ASKED, caller(lasting=True), 1) is None
    known.remember(caller(), ROOTS, 0)
    assert known.answer(ASKED, caller("other"), 1) is None
    assert known.answer(ASKED, caller(), 1) == ROOTS


def test_so_many_are_remembered():
    known = KnownRoots()
    for number in range(MAX_ROOTS + 1):
        known.remember(caller(f"host {number}"), ROOTS, 0)
    known.remember(caller("host 1"), ROOTS, 0)
    assert len(known) == MAX_ROOTS
    assert known.answer(ASKED, caller("host 0"), 1) is None
    assert known.answer(ASKED, caller("host 1"), 1) == ROOTS
