"""What one legacy host is asked: its table of open questions, alone. `Wire` plays the stream and judges it."""

import json
import random

import pytest
import trio
import trio.testing

from hub.downstream.host_questions import MAX_OPEN, MAX_OPEN_BYTES, ROOTS_KEPT_S, HostQuestions
from hub.link.call_interface import Caller, Identity
from hub.link.rate_limits import QUESTIONS_PER_MINUTE
from hub.wire.jsonrpc import Failure, Response, Result, decode, encode, raw
from hub.wire.mcp import (
    ELICIT,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    L1,
    L3,
    L4,
    LIST_ROOTS,
    MAX_DECLARED_BYTES,
    METHOD_NOT_FOUND,
    SAMPLE,
)
from hub.wire.questions.askable_questions import Question
from tests.support.schemas import validate

EVERYTHING = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
FORM = {"message": "Name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}
PROMPT = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
YES = {"action": "accept", "content": {"name": "Ann"}}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}
ROOTS = {"roots": [{"uri": "file:///home/ann"}]}
TTL_S = 900.0


class Wire:
    """The stream of one request: what the host reads on it."""

    def __init__(self, version=L4):
        self.version = version
        self.messages = []

    def __call__(self, message, *, vital=False):
        assert vital, "questions are not dropped (F-H-04)"
        validate(message, self.version, sender="server")
        self.messages.append(json.loads(message))

    @property
    def ids(self):
        return [message["id"] for message in self.messages if "id" in message]

    @property
    def withdrawn(self):
        return [each["params"]["requestId"] for each in self.messages if each["method"] == "notifications/cancelled"]


def caller(version=L4, capabilities=EVERYTHING):
    return Caller(Identity("me", "desk"), version, {name: raw(value) for name, value in capabilities.items()})


def question(method=ELICIT, params=FORM, upstream="files", **more):
    return Question(method, {name: raw(value) for name, value in params.items()}, upstream, L4, **more)


def result(id, value=YES):
    return Response(id, Result(raw(value)))


class Asker:
    """Tasks that ask one host, and what each was answered."""

    def __init__(self, nursery, host=None):
        self.nursery = nursery
        self.asking = HostQuestions(TTL_S)
        self.host = host or caller()
        self.replies = {}

    async def ask(self, name, asked=None, wire=None):
        """Start asking; the scope that ends it."""
        wire = wire or Wire(self.host.version)
        scope = trio.CancelScope()

        async def run():
            with scope:
                self.replies[name] = await self.asking.ask(asked or question(), self.host, wire)

        self.nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        return wire, scope

    async def settle(self):
        await trio.testing.wait_all_tasks_blocked()
        return self.replies


def value(reply):
    assert isinstance(reply, Result), reply
    return json.loads(bytes(reply.value))


@pytest.fixture
def asker(nursery):
    return Asker(nursery)


@pytest.mark.covers("G-2", "G-10", "F-I-04")
async def test_a_question_goes_out_under_an_id_of_the_hub_and_names_who_asks(asker):
    wire, _ = await asker.ask("a", question(params={**FORM, "_meta": {"progressToken": 7, "trace": "t"}}))
    (message,) = wire.messages
    assert message["id"] == "hub-1"
    assert message["params"]["message"] == "[files] Name?"
    assert message["params"]["_meta"] == {"trace": "t"}
    asker.asking.answered(result("hub-1"))
    assert value((await asker.settle())["a"]) == YES
    assert len(asker.asking) == 0
    assert len(wire.messages) == 1


@pytest.mark.covers("F-H-19", "F-I-04")
async def test_of_several_answers_the_first_counts_and_strays_are_dropped(asker):
    await asker.ask("a")
    for id in ("hub-2", "hub-01", 1, "1", None, "s1"):
        asker.asking.answered(result(id))
    assert not await asker.settle()
    asker.asking.answered(result("hub-1", {"action": "decline"}))
    asker.asking.answered(result("hub-1"))
    assert value((await asker.settle())["a"]) == {"action": "decline"}
    asker.asking.answered(result("hub-1"))
    assert len(asker.asking) == 0


