"""Chance in tests, which can be had again.

trio runs the tasks that are ready in an order that it draws; pauses between attempts vary. Both are drawn from one seed
per test, which comes of the seed of the run and of the test's id: one test alone goes as it went among all others.
HUBD_SCHEDULER_SEED sets the seed of the run; else each run has another one, told when it begins and with each failure.

Not everything is drawn: real processes and sockets take their own time, and sets of texts have the order of
PYTHONHASHSEED, which is told as well where it is set.
"""

import os
import random
import secrets
import select
from collections.abc import Generator
from typing import Final

import pytest
import trio
import trio.testing
from trio.testing import MockClock

VARIABLE: Final = "HUBD_SCHEDULER_SEED"
RUN_SEED: Final = os.environ.get(VARIABLE) or str(secrets.randbelow(10**6))
THREAD_S: Final = 0.001
"""How long a thread that works is given before it is looked after again."""


def repeat() -> str:
    """The environment that makes another run go like this one."""
    hashes = os.environ.get("PYTHONHASHSEED", "random")
    return f"{VARIABLE}={RUN_SEED}" + ("" if hashes == "random" else f" PYTHONHASHSEED={hashes}")


def pytest_configure() -> None:
    """Have trio draw the order of all tasks in a batch from their order of birth, which lies in no address; and let a
    clock that jumps stand still while a thread works, as when something is saved, however long the machine takes."""
    os.environ[VARIABLE] = RUN_SEED  # for workers of this run, which are processes of their own
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    jump = MockClock._autojump

    def jump_when_threads_rest(clock: MockClock) -> None:
        if trio.testing.active_thread_count():
            select.select([], [], [], THREAD_S)
        else:
            jump(clock)

    MockClock._autojump = jump_when_threads_rest  # type: ignore[method-assign]


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell the seed, in a quiet run too: one that is killed has told it."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"seed of this run: {repeat()}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed what fixtures draw."""
    _seed(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Seed what the test draws, however much fixtures did, which some tests share."""
    _seed(item)


def _seed(item: pytest.Item) -> None:
    for number, chance in enumerate((trio._core._run._r, random)):
        chance.seed(f"{RUN_SEED} {number} {item.nodeid}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell with a failure how to have it again."""
    report = yield
    if report.failed:
        report.sections.append(("to have it again", f"{repeat()} .venv/bin/pytest '{item.nodeid}'"))
    return report
