"""The table of states, and the arithmetic of trying again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upstreams.lifecycle import (
    ATTEMPTS,
    FAILED_PAUSE_S,
    HEALTHY_S,
    JITTER,
    LONGEST_PAUSE_S,
    TRANSITIONS,
    Backoff,
    Event,
    State,
)


def test_every_state_has_a_row_and_all_but_disabled_can_be_restarted():
    assert set(TRANSITIONS) == set(State)
    for state, row in TRANSITIONS.items():
        assert row.get(Event.RESTART) is (None if state is State.DISABLED else State.CONNECTING)


def test_every_state_but_the_first_ones_can_be_reached():
    reached = {to for row in TRANSITIONS.values() for to in row.values()}
    assert reached == set(State) - {State.IDLE, State.DISABLED}


@pytest.mark.parametrize("end", [Event.LOST, Event.GAVE_UP, Event.REFUSED])
def test_whatever_is_tried_or_open_can_end_in_any_way(end):
    targets = {Event.LOST: State.RECONNECTING, Event.GAVE_UP: State.FAILED, Event.REFUSED: State.UNAUTHORIZED}
    for state in (State.CONNECTING, State.RECONNECTING, State.CONNECTED):
        assert TRANSITIONS[state][end] is targets[end]


def test_disabled_is_for_ever():
    assert TRANSITIONS[State.DISABLED] == {}


@pytest.mark.covers("F-P-01")
def test_pauses_double_up_to_the_longest_then_it_gives_up():
    backoff = Backoff(lambda: 0.0)
    assert [backoff.failed(at) for at in range(ATTEMPTS)] == [1, 2, 4, 8, None]
    assert repr(backoff) == "<Backoff 5 failed in a row, next pause 16 s>"
    forever = Backoff(lambda: 0.0, attempts=0)
    assert [forever.failed(0) for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_reset_forgets_everything():
    backoff = Backoff(lambda: 0.0)
    for _ in range(ATTEMPTS):
        backoff.failed(0)
    backoff.reset()
    assert backoff.failed(0) == 1
    assert backoff.failures == 1


@pytest.mark.covers("F-P-02", "F-P-27")
def test_a_crash_loop_slows_down_but_is_not_given_up():
    backoff, now, pauses = Backoff(lambda: 0.0), 0.0, []
    for _ in range(10):
        backoff.opened(now)
        pauses.append(backoff.failed(now + 1))
        now += 100
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]


@pytest.mark.covers("F-P-02")
def test_after_a_good_session_the_first_pause_is_short_again():
    backoff = Backoff(lambda: 0.0)
    for _ in range(4):
        backoff.failed(0)
    backoff.opened(0)
    assert backoff.failures == 0
    assert backoff.failed(HEALTHY_S) == 1


def test_once_given_up_a_call_may_try_again_after_a_while():
    backoff = Backoff(lambda: 0.0)
    assert backoff.retry_in_s(0) == 0
    backoff.failed(100)
    assert backoff.retry_in_s(100) == FAILED_PAUSE_S
    assert backoff.retry_in_s(110) == FAILED_PAUSE_S - 10
    assert backoff.retry_in_s(1000) == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 200), st.floats(-1, 1)), max_size=30))
def test_pauses_stay_within_bounds_whatever_happens(history):
    jitter = iter([luck for *_, luck in history])
    backoff, now = Backoff(lambda: next(jitter), attempts=0), 0.0
    for opens, lasts, _ in history:
        if opens:
            backoff.opened(now)
        now += lasts
        pause = backoff.failed(now)
        assert pause is not None
        assert 1 - JITTER <= pause <= LONGEST_PAUSE_S * (1 + JITTER)
