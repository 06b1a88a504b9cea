"""A modern upstream that wants input and a legacy host: asked on the host's own wire, then called again."""

import json
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw, structs

from config.remembered_facts import Memory
from config.security_settings import ElicitationBudget
from config.settings import UpstreamConfig
from hub.bridge.questions_in_results import (
    MAX_AT_ONCE,
    MAX_ROUNDS,
    Crossing,
    InputRefused,
    admit,
    call_to_the_end,
    read_wanted,
)
from hub.downstream.host_questions import HostQuestions
from hub.link.call_interface import Operation
from hub.link.elicitation_ends import FinishedElicitations
from hub.link.hub_errors import UpstreamProtocolError, failure_from
from hub.wire.jsonrpc import Failure, Response, Result, raw
from hub.wire.mcp import ELICIT, L3, L4, LEGACY_VERSIONS, MODERN
from hub.wire.questions.askable_questions import Question
from hub.wire.total_item_limit import MAX_ITEMS
from tests.support.fakes import FakeHost, FakeUpstream, running
from tests.support.schemas import validate
from upstreams.inventory.current_lists import empty_snapshot
from upstreams.questions.budgets import QuestionBudget
from upstreams.session_contract import CallTimeouts, SessionTerms

EVERYTHING = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
FORM = {
    "method": "elicitation/create",
    "params": {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
PROMPT = {
    "method": "sampling/createMessage",
    "params": {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]},
}
ROOTS = {"method": "roots/list"}
YES = {"action": "accept", "content": {"name": "Ann"}}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}
ROOTED = {"roots": [{"uri": "file:///home/ann"}]}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
STATE = '"st\\u00e4te\\/\\" 😀"'
"""JSON that an encoder would write in another way."""


class Person(FakeHost):
    """A legacy host that answers by `on`, through a real table of questions; None: not at all."""

    def __init__(self, nursery, on, *, version=L4, capabilities=EVERYTHING):
        super().__init__(version=version, capabilities=capabilities)
        self.on = on
        self.host = self.Desk(self)
        self.nursery = nursery
        self.asking = HostQuestions(900.0)
        self.asked = []
        self.withdrawn = []

    class Desk:
        """Its end of the wire."""

        def __init__(self, person):
            self.person = person

        async def ask(self, question, send):
            return await self.person.asking.ask(question, self.person.caller, self.hear)

        def hear(self, message, *, vital=False):
            validate(message, self.person.caller.version, sender="server")
            seen = json.loads(message)
            if "id" not in seen:
                self.person.withdrawn.append(seen["params"]["requestId"])
                return
            self.person.asked.append(seen)
            self.person.nursery.start_soon(self.answer, seen)

        async def answer(self, request):
            reply = self.person.on.get(request["method"])
            if callable(reply):
                reply = await reply(request)
            if reply is not None:
                reply = reply if isinstance(reply, Failure) else Result(raw(reply))
                self.person.asking.answered(Response(request["id"], reply))

    @property
    def methods(self):
        return [each["method"] for each in self.asked]


class Upstream(FakeUpstream):
    """Wants `rounds` of input, one after the other, and then is done."""

    def __init__(self, *rounds):
        super().__init__(version=MODERN)
        self.rounds = list(rounds)
        self.on["tools/call"] = lambda message, _: {"resultType": "input_required", **self.next()}

    def next(self):
        return self.rounds.pop(0) if self.rounds else DONE

    @property
    def calls(self):
        return [each["params"] for each in self.conversation.of("tools/call")]

    @property
    def ids(self):
        return [each["id"] for each in self.conversation.of("tools/call")]


class Events:
    """A session that has nothing to say."""

    def __getattr__(self, name):
        return lambda *_: None


class Wired:
    """A session with an upstream, and what the bridge does with it."""

    def __init__(self, session, nursery):
        self.session = session
        self.nursery = nursery

    async def call(self, person, *, method="tools/call", declared=None, visited=None):
        """What the host gets for a call."""
        operation = Operation(method, {"name": raw("echo"), "arguments": raw({"a": 1})})
        return await call_to_the_end(crossing(self.session.call, operation, person, declared, visited))


def crossing(call, operation, person, declared=None, visited=None):
    """A call of the modern upstream "up", which was told of the capabilities `declared`; `visited` hears of visits."""

    class Up:
        name = "up"
        config = UpstreamConfig(command="up", client_features="none" if declared == {} else "auto", roots="host")
        snapshot = empty_snapshot("up", True)
        elicitations = FinishedElicitations(visited or (lambda id: None))

        @staticmethod
        def admit(questions, asked=0): ...

        @staticmethod
        def answered(method, reply): ...

    Up.snapshot = structs.replace(Up.snapshot, version=MODERN)
    timeouts = CallTimeouts(30, 60)
    return Crossing(Up, operation, person, None, lambda operation, exchange: call(operation, exchange, timeouts))


