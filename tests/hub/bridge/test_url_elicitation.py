"""Errors that ask for a visit to a page: what each kind of host gets, and when the upstream is called again."""

import json

import pytest
import trio
import trio.testing

from hub.bridge.pending_url_elicitations import MAX_SENT, MAX_VISITS, PageVisits
from hub.bridge.questions_in_results import MAX_ROUNDS, Crossing, InputRefused
from hub.bridge.sealed_request_state import RequestStates, answers_of
from hub.bridge.url_elicitation import AGAIN, URL_WAIT_S, UrlElicitations, VisitNeeded, round_of
from hub.link.call_interface import Interim
from hub.link.elicitation_ends import MAX_ID_CHARS, MAX_KEPT, FinishedElicitations
from hub.link.hub_errors import UpstreamProtocolError, failure_from
from hub.link.sealing import Sealer
from hub.wire.errors_for_hosts import failure_for_host
from hub.wire.jsonrpc import Failure, Request, Result, encode_response, raw
from hub.wire.mcp import L1, L2, L3, L4, MODERN
from hub.wire.questions.askable_questions import Question
from tests.support.fakes import FakeHost
from tests.support.schemas import validate
from upstreams.inventory.current_lists import empty_snapshot

VISIT = {"mode": "url", "elicitationId": "e-77", "url": "https://mcp.example.com/connect?e=1", "message": "Link it"}
OTHER = {"mode": "url", "elicitationId": "e-78", "url": "https://mcp.example.com/pay", "message": "Pay"}
URL_MODE = {"elicitation": {"form": {}, "url": {}}}
ACCEPT = {"action": "accept"}


def needed(*visits, **more):
    return Failure(-32042, "Authorization required", raw({"elicitations": list(visits), **more}))


class Up:
    """An upstream of 2025-11-25, as far as visits are concerned."""

    name = "up"

    def __init__(self):
        self.elicitations = FinishedElicitations()
        self.snapshot = empty_snapshot("up", True)
        self.version = L4

    def version_for(self, caller):
        return self.version

    def admit(self, questions, asked=0): ...

    def answered(self, method, reply): ...


class Bridge:
    """Visits of one hub, and one upstream."""

    def __init__(self):
        self.states = RequestStates(Sealer(b"k" * 32), wall=lambda: 0.0)
        self.visits = PageVisits()
        self.urls = UrlElicitations(self.states, self.visits)
        self.up = Up()

    def ask_for_visits(self, host, *visits, request=None, round=1):
        return self.visit(needed(*(visits or [VISIT])), host, request=request, round=round)

    def visit(self, reply, host, *, request=None, round=1):
        return self.urls.visit(reply, Crossing(self.up, None, host, request or call(), None), round=round)

    def state(self, host, request):
        return self.states.open(text_of(request), host.caller.identity.principal, request)

    async def resume(self, host, reply, **answers):
        """What the retry of a host gets that answers so; None: the upstream is called."""
        request = retry(reply, **answers)
        return await self.urls.resume(self.state(host, request), answers_of(request), self.up)


def call(**more):
    return Request(1, "tools/call", {"name": raw("t"), **{name: raw(value) for name, value in more.items()}})


def retry(reply, **answers):
    return call(requestState=opened(reply)["requestState"], inputResponses=answers)


def text_of(request):
    return json.loads(bytes(request.params["requestState"]))


def opened(reply):
    """The members of an `input_required` result, judged."""
    assert isinstance(reply, Interim)
    validate(encode_response(1, Result(reply.value)), MODERN, sender="server", method="tools/call")
    return json.loads(bytes(reply.value))


def modern(**capabilities):
    return FakeHost(version=MODERN, capabilities=capabilities or URL_MODE)


@pytest.fixture
def bridge():
    return Bridge()


def test_only_errors_of_that_revision_mean_it(bridge):
    host = modern()
    assert bridge.visit(needed(VISIT), host) != needed(VISIT)
    for other in (Failure(-32603, "No"), Result(raw({}))):
        assert bridge.visit(other, host) is other
    for version in (L3, MODERN):
        bridge.up.version = version
        assert bridge.visit(needed(VISIT), host) == needed(VISIT)


