"""Whose question is it? Certainly one call's, or nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

import upstreams.questions.attribution as module
from hub.link.call_interface import Identity, Operation, Program
from hub.wire.jsonrpc import Failure, Result, raw
from tests.support.fakes import FakeHost
from upstreams.questions.attribution import (
    MAX_TASK_CHARS,
    MAX_TASKS,
    SEVERAL,
    SUSPECT_S,
    RecentCalls,
    TaskTokens,
    may_ask,
    owner,
    task_begun,
    task_finished,
    task_in,
    task_of,
)
from upstreams.running_call import Running
from upstreams.session_contract import CallTimeouts

TASK = "io.modelcontextprotocol/related-task"


class Call:
    """A running operation of the host of a conversation; None: of a request that stands alone."""

    def __init__(self, conversation, method="tools/call", *, host="host", program="", **params):
        self.operation = Operation(method, {name: raw(value) for name, value in params.items()})
        self.exchange = FakeHost(host=host, conversation=conversation, program=program)

    def __repr__(self):
        return f"{self.operation.method} of {self.exchange.caller.tenant}"


def about(task):
    return {"_meta": raw({TASK: {"taskId": task}})}


ONE, TWO = Call(1), Call(2)
READ, PROMPT, COMPLETE = Call(1, "resources/read"), Call(1, "prompts/get"), Call(1, "completion/complete")
ITS_TASK, OTHER_TASK = Call(1, "tasks/result", taskId="t1"), Call(2, "tasks/result", taskId="t2")
POLL = Call(1, "tasks/get", taskId="t1")
LIAR = Call(2, "tools/call", taskId="t1")
ALONE, AGAIN, NAMED, ELSEWHERE = Call(None), Call(None), Call(None, program="other"), Call(None, host="other")
OTHERS = {call.exchange.caller.program for call in (NAMED, ELSEWHERE)}


@pytest.mark.covers("F-I-02", "G-4", "SEC-22", "R-17")
@pytest.mark.parametrize(
    ("running", "found"),
    [
        ([], None),
        ([ONE], ONE),
        ([ONE, READ, PROMPT], PROMPT),
        ([PROMPT, ONE], ONE),
        ([ONE, TWO], None),
        ([ONE, COMPLETE], ONE),
        ([COMPLETE], None),
        ([Call(2, "completion/complete"), ONE], None),
        ([ALONE, AGAIN], AGAIN),
        ([ALONE, NAMED], None),
        ([ALONE, ELSEWHERE], None),
        ([ALONE, ONE], None),
    ],
)
def test_on_a_shared_stream_all_calls_that_may_ask_are_of_one_host(running, found):
    assert owner({}, running, alone=True) is found
    assert owner({}, running) is None, "other principals were served, or it is a stream for what is no call's"


@pytest.mark.covers("F-I-02")
@pytest.mark.parametrize("call", [ONE, ALONE, NAMED])
def test_a_call_of_another_program_that_is_over_here_is_still_suspected(call):
    of = call.exchange.caller.program
    assert owner({}, [call], alone=True, others={of: False}.get) is call
    assert owner({}, [call], alone=True, others={of: True}.get) is None


@pytest.mark.covers("G-4", "R-17")
@pytest.mark.parametrize(
    ("running", "found"), [([], None), ([ONE, TWO], TWO), ([TWO, ONE, COMPLETE], ONE), ([COMPLETE], None)]
)
def test_what_one_host_has_alone_asks_in_its_newest_call(running, found):
    assert owner({}, running, exclusive=True) is found


@pytest.mark.covers("F-I-02", "SEC-22")
@pytest.mark.parametrize(
    ("running", "found"),
    [
        ([ITS_TASK, OTHER_TASK, TWO], ITS_TASK),
        ([POLL, OTHER_TASK], POLL),
        ([ITS_TASK, POLL], ITS_TASK),
        ([OTHER_TASK], None),
        ([ONE], None),
        ([LIAR], None),
    ],
)
def test_a_question_may_name_its_task_and_is_then_nobody_elses(running, found):
    assert owner(about("t1"), running) is found
    assert owner(about("t1"), running, alone=True) is found


def test_a_task_that_is_not_waited_for_is_still_the_hosts_who_is_alone():
    assert owner(about("t1"), [ONE], exclusive=True) is ONE


@pytest.mark.covers("R-2")
def test_what_may_ask_on_its_own_stream():
    assert may_ask(ONE.operation, {})
    assert may_ask(ITS_TASK.operation, {})
    assert not may_ask(COMPLETE.operation, {})
    assert not may_ask(POLL.operation, {})
    assert may_ask(POLL.operation, about("t1"))
    assert not may_ask(POLL.operation, about("t2"))


@pytest.mark.parametrize("params", [{}, {"_meta": raw(7)}, {"_meta": raw({TASK: []})}, {"_meta": raw({TASK: {}})}])
def test_most_questions_name_no_task(params):
    assert task_in(params) is None


def test_a_call_may_be_known_to_belong_to_a_task():
    assert task_of(Operation("tools/call", {}, {TASK: raw({"taskId": "t9"})})) == "t9"
    assert task_of(ONE.operation) is None


METHODS = st.sampled_from(["tools/call", "resources/read", "completion/complete", "tasks/result", "tasks/get"])
CALLS = st.builds(
    Call,
    st.sampled_from([None, 1, 2]),
    METHODS,
    program=st.sampled_from(["", "other"]),
    taskId=st.sampled_from(["t1", "t2"]),
)


@pytest.mark.covers("I-2", "F-I-02")
@given(
    st.lists(CALLS, max_size=6),
    st.sampled_from([None, "t1", "t3"]),
    st.booleans(),
    st.sets(st.sampled_from([ONE.exchange.caller.program, *OTHERS])),
)
def test_nobody_is_asked_what_could_be_anothers(running, task, alone, lately):
    found = owner(about(task) if task else {}, running, alone=alone, others=lambda each: bool(lately - {each}))
    if found is None:
        return
    if task is not None:
        assert task_of(found.operation) == task
        return
    assert alone
    able = [call for call in running if may_ask(call.operation, {})]
    assert found is able[-1]
    assert {call.exchange.caller.tenant for call in running} == {found.exchange.caller.tenant}
    assert lately <= {found.exchange.caller.program}


@pytest.mark.parametrize(
    ("reply", "begun"),
    [
        (Result(raw({"task": {"taskId": "t1", "ttl": 2500}})), ("t1", 2.5)),
        (Result(raw({"task": {"taskId": "t1", "ttl": None}})), ("t1", float("inf"))),
        (Result(raw({"task": {"taskId": 7}})), None),
        (Result(raw({"content": []})), None),
        (Failure(-32603, "no"), None),
    ],
)
def test_a_call_may_be_answered_with_a_task(reply, begun):
    assert task_begun(reply) == begun


@pytest.mark.parametrize(
    ("method", "reply", "finished"),
    [
        ("tasks/result", Result(raw({})), "t1"),
        ("tasks/result", Failure(-32603, "the tool failed"), "t1"),
        ("tasks/cancel", Result(raw({})), "t1"),
        ("tasks/cancel", Failure(-32601, "no such thing"), None),
        ("tasks/get", Result(raw({})), None),
        ("tools/call", Result(raw({})), None),
    ],
)
def test_a_task_is_over_when_its_outcome_was_given_or_it_was_cancelled(method, reply, finished):
    assert task_finished(Operation(method, {"taskId": raw("t1")}), reply) == finished


DESK = Identity("me", "desk")
FIRST, SECOND = Program(DESK, "one"), Program(DESK, "two")
PROGRAMS = [
    FIRST,
    SECOND,
    Program(DESK),
    Program(Identity("me", "lap"), "one"),
    Program(Identity("you", "desk"), "one"),
]
ENDS = st.lists(st.tuples(st.sampled_from([SEVERAL, *PROGRAMS[1:]]), st.floats(0, 2 * SUSPECT_S)), max_size=30)


@pytest.mark.covers("F-I-02", "F-I-03", "I-2")
@given(ENDS, st.floats(0, 2 * SUSPECT_S))
def test_it_is_as_exact_as_a_table_of_all(ends, later_s):
    lately, now, table = RecentCalls(), 0.0, []
    for program, pause_s in ends:
        now += pause_s
        lately.ended(program, now)
        table.append((program, now))
    now += later_s
    for program in PROGRAMS:
        expected = any(each != program and now < at + SUSPECT_S for each, at in table)
        assert lately.others(program, now) == expected


def test_nobody_is_meant_at_first():
    assert not RecentCalls().others(FIRST, 0.0)


def test_words_on_behalf_of_several_may_be_anybodys():
    lately = RecentCalls()
    lately.ended(SEVERAL, 0.0)
    assert [lately.others(program, SUSPECT_S - 1) for program in (FIRST, SECOND)] == [True, True]
    assert not lately.others(FIRST, SUSPECT_S)


@pytest.mark.covers("F-I-03")
def test_a_task_is_spoken_of_for_as_long_as_it_lives_and_a_while():
    lately = RecentCalls()
    lately.begun("t1", FIRST, 1000.0, 0.0)
    assert lately.others(SECOND, 999.0 + SUSPECT_S)
    assert not lately.others(FIRST, 999.0 + SUSPECT_S)
    assert not lately.others(SECOND, 1000.0 + SUSPECT_S)
    lately.begun("t2", FIRST, float("inf"), 2000.0)
    lately.finished("t3", 3000.0)
    lately.finished(None, 3000.0)
    lately.finished("", 3000.0)
    assert lately.others(SECOND, 1e9)
    lately.finished("t2", 1e9)
    assert lately.others(SECOND, 1e9 + SUSPECT_S - 1)
    assert not lately.others(SECOND, 1e9 + SUSPECT_S)


@pytest.mark.covers("I-5")
def test_tasks_beyond_all_measure_are_anybodys_and_cost_nothing():
    lately = RecentCalls()
    for number in range(3 * MAX_TASKS):
        lately.begun(f"t{number}", FIRST, 100.0, 0.0)
    assert len(lately._tasks) == MAX_TASKS + 1
    assert lately.others(FIRST, 99.0)
    assert not lately.others(FIRST, 100.0 + SUSPECT_S)
    lately.begun("x" * (MAX_TASK_CHARS + 1), FIRST, 300.0, 200.0)
    assert len(lately._tasks) == 1
    assert lately.others(FIRST, 299.0)
    lately.begun("x" * (MAX_TASK_CHARS + 2), FIRST, 250.0, 200.0)
    assert lately.others(FIRST, 299.0)


def test_tasks_that_are_long_over_make_room():
    lately = RecentCalls()
    for number in range(MAX_TASKS):
        lately.begun(f"t{number}", FIRST, 100.0, 0.0)
    lately.begun("late", FIRST, 1000.0, 500.0)
    assert len(lately._tasks) == 1
    assert not lately.others(FIRST, 999.0)


def waiting(task: str, method: str = "tasks/result") -> Running:
    return Running(1, Operation(method, {"taskId": raw(task)}), FakeHost(), CallTimeouts(1.0, 2.0), 0.0, None)


def task(id: str) -> Result:
    return Result(raw({"task": {"taskId": id}}))


@pytest.mark.covers("P-4")
async def test_who_waits_for_a_task_hears_of_its_progress() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    mine, other = waiting("a"), waiting("b")
    tokens.wait(mine)
    tokens.wait(other)
    assert tokens.find(7) is mine
    assert (tokens.find(None), tokens.find(8)) == (None, None)
    tokens.leave(other)
    assert (len(tokens._tokens), len(tokens._waiting)) == (1, 1)
    tokens.leave(mine)
    assert tokens.find(7) is None


async def test_only_the_newest_waits() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    first, second = waiting("a"), waiting("a")
    tokens.wait(first)
    tokens.wait(second)
    tokens.leave(first)
    assert tokens.find(7) is second


@pytest.mark.covers("I-5")
async def test_nobody_waits_for_ever_for_a_task_that_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TASKS", 1)
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    mine = waiting("a")
    tokens.wait(mine)
    tokens.began(task("b"), 8)
    tokens.leave(mine)
    assert tokens.find(7) is None


async def test_looking_is_not_waiting() -> None:
    tokens = TaskTokens()
    tokens.began(task("a"), 7)
    tokens.wait(waiting("a", "tasks/get"))
    assert tokens.find(7) is None


@pytest.mark.parametrize("reply", [Failure(-1, ""), Result(Raw(b"{}")), Result(Raw(b'{"task":1}'))])
def test_other_replies_begin_nothing(reply: Result | Failure) -> None:
    tokens = TaskTokens()
    tokens.began(reply, 7)
    assert not tokens._tokens


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKENS", 2)
    tokens = TaskTokens()
    for token, id in enumerate("abc"):
        tokens.began(task(id), token)
    assert len(tokens._tokens) == 2
