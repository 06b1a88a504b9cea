"""Exponential backoff: the arithmetic; its use by upstreams is tested in `test_lifecycle`."""

import pytest
import trio

from hub.link.rates import (
    HEALTHY_S,
    JITTER,
    LONGEST_PAUSE_S,
    TURN,
    TURN_BYTES,
    ExponentialBackoff,
    ReadPace,
    TokenBucket,
)


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


def passed(bucket, now, tries=100):
    return sum(bucket.take(now) for _ in range(tries))


def test_a_full_one_lets_so_much_pass_at_once_and_then_what_comes_in():
    bucket = TokenBucket(10, per_s=2)
    assert [passed(bucket, now) for now in (50.0, 50.0, 50.5, 52.0, 52.4)] == [10, 0, 1, 3, 0]
    assert passed(bucket, 1000.0) == 10, "and never more than it holds"


def test_what_is_too_much_takes_nothing():
    bucket = TokenBucket(10, per_s=1)
    assert [bucket.take(0.0, amount) for amount in (8, 3, 2, 1)] == [True, False, True, False]
    assert not bucket.take(9.0, 11)


def test_seconds_that_do_not_add_up_cost_nothing():
    bucket = TokenBucket(1, per_s=10)
    assert all(bucket.take(number * 0.1) for number in range(1000))


class Rounds(trio.abc.Instrument):
    """Counts what is noted in one round of the loop, of all tasks together."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def before_io_wait(self, timeout: float) -> None:
        self.most, self.now = max(self.most, self.now), 0


@pytest.mark.covers("F-P-14")
@pytest.mark.parametrize("size", [0, 30_000, 2 * TURN_BYTES])
@pytest.mark.parametrize("keeps", [True, False])
async def test_streams_of_one_peer_take_turns(autojump_clock: trio.abc.Clock, size: int, keeps: bool) -> None:
    pace, rounds, heard = ReadPace(), Rounds(), []

    async def read(stream: int) -> None:
        await pace.next()
        for number in range(5 * TURN):
            rounds.now += 1
            heard.append((stream, number))
            await (pace.keep(size) if keeps else pace.turn(size))

    trio.lowlevel.add_instrument(rounds)
    async with trio.open_nursery() as nursery:
        for stream in range(8):
            nursery.start_soon(read, stream)
    trio.lowlevel.remove_instrument(rounds)
    assert len(heard) == 8 * 5 * TURN
    each = TURN if not size else max(1, -(-TURN_BYTES // size) + 1)
    assert rounds.most <= 2 * each
    assert [number for stream, number in heard if stream == 3] == list(range(5 * TURN))