# --- hosts of 2025-11-25 ----------------------------------------------------------------------------------------------


@pytest.mark.covers("G-2", "G-10", "C-14")
def test_a_host_of_that_revision_gets_the_error_with_ids_of_the_hub(bridge):
    host = FakeHost(version=L4, capabilities=URL_MODE)
    stranger = FakeHost(version=L4, capabilities=URL_MODE)
    reply = bridge.ask_for_visits(host, {**VISIT, "task": {"ttl": 1}}, OTHER)
    validate(encode_response(1, reply), L4, sender="server")
    assert (reply.code, reply.message) == (-32042, "Authorization required")
    assert json.loads(bytes(reply.data)) == {
        "elicitations": [
            {**VISIT, "elicitationId": "up:e-77", "message": "[up: page at mcp.example.com] Link it"},
            {**OTHER, "elicitationId": "up:e-78", "message": "[up: page at mcp.example.com] Pay"},
        ]
    }
    sees = failure_for_host(reply, "tools/call", upstream="up", upstream_version=L4, host_version=L4)
    assert sees is reply
    bridge.ask_for_visits(stranger, OTHER)
    assert bridge.visits.on_visit_done("up", "e-77") == ("up:e-77", {host.caller.conversation})
    assert bridge.visits.on_visit_done("up", "e-77") == ("up:e-77", frozenset())
    assert bridge.visits.on_visit_done("up", "e-78")[1] == {host.caller.conversation, stranger.caller.conversation}
    assert bridge.visits.on_visit_done("other", "e-78")[1] == frozenset()


def test_other_members_of_the_error_stay(bridge):
    host = FakeHost(version=L4, capabilities=URL_MODE)
    reply = bridge.visit(needed(VISIT, more=1), host)
    assert json.loads(bytes(reply.data))["more"] == 1


def test_questions_of_a_session_are_remembered_as_well(bridge):
    host = FakeHost(version=L4, capabilities=URL_MODE).caller
    visit = Question("elicitation/create", {name: raw(value) for name, value in VISIT.items()}, "up", L4)
    bridge.visits.on_question(visit, FakeHost(version=MODERN).caller)
    unable = FakeHost(version=L4, capabilities={"elicitation": {}})
    bridge.visits.on_question(visit, unable.caller)
    bridge.visits.on_question(Question("elicitation/create", {"message": raw("x")}, "up", L4), host)
    bridge.visits.on_question(Question("elicitation/create", {"mode": raw("url")}, "up", MODERN), host)
    bridge.visits.on_question(Question("roots/list", {}, "up", L4), host)
    assert not bridge.visits._begun
    bridge.visits.on_question(visit, host)
    assert bridge.visits.on_visit_done("up", "e-77")[1] == {host.conversation}


def test_visits_that_never_end_are_forgotten():
    visits = PageVisits()
    for number in range(MAX_VISITS + 1):
        visits.on_visit_begun("up", str(number), 1)
    assert len(visits._begun) == MAX_VISITS
    assert visits.on_visit_done("up", "0")[1] == frozenset()
    assert visits.on_visit_done("up", str(MAX_VISITS))[1] == {1}
    for conversation in range(2 * MAX_SENT):
        visits.on_visit_begun("up", "always the same", conversation)
    assert visits.on_visit_done("up", "always the same")[1] == set(range(MAX_SENT, 2 * MAX_SENT))
    visits.on_visit_begun("up", "x" * (MAX_ID_CHARS + 1), 1)
    assert visits.on_visit_done("up", "x" * (MAX_ID_CHARS + 1))[1] == frozenset()


# --- modern hosts -----------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-1", "R-4")
def test_a_modern_host_gets_an_input_request_for_each_page(bridge):
    asked = opened(bridge.ask_for_visits(modern(), VISIT, OTHER))
    assert asked["resultType"] == "input_required"
    assert asked["inputRequests"] == {
        "q1": {
            "method": "elicitation/create",
            "params": {"mode": "url", "url": VISIT["url"], "message": "[up: page at mcp.example.com] Link it"},
        },
        "q2": {
            "method": "elicitation/create",
            "params": {"mode": "url", "url": OTHER["url"], "message": "[up: page at mcp.example.com] Pay"},
        },
    }
    assert "e-77" not in json.dumps(asked)


