"""Token buckets, and how peers take turns."""

import pytest
import trio

from hub.link.rate_limits import TURN, TURN_BYTES, ReadPace, TokenBucket


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