@pytest.mark.covers("F-I-04", "F-H-19")
async def test_each_asker_gets_its_own_answer_whatever_the_order(asker, autojump_clock):
    """Hosts that drop, double, reorder and invent answers, ten thousand times."""
    chance = random.Random(3)
    asked = answered = 0
    for round in range(400):
        wires = {}
        for number in range(25):
            name = f"{round}.{number}"
            wires[name], _ = await asker.ask(name, question(upstream=f"up{number}"))
        asked += len(wires)
        heard = [(wire.ids[0], name) for name, wire in wires.items()] * 2
        chance.shuffle(heard)
        silent = set(chance.sample(sorted(wires), 2))
        for id, name in heard:
            if name not in silent:
                asker.asking.answered(result(id, {"action": "accept", "content": {"name": name}}))
            asker.asking.answered(result(f"hub-{chance.randrange(1 << 20) + (1 << 30)}"))
        await trio.sleep(TTL_S + 1)
        for name, wire in wires.items():
            got = value(asker.replies.pop(name))
            if name in silent:
                assert got == {"action": "cancel"}
                assert wire.withdrawn == wire.ids
            else:
                assert got["content"]["name"] == name
                assert wire.withdrawn == []
                answered += 1
    assert (asked, answered) == (10_000, 9_200)
    assert not asker.replies
    assert len(asker.asking) == 0


@pytest.mark.covers("F-I-01", "C-23", "R-5")
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (question(), METHOD_NOT_FOUND),
        (question(SAMPLE, PROMPT), METHOD_NOT_FOUND),
        (question(LIST_ROOTS, {}), METHOD_NOT_FOUND),
    ],
)
async def test_what_a_host_did_not_declare_it_is_not_asked(nursery, asked, code):
    asker = Asker(nursery, caller(capabilities={}))
    wire, _ = await asker.ask("a", asked)
    assert asker.replies["a"].code == code
    assert wire.messages == []


