"""Flags merge, bells wake everybody who waits."""

import trio
import trio.testing

from hub.link.sync_primitives import SHARED_FOR, Bell, DirtyFlag, Promise, loop_turns


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


async def test_all_get_the_first_value(nursery, autojump_clock):
    promise: Promise[str | None] = Promise()
    got = []

    async def wait():
        got.append(await promise.wait())

    nursery.start_soon(wait)
    nursery.start_soon(wait)
    with trio.move_on_after(1) as impatient:
        await promise.wait()
    assert impatient.cancelled_caught
    assert (promise.is_fulfilled, got) == (False, [])
    promise.fulfil(None)
    promise.fulfil("late")
    await trio.testing.wait_all_tasks_blocked()
    assert (promise.is_fulfilled, got) == (True, [None, None])
    assert await promise.wait() is None


async def test_turns_are_shared_while_several_hosts_send(autojump_clock):
    turns = loop_turns()
    turns.note("a")
    for sender, shared in (("a", False), ("b", True), ("a", True)):
        for _ in range(SHARED_FOR + 1):
            turns.note(turns._sender)
            await trio.sleep(0.001)
        assert not turns.is_shared
        turns.note(sender)
        assert turns.is_shared is shared
