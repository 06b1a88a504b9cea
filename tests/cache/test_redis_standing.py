"""Whether a shared store is asked now, what is said about it, and what is still to be written there. Pure."""

import pytest

from cache.redis.health import BYPASS_S, MISSES, SAID_S, Standing
from cache.redis.pending_writes import MAX_CHARS, MAX_URIS, Unwritten


@pytest.fixture
def said(caplog):
    caplog.set_level("INFO", "cache.redis")
    return lambda: [record.levelname for record in caplog.records]


def test_it_is_said_once_that_it_is_lost_and_once_that_it_is_back(said):
    standing = Standing("h:1", 0.0)
    assert standing.facts(3.0, 0).since_s == 3.0
    for reason in ("refused", "no answer", "refused"):
        standing.lost(reason, 5.0)
    assert said() == ["WARNING"]
    assert (standing.state, standing.reason, standing.facts(6.0, 0).since_s) == ("away", "refused", 6.0)
    standing.reached(8.0)
    assert said() == ["WARNING", "INFO"]
    assert (standing.state, standing.reason, standing.facts(9.0, 2).since_s) == ("connected", "", 1.0)
    standing.lost("refused", 10.0)
    assert said() == ["WARNING", "INFO", "WARNING"]
    assert repr(standing) == "<Standing of h:1: away: refused>"


@pytest.mark.covers("F-X-02")
def test_late_answers_in_a_row_leave_it_alone_for_a_while(said):
    standing = Standing("h:1", 0.0)
    standing.reached(0.0)
    for _ in range(3):
        for _ in range(MISSES - 1):
            standing.missed(1.0)
        standing.answered(1.0)
    assert not standing.is_bypassed(1.0)
    for _ in range(MISSES):
        standing.missed(2.0)
    assert standing.state == "slow"
    assert standing.is_bypassed(2.0 + BYPASS_S - 0.01)
    standing.missed(2.1)  # those that were under way
    standing.answered(2.2)
    assert standing.state == "slow"
    assert not standing.is_bypassed(2.0 + BYPASS_S)
    assert standing.bypasses == 1


@pytest.mark.covers("F-X-06")
@pytest.mark.parametrize(("code", "state"), [("OOM", "full"), ("MISCONF", "read-only")])
def test_one_that_takes_nothing_new_says_so_once(said, code, state):
    standing = Standing("h:1", 0.0)
    standing.refused(code, "away", 0.0)
    assert standing.state == "away"
    standing.reached(0.0)
    standing.written(0.0)
    standing.refused("WRONGTYPE", "of another kind", 1.0)
    assert standing.state == "connected"
    for now in (1.0, 2.0):
        standing.refused(code, "not allowed", now)
    assert (standing.state, standing.reason, standing.facts(3.0, 1).since_s) == (state, f"{code} not allowed", 2.0)
    for _ in range(MISSES):
        standing.missed(3.0)
    assert standing.reason == f"{code} not allowed"
    standing.written(4.0)
    assert (standing.state, standing.reason) == ("connected", "")
    standing.refused(code, "not allowed", 5.0)  # one at its brim
    standing.written(6.0)
    assert said() == ["INFO", "WARNING", "INFO"]
    standing.refused(code, "not allowed", 1.0 + SAID_S)
    assert said() == ["INFO", "WARNING", "INFO", "WARNING"]
    standing.lost("ended", 700.0)
    assert (standing.state, standing.reason) == ("away", "ended")


@pytest.mark.covers("F-X-02")
def test_one_that_stays_slow_is_asked_once_now_and_then(said):
    standing = Standing("h:1", 0.0)
    standing.reached(0.0)
    for _ in range(MISSES):
        standing.missed(0.0)
    now = BYPASS_S
    standing.missed(now)
    assert standing.is_bypassed(now)
    assert standing.bypasses == 2
    assert said() == ["INFO", "WARNING"]
    standing.answered(now + BYPASS_S)
    assert standing.state == "connected"
    assert said() == ["INFO", "WARNING", "INFO"]
    for _ in range(MISSES - 1):
        standing.missed(100.0)
    assert not standing.is_bypassed(100.0)


def test_what_was_altered_is_said_once(said):
    standing = Standing("h:1", 0.0)
    for _ in range(3):
        standing.found_altered()
    assert standing.facts(0.0, 1).altered == 3
    assert said() == ["WARNING"]


def test_what_is_being_written_is_not_written_yet():
    unwritten = Unwritten()
    assert not unwritten
    unwritten.add("s", "a")
    assert "s" in unwritten
    assert unwritten.take() == {"s": {"a"}}
    assert "s" in unwritten
    assert not unwritten.is_waiting
    unwritten.add("s", "b")
    unwritten.written()
    assert unwritten.take() == {"s": {"b"}}
    unwritten.add("t", None)
    unwritten.add("t", "of all")
    unwritten.failed()
    assert repr(unwritten) == "<Unwritten: 2 sources, 0 being written>"
    assert unwritten.take() == {"s": {"b"}, "t": None}
    unwritten.failed()
    unwritten.add("s", None)
    assert unwritten.take() == {"s": None, "t": None}
    unwritten.written()
    assert not unwritten


def test_too_much_is_all():
    unwritten = Unwritten()
    for n in range(MAX_URIS):
        unwritten.add("many", f"a:{n}")
    unwritten.add("long", "a" * (MAX_CHARS + 1))
    assert len(unwritten.take()["many"]) == MAX_URIS
    unwritten.failed()
    unwritten.add("many", "a:more")
    assert unwritten.take()["many"] is None
