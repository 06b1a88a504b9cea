"""Questions of legacy upstreams to legacy hosts during a call: sampling, elicitation, roots."""

import json

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L1, L2, L3, L4
from tests.journeys.pairs import Pair
from tests.support.fakes import FakeUpstream
from tests.support.house import BOB, a_house

EVERYTHING = {"sampling": {}, "elicitation": {}, "roots": {"listChanged": True}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
FORM = {"mode": "form", "message": "Name?", "requestedSchema": SCHEMA}
PROMPT = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
YES = {"action": "accept", "content": {"name": "Ann"}}
SAMPLED = {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "hello"}}
ROOTS = {"roots": [{"uri": "file:///home/ann", "name": "home"}]}
QUESTIONS = {
    "form": ("elicitation/create", FORM),
    "prompt": ("sampling/createMessage", PROMPT),
    "roots": ("roots/list", {}),
}
ANSWERS = {"elicitation/create": YES, "sampling/createMessage": SAMPLED, "roots/list": ROOTS}


@pytest.fixture(params=["lines", "http"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair("LL", request.param)


def asking(pair, *names, version=None):
    """An upstream whose tool asks, and returns all answers."""
    fake = pair.fake() if version is None else FakeUpstream(version=version)
    questions = {name: QUESTIONS[name] for name in names}
    fake.on["tools/call"] = pair.asks(questions, lambda answers: {"content": text(answers)})
    return fake


def text(value):
    return [{"type": "text", "text": json.dumps(value)}]


def said(result):
    """The answers that the tool got."""
    return json.loads(result["content"][0]["text"])


def willing(host):
    """Let a host answer everything."""
    for method, answer in ANSWERS.items():
        host.on[method] = lambda params, answer=answer: answer
    return host


def alone(name="files"):
    """Each host has a session of its own."""
    return {name: {"session_mode": "per_host"}}


@pytest.mark.covers("G-10", "T-25", "C-8")
async def test_a_host_answers_what_its_call_asks(pair, autojump_clock):
    fakes = {"files": asking(pair, *QUESTIONS)}
    async with a_house(fakes, upstreams=alone()) as house:
        host = willing(await pair.host(house, capabilities=EVERYTHING))
        for _ in range(2):
            answers = said(await host.call("files__echo"))
            assert answers == {"form": YES, "prompt": SAMPLED, "roots": ROOTS}
        methods = [asked["method"] for asked in host.asked]
        assert methods.count("roots/list") == 1  # then they are known
        assert methods.count("elicitation/create") == 2
        assert {asked["params"].get("message") for asked in host.asked} == {"[files] Name?", None}
        await host.tell("notifications/roots/list_changed")
        await host.call("files__echo")
        assert [asked["method"] for asked in host.asked].count("roots/list") == 2


@pytest.mark.covers("F-I-01", "C-23")
async def test_a_host_that_cannot_be_asked_is_not(pair, autojump_clock):
    errors = []

    async def ask(message, conversation):
        for method, params in QUESTIONS.values():
            errors.append((await conversation.ask(method, params))["error"]["code"])
        return {"content": []}

    fake = pair.fake()
    fake.on["tools/call"] = ask
    async with pair.house({"files": fake}) as (_, host):
        await host.call("files__echo")
        assert host.asked == []
        assert errors == [-32601] * 3


@pytest.mark.covers("F-I-04")
async def test_what_the_host_refuses_is_refused_in_its_words(pair, autojump_clock):
    replies = []

    async def ask(message, conversation):
        replies.append(await conversation.ask(*QUESTIONS["prompt"]))
        return {"content": []}

    fake = pair.fake()
    fake.on["tools/call"] = ask
    async with a_house({"files": fake}, upstreams=alone()) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        host.on["sampling/createMessage"] = lambda params: Failure(-1, "User rejected sampling request")
        await host.call("files__echo")
    assert replies[0]["error"] == {"code": -1, "message": "User rejected sampling request"}


@pytest.mark.covers("P-7", "F-I-03", "F-I-04")
async def test_a_cancelled_call_takes_its_question_back(pair, autojump_clock):
    async with a_house({"files": asking(pair, "form")}, upstreams=alone()) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        question = await host.start("tools/call", {"name": "files__echo"})
        await trio.sleep(1)
        (asked,) = host.asked
        await host.cancel(question)
        await trio.testing.wait_all_tasks_blocked()
        assert [each["requestId"] for each in host.of("notifications/cancelled")] == [asked["id"]]
        willing(host)
        await host.answer(asked)  # too late
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.covers("F-I-06")
async def test_an_upstream_that_takes_its_question_back(pair, autojump_clock):
    async def ask(message, conversation):
        with trio.move_on_after(5):
            await conversation.ask(*QUESTIONS["form"], id="mine")
        await conversation.tell("notifications/cancelled", {"requestId": "mine", "reason": "never mind"})
        return {"content": []}

    fake = pair.fake()
    fake.on["tools/call"] = ask
    async with a_house({"files": fake}, upstreams=alone()) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        await host.call("files__echo")
        (asked,) = host.asked
        assert [each["requestId"] for each in host.of("notifications/cancelled")] == [asked["id"]]


@pytest.mark.covers("F-I-07")
async def test_nobody_answers(pair, autojump_clock):
    async with a_house({"files": asking(pair, "form")}, upstreams=alone(), park_ttl_s=120.0) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        assert said(await host.call("files__echo")) == {"form": {"action": "cancel"}}
        assert len(host.of("notifications/cancelled")) == 1


@pytest.mark.covers("F-I-05", "F-H-01")
async def test_a_host_leaves_with_a_question_before_it(pair, autojump_clock):
    fake = asking(pair, "form")
    async with a_house({"files": fake}, upstreams=alone()) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        await host.start("tools/call", {"name": "files__echo"})
        await trio.sleep(1)
        assert len(host.asked) == 1
        await host.end()
        await host.leave()
        await trio.sleep(1)
        house.assert_at_rest()


@pytest.mark.covers("T-28", "T-29", "F-I-04")
async def test_a_question_waits_for_a_host_whose_connection_broke(autojump_clock):
    async with a_house({"files": asking(Pair("LL", "http"), "form")}, upstreams=alone()) as house:
        host = await house.host("http", L4, capabilities=EVERYTHING)
        question = await host.start("tools/call", {"name": "files__echo"})
        await trio.sleep(1)
        (asked,) = host.asked
        broken = host.open_answers[question.id]
        name = (broken.events[0][0] or "").partition("-")[0]
        broken.leave()
        await trio.sleep(100)
        again = host.response_to(question)
        house.nursery.start_soon(lambda: host.http.get(last_event_id=f"{name}-0", into=again))
        await trio.sleep(1)
        assert host.asked == [asked, asked]
        await willing(host).answer(asked)
        assert said((await question.wait())["result"]) == {"form": YES}
        await again.complete.wait()


@pytest.mark.covers("P-1", "P-2", "G-2")
async def test_progress_on_the_answer_reaches_who_asked(pair, autojump_clock):
    fake = pair.fake()

    async def ask(message, conversation):
        await conversation.ask("sampling/createMessage", {**PROMPT, "_meta": {"progressToken": "mine"}})
        return {"content": []}

    fake.on["tools/call"] = ask
    async with a_house({"files": fake}, upstreams=alone()) as house:
        host = await pair.host(house, capabilities=EVERYTHING)

        async def sample(params):
            token = params["_meta"]["progressToken"]
            assert token != "mine"
            await host.tell("notifications/progress", {"progressToken": token, "progress": 1, "total": 2})
            return SAMPLED

        host.on["sampling/createMessage"] = sample
        await host.call("files__echo")
    reports = [message for each in fake.conversations for message in each.of("notifications/progress")]
    assert [each["params"] for each in reports] == [{"progressToken": "mine", "progress": 1, "total": 2}]


@pytest.mark.covers("F-H-07", "F-I-04", "F-I-02")
async def test_two_hosts_are_asked_each_its_own(pair, autojump_clock):
    async with a_house({"files": asking(pair, "form")}, upstreams=alone()) as house:
        hosts = [await pair.host(house, capabilities=EVERYTHING)]
        hosts.append(await pair.host(house, capabilities=EVERYTHING, identity=BOB))
        for name, host in zip(("Ann", "Bob"), hosts, strict=True):
            host.on["elicitation/create"] = lambda params, name=name: {"action": "accept", "content": {"name": name}}
        questions = [await host.start("tools/call", {"name": "files__echo"}) for host in hosts]
        results = [(await question.wait())["result"] for question in questions]
        assert [said(each)["form"]["content"]["name"] for each in results] == ["Ann", "Bob"]
        assert [len(host.asked) for host in hosts] == [1, 1]


@pytest.mark.covers("R-5", "G-10")
@pytest.mark.parametrize("host_version", [L1, L2, L3, L4])
@pytest.mark.parametrize("upstream_version", [L1, L2, L3, L4])
async def test_every_two_revisions_sample(pair, autojump_clock, host_version, upstream_version):
    fakes = {"files": asking(pair, "prompt", version=upstream_version)}
    async with a_house(fakes, upstreams=alone()) as house:
        host = willing(await house.host(pair.carrier, host_version, capabilities={"sampling": {}}))
        assert said(await host.call("files__echo")) == {"prompt": SAMPLED}
