"""Read pace: turns by count and by size, also with several streams of one peer."""

import pytest
import trio

from hub.link.read_pace import TURN, TURN_BYTES, ReadPace


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