@pytest.mark.parametrize("when", ["before", "during", "never"])
async def test_a_retry_waits_until_the_visits_are_done(autojump_clock, bridge, when):
    """A host that has visited both pages before its retry, or during it, or never does."""
    host = modern()
    reply = bridge.ask_for_visits(host, VISIT, OTHER)
    if when == "before":
        bridge.up.elicitations.on_complete("e-77")
        bridge.up.elicitations.on_complete("e-78")
    before = trio.current_time()
    async with trio.open_nursery() as nursery:

        async def visit():
            await trio.sleep(5)
            bridge.up.elicitations.on_complete("e-77")
            await trio.sleep(5)
            bridge.up.elicitations.on_complete("e-78")

        if when == "during":
            nursery.start_soon(visit)
        assert await bridge.resume(host, reply, q1=ACCEPT, q2=ACCEPT) is None
    assert trio.current_time() - before == {"before": 0, "during": 10, "never": URL_WAIT_S}[when]
    assert not bridge.up.elicitations._waiting


async def test_what_is_done_too_late_harms_nobody(autojump_clock, bridge):
    host = modern()
    assert await bridge.resume(host, bridge.ask_for_visits(host), q1=ACCEPT) is None
    bridge.up.elicitations.on_complete("e-77")
    again = bridge.ask_for_visits(host, round=2)
    before = trio.current_time()
    assert await bridge.resume(host, again, q1=ACCEPT) is None
    assert trio.current_time() - before == URL_WAIT_S, "the same page, but another visit"


async def test_a_hub_that_was_restarted_still_knows(autojump_clock, bridge):
    host = modern()
    reply = bridge.ask_for_visits(host)
    assert await Bridge().resume(host, reply, q1=ACCEPT) is None


@pytest.mark.covers("R-18")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_does_not_want_to_is_not_asked_again(autojump_clock, bridge, action):
    host = modern()
    with pytest.raises(InputRefused) as caught:
        await bridge.resume(host, bridge.ask_for_visits(host, VISIT, OTHER), q1=ACCEPT, q2={"action": action})
    assert json.loads(bytes(failure_from(caught.value, "tools/call").value))["isError"]
    assert failure_from(caught.value, "prompts/get").code == -32603
    assert caught.value.facts()["executed"] == "no"


@pytest.mark.covers("R-10")
async def test_pages_that_were_not_answered_for_are_asked_again(autojump_clock, bridge):
    host = modern()
    first = bridge.ask_for_visits(host, VISIT, OTHER)
    second = await bridge.resume(host, first, q2=ACCEPT, q9=ACCEPT)
    assert opened(second)["inputRequests"].keys() == {"q1"}
    bridge.up.elicitations.on_complete("e-77")
    before = trio.current_time()
    assert await bridge.resume(host, second, q1=ACCEPT) is None
    assert trio.current_time() - before == URL_WAIT_S, "both visits are waited for"


@pytest.mark.covers("R-10")
async def test_what_is_no_answer_can_be_said_again(autojump_clock, bridge):
    host = modern()
    reply = bridge.ask_for_visits(host)
    for nonsense in ({"action": "perhaps"}, 1, {}):
        refused = await bridge.resume(host, reply, q1=nonsense)
        assert isinstance(refused, Failure)
        assert refused.code == -32602
    bridge.up.elicitations.on_complete("e-77")
    assert await bridge.resume(host, reply, q1=ACCEPT) is None


@pytest.mark.covers("F-I-08")
async def test_rounds_are_counted(autojump_clock, bridge):
    host = modern()
    request = retry(bridge.ask_for_visits(host, round=3))
    state = bridge.state(host, request)
    assert (state.mode, round_of(state)) == (AGAIN, 4)
    asked_again = retry(await bridge.resume(host, bridge.ask_for_visits(host, VISIT, OTHER, round=3), q1=ACCEPT))
    assert round_of(bridge.state(host, asked_again)) == 5
    with pytest.raises(UpstreamProtocolError, match="16 times"):
        bridge.ask_for_visits(host, round=MAX_ROUNDS + 1)


