"""Walls around tasks that live as long as the daemon."""

import logging

import pytest
import trio

from hub.fleet.membership import RETRY_S as REPLICAS_RETRY_S
from hub.fleet.membership import Membership, Registration
from hub.fleet.session_ownership import RETRY_S, PublishedFacts
from hub.link.fault_isolation import MAX_SAID, FaultLog
from tests.support.fleet_house import Facts

log = logging.getLogger("hubd.test")


def test_each_kind_is_said_once_with_its_traceback(caplog):
    faults = FaultLog(log, "this test")
    for error in (ValueError("a"), ValueError("b"), ExceptionGroup("both", [KeyError("c"), ValueError("d")])):
        assert faults.log_once(error).startswith("a fault of this hub (")
    assert [record.exc_info[0] for record in caplog.records] == [ValueError, KeyError]


def test_no_more_kinds_are_said_than_a_log_can_take(caplog):
    faults = FaultLog(log, "this test")
    for number in range(MAX_SAID + 5):
        faults.log_once(type(f"Error{number}", (Exception,), {})())
    assert len(caplog.records) == MAX_SAID


class Broken(Facts):
    """Raises what nobody thought of."""

    def __init__(self):
        super().__init__()
        self.broken = ("",)

    def present(self, name):
        if name.startswith(self.broken):
            raise OverflowError("int too big to convert")
        return super().present(name)


@pytest.mark.covers("F-D-13", "SEC-16")
async def test_being_registered_outlives_what_nobody_thought_of(autojump_clock, nursery, caplog):
    facts = Broken()
    membership = Membership(Registration("0" * 8, "a", ""), facts)
    await nursery.start(membership.run)
    await trio.sleep(REPLICAS_RETRY_S * 5)
    assert not membership.status().registered
    facts.broken = ()
    await trio.sleep(REPLICAS_RETRY_S * 2)
    assert membership.status().registered
    assert len(caplog.records) == 1


@pytest.mark.covers("F-D-13", "SEC-16")
async def test_notes_outlive_one_that_cannot_be_written(autojump_clock, nursery):
    facts = Broken()
    facts.broken = ("kept/2",)
    notes = PublishedFacts(facts)
    nursery.start_soon(notes.run)
    for number in range(4):
        notes.put(f"kept/{number}", b"x")
    await trio.sleep(RETRY_S * 2)
    assert sorted(facts.values) == ["kept/0", "kept/1", "kept/3"]
    notes.put("kept/2", b"x")
    notes.put("kept/4", b"x")
    await trio.sleep(RETRY_S * 2)
    assert "kept/4" in facts.values
