"""Fault isolation: a failing task is logged and started again, or ends alone."""

import logging
from itertools import pairwise

import pytest
import trio

from hub.link.fault_isolation import FIRST_PAUSE_S, LONGEST_PAUSE_S, SOUND_S, keep_going, run_isolated


@pytest.mark.covers("F-D-13", "I-3")
async def test_a_task_with_a_fault_begins_anew_after_a_pause(autojump_clock, caplog):
    times: list[float] = []

    async def run() -> None:
        times.append(trio.current_time())
        if len(times) < 12:
            raise RuntimeError("a fault of a library")

    begins = trio.current_time()
    with caplog.at_level(logging.ERROR):
        await keep_going("The task", run)
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert times[0] == begins
    assert pauses == pytest.approx([min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(11)])
    assert caplog.messages[0] == "The task has stopped because of a fault, and begins anew in 1 s"
    assert all(record.exc_info for record in caplog.records)


async def test_a_task_that_went_well_for_long_begins_anew_soon(autojump_clock):
    times: list[float] = []

    async def run() -> None:
        times.append(trio.current_time())
        if len(times) == 6:
            await trio.sleep(SOUND_S)
        if len(times) < 8:
            raise ExceptionGroup("several", [OSError(24, "Too many open files")])

    await keep_going("The task", run)
    assert times[6] - times[5] == pytest.approx(SOUND_S + FIRST_PAUSE_S)


async def test_cancellation_passes(autojump_clock):
    with trio.move_on_after(1) as scope:
        await keep_going("The task", trio.sleep_forever)
    assert scope.cancelled_caught


async def test_what_stands_alone_is_run_once(caplog):
    calls = []

    async def run() -> None:
        calls.append(1)
        raise ValueError("a fault")

    await run_isolated("The task", run)
    assert calls == [1]
    assert "The task has stopped because of a fault" in caplog.text