@pytest.mark.covers("S-6", "E-8")
@pytest.mark.parametrize("capabilities", [{"sampling": {}}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
def test_a_modern_host_that_visits_no_pages_is_told_what_it_lacks(bridge, capabilities):
    host = modern(**capabilities)
    reply = bridge.ask_for_visits(host)
    sees = failure_for_host(
        reply,
        "tools/call",
        upstream="up",
        upstream_version=L4,
        host_version=MODERN,
        host_capabilities=host.caller.capabilities,
    )
    validate(encode_response(1, sees), MODERN, sender="server")
    assert sees.code == -32021
    assert json.loads(bytes(sees.data)) == {"requiredCapabilities": {"elicitation": {"url": {}}}}


# --- others -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "capabilities"),
    [(L1, URL_MODE), (L2, {}), (L3, {"elicitation": {}}), (L3, URL_MODE), (L4, {"elicitation": {}}), (L4, {})],
)
def test_other_hosts_get_it_in_words(bridge, version, capabilities):
    with pytest.raises(VisitNeeded) as caught:
        bridge.ask_for_visits(FakeHost(version=version, capabilities=capabilities), VISIT, OTHER)
    result = failure_from(caught.value, "tools/call")
    validate(encode_response(1, result), version, sender="server", method="tools/call")
    (block,) = json.loads(bytes(result.value))["content"]
    for word in ("up", VISIT["url"], VISIT["message"], OTHER["url"], OTHER["message"]):
        assert word in block["text"]
    failure = failure_from(caught.value, "resources/read")
    assert failure.code == -32603
    assert json.loads(bytes(failure.data))["hub"] == "url_elicitation_required"


@pytest.mark.covers("F-P-12")
@pytest.mark.parametrize(
    "failure",
    [
        Failure(-32042, "Go"),
        Failure(-32042, "Go", raw([])),
        Failure(-32042, "Go", raw({"elicitations": {}})),
        needed(),
        needed(1),
        needed({**VISIT, "url": 1}),
        needed({"mode": "url", "url": "x:y", "message": "x"}),
        needed(VISIT, {"elicitationId": "x"}),
        needed(*[VISIT] * 33),
    ],
)
@pytest.mark.parametrize("host", [modern(), FakeHost(version=L4, capabilities=URL_MODE), FakeHost(version=L1)])
def test_errors_that_name_no_page_are_the_upstreams_fault(bridge, failure, host):
    with pytest.raises(UpstreamProtocolError):
        bridge.visit(failure, host)


# --- what an upstream says is done ------------------------------------------------------------------------------------


async def test_waiting_ends_with_the_last_visit_or_by_cancellation(autojump_clock):
    heard = []
    done = FinishedElicitations(heard.append)
    done.on_complete("a")
    await done.wait_for(["a"])
    await done.wait_for([])
    with trio.move_on_after(1) as scope:
        await done.wait_for(["a", "b"])
    assert scope.cancelled_caught
    assert (len(done._done), len(done._waiting)) == (1, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(done.wait_for, ["b", "c"])
        nursery.start_soon(done.wait_for, ["c"])
        await trio.testing.wait_all_tasks_blocked()
        done.on_complete("c")
        await trio.testing.wait_all_tasks_blocked()
        assert (len(done._done), len(done._waiting)) == (2, 1)
        done.on_complete("b")
    assert heard == ["a", "c", "b"]


async def test_what_was_waited_for_is_not_missed_in_a_flood(autojump_clock):
    done = FinishedElicitations()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(done.wait_for, ["mine", "late"])
        await trio.testing.wait_all_tasks_blocked()
        done.on_complete("mine")
        for number in range(2 * MAX_KEPT):
            done.on_complete(str(number))
        done.on_complete("x" * 10_000)
        assert (len(done._done), len(done._waiting)) == (MAX_KEPT, 1)
        done.on_complete("late")
