"""Clocks: limits that stand still while the hub is frozen, and the time that runs on."""

import socket

import pytest
import trio
from trio.abc import Instrument

from hub.linux.boot_clock import current_time
from hub.linux.freeze_proof_clock import AwakeClock


class Machine(Instrument):
    """A machine on which each sleep takes its whole time, and the next one `frozen_s` more."""

    def __init__(self):
        self.now = 1_000.0
        self.frozen_s = 0.0

    def before_io_wait(self, timeout):
        if timeout > 0:
            self.now += timeout + self.frozen_s
            self.frozen_s = 0.0


def start_within(limit_s, frozen_s):
    """What is left of the limit of a start after a freeze in its first sleep, and what that took by both clocks."""
    machine = Machine()
    left, right = socket.socketpair()
    right.send(b"!")  # so that no sleep takes real time

    async def start():
        began, began_all = trio.current_time(), current_time()
        with trio.move_on_after(limit_s) as limit:
            machine.frozen_s = frozen_s
            await trio.lowlevel.wait_readable(left)
            await trio.lowlevel.checkpoint()
        assert limit.cancelled_caught == (limit.deadline <= trio.current_time())
        return limit.deadline - trio.current_time(), trio.current_time() - began, current_time() - began_all

    with left, right:
        return trio.run(start, clock=AwakeClock(lambda: machine.now), instruments=[machine])


@pytest.mark.parametrize("frozen_s", [15, 3_600, 1e6])
def test_a_start_has_time_left_after_the_hub_was_frozen_while_what_ages_has_aged(frozen_s):
    left_s, took_s, aged_s = start_within(20, frozen_s)
    assert left_s == pytest.approx(10)
    assert took_s == pytest.approx(10)
    assert aged_s == pytest.approx(10 + frozen_s, abs=1)


def test_a_busy_machine_is_not_frozen():
    assert start_within(20, 1.5) == pytest.approx((8.5, 11.5, 11.5), abs=0.01)
