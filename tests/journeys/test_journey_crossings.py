"""Nothing crosses between hosts, accounts, programs that look alike, and runs of an upstream."""

import json

import pytest
import trio
import trio.testing

from hub.calls.host_exchange import MAX_UNTOLD
from hub.link.call_interface import Identity
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house

DESK = Identity(ALICE.principal, "other desk")
FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
ALONE = {"files": {"session_mode": "per_host"}}
CALL = {"name": "files__echo", "arguments": {}}

settle = trio.testing.wait_all_tasks_blocked


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def said(result):
    return result["content"][0]["text"]


# --- roots ------------------------------------------------------------------------------------------------------------


def rooted(*, again=False):
    """A legacy upstream whose tool says which roots its host has; `again`: it asks twice."""
    fake = FakeUpstream()

    async def echo(message, conversation):
        for _ in range(1 + again):
            answer = await conversation.ask("roots/list")
        return text(json.dumps(answer.get("result", answer.get("error"))))

    fake.on["tools/call"] = echo
    return fake


def roots(name):
    return {"roots": [{"uri": f"file:///{name}"}]}


@pytest.mark.covers("I-2", "SEC-20")
@pytest.mark.parametrize("again", [False, True])
async def test_programs_with_one_token_do_not_get_each_others_roots(autojump_clock, again):
    async with a_house({"files": rooted(again=again)}, upstreams=ALONE) as house:
        for name in ("one", "two", "one"):
            host = await house.host("http", MODERN, capabilities={"roots": {}})
            host.on["roots/list"] = lambda params, name=name: roots(name)
            assert json.loads(said(await host.result("tools/call", CALL))) == roots(name)
            assert len(host.asked) == 1


@pytest.mark.covers("G-11")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_an_upstream_that_hears_of_other_roots_asks_for_them_at_once(autojump_clock, carrier):
    fake = rooted()
    found = []

    async def changed(message, conversation):
        found.append(await conversation.ask("roots/list"))

    fake.on["notifications/roots/list_changed"] = changed
    async with a_house({"files": fake}, upstreams=ALONE) as house:
        host = await house.host(carrier, L4, capabilities={"roots": {"listChanged": True}})
        host.on["roots/list"] = lambda params: roots("old")
        assert json.loads(said(await host.result("tools/call", CALL))) == roots("old")
        host.on["roots/list"] = lambda params: roots("new")
        await host.tell("notifications/roots/list_changed")
        await settle()
        assert [each.get("result") for each in found] == [roots("new")]


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-12", "I-2")
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_a_cancelled_call_still_says_is_not_said_to_others(autojump_clock, version):
    fake = FakeUpstream(version=version)
    gate = trio.Event()

    async def echo(message, conversation):
        await gate.wait()
        await conversation.tell("notifications/message", {"level": "error", "data": message["params"]["arguments"]})
        await trio.sleep(1)
        return {"resultType": "complete", **text("done")} if version == MODERN else text("done")

    fake.on["tools/call"] = echo
    async with a_house({"files": fake}, upstreams={"files": {"session_mode": "shared"}}) as house:
        one, two = await house.host("lines", L4), await house.host("lines", L4, identity=DESK)
        for host in (one, two):
            await host.set_level("error")
        gone = await one.start("tools/call", {"name": "files__echo", "arguments": {"whose": "one"}})
        await settle()
        await one.cancel(gone)
        question = await two.start("tools/call", {"name": "files__echo", "arguments": {"whose": "two"}})
        await settle()
        gate.set()
        await question.wait()
        assert all(params["data"] == {"whose": "two"} for params in two.of("notifications/message"))


@pytest.mark.covers("F-I-12", "SEC-22")
async def test_logs_of_an_upstream_that_served_several_accounts_go_to_none(autojump_clock):
    fake = FakeUpstream()

    async def echo(message, conversation):
        await conversation.tell("notifications/message", {"level": "error", "data": "whose?"})
        await trio.sleep(1)
        return text("done")

    fake.on["tools/call"] = echo
    shared = {"files": {"session_mode": "shared", "across_principals": True}}
    async with a_house({"files": fake}, upstreams=shared) as house:
        one, two = await house.host("lines", L4), await house.host("lines", L4, identity=BOB)
        for host, expected in ((one, 1), (two, 0), (one, 1)):
            await host.set_level("error")
            await host.result("tools/call", CALL)
            assert len(host.of("notifications/message")) == expected


# --- subscriptions ----------------------------------------------------------------------------------------------------


@pytest.mark.covers("F-H-24", "I-12")
@pytest.mark.parametrize("then", ["unsubscribe", "leave"])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_resource_subscribed_to_twice_at_one_time_is_one(autojump_clock, carrier, then):
    fake = FakeUpstream(resources=[{"uri": "a:1", "name": "a"}])
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, L4)
        both = [await host.start_without_waiting("resources/subscribe", {"uri": "a:1"}) for _ in range(2)]
        for each in both:
            assert (await each.wait())["result"] == {}
        await fake.touch("a:1")
        await settle()
        assert len(host.of("notifications/resources/updated")) == 1
        if then == "unsubscribe":
            await host.result("resources/unsubscribe", {"uri": "a:1"})
            await fake.touch("a:1")
            await settle()
            assert len(host.of("notifications/resources/updated")) == 1
        await host.leave()
        await host.end()
        await trio.sleep(60)
        assert fake.watched() == []


