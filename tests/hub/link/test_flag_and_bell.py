"""Flags merge, bells wake everybody who waits."""

import trio
import trio.testing

from hub.link.flag_and_bell import Bell, DirtyFlag


async def test_a_flag_is_taken_once_however_often_it_was_set(autojump_clock):
    flag = DirtyFlag()
    flag.set()
    flag.set()
    await flag.take()
    with trio.move_on_after(1) as scope:
        await flag.take()
    assert scope.cancelled_caught


async def test_a_bell_wakes_those_who_wait_and_nobody_after(nursery, autojump_clock):
    bell, woken = Bell(), []

    async def wait(name):
        await bell.wait()
        woken.append(name)

    bell.ring()
    nursery.start_soon(wait, 1)
    nursery.start_soon(wait, 2)
    await trio.testing.wait_all_tasks_blocked()
    assert woken == []
    bell.ring()
    await trio.testing.wait_all_tasks_blocked()
    assert sorted(woken) == [1, 2]
