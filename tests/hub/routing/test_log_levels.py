"""The one log level of legacy upstreams."""

from contextlib import contextmanager
from math import inf

import pytest
import trio
import trio.testing

from hub.routing.log_levels import LEVEL_LINGER_S, LogLevels


async def test_the_level_is_applied_when_it_changes(autojump_clock):
    wanted, applied = [], []
    levels = LogLevels(lambda: wanted, applied.append)
    for now in (["error"], ["error", "error"], ["error", "debug", "alert"], ["error"], []):
        wanted[:] = now
        levels.changed()
    assert applied == ["error", "debug", "error", None]


@contextmanager
def use(levels, level):
    """A request that wants `level` runs within."""
    levels.hold(level)
    try:
        yield
    finally:
        levels.release(level)


async def test_a_level_is_held_while_requests_run_and_lingers(autojump_clock, nursery):
    applied = []
    levels = LogLevels(lambda: ["error"], applied.append)
    levels.changed()
    nursery.start_soon(levels.run)
    with use(levels, "debug"), use(levels, "debug"):
        with use(levels, "debug"):
            await trio.sleep(LEVEL_LINGER_S * 3)
        await trio.sleep(LEVEL_LINGER_S * 3)
        assert applied == ["error", "debug"]
    await trio.sleep(LEVEL_LINGER_S / 2)
    with use(levels, "debug"):
        pass
    await trio.sleep(LEVEL_LINGER_S - 1)
    assert applied == ["error", "debug"]
    await trio.sleep(2)
    assert applied == ["error", "debug", "error"]


async def test_a_request_that_fails_lets_its_level_go(autojump_clock, nursery):
    applied = []
    levels = LogLevels(list, applied.append)
    nursery.start_soon(levels.run)
    with pytest.raises(ZeroDivisionError), use(levels, "info"):
        raise ZeroDivisionError
    await trio.sleep(LEVEL_LINGER_S * 2)
    assert applied == ["info", None]


async def test_levels_that_linger_end_one_by_one(autojump_clock, nursery):
    applied = []
    levels = LogLevels(list, applied.append)
    nursery.start_soon(levels.run)
    with use(levels, "debug"):
        pass
    await trio.sleep(LEVEL_LINGER_S / 2)
    with use(levels, "info"):
        pass
    await trio.sleep(LEVEL_LINGER_S / 2 + 1)
    assert applied == ["debug", "info"]
    await trio.sleep(LEVEL_LINGER_S / 2)
    assert applied == ["debug", "info", None]


async def test_nothing_runs_while_no_level_lingers(autojump_clock, nursery):
    levels = LogLevels(list, lambda level: None)
    nursery.start_soon(levels.run)
    for _ in range(2):
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        with use(levels, "info"):
            await trio.testing.wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf
        await trio.sleep(LEVEL_LINGER_S + 1)
