"""How long an attempt to start a server may take."""

import os
import subprocess
import sys

import pytest

from hub.linux.processes import ProcessStat
from upstreams.cold_start.recognise_runner import PackageRun
from upstreams.cold_start.start_timeouts import (
    GUARD_S,
    RUNNER_GUARD_S,
    SLOT_S,
    TICKS,
    WITHIN_S,
    BusyWatch,
    Start,
    StartLimits,
    look_at_session,
)

NPX = PackageRun("npx", "npx foo")
LIMITS = StartLimits()


def begun(run=NPX, *, cold=True, start_s=12.0):
    start = Start(run, LIMITS, start_s, cold=cold)
    start.begin(100)
    return start


def use(ticks: int, state: str = "S") -> ProcessStat:
    return ProcessStat(1, "npm", state, 0, 1, ticks, 0)


def test_a_package_runner_has_ten_minutes_while_it_is_at_work():
    start = begun()
    assert start.gives_up_at == 100 + 15 + RUNNER_GUARD_S, "it has shown no sign of work yet"
    for now in range(101, 685):
        assert start.at_work(now) == now + 15
        assert start.gives_up_at == start.slot_until + RUNNER_GUARD_S == now + 15 + RUNNER_GUARD_S
    assert start.at_work(690) == 700
    assert start.at_work(699) == 700
    assert start.gives_up_at == 700 + RUNNER_GUARD_S


@pytest.mark.covers("FH-3")
def test_as_many_install_at_once_as_there_are_cores():
    assert LIMITS.cold_at_once == max(2, os.cpu_count() or 1)


def test_it_has_what_every_server_has_at_least():
    start = begun(start_s=60.0)
    assert start.gives_up_at == 160 + RUNNER_GUARD_S
    assert start.slot_until == 115
    assert start.package_until == start.gives_up_at
    assert begun(start_s=900).gives_up_at == 1000 + RUNNER_GUARD_S


def test_other_servers_have_their_timeout():
    start = begun(None)
    assert (start.gives_up_at, start.slot_until) == (112 + GUARD_S, 100 + SLOT_S)
    assert start.package_until < 100
    start.at_work(110)
    assert start.gives_up_at == 112 + GUARD_S
    assert start.installing_s(105) is None


def test_a_warm_start_keeps_others_for_as_long_as_every_server_does():
    start = begun(cold=False)
    start.at_work(120)
    assert start.slot_until == 100 + SLOT_S
    assert start.package_until < 100, "it installs nothing"
    assert start.gives_up_at == 135 + RUNNER_GUARD_S


@pytest.mark.parametrize(("cold", "shown"), [(True, [0, 3, 13, 20]), (False, [None, None, 13, 20])])
def test_an_install_is_shown_while_it_is_one(cold, shown):
    start = begun(cold=cold)
    found = []
    for now in (100, 103, 113, 120):
        start.at_work(now)
        found.append(start.installing_s(now))
    assert found == shown
    assert start.progress(120) == "its package is being installed by npx, for 20 s so far"
    assert start.installing_s(136) is None, "it is not at work any more"
    start.end()
    assert start.installing_s(120) is None
    assert start.progress(120) == ""


def test_it_waits_for_its_turn():
    start = Start(NPX, LIMITS, 12, cold=True)
    assert not start.is_queued, "it may wait for something else before"
    assert start.progress(4) == ""
    start.queue()
    assert start.is_queued
    assert start.progress(5) == "other servers are being installed first"
    assert start.installing_s(5) is None
    start.begin(6)
    assert not start.is_queued
    plain = Start(None, LIMITS, 12, cold=True)
    plain.queue()
    warm = Start(NPX, LIMITS, 12, cold=False)
    warm.queue()
    assert not plain.is_queued, "nothing is installed"
    assert not warm.is_queued


def test_one_that_ended_before_its_turn_is_not_queued():
    start = Start(NPX, LIMITS, 12, cold=True)
    start.queue()
    start.end()
    assert not start.is_queued


def test_what_is_told_of_the_time():
    start = begun(start_s=1.5)
    assert start.spent_s(102) == 1.5
    assert start.spent_s(140.2) == 40


def test_new_processes_and_processor_time_are_work():
    watch = BusyWatch()
    assert watch.look({1: use(5)}, 0)
    assert not watch.look({1: use(5)}, 1)
    assert not watch.look({1: use(5 + TICKS - 1)}, 2), "a timer"
    assert watch.look({1: use(5 + TICKS)}, 3)
    assert watch.look({1: use(5 + TICKS), 2: use(0)}, 4)
    assert not watch.look({1: use(5 + TICKS)}, 5), "an end is none"
    assert watch.look({1: use(5 + TICKS, state="R")}, 6), "it waits for the processor"


def test_little_time_is_work_only_if_it_is_used_soon():
    watch = BusyWatch()
    watch.look({1: use(0)}, 0)
    ticks = 0
    for now in range(1, 200, int(WITHIN_S)):
        ticks += TICKS - 1
        assert not watch.look({1: use(ticks)}, now + 2 * WITHIN_S * now)


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
