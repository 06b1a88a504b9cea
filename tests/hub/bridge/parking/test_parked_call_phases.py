"""One call that asks its host: the table, the rounds, and what becomes of every question."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hub.bridge.parking.parked_call_phases import TRANSITIONS, CallEvent, ParkedState, Phase
from hub.bridge.questions_in_results import MAX_OPEN, MAX_ROUNDS
from hub.bridge.sealed_request_state import EXPIRED, LOST, USED, BadState
from hub.link.call_interface import Caller, Identity
from hub.wire.jsonrpc import Failure, Raw, RemoteProtocolError, Result, peek_object, raw
from hub.wire.mcp import ELICIT, L3, L4, LIST_ROOTS, MODERN, SAMPLE
from hub.wire.questions.askable_questions import Question, QuestionRefusal

FORM = {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLING = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
YES = raw({"action": "accept", "content": {}})
CAPABLE = {"elicitation": {}, "sampling": {}, "roots": {}}


def question(method=ELICIT, params=None, version=L4) -> Question:
    params = {ELICIT: FORM, SAMPLE: SAMPLING, LIST_ROOTS: {}}[method] if params is None else params
    return Question(method, {name: raw(value) for name, value in params.items()}, "crm", version)


def caller(**capabilities) -> Caller:
    declared = (
        CAPABLE if not capabilities else {name: value for name, value in capabilities.items() if value is not None}
    )
    return Caller(Identity("me", "desk"), MODERN, {name: raw(value) for name, value in declared.items()})


def a_record(who=None) -> ParkedState:
    return ParkedState(who or caller(), ttl_s=900, total_s=7200)


def parked(*methods, now=0.0) -> ParkedState:
    """A record that has shown one round with these questions."""
    state = a_record()
    for method in methods or (ELICIT,):
        state.open_question(question(method), now)
    state.begin_round(now)
    return state


def refused(state, asked, now=0.0) -> int:
    with pytest.raises(QuestionRefusal) as caught:
        state.open_question(asked, now)
    return caught.value.failure.code


def reason(state, round=1, answers=None) -> str:
    with pytest.raises(BadState) as caught:
        state.retry(round, answers or {}, caller(), 1)
    return caught.value.reason


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_phase_but_the_first_is_reached_and_every_phase_but_the_last_is_left():
    reached = {to for row in TRANSITIONS.values() for to in row.values()}
    assert reached == set(Phase)
    assert [phase for phase in Phase if not TRANSITIONS[phase]] == [Phase.GONE]
    assert set(TRANSITIONS) == set(Phase)


def test_the_table_allows_nothing_else():
    state = a_record()
    with pytest.raises(KeyError):
        state.feed(CallEvent.EXPIRED)
    assert repr(state) == "<ParkedState run, round 0 [0 open]>"


# --- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-1", "R-4")
def test_questions_become_input_requests_under_keys_of_their_own():
    state = parked(ELICIT, SAMPLE, LIST_ROOTS)
    requests = {key: peek_object(request) for key, request in state.input_requests().items()}
    assert list(requests) == ["q1", "q2", "q3"]
    assert [request["method"] for request in requests.values()] == [raw(ELICIT), raw(SAMPLE), raw(LIST_ROOTS)]
    assert all(request.keys() == {"method", "params"} for request in requests.values())
    assert peek_object(requests["q1"]["params"])["message"] == raw("[crm] Which?")


@pytest.mark.covers("R-4")
def test_keys_are_never_used_again():
    state = parked()
    state.retry(1, {"q1": YES}, caller(), 1)
    assert state.open_question(question(), 2) == "q2"
    state.withdraw_question("q2")
    assert state.open_question(question(), 3) == "q3"


@pytest.mark.covers("R-5", "F-I-01")
def test_what_the_host_cannot_do_is_not_asked():
    state = a_record(caller(elicitation={"url": {}}))
    assert refused(state, question()) == -32602  # no forms
    assert refused(state, question(SAMPLE)) == -32601
    assert refused(state, question(ELICIT, {"mode": "form"})) == -32602
    assert state.phase is Phase.RUN


@pytest.mark.covers("F-I-08")
def test_a_call_has_only_so_many_questions_open():
    state = a_record()
    for _ in range(MAX_OPEN):
        state.open_question(question(), 0)
    assert refused(state, question()) == -32602


@pytest.mark.covers("F-I-08")
def test_a_call_has_only_so_many_rounds():
    state = a_record()
    for round in range(1, MAX_ROUNDS + 1):
        key = state.open_question(question(), round)
        state.begin_round(round)
        state.retry(round, {key: YES}, caller(), round)
    assert refused(state, question()) == -32602
    assert state.phase is Phase.RUN


@pytest.mark.covers("F-I-08")
def test_what_is_still_open_after_the_last_round_is_declined():
    state = parked()
    for round in range(1, MAX_ROUNDS):
        assert state.retry(round, {}, caller(), round) == {}
    assert state.retry(MAX_ROUNDS, {}, caller(), MAX_ROUNDS) == {"q1": Result(raw({"action": "cancel"}))}
    assert state.phase is Phase.RUN


@pytest.mark.covers("R-9")
def test_all_rounds_together_have_their_time():
    state = parked()
    for round in range(1, 9):
        assert state.deadline == min((round - 1) * 890 + 900, 7200)
        state.retry(round, {}, caller(), round * 890)
    assert state.deadline == 7200
    state.retry(9, {"q1": YES}, caller(), 7199)
    assert refused(state, question(), 7200) == -32602


def test_nothing_is_asked_for_a_call_that_is_over():
    state = parked()
    state.end_call(lost=False)
    assert refused(state, question()) == -32602


# --- answering --------------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-8", "F-H-15", "F-I-10")
def test_a_round_is_used_once():
    state = parked()
    assert state.retry(1, {"q1": YES}, caller(), 1) == {"q1": Result(YES)}
    assert reason(state) == USED
    state.open_question(question(), 2)
    assert reason(state) == USED
    state.begin_round(2)
    assert reason(state) == USED
    assert state.retry(2, {"q2": YES}, caller(), 3) == {"q2": Result(YES)}


@pytest.mark.covers("R-10")
def test_what_is_not_answered_is_asked_again_with_what_came_meanwhile():
    state = parked(ELICIT, SAMPLE)
    state.open_question(question(LIST_ROOTS), 1)
    assert state.input_requests().keys() == {"q1", "q2"}
    assert state.retry(1, {"q1": YES, "q9": YES}, caller(), 2) == {"q1": Result(YES)}
    assert (state.phase, state.round, state.deadline) == (Phase.PARK, 2, 902)
    assert state.input_requests().keys() == {"q2", "q3"}


@pytest.mark.covers("R-10", "F-I-04")
def test_an_answer_to_what_was_not_shown_is_ignored():
    state = parked()
    state.open_question(question(), 1)
    assert state.retry(1, {"q2": YES}, caller(), 2) == {}
    assert state.input_requests().keys() == {"q1", "q2"}


@pytest.mark.covers("R-10", "F-I-11")
def test_a_malformed_answer_uses_up_nothing():
    state = parked(ELICIT, SAMPLE)
    with pytest.raises(RemoteProtocolError):
        state.retry(1, {"q1": YES, "q2": raw({"role": "assistant"})}, caller(), 1)
    assert state.input_requests().keys() == {"q1", "q2"}
    assert state.retry(1, {"q1": YES}, caller(), 2) == {"q1": Result(YES)}


def test_an_answer_the_upstream_has_no_words_for_is_a_refusal():
    state = a_record()
    state.open_question(question(SAMPLE, version=L3), 0)
    state.begin_round(0)
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}]
    answer = raw({"role": "assistant", "model": "m", "content": blocks})
    settled = state.retry(1, {"q1": answer}, caller(), 1)["q1"]
    assert isinstance(settled, Failure)
    assert settled.code == -32603


@pytest.mark.covers("R-5")
def test_a_retry_that_can_do_less_is_asked_less():
    state = parked(ELICIT, SAMPLE)
    able = caller(elicitation={})
    settled = state.retry(1, {}, able, 1)
    assert settled.keys() == {"q2"}
    assert isinstance(settled["q2"], Failure)
    assert state.input_requests().keys() == {"q1"}
    assert state.caller is able


@pytest.mark.covers("F-I-06", "R-10")
def test_what_was_withdrawn_needs_no_answer():
    state = parked(ELICIT, SAMPLE)
    state.withdraw_question("q1")
    state.withdraw_question("q2")
    state.withdraw_question("q2")
    assert state.phase is Phase.PARK
    assert state.retry(1, {"q1": YES}, caller(), 1) == {}
    assert state.phase is Phase.RUN


def test_a_question_withdrawn_at_once_is_not_shown():
    state = a_record()
    state.withdraw_question(state.open_question(question(), 0))
    assert state.phase is Phase.RUN


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-03")
def test_a_call_that_ends_alone_waits_for_a_retry_whatever_that_answers():
    state = parked()
    state.end_call(lost=False)
    assert state.phase is Phase.DONE
    assert state.retry(1, {"q1": raw("nonsense")}, caller(), 1) == {}
    assert reason(state) == USED


@pytest.mark.covers("F-I-10")
@pytest.mark.parametrize(
    ("events", "told"),
    [
        (["lost"], LOST),
        (["expire"], EXPIRED),
        (["left"], EXPIRED),
        (["done", "expire"], EXPIRED),
        (["done", "left"], EXPIRED),
        (["retry", "done"], USED),
        (["retry", "lost"], USED),
        (["retry", "left"], USED),
    ],
)
def test_who_comes_too_late_is_told_why(events, told):
    state = parked()
    happen = {
        "lost": lambda: state.end_call(lost=True),
        "done": lambda: state.end_call(lost=False),
        "expire": state.expire,
        "left": lambda: state.feed(CallEvent.LEFT),
        "retry": lambda: state.retry(1, {"q1": YES}, caller(), 1),
    }
    for event in events:
        happen[event]()
    assert state.phase is Phase.GONE
    assert reason(state) == told
    state.end_call(lost=False)
    assert reason(state) == told


@pytest.mark.covers("F-I-07", "R-9")
def test_nobody_answered():
    state = parked(ELICIT, SAMPLE, LIST_ROOTS)
    settled = state.expire()
    assert settled["q1"] == Result(raw({"action": "cancel"}))
    assert [reply.code for reply in settled.values() if isinstance(reply, Failure)] == [-1, -32603]


# --- whatever happens -------------------------------------------------------------------------------------------------


class AnyCall(RuleBasedStateMachine):
    """An upstream that asks and withdraws, a host that answers this and that: every question is settled once."""

    @initialize()
    def begin(self) -> None:
        self.state = a_record()
        self.now = 0.0
        self.asked: set[str] = set()
        self.withdrawn: set[str] = set()
        self.settled: dict[str, object] = {}
        self.used: set[int] = set()
        self.shown: set[str] = set()

    def settle(self, replies: dict[str, object]) -> None:
        assert replies.keys() <= self.asked - self.withdrawn - self.settled.keys()
        self.settled |= replies

    @rule(method=st.sampled_from([ELICIT, SAMPLE, LIST_ROOTS]))
    def ask(self, method: str) -> None:
        phase = self.state.phase
        try:
            key = self.state.open_question(question(method), self.now)
        except QuestionRefusal:
            assert self.state.phase is phase
            return
        assert key not in self.asked
        self.asked.add(key)

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.asked:
            key = data.draw(st.sampled_from(sorted(self.asked)))
            if self.state.phase is not Phase.GONE and key not in self.settled:
                self.withdrawn.add(key)
            self.state.withdraw_question(key)

    @rule()
    def window(self) -> None:
        if self.state.phase is Phase.ASK:
            self.state.begin_round(self.now)

    @rule(back=st.integers(0, 2), data=st.data(), able=st.booleans(), sound=st.booleans())
    def retry(self, back: int, data: st.DataObject, able: bool, sound: bool) -> None:
        round = self.state.round - back
        if round < 1:
            return
        requests = self.state.input_requests()
        keys = data.draw(st.sets(st.sampled_from([*sorted(self.asked), "q99"])))
        answers = {key: self.answer(requests.get(key)) if sound else raw(7) for key in keys}
        before = self.state.phase, self.state.round, requests
        try:
            settled = self.state.retry(round, answers, caller() if able else caller(elicitation={}), self.now)
        except BadState:
            assert round in self.used or self.state.phase is Phase.GONE
            assert (self.state.phase, self.state.round, self.state.input_requests()) == before
        except RemoteProtocolError:
            assert not sound
            assert (self.state.phase, self.state.round, self.state.input_requests()) == before
        else:
            assert round not in self.used
            self.used.add(round)
            self.settle(settled)

    def answer(self, request) -> Raw:
        method = bytes(peek_object(request).get("method", b"")).decode().strip('"')
        good = {ELICIT: YES, SAMPLE: raw({"role": "assistant", "model": "m", "content": []})}
        return good.get(method, raw({"roots": []}))

    @rule(seconds=st.sampled_from([1, 500, 3000]))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        if self.now >= self.state.deadline and self.state.phase in (Phase.PARK, Phase.DONE):
            self.settle(self.state.expire())

    @rule(lost=st.booleans())
    def end(self, lost: bool) -> None:
        if self.state.phase is Phase.DONE:
            return
        for key in self.asked - self.settled.keys():  # as its session withdraws them
            self.withdrawn.add(key)
        self.state.end_call(lost=lost)

    @invariant()
    def what_is_shown_is_open(self) -> None:
        requests = self.state.input_requests()
        assert requests.keys() <= self.asked - self.settled.keys() - self.withdrawn
        assert self.state.round <= MAX_ROUNDS
        if self.state.phase in (Phase.GONE, Phase.DONE):
            assert not requests

    def teardown(self) -> None:
        if self.state.phase in (Phase.PARK, Phase.DONE):
            self.settle(self.state.expire())
            assert self.asked == self.settled.keys() | self.withdrawn


TestAnyCall = AnyCall.TestCase
TestAnyCall.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyCall.pytestmark = [pytest.mark.covers("R-4", "R-8", "F-I-04")]
