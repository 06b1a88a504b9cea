"""A hub of which nothing is in the directory any more, since that was full: it is there, and has its sessions."""

import pytest
import trio

from hub.fleet.membership import LIVES_S
from tests.support.fleet_house import Fleet


@pytest.fixture
async def two(nursery):
    fleet = Fleet(nursery)
    a, b = await fleet.start("a"), await fleet.start("b")
    fleet.grow_old()
    await b.membership.renew()  # sees the other one
    return a, b


def drop(hub):
    """Its registration alone."""
    del hub.fleet.facts.values[f"replica/{hub.membership.me.run}"]


async def test_its_sessions_are_not_taken_from_it(two):
    a, b = two
    host = b.turn(await a.host())
    drop(a)
    answered = await host.call("echo")
    assert (answered.status, len(a.router.seen)) == (200, 1)
    assert len(a.endpoint.sessions) == 1
    assert len(b.endpoint.sessions) == 0


async def test_one_that_ended_is_found_to_have(two):
    a, b = two
    host = b.turn(await a.host())
    drop(a)
    await a.kill()
    answered = await host.call("echo")
    assert (answered.status, len(b.router.seen)) == (200, 1)
    assert len(b.endpoint.sessions) == 1


async def test_nor_is_it_believed_for_long(autojump_clock, two):
    a, b = two
    run = a.membership.me.run
    await a.kill()
    drop(a)
    assert await b.membership.reach(run) is not None
    assert await b.membership.find(run, fresh=True) is None, "for whoever asks whether it is registered"
    await trio.sleep(LIVES_S)
    assert await b.membership.reach(run) is None
