"""Exponential backoff: the arithmetic; its use by upstreams is tested in `test_lifecycle`."""

import pytest

from hub.link.backoff import HEALTHY_S, JITTER, LONGEST_PAUSE_S, ExponentialBackoff


def test_pauses_double_up_to_the_longest():
    pauses = ExponentialBackoff(first_s=0.5)
    assert [pauses.next_s(0) for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


@pytest.mark.parametrize("healthy_s", [10.0, HEALTHY_S])
def test_what_lasted_is_opened_again_soon(healthy_s):
    pauses = ExponentialBackoff(healthy_s=healthy_s)
    for lasted_s, expected_s in [(0, 1), (healthy_s - 1, 2), (healthy_s - 1, 4), (healthy_s, 1), (0, 2)]:
        pauses.opened(100)
        assert pauses.next_s(100 + lasted_s) == expected_s


def test_what_did_not_open_again_lasted_for_nothing():
    pauses = ExponentialBackoff()
    pauses.opened(0)
    assert [pauses.next_s(1), pauses.next_s(1000)] == [1, 2]


def test_chance_makes_a_pause_shorter_or_longer():
    chance = iter([-1, 1])
    pauses = ExponentialBackoff(lambda: next(chance))
    assert [pauses.next_s(0), pauses.next_s(0)] == [1 - JITTER, 2 * (1 + JITTER)]