@pytest.mark.covers("F-I-01")
async def test_modes_and_revisions_that_a_host_does_not_know(nursery):
    url = {"mode": "url", "message": "Go", "url": "https://example.com", "elicitationId": "e"}
    asker = Asker(nursery)
    wire, _ = await asker.ask("url", question(params=url))
    tools = {**PROMPT, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
    await asker.ask("tools", question(SAMPLE, tools), wire)
    assert [reply.code for reply in asker.replies.values()] == [INVALID_PARAMS, INVALID_PARAMS]
    old = Asker(nursery, caller(L1))
    await old.ask("form", None, wire)
    assert old.replies["form"].code == METHOD_NOT_FOUND
    assert wire.messages == []


@pytest.mark.covers("F-I-04")
async def test_errors_of_a_host_pass_as_they_are(asker):
    await asker.ask("a", question(SAMPLE, PROMPT))
    said = Failure(-1, "User rejected sampling request", raw({"why": "private"}))
    asker.asking.answered(Response("hub-1", said))
    assert (await asker.settle())["a"] == said


@pytest.mark.covers("F-I-11")
async def test_a_person_is_asked_once_more_for_an_answer_that_is_none(asker):
    wire, _ = await asker.ask("a")
    asker.asking.answered(result("hub-1", {"action": "perhaps"}))
    assert not await asker.settle()
    assert wire.ids == ["hub-1", "hub-2"]
    asker.asking.answered(result("hub-1"))  # too late for the first
    asker.asking.answered(result("hub-2"))
    assert value((await asker.settle())["a"]) == YES
    await asker.ask("b", None, wire)
    for id in ("hub-3", "hub-4"):
        asker.asking.answered(result(id, []))
        await asker.settle()
    assert value(asker.replies["b"]) == {"action": "cancel"}
    assert wire.withdrawn == []


@pytest.mark.covers("F-I-11")
async def test_other_answers_that_are_none_count_as_a_no(asker):
    wire, _ = await asker.ask("a", question(SAMPLE, PROMPT))
    asker.asking.answered(result("hub-1", {"text": "hello"}))
    assert (await asker.settle())["a"].code == -1
    await asker.ask("b", question(LIST_ROOTS, {}), wire)
    asker.asking.answered(result("hub-2", {"roots": "home"}))
    assert (await asker.settle())["b"].code == INTERNAL_ERROR
    await asker.ask("c", question(LIST_ROOTS, {}), wire)
    assert wire.ids == ["hub-1", "hub-2", "hub-3"]


@pytest.mark.covers("F-I-07")
@pytest.mark.parametrize(
    ("asked", "reply"),
    [(question(), {"action": "cancel"}), (question(SAMPLE, PROMPT), -1), (question(LIST_ROOTS, {}), INTERNAL_ERROR)],
)
async def test_nobody_answers(asker, autojump_clock, asked, reply):
    wire, _ = await asker.ask("a", asked)
    await trio.sleep(TTL_S - 1)
    assert not asker.replies
    await trio.sleep(2)
    got = asker.replies["a"]
    assert (got.code if isinstance(got, Failure) else value(got)) == reply
    assert wire.withdrawn == ["hub-1"]
    asker.asking.answered(result("hub-1"))
    assert len(asker.asking) == 0


@pytest.mark.covers("F-I-06", "F-I-03", "P-9")
async def test_a_question_of_nobody_any_more_is_withdrawn_on_the_same_stream(asker):
    wire, scope = await asker.ask("a")
    other, _ = await asker.ask("b")
    scope.cancel()
    assert not await asker.settle()
    assert wire.messages[1]["params"] == {"requestId": "hub-1", "reason": "The call that this was asked for has ended"}
    assert len(other.messages) == 1
    asker.asking.answered(result("hub-1"))


@pytest.mark.covers("F-I-03")
async def test_with_its_call_a_question_ends(asker):
    roots = question(LIST_ROOTS, {})
    wire, _ = await asker.ask("a")
    await asker.ask("roots", roots, wire)
    other, _ = await asker.ask("shared", roots)
    asker.asking.withdraw(wire)
    assert wire.withdrawn == ["hub-1", "hub-2"]  # at once: the response follows
    await asker.settle()
    assert [asker.replies[name].code for name in ("a", "roots")] == [INVALID_PARAMS] * 2
    assert other.ids == ["hub-3"]
    asker.asking.withdraw(wire)
    assert len(asker.asking) == 1


@pytest.mark.covers("F-I-05")
async def test_the_host_leaves(asker, autojump_clock):
    wire, _ = await asker.ask("a")
    await asker.ask("roots", question(LIST_ROOTS, {}), wire)
    await asker.ask("more", question(LIST_ROOTS, {}), wire)
    asker.asking.host_left()
    await asker.ask("late", None, wire)
    assert {name: reply.message for name, reply in asker.replies.items()} == dict.fromkeys(
        ("a", "roots", "more", "late"), "The host has left"
    )
    assert wire.withdrawn == []


@pytest.mark.covers("F-I-08")
async def test_one_host_is_not_asked_too_much_at_once(asker):
    for number in range(MAX_OPEN):
        await asker.ask(number)
    wire, _ = await asker.ask("more")
    assert asker.replies["more"].code == INVALID_PARAMS
    assert wire.messages == []
    asker.asking.answered(result("hub-1"))
    await asker.ask("now")
    assert len(asker.asking) == MAX_OPEN
    assert "now" not in asker.replies


async def test_questions_are_not_too_large_together(asker):
    large = {**FORM, "message": "x" * (MAX_OPEN_BYTES // 2)}
    await asker.ask("a", question(params=large))
    await asker.ask("b", question(params=large))
    assert asker.replies["b"].code == INVALID_PARAMS
    assert "a" not in asker.replies


@pytest.mark.covers("F-I-08")
async def test_an_upstream_that_asks_endlessly(asker, autojump_clock):
    for number in range(int(QUESTIONS_PER_MINUTE)):
        wire, _ = await asker.ask(number)
        asker.asking.answered(result(wire.ids[0]))
    await asker.ask("more")
    assert asker.replies["more"].code == INVALID_PARAMS
    await asker.ask("of another", question(upstream="calm"))
    assert "of another" not in asker.replies
    await trio.sleep(60 / QUESTIONS_PER_MINUTE + 0.1)
    await asker.ask("later")
    assert "later" not in asker.replies


# --- roots ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("C-8", "T-27")
async def test_those_who_want_to_know_the_roots_at_once_ask_once(asker):
    roots = question(LIST_ROOTS, {})
    first, _ = await asker.ask("a", roots)
    second, _ = await asker.ask("b", roots)
    assert (first.ids, second.ids) == (["hub-1"], [])
    asker.asking.answered(result("hub-1", ROOTS))
    await asker.settle()
    await asker.ask("c", roots, second)
    assert [value(asker.replies[name]) for name in "abc"] == [ROOTS] * 3
    assert second.ids == []


@pytest.mark.covers("F-I-03")
async def test_when_the_one_who_asked_is_gone_another_asks_on_its_own_stream(asker):
    roots = question(LIST_ROOTS, {})
    first, scope = await asker.ask("a", roots)
    second, _ = await asker.ask("b", roots)
    scope.cancel()
    await asker.settle()
    assert (first.withdrawn, second.ids) == (["hub-1"], ["hub-2"])
    asker.asking.answered(result("hub-2", ROOTS))
    assert value((await asker.settle())["b"]) == ROOTS


async def test_a_refusal_is_shared_but_not_kept(asker):
    roots = question(LIST_ROOTS, {})
    wire, _ = await asker.ask("a", roots)
    await asker.ask("b", roots, wire)
    no = Failure(-32603, "Not now")
    asker.asking.answered(Response("hub-1", no))
    assert await asker.settle() == {"a": no, "b": no}
    await asker.ask("c", roots, wire)
    assert wire.ids == ["hub-1", "hub-2"]


async def test_changed_roots_are_asked_for_again(asker):
    roots = question(LIST_ROOTS, {})
    wire, _ = await asker.ask("a", roots)
    asker.asking.roots_changed()  # while the answer is on its way: it may be that from before
    await asker.ask("b", roots, wire)
    assert wire.ids == ["hub-1", "hub-2"]
    asker.asking.answered(result("hub-2", ROOTS))
    asker.asking.answered(result("hub-1", {"roots": []}))
    await asker.settle()
    assert [value(asker.replies[name]) for name in "ab"] == [{"roots": []}, ROOTS]
    await asker.ask("c", roots, wire)
    assert value(asker.replies["c"]) == ROOTS
    asker.asking.roots_changed()
    await asker.ask("d", roots, wire)
    assert wire.ids[2:] == ["hub-3"]


@pytest.mark.parametrize(("declared", "asked_again"), [({"listChanged": True}, False), ({}, True)])
async def test_roots_of_a_host_that_does_not_tell_are_believed_for_a_while(
    nursery, autojump_clock, declared, asked_again
):
    asker = Asker(nursery, caller(capabilities={"roots": declared}))
    wire, _ = await asker.ask("a", question(LIST_ROOTS, {}))
    asker.asking.answered(result("hub-1", ROOTS))
    await trio.sleep(ROOTS_KEPT_S - 1)
    await asker.ask("b", question(LIST_ROOTS, {}), wire)
    assert value(asker.replies["b"]) == ROOTS
    await trio.sleep(2)
    await asker.ask("c", question(LIST_ROOTS, {}), wire)
    assert ("c" not in asker.replies) is asked_again


@pytest.mark.covers("F-H-20")
async def test_very_long_roots_are_passed_on_but_not_kept(asker):
    roots = question(LIST_ROOTS, {})
    wire, _ = await asker.ask("a", roots)
    many = {"roots": [{"uri": "file:///" + "x" * MAX_DECLARED_BYTES}]}
    asker.asking.answered(result("hub-1", many))
    assert value((await asker.settle())["a"]) == many
    await asker.ask("b", roots, wire)
    assert wire.ids == ["hub-1", "hub-2"]


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("P-1", "P-2", "P-3", "G-2")
async def test_progress_on_a_question_reaches_who_asked_if_it_wants_it(asker, autojump_clock):
    reports = []
    with_token = {**PROMPT, "_meta": {"progressToken": 7}}
    wire, _ = await asker.ask("a", question(SAMPLE, with_token, progress=reports.append))
    await asker.ask("b", question(SAMPLE, PROMPT, progress=reports.append), wire)
    assert [message["params"].get("_meta") for message in wire.messages] == [{"progressToken": "hub-1"}, None]

    async def report(token, progress, **more):
        params = {"progressToken": token, "progress": progress, **more}
        message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        asker.asking.progressed(decode(encode(message)).params)
        await trio.sleep(1)

    await report("hub-1", 1, total=4, message="thinking")
    await report("hub-1", 1)
    await report("hub-1", 0.5)
    await report("hub-2", 3)
    await report(7, 3)
    await report("hub-1", 2)
    assert reports == [{"progress": raw(1), "total": raw(4), "message": raw("thinking")}, {"progress": raw(2)}]
    for number in range(3, 100):
        asker.asking.progressed({"progressToken": raw("hub-1"), "progress": raw(number)})
    assert len(reports) == 3
    asker.asking.answered(result("hub-1", SAMPLED))
    await report("hub-1", 100)
    assert len(reports) == 3


async def test_an_old_host_is_asked_in_its_own_words(nursery):
    schema = {"type": "object", "properties": {"n": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}}}
    asker = Asker(nursery, caller(L3))
    wire, _ = await asker.ask("a", question(params={**FORM, "requestedSchema": schema}))
    asked = wire.messages[0]["params"]["requestedSchema"]["properties"]["n"]
    assert (asked["enum"], asked["enumNames"]) == (["a"], ["A"])
