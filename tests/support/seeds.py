"""Seeded chance: each test can be repeated as it went.

trio draws the order of tasks that are ready, and pauses between attempts are random. Both come from one seed per test,
made from the seed of the run and the test's id: a test alone goes as it went among all others. HUBD_SCHEDULER_SEED sets
the seed of the run; by default each run has a new one, printed at its start and with each failure.

Real processes and sockets keep their own time. Sets of strings have the order of PYTHONHASHSEED, which is printed as
well if it is set.
"""

import fcntl
import os
import random
import secrets
import select
import socket
import stat
import struct
import termios
from collections.abc import Generator
from typing import Final

import pytest
import trio
import trio.testing
from trio.testing import MockClock

VARIABLE: Final = "HUBD_SCHEDULER_SEED"
RUN_SEED: Final = os.environ.get(VARIABLE) or str(secrets.randbelow(10**6))
LOOK_S: Final = 0.001
"""Interval at which a jumping clock checks for working threads and for bytes on their way."""
LOOKS: Final = 5
"""Looks at bytes that do not move before they count as unread by a slow peer, and the clock jumps."""
LOOKS_FOR_A_READER: Final = 2000
"""Where a task waits to read these bytes, so that only the kernel is late: it opens a window again when it pleases."""


def repeat() -> str:
    """The environment that repeats this run."""
    hashes = os.environ.get("PYTHONHASHSEED", "random")
    return f"{VARIABLE}={RUN_SEED}" + ("" if hashes == "random" else f" PYTHONHASHSEED={hashes}")


def pytest_configure() -> None:
    """Make runs repeatable: trio shuffles tasks by their order of birth instead of their addresses, and a jumping
    clock stands still while a thread works, when a file is saved for instance, or while bytes are on their way between
    two sockets: a busy kernel delivers them late, and their peers would be taken for slow."""
    os.environ[VARIABLE] = RUN_SEED  # for workers of this run, which are processes of their own
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    jump = MockClock._autojump

    seen: tuple[object, int] = ((), 0)

    def jump_when_all_rests(clock: MockClock) -> None:
        nonlocal seen
        unsent = () if trio.testing.active_thread_count() else _unsent_bytes()
        looks = seen[1] + 1 if unsent == seen[0] else 0
        seen = unsent, looks
        most = LOOKS if looks < LOOKS or not _reader_waits(unsent) else LOOKS_FOR_A_READER
        if trio.testing.active_thread_count() or (unsent and looks < most):
            select.select([], [], [], LOOK_S)
        else:
            jump(clock)

    MockClock._autojump = jump_when_all_rests  # type: ignore[method-assign]


def _reader_waits(unsent: tuple[tuple[int, int], ...]) -> bool:
    """Whether a task waits to read from the other end of one of these sockets, if that is in this process."""
    registered = trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager._registered  # type: ignore[attr-defined]
    readers = {_ends(descriptor)[0] for descriptor, waiters in registered.items() if waiters.read_task is not None}
    return any(_ends(descriptor)[1] in readers - {None} for descriptor, _ in unsent)


def _ends(descriptor: int) -> tuple[object, object]:
    """The addresses of a TCP socket and of its peer; None, None for others."""
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return None, None
    try:
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            ends = copy.getsockname(), copy.getpeername()
            return ends if copy.family in (socket.AF_INET, socket.AF_INET6) else (None, None)
    except OSError:
        return None, None


def _unsent_bytes() -> tuple[tuple[int, int], ...]:
    """The sockets that tasks wait for and the peers of which have not taken all bytes, and how many those are."""
    found = []
    for descriptor in trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager._registered:  # type: ignore[attr-defined]
        try:
            answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:  # no socket
            continue
        if unsent := struct.unpack("i", answer)[0]:
            found.append((descriptor, unsent))
    return tuple(found)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Print the seed at the start, in a quiet run too, since the run may be killed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"seed of this run: {repeat()}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed the chance of fixtures."""
    _seed(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Seed the chance of the test anew: some tests share fixtures, which have drawn from it."""
    _seed(item)


def _seed(item: pytest.Item) -> None:
    for number, chance in enumerate((trio._core._run._r, random)):
        chance.seed(f"{RUN_SEED} {number} {_id(item)}")


def _id(item: pytest.Item) -> str:
    """The test's id on every worker, and without any: xdist adds the group to it."""
    at = item.nodeid.rfind("@")
    return item.nodeid[:at] if at > item.nodeid.rfind("]") and item.get_closest_marker("xdist_group") else item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure the command that repeats it."""
    report = yield
    if report.failed:
        report.sections.append(("to have it again", f"{repeat()} .venv/bin/pytest '{_id(item)}'"))
    return report
