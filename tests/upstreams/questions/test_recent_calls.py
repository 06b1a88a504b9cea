"""Of whom an upstream may still speak: held against a list of everything that ever ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.link.interface import Identity, Program
from upstreams.questions.recent_calls import MAX_TASK_CHARS, MAX_TASKS, SEVERAL, SUSPECT_S, RecentCalls

DESK = Identity("me", "desk")
ONE, TWO = Program(DESK, "one"), Program(DESK, "two")
PROGRAMS = [ONE, TWO, Program(DESK), Program(Identity("me", "lap"), "one"), Program(Identity("you", "desk"), "one")]
ENDS = st.lists(st.tuples(st.sampled_from([SEVERAL, *PROGRAMS[1:]]), st.floats(0, 2 * SUSPECT_S)), max_size=30)


@pytest.mark.covers("F-I-02", "F-I-03", "I-2")
@given(ENDS, st.floats(0, 2 * SUSPECT_S))
def test_it_is_as_exact_as_a_table_of_all(ends, later_s):
    lately, now, table = RecentCalls(), 0.0, []
    for program, pause_s in ends:
        now += pause_s
        lately.ended(program, now)
        table.append((program, now))
    now += later_s
    for program in PROGRAMS:
        expected = any(each != program and now < at + SUSPECT_S for each, at in table)
        assert lately.others(program, now) == expected


def test_nobody_is_meant_at_first():
    assert not RecentCalls().others(ONE, 0.0)


def test_words_on_behalf_of_several_may_be_anybodys():
    lately = RecentCalls()
    lately.ended(SEVERAL, 0.0)
    assert [lately.others(program, SUSPECT_S - 1) for program in (ONE, TWO)] == [True, True]
    assert not lately.others(ONE, SUSPECT_S)


@pytest.mark.covers("F-I-03")
def test_a_task_is_spoken_of_for_as_long_as_it_lives_and_a_while():
    lately = RecentCalls()
    lately.begun("t1", ONE, 1000.0, 0.0)
    assert lately.others(TWO, 999.0 + SUSPECT_S)
    assert not lately.others(ONE, 999.0 + SUSPECT_S)
    assert not lately.others(TWO, 1000.0 + SUSPECT_S)
    lately.begun("t2", ONE, float("inf"), 2000.0)
    lately.finished("t3", 3000.0)
    lately.finished(None, 3000.0)
    lately.finished("", 3000.0)
    assert lately.others(TWO, 1e9)
    lately.finished("t2", 1e9)
    assert lately.others(TWO, 1e9 + SUSPECT_S - 1)
    assert not lately.others(TWO, 1e9 + SUSPECT_S)


@pytest.mark.covers("I-5")
def test_tasks_beyond_all_measure_are_anybodys_and_cost_nothing():
    lately = RecentCalls()
    for number in range(3 * MAX_TASKS):
        lately.begun(f"t{number}", ONE, 100.0, 0.0)
    assert repr(lately) == f"<RecentCalls of nobody, {MAX_TASKS + 1} tasks>"
    assert lately.others(ONE, 99.0)
    assert not lately.others(ONE, 100.0 + SUSPECT_S)
    lately.begun("x" * (MAX_TASK_CHARS + 1), ONE, 300.0, 200.0)
    assert repr(lately) == "<RecentCalls of nobody, 1 tasks>"
    assert lately.others(ONE, 299.0)
    lately.begun("x" * (MAX_TASK_CHARS + 2), ONE, 250.0, 200.0)
    assert lately.others(ONE, 299.0)


def test_tasks_that_are_long_over_make_room():
    lately = RecentCalls()
    for number in range(MAX_TASKS):
        lately.begun(f"t{number}", ONE, 100.0, 0.0)
    lately.begun("late", ONE, 1000.0, 500.0)
    assert repr(lately) == "<RecentCalls of nobody, 1 tasks>"
    assert not lately.others(ONE, 999.0)