@pytest.mark.covers("F-H-02")
async def test_one_of_two_equal_subscriptions_is_cancelled(autojump_clock):
    fake = FakeUpstream(resources=[{"uri": "a:1", "name": "a"}])
    gate = trio.Event()

    async def subscribe(message, conversation):
        await gate.wait()
        conversation.subscribed.add(message["params"]["uri"])
        return {}

    fake.on["resources/subscribe"] = subscribe
    async with a_house({"files": fake}) as house:
        host = await house.host("lines", L4)
        one, two = [await host.start("resources/subscribe", {"uri": "a:1"}) for _ in range(2)]
        await settle()
        await host.cancel(one)
        await settle()
        gate.set()
        assert (await two.wait())["result"] == {}
        await fake.touch("a:1")
        await settle()
        assert len(host.of("notifications/resources/updated")) == 1


@pytest.mark.covers("I-5")
async def test_not_everything_is_remembered_for_a_host_that_listens_nowhere(autojump_clock):
    fake = FakeUpstream(resources=[{"uri": "file:///w/", "name": "w"}])
    async with a_house({"files": fake}) as house:
        host = await house.host("http", L4)
        await host.result("resources/subscribe", {"uri": "file:///w/"})
        host.listening.leave()
        await settle()
        for number in range(5_000):
            await fake.touch(f"file:///w/{number}", of="file:///w/")
        await fake.touch("file:///w/" + "x" * 10_000, of="file:///w/")
        await trio.sleep(20)
        [session] = house.endpoint.sessions
        assert len(session._untold) == MAX_UNTOLD
        assert max(map(len, session._untold)) < 100


# --- what was not offered ---------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-01", "R-5")
@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize(
    ("terms", "method"), [({"client_features": "none"}, "elicitation/create"), ({"roots": "none"}, "roots/list")]
)
async def test_what_the_configuration_keeps_back_is_asked_of_no_host(autojump_clock, version, terms, method):
    fake = FakeUpstream(version=MODERN)
    asked = {"method": method, "params": FORM if "elicitation" in method else {}}
    fake.on["tools/call"] = lambda message, conversation: {
        "resultType": "input_required",
        "inputRequests": {"k": asked},
        "requestState": "s",
    }
    async with a_house({"files": fake}, upstreams={"files": terms}) as house:
        host = await house.host("lines", version, capabilities={"elicitation": {}, "roots": {}})
        answer = await host.ask("tools/call", CALL)
        assert answer["result"]["isError"], answer
        assert host.asked == []


# --- lives of an upstream ---------------------------------------------------------------------------------------------


@pytest.mark.covers("F-I-10", "R-19")
@pytest.mark.parametrize("mode", ["error", "restart"])
async def test_a_state_of_an_upstream_that_speaks_another_era_by_now(autojump_clock, mode):
    fake = FakeUpstream(version=MODERN)
    asked = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
    fake.on["tools/call"] = lambda message, conversation: {
        "resultType": "input_required",
        "inputRequests": {"k": asked},
        "requestState": "s",
    }
    async with a_house({"files": fake}, on_lost=mode) as house:
        host = await house.host("lines", MODERN, capabilities={"elicitation": {}})
        result = (await host.ask("tools/call", CALL))["result"]
        assert result["resultType"] == "input_required"
        fake.version, fake.era = L4, fake.era.LEGACY
        calls = []
        fake.on["tools/call"] = lambda message, conversation: calls.append(message["params"]) or text("ran")
        await fake.conversation.close()
        await trio.sleep(10)
        retry = {**CALL, "inputResponses": {"k": {"action": "accept"}}, "requestState": result["requestState"]}
        answer = await host.ask("tools/call", retry)
        if mode == "error":
            assert answer["error"]["data"]["reason"] == "upstream_lost"
            assert calls == []
        else:
            assert said(answer["result"]) == "ran"
            assert not any({"inputResponses", "requestState"} & params.keys() for params in calls)


@pytest.mark.covers("D-13")
async def test_a_host_does_not_keep_a_session_on_which_nothing_can_be_attributed(autojump_clock):
    fake = FakeUpstream()

    async def echo(message, conversation):
        answer = await conversation.ask("elicitation/create", FORM)
        return text(json.dumps(answer.get("result", answer.get("error"))))

    fake.on["tools/call"] = echo
    async with a_house({"files": fake}, upstreams={"files": {"across_principals": True}}) as house:
        one, two = (
            await house.host("lines", L4),
            await house.host("lines", L4, identity=BOB, capabilities={"elicitation": {}}),
        )
        fake.on["tools/call"] = lambda message, conversation: text("plain")
        await one.result("tools/call", CALL)
        fake.on["tools/call"] = echo
        two.on["elicitation/create"] = lambda params: {"action": "decline"}
        assert json.loads(said(await two.result("tools/call", CALL)))["code"] == -32602
        assert json.loads(said(await two.result("tools/call", CALL))) == {"action": "decline"}
