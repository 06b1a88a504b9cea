"""No host ever reads what is older than the last thing that its hub had heard when it asked."""

import os
from random import Random

import pytest
import trio

from tests.support.cache_world import a_world
from tests.support.everything import draw
from tests.support.late_store import Board

SEEDS = draw(4, range(12))
if "HUBD_SEED" in os.environ:
    SEEDS = [int(os.environ["HUBD_SEED"])]
elif "HUBD_SEEDS" in os.environ:
    SEEDS = range(int(os.environ["HUBD_SEEDS"]))


@pytest.mark.covers("K-8", "SEC-23")
@pytest.mark.parametrize("seed", SEEDS)
async def test_nobody_reads_what_is_known_to_be_old(seed, autojump_clock):
    async with a_world(Random(seed)) as world:
        for _ in range(150):
            await world.move()
    assert world.wrong == []
    assert world.answers > 10


@pytest.fixture(scope="module")
def boards():
    """What was shared in each world. In one of them it may be nothing, but not in all."""
    made = []
    yield made
    assert any(board.entries for board in made)


@pytest.mark.covers("K-8", "SEC-23")
@pytest.mark.parametrize("seed", SEEDS)
async def test_nor_with_several_hubs_and_a_store_that_is_late(seed, autojump_clock, boards):
    dice = Random(seed)
    async with trio.open_nursery() as nursery:
        board = Board(dice, nursery)
        boards.append(board)
        async with a_world(dice, hubs=2, share=lambda number: board.join()) as world:
            for _ in range(200):
                await world.move()
        nursery.cancel_scope.cancel()
    assert world.wrong == []
    assert world.answers > 10
