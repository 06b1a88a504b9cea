"""Legacy upstreams that ask modern hosts: a call goes on while its request ends and comes back."""

import json

import pytest
import trio
import trio.testing

from hub.wire.mcp import L1, L2, L3, L4
from tests.journeys.pairs import Pair
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, Identity, a_house

EVERYTHING = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
FORM = {"mode": "form", "message": "Name?", "requestedSchema": SCHEMA}
PROMPT = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
YES = {"action": "accept", "content": {"name": "Ann"}}
NO = {"action": "decline"}
SAMPLED = {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "hello"}}
ROOTS = {"roots": [{"uri": "file:///home/ann", "name": "home"}]}
QUESTIONS = {
    "form": ("elicitation/create", FORM),
    "prompt": ("sampling/createMessage", PROMPT),
    "roots": ("roots/list", {}),
}
ANSWERS = {"elicitation/create": YES, "sampling/createMessage": SAMPLED, "roots/list": ROOTS}
CALL = {"name": "files__echo", "arguments": {"a": 7}}
ALONE = {"files": {"session_mode": "per_host"}}


@pytest.fixture(params=["lines", "http"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair("ML", request.param)


def whole(value, method="tools/call", uri="x:1"):
    """A result with the text `value`."""
    text = json.dumps(value)
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "resources/read":
        return {"contents": [{"uri": uri, "text": text}]}
    return {"content": [{"type": "text", "text": text}]}


def said(result):
    """The answers that the tool got."""
    return json.loads(result["content"][0]["text"])


def asking(*names, version=L4, at_once=False):
    """An upstream that asks, one question after the other or all at once, and returns all answers."""
    fake = FakeUpstream(version=version, prompts=[{"name": "echo"}], resources=[{"uri": "x:1", "name": "x"}])
    fake.said = []

    async def handle(message, conversation):
        found = {}

        async def ask(name):
            method, params = QUESTIONS[name]
            if version in (L1, L2, L3):
                params = {key: value for key, value in params.items() if key != "mode"}
            reply = await conversation.ask(method, params)
            found[name] = reply.get("result", reply.get("error"))
            fake.said.append(found[name])

        async with trio.open_nursery() as nursery:
            for name in names:
                if at_once:
                    nursery.start_soon(ask, name)
                else:
                    await ask(name)
        return whole(found, message["method"])

    for method in ("tools/call", "prompts/get", "resources/read"):
        fake.on[method] = handle
    return fake


def retry(result, answers, params=CALL):
    """The params of a retry with `answers`, by key."""
    return {**params, "inputResponses": answers, "requestState": result["requestState"]}


async def begin(host, params=CALL, method="tools/call"):
    """Call a tool that asks; returns the result of the first request."""
    result = await host.result(method, params)
    assert result["resultType"] == "input_required", result
    return result


def calls(fake, method="tools/call"):
    """All its calls."""
    return [message for each in fake.conversations for message in each.of(method)]


# --- answered ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-10", "R-1", "R-3", "R-14", "G-10")
async def test_a_host_comes_back_with_the_answer(pair, autojump_clock):
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await begin(host)
        assert first["inputRequests"] == {
            "q1": {"method": "elicitation/create", "params": {**FORM, "message": "[files] Name?"}}
        }
        await trio.sleep(600)  # people take as long as they take
        assert [row.parked for row in (await house.api.status()).upstreams] == [1]
        second = await host.result("tools/call", retry(first, {"q1": YES}))
        assert (second["resultType"], said(second)) == ("complete", {"form": YES})
        assert len(calls(fake)) == 1
        assert [row.parked for row in (await house.api.status()).upstreams] == [0]


@pytest.mark.covers("R-4", "R-10", "F-I-10")
async def test_several_questions_in_several_rounds(pair, autojump_clock):
    fake = asking(*QUESTIONS, at_once=True)
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        result = await begin(host)
        assert result["inputRequests"].keys() == {"q1", "q2", "q3"}
        for left in (2, 1):
            key, request = next(iter(result["inputRequests"].items()))
            answer = retry(result, {key: ANSWERS[request["method"]], "q9": YES})
            result = await host.result("tools/call", answer)
            assert len(result["inputRequests"]) == left
            assert key not in result["inputRequests"]
        for method, answer in ANSWERS.items():
            host.on[method] = lambda params, answer=answer: answer
        last = await host.result("tools/call", await host.fulfil(CALL, result))
        assert said(last) == {"form": YES, "prompt": SAMPLED, "roots": ROOTS}
        assert len(calls(fake)) == 1


@pytest.mark.covers("R-2", "R-13")
@pytest.mark.parametrize("method", ["prompts/get", "resources/read"])
async def test_prompts_and_resources_may_ask_too(pair, autojump_clock, method):
    params = {"name": "files__echo"} if method == "prompts/get" else {"uri": "x:1"}
    async with a_house({"files": asking("form", "form")}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        host.on["elicitation/create"] = lambda params: YES
        result = await host.result(method, params)
        assert "Ann" in json.dumps(result)
        assert [asked["id"] for asked in host.asked] == ["q1", "q2"]
        assert (result.get("ttlMs", 0), result.get("cacheScope", "private")) == (0, "private")


@pytest.mark.covers("R-5")
@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_every_revision_asks(pair, autojump_clock, version):
    names = ["prompt"] if version in (L1, L2) else ["prompt", "form"]
    async with a_house({"files": asking(*names, version=version)}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        for method, answer in ANSWERS.items():
            host.on[method] = lambda params, answer=answer: answer
        assert said(await host.call("files__echo"))["prompt"] == SAMPLED


async def test_the_first_question_of_a_shared_upstream(pair, autojump_clock):
    async with a_house({"files": asking("form")}) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        host.on["elicitation/create"] = lambda params: YES
        for _ in range(2):
            assert said(await host.call("files__echo")) == {"form": YES}


async def test_roots_are_asked_for_once(pair, autojump_clock):
    async with a_house({"files": asking("roots")}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        host.on["roots/list"] = lambda params: ROOTS
        for _ in range(3):
            assert said(await host.call("files__echo")) == {"roots": ROOTS}
        assert len(host.asked) == (1 if pair.carrier == "lines" else 3)  # who comes back by HTTP may be another program


@pytest.mark.covers("P-2")
async def test_progress_follows_whoever_is_attached(pair, autojump_clock):
    fake = FakeUpstream()

    async def handle(message, conversation):
        token = message["params"]["_meta"]["progressToken"]

        async def report(progress):
            await conversation.tell("notifications/progress", {"progressToken": token, "progress": progress})

        await report(1)
        async with trio.open_nursery() as nursery:

            async def ask():
                await conversation.ask(*QUESTIONS["form"])
                await report(3)

            nursery.start_soon(ask)
            await trio.sleep(10)
            await report(2)
        return whole("done")

    fake.on["tools/call"] = handle
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await host.result("tools/call", CALL, token="p1")
        await trio.sleep(20)
        await host.result("tools/call", retry(first, {"q1": YES}), token="p2")
        reports = [(each["progressToken"], each["progress"]) for each in host.of("notifications/progress")]
        assert reports == [("p1", 1), ("p2", 3)]


@pytest.mark.covers("F-I-01", "R-5")
async def test_a_host_that_cannot_be_asked_is_not(pair, autojump_clock):
    fake = asking("form", "prompt", "roots")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities={"sampling": {}})
        host.on["sampling/createMessage"] = lambda params: SAMPLED
        await host.call("files__echo")
        assert [each.get("code") for each in fake.said] == [-32601, None, -32601]
        assert [asked["method"] for asked in host.asked] == ["sampling/createMessage"]


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("R-8", "F-H-15", "F-I-04")
async def test_a_state_is_used_once(pair, autojump_clock):
    fake = asking("form", "form")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await begin(host)
        second = await host.result("tools/call", retry(first, {"q1": YES}))
        error = await host.error("tools/call", retry(first, {"q1": NO}))
        assert (error["code"], error["data"]["reason"]) == (-32602, "request_state_used")
        assert said(await host.result("tools/call", retry(second, {"q2": NO})))["form"] == NO
        error = await host.error("tools/call", retry(second, {"q2": NO}))
        assert error["data"]["reason"] == "request_state_used"
        assert fake.said == [YES, NO]


@pytest.mark.covers("R-7", "F-H-15", "F-I-11")
async def test_a_state_for_another_request_or_a_bad_answer_changes_nothing(pair, autojump_clock):
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        bob = await pair.host(house, capabilities=EVERYTHING, identity=BOB)
        first = await begin(host)
        good = retry(first, {"q1": YES})
        other = retry(first, {"q1": YES}, {**CALL, "arguments": {"a": 8}})
        forged = {**good, "requestState": first["requestState"][:-2] + "xx"}
        for who, params in ((bob, good), (host, other), (host, forged)):
            error = await who.error("tools/call", params)
            assert (error["code"], error["data"]["reason"]) == (-32602, "request_state_invalid")
        error = await host.error("tools/call", retry(first, {"q1": {"action": "perhaps"}}))
        assert error["code"] == -32602
        assert fake.said == []
        assert said(await host.result("tools/call", good)) == {"form": YES}
        assert len(calls(fake)) == 1


@pytest.mark.covers("F-I-10")
async def test_a_state_of_another_life_of_the_hub(pair, autojump_clock):
    async with a_house({"files": asking("form")}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await begin(host)
        await host.result("tools/call", retry(first, {"q1": YES}))
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        error = await host.error("tools/call", retry(first, {"q1": YES}))
        assert (error["code"], error["data"]["reason"]) == (-32602, "upstream_lost")
        assert calls(fake) == []


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-07", "R-9", "P-7")
async def test_nobody_comes_back(pair, autojump_clock):
    fake = asking("form")

    async def stubborn(message, conversation):
        fake.said.append((await conversation.ask(*QUESTIONS["form"]))["result"])

    fake.on["tools/call"] = stubborn
    async with a_house({"files": fake}, upstreams=ALONE, park_ttl_s=120.0) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await begin(host)
        await trio.sleep(121)
        assert fake.said == [{"action": "cancel"}]
        await trio.sleep(2)
        (told,) = fake.conversation.of("notifications/cancelled")
        assert told["params"]["requestId"] == calls(fake)[0]["id"]
        error = await host.error("tools/call", retry(first, {"q1": YES}))
        assert (error["code"], error["data"]["reason"]) == (-32602, "request_state_expired")


@pytest.mark.covers("F-I-10")
async def test_reading_begins_again_where_it_cannot_go_on(pair, autojump_clock):
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE, park_ttl_s=120.0) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        params = {"name": "files__echo"}
        first = await begin(host, params, "prompts/get")
        await trio.sleep(130)
        second = await host.result("prompts/get", retry(first, {"q1": YES}, params))
        assert second["resultType"] == "input_required"  # answers of one call are never given to another
        await host.result("prompts/get", retry(second, {"q1": NO}, params))
        assert fake.said == [{"action": "cancel"}, NO]
        assert all(each["params"].keys() <= {"name", "arguments", "_meta"} for each in calls(fake, "prompts/get"))


@pytest.mark.covers("F-I-10")
@pytest.mark.parametrize("on_lost", ["error", "restart"])
async def test_an_upstream_that_dies_with_a_call_parked(pair, autojump_clock, on_lost):
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE, on_lost=on_lost) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        first = await begin(host)
        for conversation in fake.conversations:
            await conversation.close()
        await trio.sleep(10)
        house.assert_at_rest()
        if on_lost == "error":
            error = await host.error("tools/call", retry(first, {"q1": YES}))
            assert (error["code"], error["data"]["reason"]) == (-32602, "upstream_lost")
            assert len(calls(fake)) == 1
        else:
            second = await begin(host, retry(first, {"q1": YES}))
            assert said(await host.result("tools/call", retry(second, {"q1": NO}))) == {"form": NO}


@pytest.mark.covers("F-I-06")
async def test_an_upstream_that_takes_its_question_back_and_ends(pair, autojump_clock):
    fake = FakeUpstream()

    async def handle(message, conversation):
        with trio.move_on_after(60):
            await conversation.ask(*QUESTIONS["form"], id="mine")
        await conversation.tell("notifications/cancelled", {"requestId": "mine", "reason": "never mind"})
        await trio.sleep(60)
        return whole("without")

    fake.on["tools/call"] = handle
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        for pause_s in (70, 200):  # it runs on; it has ended
            first = await begin(host)
            await trio.sleep(pause_s)
            assert said(await host.result("tools/call", retry(first, {"q1": YES}))) == "without"


@pytest.mark.covers("P-7", "P-10", "F-H-02")
async def test_cancelled_before_and_after_a_retry(pair, autojump_clock):
    fake = FakeUpstream()

    async def handle(message, conversation):
        if "arguments" in message["params"]:
            await conversation.ask(*QUESTIONS["form"])

    fake.on["tools/call"] = handle
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await pair.host(house, capabilities=EVERYTHING)
        running = await host.start("tools/call", {"name": "files__echo"})
        await trio.testing.wait_all_tasks_blocked()
        await host.cancel(running)
        first = await begin(host)
        running = await host.start("tools/call", retry(first, {"q1": YES}))
        await trio.testing.wait_all_tasks_blocked()
        await host.cancel(running)
        await trio.testing.wait_all_tasks_blocked()
        told = [each["params"]["requestId"] for each in fake.conversation.of("notifications/cancelled")]
        assert told == [each["id"] for each in calls(fake)]
        error = await host.error("tools/call", retry(first, {"q1": YES}))
        assert error["data"]["reason"] == "request_state_used"


@pytest.mark.covers("F-I-05", "F-H-01")
async def test_a_host_leaves_with_a_call_parked(autojump_clock):
    fake = asking("form")
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await Pair("ML", "lines").host(house, capabilities=EVERYTHING)
        await begin(host)
        await host.leave()
        await trio.sleep(3)
        assert fake.said in ([{"action": "cancel"}], [])
        house.assert_at_rest()


@pytest.mark.covers("I-2")
async def test_two_hosts_answer_each_its_own(pair, autojump_clock):
    async with a_house({"files": asking("form")}, upstreams=ALONE) as house:
        hosts = [await pair.host(house, capabilities=EVERYTHING, identity=each) for each in (ALICE, BOB)]
        hosts.append(await pair.host(house, capabilities=EVERYTHING, identity=Identity("alice", "laptop")))
        firsts = [await begin(host) for host in hosts]
        for name, host, first in zip("abc", hosts, firsts, strict=True):
            answer = {"action": "accept", "content": {"name": name}}
            assert said(await host.result("tools/call", retry(first, {"q1": answer}))) == {"form": answer}
