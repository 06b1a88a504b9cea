"""The time of a running operation, and who ends it when the time is up."""

from math import inf

import pytest
import trio

from hub.link.call_interface import Operation
from hub.wire.jsonrpc import Result, raw
from tests.support.fakes import FakeHost
from upstreams.deadline_watch import deadline_watch
from upstreams.running_call import Running
from upstreams.session_contract import CallTimeouts

DONE = Result(raw({}))
QUESTION = trio.CancelScope


class Timed(Running):
    """An operation without an upstream."""

    def __init__(self, done=lambda outcome: None, *, idle_s=10.0, total_s=60.0):
        operation, timeouts = Operation("tools/call", {}), CallTimeouts(idle_s, total_s)
        super().__init__(1, operation, FakeHost(), timeouts, trio.current_time(), done)
        self.began = trio.current_time()
        self.ended_after = None
        self.cancelled = 0
        self.watch = deadline_watch()
        self.watch.add(self)

    def on_cancel(self):
        self.cancelled += 1
        self.watch.remove(self)

    def on_time_up(self):
        self.ended_after = trio.current_time() - self.began
        self.watch.remove(self)


async def test_each_ends_at_its_own_time_and_not_later(autojump_clock):
    long, short = Timed(), Timed(idle_s=3)
    await trio.sleep(1)
    later = Timed(idle_s=1.5)
    await trio.sleep(20)
    assert [each.ended_after for each in (long, short, later)] == pytest.approx([10, 3, 1.5])


@pytest.mark.covers("P-11")
async def test_the_idle_time_starts_anew_the_total_does_not(autojump_clock):
    call = Timed(total_s=25)
    for _ in range(4):
        await trio.sleep(8)
        call.touch()
    assert call.ended_after == pytest.approx(25)


async def test_the_time_stands_still_while_a_question_is_open(autojump_clock):
    call, one, other = Timed(total_s=15), QUESTION(), QUESTION()
    await trio.sleep(9)
    call.asked(one)
    call.asked(other)
    await trio.sleep(500)
    call.settled(one)
    call.touch()
    await trio.sleep(500)
    assert call.ended_after is None
    call.settled(other)
    call.settled(other)
    await trio.sleep(20)
    assert call.ended_after == pytest.approx(1015)
    call.asked(one)
    call.withdraw()
    assert one.cancel_called


async def test_who_looks_after_deadlines_sleeps_while_there_are_none(autojump_clock):
    watch, call = deadline_watch(), Timed()
    await trio.testing.wait_all_tasks_blocked()
    watch.remove(call)
    watch.look_at(inf)
    await trio.sleep(11)
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().seconds_to_next_deadline == inf


async def test_an_outcome_is_told_once(autojump_clock):
    told = []
    call = Timed(told.append)
    call.end(DONE)
    call.end(DONE)
    call.cancel()
    assert (told, call.cancelled) == ([DONE], 0)


async def test_nobody_is_told_of_what_was_cancelled(autojump_clock):
    told = []
    call = Timed(told.append)
    call.cancel()
    call.cancel()
    call.end(DONE)
    assert (told, call.cancelled) == ([], 1)


async def test_an_error_of_who_is_told_ends_nothing_else(autojump_clock, caplog):
    def fail(*_):
        raise ValueError

    Timed(fail).end(DONE)
    assert "could not be passed on" in caplog.text
    broken, call = Timed(idle_s=1), Timed(idle_s=1)
    broken.on_time_up = fail
    await trio.sleep(2)
    assert call.ended_after == pytest.approx(1)
    assert "could not be told that its time is up" in caplog.text
