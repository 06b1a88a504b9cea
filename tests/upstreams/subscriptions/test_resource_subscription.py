"""Fan-out alone, without sessions. With them it is in `test_session_subscriptions` and `test_invalidation_listener`."""

import pytest

from upstreams.subscriptions.resource_subscription import (
    LINGER_S,
    MAX_LET_GO,
    MAX_STRAYS,
    Coverage,
    Fanout,
    Subscription,
)

WHOLE, PART, OTHER = "a://x/y", "a://x/y/part", "b://z"


class Reader:
    """A holder, of whom nothing is asked."""


def subscriptions(*uris, subscriber=None, observed=False):
    found = {}
    for uri in uris:
        subscription = found[uri] = Subscription(uri)
        subscription.observed = observed
        if subscriber is not None:
            subscription.subscribers[subscriber] = True
    return found


def whose(concern, uri, found, alone=True, now=0.0):
    return concern.whose(uri, found, alone=alone, now=now)


@pytest.mark.covers("N-11")
@pytest.mark.parametrize("alone", [True, False])
def test_it_concerns_those_who_watch_it_else_those_who_watch_what_it_is_a_part_of(alone):
    of_whole, of_part = Reader(), Reader()
    found = subscriptions(WHOLE, subscriber=of_whole) | subscriptions(PART, subscriber=of_part)
    assert whose(Fanout(), PART, found, alone) == [of_part]
    del found[PART]
    assert whose(Fanout(), PART, found, alone) == [of_whole]


@pytest.mark.covers("N-11")
def test_what_nobody_asked_for_by_that_name_concerns_the_only_host_there_is():
    reader = Reader()
    found = subscriptions(WHOLE, "a://x/z", subscriber=reader)
    assert whose(Fanout(), OTHER, found, alone=True) == [reader]
    assert whose(Fanout(), OTHER, found, alone=False) == []
    assert whose(Fanout(), OTHER, {}, alone=False) == []


def test_what_is_only_observed_concerns_nobody_unless_the_host_has_heard_of_it_before():
    reader, concern = Reader(), Fanout()
    held = subscriptions(WHOLE, subscriber=reader)
    both = held | subscriptions(OTHER, observed=True)
    assert whose(concern, OTHER, both) == []
    assert whose(concern, OTHER, held) == [reader]
    assert whose(concern, OTHER, both) == [reader]
    for number in range(MAX_STRAYS):
        whose(concern, f"c://{number}", held)
    assert whose(concern, OTHER, both) == []


def test_what_was_observed_till_lately_concerns_nobody_for_a_while():
    reader, concern = Reader(), Fanout()
    held = subscriptions(WHOLE, subscriber=reader)
    concern.let_go(OTHER, 100.0)
    assert whose(concern, OTHER, held, now=100.0 + LINGER_S - 1) == []
    assert whose(concern, OTHER, held, now=100.0 + LINGER_S) == [reader]


def test_of_what_was_let_go_only_so_much_is_remembered():
    reader, concern = Reader(), Fanout()
    held = subscriptions(WHOLE, subscriber=reader)
    for number in range(MAX_LET_GO + 1):
        concern.let_go(f"c://{number}", 0.0)
    assert whose(concern, "c://0", held) == [reader]
    assert whose(concern, f"c://{MAX_LET_GO}", held) == []


@pytest.mark.parametrize("observed", [False, True])
def test_what_a_host_has_just_left_concerns_nobody_else(observed):
    reader, concern = Reader(), Fanout()
    found = subscriptions(WHOLE, subscriber=reader) | subscriptions(OTHER, observed=observed)
    found[OTHER].until = LINGER_S
    assert whose(concern, OTHER, found) == []
    whose(concern, OTHER, subscriptions(WHOLE, subscriber=reader))  # a stray from now on
    assert whose(concern, OTHER, found) == []
    assert whose(concern, OTHER, found, now=LINGER_S) == ([reader] if observed else [])


def test_it_is_heard_until_it_is_not_and_again_from_then_on():
    hearing = Coverage()
    assert hearing.is_on
    assert not hearing.turn(10.0, on=True)
    assert hearing.since < 0, "what is said of it again is no news"
    assert hearing.turn(20.0, on=False)
    assert not hearing.is_on
    assert not hearing.turn(30.0, on=False)
    assert hearing.turn(40.0, on=True)
    assert (hearing.is_on, hearing.since) == (True, 40.0)