@asynccontextmanager
async def wired(fake):
    session = fake.open(UpstreamConfig(command="up"), "up", Events(), Memory(None), SessionTerms())
    async with trio.open_nursery() as nursery:
        await nursery.start(running, session)
        yield Wired(session, nursery)
        assert fake.complaints == []
        nursery.cancel_scope.cancel()


def wants(state=None, **requests):
    members = {"inputRequests": requests} if requests else {}
    return {**members, **({"requestState": state} if state is not None else {})}


async def test_a_result_is_left_alone(autojump_clock):
    fake = Upstream()
    async with wired(fake) as up:
        person = Person(up.nursery, {})
        assert json.loads(bytes((await up.call(person)).value)) == DONE
        assert len(fake.calls) == 1


@pytest.mark.covers("F-I-09", "R-11", "R-12")
@pytest.mark.parametrize("version", [L3, L4])
async def test_everything_is_asked_at_once_and_the_upstream_called_again(autojump_clock, version):
    fake = Upstream(wants("s1", a=FORM, b=PROMPT, c=ROOTS))
    both = trio.Event()
    async with wired(fake) as up:

        async def slow(request):
            await both.wait()
            return YES

        async def quick(request):
            both.set()
            return SAMPLED

        on = {"elicitation/create": slow, "sampling/createMessage": quick, "roots/list": ROOTED}
        person = Person(up.nursery, on, version=version)
        assert isinstance(await up.call(person), Result)
    assert sorted(person.methods) == ["elicitation/create", "roots/list", "sampling/createMessage"]
    first, second = fake.calls
    assert second["inputResponses"] == {"a": YES, "b": SAMPLED, "c": ROOTED}
    assert second["requestState"] == "s1"
    assert (second["name"], second["arguments"]) == (first["name"], first["arguments"])
    assert len(set(fake.ids)) == 2
    (form,) = (each for each in person.asked if each["method"] == "elicitation/create")
    assert form["params"]["message"] == "[up] Name?"


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
async def test_even_the_oldest_hosts_are_asked_what_they_know(autojump_clock, version):
    fake = Upstream(wants(b=PROMPT, c=ROOTS))
    async with wired(fake) as up:
        person = Person(up.nursery, {"sampling/createMessage": SAMPLED, "roots/list": ROOTED}, version=version)
        assert isinstance(await up.call(person), Result)
        assert fake.calls[1]["inputResponses"] == {"b": SAMPLED, "c": ROOTED}
        assert "requestState" not in fake.calls[1]


@pytest.mark.covers("R-12", "F-I-09")
async def test_states_are_those_of_the_last_round_and_keys_are_asked_anew(autojump_clock):
    fake = Upstream(wants("s1", a=FORM), wants(a=FORM), wants("s3", b=FORM))
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": YES})
        await up.call(person)
    assert [each.get("requestState") for each in fake.calls] == [None, "s1", None, "s3"]
    assert [list(each.get("inputResponses", {})) for each in fake.calls] == [[], ["a"], ["a"], ["b"]]
    assert len(person.asked) == 3


@pytest.mark.covers("R-12")
async def test_a_state_is_repeated_byte_for_byte(autojump_clock):
    given = []
    replies = [b'{"resultType":"input_required","requestState":%b}' % STATE.encode(), b'{"content":[]}']
    replies = [Result(Raw(each)) for each in replies]

    async def call(operation, exchange, timeouts):
        given.append(operation.params)
        return replies[len(given) - 1]

    await call_to_the_end(crossing(call, Operation("tools/call", {}), FakeHost()))
    assert given.pop(0) == {}
    assert [{name: bytes(value) for name, value in more.items()} for more in given] == [
        {"requestState": STATE.encode()}
    ]


async def test_without_questions_it_is_called_again_ever_later(autojump_clock):
    fake = Upstream(*[wants(f"s{number}") for number in range(5)])
    async with wired(fake) as up:
        person = Person(up.nursery, {})
        before = trio.current_time()
        await up.call(person)
        assert trio.current_time() - before == pytest.approx(0 + 0.25 + 0.5 + 1 + 2)
    assert [each.get("requestState") for each in fake.calls] == [None, "s0", "s1", "s2", "s3", "s4"]
    assert all("inputResponses" not in each for each in fake.calls)


