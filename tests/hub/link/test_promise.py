"""A promise is fulfilled once, and whoever waits gets that value."""

import trio
import trio.testing

from hub.link.promise import Promise


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
