"""Random hosts, upstreams and people: in any order of events nothing crosses between hosts, and nothing is left behind.

Each seed is one world, with its own cast, moves, order of tasks and clock. The invariants I-1 to I-5 of
`tests/data/requirements.toml` are checked after every move, I-12 after the last. `make soak` runs 2 000 worlds;
HUBD_SEED=n runs one again.
"""

from random import Random
from typing import Any

import pytest
import trio
import trio.testing

from hub.wire.mcp import L4, MODERN
from tests.simulation.players import Player
from tests.simulation.reading import observing
from tests.simulation.visiting import DESK, open_desk
from tests.simulation.world import FRAIL, SEEDS, STEADY, World, run_seeded
from tests.support.house import a_house, tasks_at_rest
from tests.support.parking import statistics_of

MOVES = 40
SETTINGS = {"park_ttl_s": 20.0, "park_total_s": 60.0, "synthetic_progress_s": 5.0}
QUIET_S = 400.0
"""Seconds after which every question has expired and every session been found idle."""


async def live(dice: Random) -> None:
    """One world, from its beginning to its end."""
    players = {name: Player(name, L4 if name.startswith("old") else MODERN) for name in STEADY + FRAIL}
    modes = {name: {"session_mode": dice.choice(("auto", "shared", "per_host", "singleton"))} for name in players}
    for settings in modes.values():
        settings["across_principals"] = settings["session_mode"] == "singleton" or dice.random() < 0.3
    desk, modes[DESK] = open_desk(dice)
    async with a_house({**players, DESK: desk}, upstreams=modes, **SETTINGS) as house:
        await trio.sleep(1)
        tasks = await tasks_of_hub(house)
        world = World(house, players, dice)
        world.open_desk(desk, modes[DESK])
        for _ in range(dice.randint(2, 4)):
            await world.arrive()
        for _ in range(MOVES):
            await world.move()
            world.check_visits()
        await trio.sleep(SETTINGS["park_total_s"] * 2)
        world.check()
        world.check_visits()
        world.check_end()
        world.check_roots(*players.values())
        await world.check_lists()
        for person in world.present():
            person.gone = True
            await person.host.leave()
            await person.host.end()
        await trio.sleep(QUIET_S)
        house.assert_at_rest()
        await at_rest(house, tasks)


async def tasks_of_hub(house: Any) -> int:
    """The tasks of the hub, without those of people around it."""
    [task] = [task for task in house.nursery.child_tasks if task.name.endswith("Hub.run")]
    return await tasks_at_rest(*task.child_nurseries)


async def at_rest(house: Any, tasks: int) -> None:
    """Assert that nothing is left of hosts that are gone."""
    hub = house.hub
    assert len(hub.hosts) == 0
    assert (statistics_of(hub.bridge.parking).running, statistics_of(hub.bridge.parking).parked) == (0, 0)
    left = await tasks_of_hub(house) - tasks - observing(hub)
    assert left <= 0, f"{left} tasks are left"


@pytest.mark.covers(
    "I-1", "I-2", "I-3", "I-4", "I-5", "I-12", "F-I-04", "F-H-07", "SEC-20", "SEC-22", "SEC-23", "K-3", "K-8"
)
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_meets_and_nothing_stays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run_seeded(live, seed, monkeypatch)