async def test_visits_have_ids_that_are_done_when_the_upstream_is_content(autojump_clock):
    visit = {"method": "elicitation/create", "params": {"mode": "url", "message": "x", "url": "https://a.example/"}}
    fake = Upstream(wants("s", a=visit), wants("t", b=FORM), wants("u", c=visit))
    told = []
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": {"action": "accept"}})
        await up.call(person, visited=told.append)
    ids = [each["params"]["elicitationId"] for each in person.asked if "elicitationId" in each["params"]]
    assert ids == [f"up:{id}" for id in told]
    assert len(set(ids)) == 2
    assert fake.calls[1]["inputResponses"] == {"a": {"action": "accept"}}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-18")
@pytest.mark.parametrize("said", [{"action": "decline"}, {"action": "cancel"}, Failure(-32603, "Oops")])
async def test_a_form_that_nobody_fills_in_is_an_answer(autojump_clock, said):
    fake = Upstream(wants("s", a=FORM, b=PROMPT))
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": said, "sampling/createMessage": SAMPLED})
        assert isinstance(await up.call(person), Result)
    expected = {"action": "cancel"} if isinstance(said, Failure) else said
    assert fake.calls[1]["inputResponses"] == {"a": expected, "b": SAMPLED}


@pytest.mark.covers("F-I-01")
@pytest.mark.parametrize(("wanted", "method"), [(PROMPT, "sampling/createMessage"), (ROOTS, "roots/list")])
async def test_what_cannot_be_done_without_ends_the_operation(autojump_clock, wanted, method):
    """Three questions: one declined, one error; the third is withdrawn."""
    fake = Upstream(wants("s", a=FORM, b=wanted, c={**FORM, "params": {**FORM["params"], "message": "Later?"}}))
    async with wired(fake) as up:
        declined = trio.Event()

        async def decline(request):
            if "Later" in request["params"]["message"]:
                return None
            declined.set()
            return {"action": "decline"}

        async def refuse(request):
            await declined.wait()
            return Failure(-1, "No", raw({"why": "x"}))

        person = Person(up.nursery, {"elicitation/create": decline, method: refuse})
        with pytest.raises(InputRefused) as caught:
            await up.call(person)
        await trio.testing.wait_all_tasks_blocked()
        assert len(fake.calls) == 1
        assert len(person.asking) == 0
    (later,) = (each for each in person.asked if "Later" in str(each))
    assert person.withdrawn == [later["id"]]
    failure = failure_from(caught.value, "prompts/get")
    assert failure.code == -32603
    data = json.loads(bytes(failure.data))
    assert data["hub"] == "input_refused"
    assert data["host"] == {"code": -1, "message": "No", "data": {"why": "x"}}
    result = json.loads(bytes(failure_from(caught.value, "tools/call").value))
    assert result["isError"]
    assert "refused" in result["content"][0]["text"]


@pytest.mark.covers("R-5", "C-23")
@pytest.mark.parametrize(
    ("capabilities", "wanted"),
    [
        ({}, PROMPT),
        ({"sampling": {}}, FORM),
        ({"sampling": {}}, {**PROMPT, "params": {**PROMPT["params"], "tools": []}}),
        (
            {"elicitation": {}},
            {"method": "elicitation/create", "params": {"mode": "url", "message": "x", "url": "x:y"}},
        ),
        ({"elicitation": {}}, ROOTS),
    ],
)
async def test_nobody_is_bothered_with_what_was_not_offered(autojump_clock, capabilities, wanted):
    fake = Upstream(wants(a=FORM, b=wanted))
    async with wired(fake) as up:
        person = Person(up.nursery, {}, capabilities=capabilities)
        with pytest.raises(UpstreamProtocolError, match="not offered"):
            await up.call(person)
        assert person.asked == []


async def test_what_was_kept_back_was_not_offered(autojump_clock):
    fake = Upstream(wants(a=FORM))
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": YES})
        with pytest.raises(UpstreamProtocolError, match="not offered"):
            await up.call(person, declared={})


async def test_what_this_revision_has_no_words_for_is_refused_for_the_host(autojump_clock):
    visit = {"method": "elicitation/create", "params": {"mode": "url", "message": "x", "url": "https://a.example/"}}
    fake = Upstream(wants(a=visit))
    async with wired(fake) as up:
        person = Person(up.nursery, {}, version=L3)
        assert isinstance(await up.call(person), Result)
        assert fake.calls[1]["inputResponses"] == {"a": {"action": "cancel"}}


