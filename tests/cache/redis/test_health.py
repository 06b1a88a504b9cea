"""Whether a shared store is asked now, what is said about it, and what is still to be written there. Pure."""

import pytest

from cache.redis.coherence_link import MAX_CHARS, MAX_URIS, PendingWrites
from cache.redis.health import BYPASS_S, MISSES, SAID_S, StoreHealth


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", "cache.redis")
    return lambda: [record.levelname for record in caplog.records]


def test_it_is_said_once_that_it_is_lost_and_once_that_it_is_back(said):
    health = StoreHealth("h:1", 0.0)
    assert health.statistics(3.0, 0).since_s == 3.0
    for reason in ("refused", "no answer", "refused"):
        health.on_lost(reason, 5.0)
    assert said() == ["WARNING"]
    assert (health.state, health.reason, health.statistics(6.0, 0).since_s) == ("away", "refused", 6.0)
    health.on_reached(8.0)
    assert said() == ["WARNING", "INFO"]
    assert (health.state, health.reason, health.statistics(9.0, 2).since_s) == ("connected", "", 1.0)
    health.on_lost("refused", 10.0)
    assert said() == ["WARNING", "INFO", "WARNING"]
    assert (health.state, health.reason) == ("away", "refused")


@pytest.mark.covers("F-X-02")
def test_late_answers_in_a_row_leave_it_alone_for_a_while(said):
    health = StoreHealth("h:1", 0.0)
    health.on_reached(0.0)
    for _ in range(3):
        for _ in range(MISSES - 1):
            health.on_late(1.0)
        health.on_answer(1.0)
    assert not health.is_bypassed(1.0)
    for _ in range(MISSES):
        health.on_late(2.0)
    assert health.state == "slow"
    assert health.is_bypassed(2.0 + BYPASS_S - 0.01)
    health.on_late(2.1)  # those that were under way
    health.on_answer(2.2)
    assert health.state == "slow"
    assert not health.is_bypassed(2.0 + BYPASS_S)
    assert health.bypasses == 1


@pytest.mark.covers("F-X-06")
@pytest.mark.parametrize(("code", "state"), [("OOM", "full"), ("MISCONF", "read-only")])
def test_one_that_takes_nothing_new_says_so_once(said, code, state):
    health = StoreHealth("h:1", 0.0)
    health.on_refused(code, "away", 0.0)
    assert health.state == "away"
    health.on_reached(0.0)
    health.on_written(0.0)
    health.on_refused("WRONGTYPE", "of another kind", 1.0)
    assert health.state == "connected"
    for now in (1.0, 2.0):
        health.on_refused(code, "not allowed", now)
    assert (health.state, health.reason, health.statistics(3.0, 1).since_s) == (state, f"{code} not allowed", 2.0)
    for _ in range(MISSES):
        health.on_late(3.0)
    assert health.reason == f"{code} not allowed"
    health.on_written(4.0)
    assert (health.state, health.reason) == ("connected", "")
    health.on_refused(code, "not allowed", 5.0)  # one at its brim
    health.on_written(6.0)
    assert said() == ["INFO", "WARNING", "INFO"]
    health.on_refused(code, "not allowed", 1.0 + SAID_S)
    assert said() == ["INFO", "WARNING", "INFO", "WARNING"]
    health.on_lost("ended", 700.0)
    assert (health.state, health.reason) == ("away", "ended")


@pytest.mark.covers("F-X-02")
def test_one_that_stays_slow_is_asked_once_now_and_then(said):
    health = StoreHealth("h:1", 0.0)
    health.on_reached(0.0)
    for _ in range(MISSES):
        health.on_late(0.0)
    now = BYPASS_S
    health.on_late(now)
    assert health.is_bypassed(now)
    assert health.bypasses == 2
    assert said() == ["INFO", "WARNING"]
    health.on_answer(now + BYPASS_S)
    assert health.state == "connected"
    assert said() == ["INFO", "WARNING", "INFO"]
    for _ in range(MISSES - 1):
        health.on_late(100.0)
    assert not health.is_bypassed(100.0)


def test_what_was_altered_is_said_once(said):
    health = StoreHealth("h:1", 0.0)
    for _ in range(3):
        health.on_altered()
    assert health.statistics(0.0, 1).altered == 3
    assert said() == ["WARNING"]


def test_what_is_being_written_is_not_written_yet():
    pending = PendingWrites()
    assert not pending
    pending.add("s", "a")
    assert "s" in pending
    assert pending.take_batch() == {"s": {"a"}}
    assert "s" in pending
    pending.add("s", "b")
    pending.mark_written()
    assert pending.take_batch() == {"s": {"b"}}
    pending.add("t", None)
    pending.add("t", "of all")
    pending.requeue()
    assert pending.take_batch() == {"s": {"b"}, "t": None}
    pending.requeue()
    pending.add("s", None)
    assert pending.take_batch() == {"s": None, "t": None}
    pending.mark_written()
    assert not pending


def test_too_much_is_all():
    pending = PendingWrites()
    for n in range(MAX_URIS):
        pending.add("many", f"a:{n}")
    pending.add("long", "a" * (MAX_CHARS + 1))
    assert len(pending.take_batch()["many"]) == MAX_URIS
    pending.requeue()
    pending.add("many", "a:more")
    assert pending.take_batch()["many"] is None
