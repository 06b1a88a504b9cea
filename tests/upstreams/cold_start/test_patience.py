"""Processes that are at work, and processes that wait."""

import os
import subprocess
import sys

from upstreams.cold_start.patience import TICKS, WITHIN_S, BusyWatch, Use, look_at_session


def test_new_processes_and_processor_time_are_work():
    watch = BusyWatch()
    assert watch.look({1: Use(5)}, 0)
    assert not watch.look({1: Use(5)}, 1)
    assert not watch.look({1: Use(5 + TICKS - 1)}, 2), "a timer"
    assert watch.look({1: Use(5 + TICKS)}, 3)
    assert watch.look({1: Use(5 + TICKS), 2: Use(0)}, 4)
    assert not watch.look({1: Use(5 + TICKS)}, 5), "an end is none"
    assert watch.look({1: Use(5 + TICKS, is_runnable=True)}, 6), "it waits for the processor"


def test_little_time_is_work_only_if_it_is_used_soon():
    watch = BusyWatch()
    watch.look({1: Use(0)}, 0)
    ticks = 0
    for now in range(1, 200, int(WITHIN_S)):
        ticks += TICKS - 1
        assert not watch.look({1: Use(ticks)}, now + 2 * WITHIN_S * now)


def test_the_session_of_a_child_is_found_with_all_that_is_in_it():
    child = subprocess.Popen(["sh", "-c", "sleep 60 & cat"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        while len(found := look_at_session(child.pid)) < 3:
            pass
        assert child.pid in found
        assert os.getpid() not in found
    finally:
        os.killpg(child.pid, 9)
        child.communicate()
    assert child.pid not in look_at_session(child.pid)


def test_time_is_counted():
    code = "while sum(__import__('os').times()[:2]) < 0.2: pass\nprint(flush=True)\ninput()"
    argv = [sys.executable, "-IS", "-c", code]
    with subprocess.Popen(argv, stdin=-1, stdout=-1, start_new_session=True) as child:
        child.stdout.readline()
        assert look_at_session(child.pid)[child.pid].ticks >= 0.2 * os.sysconf("SC_CLK_TCK") - 1
        child.communicate(b"\n")