async def test_where_nobody_can_be_asked_the_operation_ends(autojump_clock):
    """As for calls of the operator."""
    fake = Upstream(wants(a=PROMPT))
    async with wired(fake) as up:
        with pytest.raises(InputRefused):
            await up.call(FakeHost(capabilities=EVERYTHING))
    fake = Upstream(wants(a=PROMPT))
    async with wired(fake) as up:
        with pytest.raises(UpstreamProtocolError):
            await up.call(FakeHost())


@pytest.mark.covers("F-I-08")
async def test_an_upstream_that_asks_without_end_is_stopped(autojump_clock):
    fake = Upstream(*[wants(a=FORM)] * 100)
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": YES})
        with pytest.raises(UpstreamProtocolError, match="16 times"):
            await up.call(person)
        assert len(fake.calls) == 1 + MAX_ROUNDS
        assert len(person.asked) == MAX_ROUNDS


@pytest.mark.covers("R-3", "R-4")
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": [FORM]},
        {"inputRequests": {"a": {"method": "evil/method"}}},
        {"inputRequests": {"a": {"method": "tools/call", "params": {}}}},
        {"inputRequests": {"a": 1}},
        {"requestState": 1},
        {"requestState": None},
        {"inputRequests": {"a": FORM}, "requestState": {}},
        {"inputRequests": {str(number): FORM for number in range(MAX_AT_ONCE + 1)}},
        {"inputRequests": {"a": FORM}, "more": [1] * (MAX_ITEMS + 1)},
    ],
)
def test_nonsense_is_the_upstreams_fault(wanted):
    with pytest.raises(UpstreamProtocolError):
        read_wanted(Result(raw({"resultType": "input_required", **wanted})), "up", MODERN)


@given(st.recursive(st.none() | st.text() | st.just(FORM), lambda inner: st.dictionaries(st.text(), inner)))
def test_no_request_is_a_surprise(value):
    with suppress(UpstreamProtocolError):
        read_wanted(Result(raw({"resultType": "input_required", "inputRequests": value})), "up", MODERN)


def test_words_in_results_are_no_requests():
    told = {"content": [{"type": "text", "text": "input_required"}]}
    assert read_wanted(Result(raw(told)), "up", MODERN) is None
    assert read_wanted(Failure(-32603, "input_required"), "up", MODERN) is None


# --- cancellation -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-03", "P-12")
async def test_a_host_that_cancels_is_asked_no_more_and_nothing_is_called(autojump_clock):
    fake = Upstream(wants("s", a=FORM, b=PROMPT))
    async with wired(fake) as up:
        person = Person(up.nursery, {"elicitation/create": YES})
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(up.call, person)
                await trio.testing.wait_all_tasks_blocked()
                assert len(person.asking) == 1
                scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(person.asking) == 0
        assert len(person.withdrawn) == 1
        assert len(fake.calls) == 1


async def test_cancelled_anywhere_nothing_is_left_behind(autojump_clock):
    """Cancel at the n-th moment, for every n until the call gets through."""
    for steps in range(200):
        fake = Upstream(wants("s0"), wants("s", a=FORM, b=PROMPT), wants("t"), wants("u", c=ROOTS))
        async with wired(fake) as up:

            async def slowly(request):
                await trio.sleep(0.1)
                return SAMPLED

            on = {"elicitation/create": YES, "sampling/createMessage": slowly, "roots/list": ROOTED}
            person = Person(up.nursery, on)
            with trio.move_on_after(steps * 0.02) as scope:
                await up.call(person)
            await trio.testing.wait_all_tasks_blocked()
            assert len(person.asking) == 0
            assert up.session.running == {}
        if not scope.cancelled_caught:
            break
    assert steps > 3


@pytest.mark.covers("POL-56", "F-I-08")
def test_what_is_beyond_the_budget_is_not_asked_and_ends_the_operation():
    budget = QuestionBudget("up", UpstreamConfig(command="up", elicitation=ElicitationBudget(per_call=2)))

    class Up:
        name = "up"

        @staticmethod
        def admit(questions, asked):
            budget.admit(questions, 0.0, asked)

    form = Question(ELICIT, {}, "up", MODERN)
    assert admit(Up, {"a": form, "b": form}) == 2
    with pytest.raises(InputRefused, match="more than 2 times in one call: it was not asked"):
        admit(Up, {"c": form}, 2)
    assert budget.refused == 1
