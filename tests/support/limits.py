"""Time limits: how a test that hangs is ended.

pytest-timeout holds the limits (`timeout` in pyproject.toml, `@pytest.mark.timeout`) and sets a timer for each test.
Its own reaction, an exception out of a signal handler, would break trio's loop at any point and leave the test's
processes behind. So an overdue test is ended here, in steps of `STEP_S`:

    1  The tree of tasks is noted for the report of the failure, and the run of trio is cancelled: the test ends like
       any other, and its fixtures and processes with it.
    2  Shielded scopes are cancelled too. A task that blocks the loop gets an exception where it is.
    3  All code that still runs gets that exception, again and again.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import pytest
import pytest_timeout
import trio

from tests.support.task_tree import all_tasks, run_of_this_thread, task_tree

STEP_S: Final = 5.0
REAL_S: Final = 300.0
"""The limit of tests with real servers and clients, which set none of their own."""
LONG_S: Final = 3600.0
"""The limit of all tests when one of `LONG_FORMS` is set."""
LONG_FORMS: Final = ("HUBD_FUZZ", "HUBD_SEEDS", "HUBD_LOAD")
MACHINERY: Final = ("/_pytest/", "/pluggy/", "/pytest_trio/", "/bin/pytest")

OVERDUE: Final = pytest.StashKey[str]()
"""Why a test is being ended."""
ALARMS: Final = pytest.StashKey[int]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give long tests more time, unless they set their own limit."""
    is_long = any(name in os.environ for name in LONG_FORMS)
    for item in items:
        if is_long:
            item.add_marker(pytest.mark.timeout(LONG_S), append=False)
        elif item.get_closest_marker("real") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_S))


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Start the timer of a test. With `--timeout-method=thread` the plugin uses its own."""
    if settings.method != "signal" or threading.current_thread() is not threading.main_thread():
        return None

    def handle(number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True
        if settings.disable_debugger_detection or not pytest_timeout.is_debugging():
            _end(item, settings.timeout, frame)

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # where the plugin looks for it
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout, STEP_S)
    return True


def _end(item: pytest.Item, limit_s: float, frame: FrameType | None) -> None:
    """Take the next step to end an overdue test."""
    __tracebackhide__ = True
    step = item.stash[ALARMS] = item.stash.get(ALARMS, 0) + 1
    reason = item.stash.setdefault(OVERDUE, f"the test was not over after {limit_s:g} seconds")
    run = run_of_this_thread()
    _note(item, run, frame, "" if step == 1 else f", {(step - 1) * STEP_S:g} seconds after it was to end")
    if run is not None and run.main_task is not None and step <= 2:
        if step == 2:
            _take_shields_away(run)
        run.entry_queue.run_sync_soon(run.main_task.parent_nursery.cancel_scope.cancel)
        if step == 1 or not _is_in_a_task():
            return
    pytest.fail(reason)


def _is_in_a_task() -> bool:
    """Whether the loop runs a task now, and is not between two tasks or waiting."""
    return hasattr(trio._core._run.GLOBAL_RUN_CONTEXT, "task")


def _take_shields_away(run: Any) -> None:
    for task in all_tasks(run):
        status = task._cancel_status
        while status is not None:
            status._scope.shield = False
            status = status._parent


# --- the report -------------------------------------------------------------------------------------------------------


def _note(item: pytest.Item, run: Any, frame: FrameType | None, when: str) -> None:
    """Add to the report where each task and thread was."""
    if run is not None:
        item.add_report_section("call", f"tasks{when}", task_tree(run))
    if run is None or _is_in_a_task():
        item.add_report_section("call", f"main thread{when}", _stack(frame))
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.ident in frames:
            item.add_report_section("call", f"thread {thread.name}{when}", _stack(frames[thread.ident]))


def _stack(frame: FrameType | None) -> str:
    stack = traceback.extract_stack(frame)
    kept = [each for each in stack if not any(part in each.filename for part in MACHINERY)]
    return "".join(traceback.format_list(kept))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Say why a setup was ended."""
    return (yield from _explained(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Say why a test was ended, whatever its cancellation led to."""
    return (yield from _explained(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Say why a teardown was ended."""
    return (yield from _explained(item))


def _explained(item: pytest.Item) -> Generator[None, object, object]:
    before = item.stash.get(ALARMS, 0)
    try:
        result = yield
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException as error:
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt):
            raise KeyboardInterrupt from None  # else whoever wants to end all tests would fail one
        if item.stash.get(ALARMS, 0) == before:
            raise
    else:
        if item.stash.get(ALARMS, 0) == before:
            return result
    # A loop that was torn apart would be taken for one that still runs, and no test after this one could have its own.
    trio._core._run.GLOBAL_RUN_CONTEXT.__dict__.clear()
    pytest.fail(item.stash[OVERDUE], pytrace=False)
