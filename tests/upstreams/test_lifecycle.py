"""The table of states, and the arithmetic of trying again."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.link.backoff import HEALTHY_S, JITTER, LONGEST_PAUSE_S
from upstreams.lifecycle import TRANSITIONS, Event, State
from upstreams.retry_pauses import ATTEMPTS, FAILED_PAUSE_S, Backoff


def test_every_state_has_a_row_and_all_but_disabled_can_be_restarted():
    assert set(TRANSITIONS) == set(State)
    for state, row in TRANSITIONS.items():
        assert row.get(Event.RESTART) is (None if state is State.DISABLED else State.CONNECTING)


def test_every_state_but_disabled_can_be_reached():
    reached = {to for row in TRANSITIONS.values() for to in row.values()}
    assert reached == set(State) - {State.DISABLED}


def test_only_what_runs_or_waits_for_its_next_attempt_can_come_to_rest():
    resting = {state for state, row in TRANSITIONS.items() if row.get(Event.UNUSED) is State.IDLE}
    assert resting == {State.CONNECTED, State.RECONNECTING}


def test_what_has_come_to_rest_starts_as_if_it_were_new():
    assert TRANSITIONS[State.IDLE] == {Event.START: State.CONNECTING, Event.RESTART: State.CONNECTING}


def diagram() -> str:
    """The table as a Mermaid state diagram. What leads back to where it was is left out, and so are `restart`s but one:
    they are in every row that has any."""
    lines = ["stateDiagram-v2", *(f"    [*] --> {state.value}" for state in (State.IDLE, State.DISABLED))]
    for state, row in TRANSITIONS.items():
        for event, to in row.items():
            if to is not state and event is not Event.RESTART:
                lines.append(f"    {state.value} --> {to.value}: {event.value}")
    named = [state.value for state, row in TRANSITIONS.items() if Event.RESTART in row]
    lines += [f"    note right of {State.CONNECTING.value}", f"        {Event.RESTART.value} leads here from:"]
    lines += [f"        {', '.join(named)}", "    end note"]
    return "\n".join(lines)


def test_the_diagram_of_the_readme_is_that_of_the_table():
    text = (Path(__file__).parent.parent.parent / "upstreams" / "README.md").read_text(encoding="utf-8")
    between = text.partition("<!-- lifecycle -->\n")[2].partition("<!-- /lifecycle -->")[0]
    assert between == f"```mermaid\n{diagram()}\n```\n"


def test_every_change_of_state_is_in_the_diagram():
    lines = diagram().splitlines()
    for state, row in TRANSITIONS.items():
        for event, to in row.items():
            drawn = f"    {state.value} --> {to.value}: {event.value}" in lines
            assert drawn is (to is not state and event is not Event.RESTART)


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
    assert [backoff.next_pause_s(at) for at in range(ATTEMPTS)] == [1, 2, 4, 8, None]
    assert backoff.failures == 5
    once = Backoff(lambda: 0.0, attempts=1)
    assert once.next_pause_s(0) is None
    forever = Backoff(lambda: 0.0, attempts=0)
    assert [forever.next_pause_s(0) for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_reset_forgets_everything():
    backoff = Backoff(lambda: 0.0)
    for _ in range(ATTEMPTS):
        backoff.next_pause_s(0)
    backoff.reset()
    assert backoff.next_pause_s(0) == 1
    assert backoff.failures == 1


@pytest.mark.covers("F-P-02", "F-P-27")
def test_a_crash_loop_slows_down_but_is_not_given_up():
    backoff, now, pauses = Backoff(lambda: 0.0), 0.0, []
    for _ in range(10):
        backoff.opened(now)
        pauses.append(backoff.next_pause_s(now + 1))
        now += 100
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]


@pytest.mark.covers("F-P-02")
def test_after_a_good_session_the_first_pause_is_short_again():
    backoff = Backoff(lambda: 0.0)
    for _ in range(4):
        backoff.next_pause_s(0)
    backoff.opened(0)
    assert backoff.failures == 0
    assert backoff.next_pause_s(HEALTHY_S) == 1


def test_once_given_up_a_call_may_try_again_after_a_while():
    backoff = Backoff(lambda: 0.0)
    assert backoff.retry_in_s(0) == 0
    backoff.next_pause_s(100)
    assert backoff.retry_in_s(100) == FAILED_PAUSE_S
    assert backoff.retry_in_s(110) == FAILED_PAUSE_S - 10
    assert backoff.retry_in_s(1000) == 0


@pytest.mark.covers("F-P-01", "F-P-27")
def test_a_half_open_attempt_that_fails_leads_back_at_once():
    backoff = Backoff(lambda: 0.0, attempts=2)
    assert [backoff.next_pause_s(0), backoff.next_pause_s(1)] == [1, None]
    assert backoff.next_pause_s(100) is None
    assert backoff.retry_in_s(101) == FAILED_PAUSE_S - 1
    backoff.opened(200)
    assert backoff.next_pause_s(201) is not None


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 200), st.floats(-1, 1)), max_size=30))
def test_pauses_stay_within_bounds_whatever_happens(history):
    jitter = iter([luck for *_, luck in history])
    backoff, now = Backoff(lambda: next(jitter), attempts=0), 0.0
    for opens, lasts, _ in history:
        if opens:
            backoff.opened(now)
        now += lasts
        pause = backoff.next_pause_s(now)
        assert pause is not None
        assert 1 - JITTER <= pause <= LONGEST_PAUSE_S * (1 + JITTER)
