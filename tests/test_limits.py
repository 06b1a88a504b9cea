"""Tests that hang are ended and reported, and seeded chance repeats: pytest in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
HANGING = """
import time
import pytest, trio
from tests.support import limits

limits.STEP_S = 0.2
pytestmark = pytest.mark.timeout(0.5)

async def waits():
    await trio.sleep_forever()

async def test_of_a_clock_that_jumps_nowhere(autojump_clock):
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(waits)
        await trio.Event().wait()

async def test_of_real_time():
    await waits()

async def test_of_a_shield():
    with trio.CancelScope(shield=True):
        await waits()

async def test_of_a_loop_that_is_blocked():
    time.sleep(60)

async def test_that_never_waits():
    while True:
        await trio.lowlevel.checkpoint()

async def test_that_thinks_nothing_of_it():
    with trio.CancelScope() as scope:
        await trio.sleep_forever()

def test_without_trio():
    time.sleep(60)

@pytest.fixture
def slow():
    yield
    time.sleep(60)

def test_of_a_fixture(slow):
    pass

@pytest.mark.timeout(60)
async def test_after_them():
    await trio.sleep(0.001)
"""
DRAWING = """
import random
import time
import trio

async def test_order():
    order = []
    async def take(number):
        order.append(number)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(take, number)
    assert (order, random.random()) == ()

async def test_a_clock_that_jumps_waits_for_threads(autojump_clock):
    began = trio.current_time()
    with trio.move_on_after(60):
        await trio.to_thread.run_sync(time.sleep, 0.05)
    assert trio.current_time() == began
    await trio.sleep(3600)

async def test_another():
    assert [random.random() for _ in range(1000)] == []
"""


INTERRUPTED = """
import os
import signal
import trio

async def test_in_which_a_person_has_enough():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.lowlevel.checkpoint()
        os.kill(os.getpid(), signal.SIGINT)
        await trio.sleep_forever()

def test_that_is_not_reached():
    pass
"""


def run(directory, program, *arguments, code=1, **env):
    """Run `program` as tests under the plugins of this suite; returns the output of pytest."""
    file = directory / "test_it.py"
    file.write_text(program)
    argv = [sys.executable, "-m", "pytest", "-c", TESTS.parent / "pyproject.toml", "--rootdir", directory]
    argv += ["-p", "tests.support.seeds", "-p", "tests.support.limits", "-p", "no:cacheprovider"]
    argv += arguments or [file]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HUBD_", "PYTEST_", "PYTHON"))}
    done = subprocess.run(
        argv,
        cwd=directory,
        env={**kept, "PYTHONPATH": str(TESTS.parent), **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_what_hangs_is_ended_and_told(tmp_path):
    said = run(tmp_path, HANGING)
    told = dict(re.findall(r"^_+ (?:ERROR at teardown of )?(\w+) _+\n(.*?)(?=\n_{5}|\n====)", said, re.M | re.S))
    assert re.search(r"\b7 failed, 2 passed, 1 error in", said), said
    assert all(each.startswith("the test was not over after 0.5 seconds") for each in told.values())
    jumping = told["test_of_a_clock_that_jumps_nowhere"]
    assert re.search(r"<test 'test_of_a_clock_that_jumps_nowhere'>\n.*: await trio.Event\(\).wait\(\)\n", jumping)
    assert re.search(r"test_it.waits  \(3 of these\)\n.* in waits: ", jumping)
    assert " in sleep_forever: " in told["test_of_real_time"]
    assert "tasks, 0.2 seconds after it was to end" in told["test_of_a_shield"]
    for blocked in ("test_of_a_loop_that_is_blocked", "test_without_trio", "test_of_a_fixture"):
        assert re.search(r"main thread.*\n(.*\n)*    time.sleep\(60\)\n", told[blocked]), blocked
    assert "<test 'test_that_never_waits'>" in told["test_that_never_waits"]


def test_what_was_drawn_once_is_drawn_again(tmp_path):
    first = run(tmp_path, DRAWING)
    [told, *again] = re.findall(r"HUBD_SCHEDULER_SEED=(\d+)", first)
    assert len(again) == 2, "told at the beginning, and with each failure"
    assert set(again) == {told}
    drawn = re.search(r"assert \(\[.*== \(\)", first)[0]
    assert f"HUBD_SCHEDULER_SEED={told} .venv/bin/pytest 'test_it.py::test_order'" in first
    assert re.search(r"\b2 failed, 1 passed in", first), first
    assert drawn in run(tmp_path, DRAWING, "test_it.py::test_order", HUBD_SCHEDULER_SEED=told)
    assert drawn not in run(tmp_path, DRAWING, "test_it.py::test_order", HUBD_SCHEDULER_SEED=told + "0")


def test_who_interrupts_the_tests_ends_them_all(tmp_path):
    said = run(tmp_path, INTERRUPTED, code=2)
    assert "no tests ran" in said
    assert "KeyboardInterrupt" in said
