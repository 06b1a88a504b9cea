"""Roots that modern hosts once told: an answer is reused for the host, or within the call, that it was for."""

import pytest

from hub.bridge.parking.known_roots import MAX_ROOTS, ROOTS_VALID_S, KnownRoots
from hub.link.call_interface import Caller, Identity
from hub.wire.jsonrpc import raw
from hub.wire.mcp import ELICIT, L4, LIST_ROOTS, MAX_DECLARED_BYTES, MODERN
from hub.wire.questions.askable_questions import Question, QuestionRefusal

ROOTS = raw({"roots": [{"uri": "file:///w"}]})
ASKED = Question(LIST_ROOTS, {}, "files", L4)
ONE, OTHER = "id of one call", "id of another call"


def caller(host="desk", lasting=True, **more) -> Caller:
    capabilities = more.pop("capabilities", {"roots": raw({})})
    return Caller(Identity("me", host), MODERN, capabilities, conversation=1, lasting=lasting)


def test_they_answer_for_a_while():
    known = KnownRoots()
    known.remember(caller(), ONE, ROOTS, 0)
    assert known.answer(ASKED, caller(), OTHER, ROOTS_VALID_S - 1) == ROOTS
    assert known.answer(ASKED, caller(), OTHER, ROOTS_VALID_S) is None
    known.sweep(ROOTS_VALID_S - 1)
    assert len(known._known) == 1
    known.sweep(ROOTS_VALID_S)
    assert len(known._known) == 0


def test_nothing_else_is_answered():
    known = KnownRoots()
    known.remember(caller(), ONE, ROOTS, 0)
    assert known.answer(Question(ELICIT, {}, "files", L4), caller(), ONE, 1) is None


@pytest.mark.covers("F-I-01", "R-5")
def test_who_has_no_roots_any_more_is_not_asked_for_any():
    known = KnownRoots()
    known.remember(caller(), ONE, ROOTS, 0)
    with pytest.raises(QuestionRefusal):
        known.answer(ASKED, caller(capabilities={}), ONE, 1)


@pytest.mark.covers("I-2")
def test_each_host_has_its_own():
    known = KnownRoots()
    known.remember(caller(), ONE, ROOTS, 0)
    assert known.answer(ASKED, caller("other"), ONE, 1) is None
    assert known.answer(ASKED, caller(lasting=False), ONE, 1) is None
    assert known.answer(ASKED, caller(), ONE, 1) == ROOTS


@pytest.mark.covers("I-2")
def test_a_host_that_cannot_be_told_from_others_has_them_in_its_call_only():
    known = KnownRoots()
    known.remember(caller(lasting=False), ONE, ROOTS, 0)
    assert known.answer(ASKED, caller(lasting=False), OTHER, 1) is None
    assert known.answer(ASKED, caller(), ONE, 1) is None
    assert known.answer(ASKED, caller(lasting=False), ONE, 1) == ROOTS
    known.forget(OTHER)
    assert len(known._known) == 1
    known.forget(ONE)
    assert len(known._known) == 0


def test_so_many_are_remembered():
    known = KnownRoots()
    for number in range(MAX_ROOTS + 1):
        known.remember(caller(f"host {number}"), ONE, ROOTS, 0)
    known.remember(caller("host 1"), ONE, ROOTS, 0)
    assert len(known._known) == MAX_ROOTS
    assert known.answer(ASKED, caller("host 0"), ONE, 1) is None
    assert known.answer(ASKED, caller("host 1"), ONE, 1) == ROOTS


def test_a_large_answer_is_asked_for_again():
    known = KnownRoots()
    known.remember(caller(), ONE, raw({"roots": [{"uri": "file:///" + "x" * MAX_DECLARED_BYTES}]}), 0)
    assert len(known._known) == 0
