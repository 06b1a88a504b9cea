"""The watchdog of the event loop: it names the function that stands still."""

import re
import select
import threading

import pytest
import trio
import trio.testing

from hub.daemon.loop_stalls import LoopWatchdog


@pytest.mark.covers("F-D-12")
async def test_a_loop_that_stands_still_is_noticed_and_named(nursery, caplog):
    watch = LoopWatchdog(every_s=0.01, idle_s=0.01, blocked_s=0.3)
    nursery.start_soon(watch.run)
    with trio.fail_after(30):
        while not watch.times:
            await trio.sleep(0.02)
            stand_still()
    [record] = caplog.records
    assert re.search(
        r"blocked for \d\.\d\d s, .*: stand_still \(tests/hub/daemon/test_loop_stalls\.py:\d+\)", record.getMessage()
    )
    facts = watch.status()
    assert facts.blocked == watch.times
    assert facts.longest_s > 0
    assert watch.longest_lately_s() >= 0.3


def stand_still():
    select.select([], [], [], 1.0)  # longer than a busy machine lets the loop wait elsewhere


async def test_a_loop_that_turns_is_not(nursery, caplog):
    watch = LoopWatchdog(every_s=0.001, idle_s=0.001, blocked_s=5)
    nursery.start_soon(watch.run)
    with trio.fail_after(30):
        while not watch.longest_s:  # noqa: ASYNC110 - how long it took to turn is known all the same
            await trio.sleep(0.01)
    assert watch.longest_s < 5
    assert watch.times == 0
    assert not caplog.records


@pytest.mark.covers("I-12")
async def test_the_watch_ends_with_the_hub():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(LoopWatchdog(every_s=0.001, idle_s=0.001).run)
        await trio.testing.wait_all_tasks_blocked()
        assert "hubd watch" in {thread.name for thread in threading.enumerate()}
        nursery.cancel_scope.cancel()
    for thread in threading.enumerate():
        if thread.name == "hubd watch":
            await trio.to_thread.run_sync(thread.join, 10)
            assert not thread.is_alive()
