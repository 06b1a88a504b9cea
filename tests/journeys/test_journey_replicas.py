"""Whole hubs behind a balancer without affinity: ids and states of hosts lead to the right hub."""

import json

import pytest
import trio
import trio.testing
from msgspec import structs

from config.security_settings import PolicyConfig
from hub.bridge.sealed_request_state import ELSEWHERE, LOST
from hub.bridge.tasks.polled_tasks import PURPOSE as TASK
from hub.link.sealing import Keys
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L4, MODERN
from tests.journeys.test_journey_tasks import EXTENSION, TaskServer, text
from tests.journeys.test_journey_visits import Linked
from tests.support.fakes import FakeUpstream
from tests.support.fleet_house import KEY, Fleet, FleetHost, Replica
from tests.support.http_fakes import ALICE, BOB, Answered
from tests.support.parking import statistics_of

NEXT = b"n" * 32
FORM = {"mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}}}
YES = {"action": "accept", "content": {"name": "Ann"}}
ELICITS = {"elicitation": {"form": {}, "url": {}}}
CALL = {"name": "files__echo", "arguments": {}}


def asking() -> FakeUpstream:
    """A tool that asks, and returns the answer."""
    fake = FakeUpstream(version=L4)

    async def call(message, conversation):
        answer = await conversation.ask("elicitation/create", FORM)
        return text(json.dumps(answer.get("result")))

    fake.on["tools/call"] = call
    return fake


class Working(TaskServer):
    """Its tool is a task that ends when the test says so."""

    def __init__(self) -> None:
        super().__init__(L4, self.wait)
        self.go = trio.Event()
        self.poll_ms = 250

    async def wait(self, task) -> None:
        await self.go.wait()
        task.complete(text("at last"))


@pytest.fixture
def start(nursery):
    """Two hubs, each with an upstream of its own."""

    async def begin(make, *keys):
        fleet = Fleet(nursery, fakes={"files": make})
        a, b = [await fleet.start(name, each) for name, each in zip("ab", keys or (KEY, KEY), strict=True)]
        for each in (a, b):
            await each.hub.router.settled.wait()
        return a, b

    return begin


def modern(replica: Replica, identity=ALICE) -> FleetHost:
    return FleetHost(replica.gate, identity)


async def ask(host, method, params, capabilities=ELICITS, **more) -> Answered:
    return await host.modern(method, params, meta={CLIENT_CAPABILITIES_KEY: capabilities}, **more)


async def parked(host):
    """The params of a retry that answers the question of a call."""
    result = (await ask(host, "tools/call", CALL)).last["result"]
    assert result["resultType"] == "input_required", result
    responses = dict.fromkeys(result["inputRequests"], YES)
    return {**CALL, "inputResponses": responses, "requestState": result["requestState"]}


def said(answered):
    return json.loads(answered.last["result"]["content"][0]["text"])


@pytest.mark.covers("POL-22")
async def test_the_answer_to_an_approval_finds_its_hub(start):
    a, b = await start(asking)
    for each in (a, b):
        each.hub.apply(structs.replace(each.hub.config, policy=PolicyConfig(ask=("*",))))
    host = modern(a)
    asked = (await ask(host, "tools/call", CALL)).last["result"]
    assert set(asked["inputRequests"]) == {"hub-approval"}
    yes = {"hub-approval": {"action": "accept", "content": {"decision": "once"}}}
    retry = {**CALL, "inputResponses": yes, "requestState": asked["requestState"]}
    behind = (await ask(b.turn(host), "tools/call", retry)).last["result"]
    assert "hub-approval" not in behind["inputRequests"]
    responses = dict.fromkeys(behind["inputRequests"], YES)
    last = {**CALL, "inputResponses": responses, "requestState": behind["requestState"]}
    assert said(await ask(b.turn(host), "tools/call", last)) == YES


async def test_the_answer_to_a_parked_call_finds_it(start):
    a, b = await start(asking)
    host = modern(a)
    retry = await parked(host)
    answered = await ask(b.turn(host), "tools/call", retry)
    assert said(answered) == YES
    assert b.gate.forwarder.forwarded == 1
    assert (await ask(host, "tools/call", retry)).last["error"]["data"]["reason"] == "request_state_used"
    fresh = await parked(host)
    assert said(await ask(host, "tools/call", fresh)) == YES
    assert b.gate.forwarder.forwarded == 2, "its own calls are its own affair"


@pytest.mark.covers("SEC-87")
@pytest.mark.parametrize("back", [False, True])
async def test_while_the_key_is_replaced_each_opens_what_the_other_sealed(start, back):
    """Parked calls and sessions alike: one hub has the next key in the second place still, the other in the first."""
    keys = [Keys(KEY, NEXT), Keys(NEXT, KEY)]
    a, b = await start(asking, *(reversed(keys) if back else keys))
    host = modern(a)
    retry = await parked(host)
    assert said(await ask(b.turn(host), "tools/call", retry)) == YES
    session = await a.host()
    listed = await b.turn(session).post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert [tool["name"] for tool in listed.last["result"]["tools"]] == ["files__echo"]
    assert b.gate.forwarder.forwarded == 2
    assert (len(a.endpoint.sessions), len(b.endpoint.sessions)) == (1, 0)


async def test_a_call_that_was_parked_at_a_hub_that_ended(start):
    a, b = await start(asking)
    host = modern(a)
    retry = await parked(host)
    await a.kill()
    assert (await ask(b.turn(host), "tools/call", retry)).last["error"]["data"]["reason"] == LOST


async def test_a_parked_call_of_somebody_else_is_none(start):
    a, b = await start(asking)
    retry = await parked(modern(a))
    for hub in (a, b):
        error = (await ask(modern(hub, BOB), "tools/call", retry)).last["error"]
        assert error["data"]["reason"] == "request_state_invalid"
    assert said(await ask(modern(b), "tools/call", retry)) == YES


async def test_what_is_parked_elsewhere_is_not_said_to_be_lost(start):
    """Who cannot be sent on, such as a host on the unix socket, or what was sent on already, is told where it is."""
    a, b = await start(asking)
    await b.membership.renew()
    retry = await parked(modern(a))
    answered = await ask(modern(b), "tools/call", retry, hubd_forwarded="1")
    assert answered.last["error"]["data"]["reason"] == ELSEWHERE
    assert said(await ask(modern(b), "tools/call", retry)) == YES


async def test_without_the_directory_a_parked_call_waits(start):
    a, b = await start(asking)
    retry = await parked(modern(a))
    a.fleet.facts.away = True
    b.membership.forget(a.durable.run_id)
    answered = await ask(modern(b), "tools/call", retry)
    assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
    a.fleet.facts.away = False
    assert said(await ask(modern(b), "tools/call", retry)) == YES


async def test_cancelling_a_call_at_another_hub(start):
    def hanging():
        fake = FakeUpstream(version=L4)

        async def call(message, conversation):
            await conversation.ask("elicitation/create", FORM)
            await trio.sleep_forever()

        fake.on["tools/call"] = call
        return fake

    a, b = await start(hanging)
    retry = await parked(modern(a))
    host = modern(b)
    answered = b.start(lambda into: ask(host, "tools/call", retry, into=into))
    while len(a.seen) < 1 or statistics_of(a.hub.bridge.parking).parked:
        await trio.lowlevel.checkpoint()
    answered.leave()
    while statistics_of(a.hub.bridge.parking).running:
        await trio.lowlevel.checkpoint()
    while not a.fakes["files"].conversation.of("notifications/cancelled"):
        await trio.lowlevel.checkpoint()


async def test_a_task_is_looked_after_at_any_hub(start):
    a, b = await start(Working)
    begun = (await ask(modern(a), "tools/call", {"name": "files__slow", "arguments": {}}, EXTENSION)).last["result"]
    about = {"taskId": begun["taskId"]}
    looked = (await ask(modern(b), "tasks/get", about, EXTENSION)).last["result"]
    assert looked["status"] == "working"
    listening = Answered()
    b.start(
        lambda _: ask(
            modern(b),
            "subscriptions/listen",
            {"notifications": {"taskIds": [begun["taskId"]]}},
            EXTENSION,
            into=listening,
        )
    )
    while not listening.messages:
        await listening.arrived.wait()
    assert listening.messages[0]["params"]["notifications"]["taskIds"] == [begun["taskId"]]
    a.fakes["files"].go.set()
    while listening.last.get("params", {}).get("status") != "completed":
        await listening.arrived.wait()
    looked = (await ask(modern(b), "tasks/get", about, EXTENSION)).last["result"]
    assert looked["result"]["content"] == text("at last")["content"]
    listening.leave()


async def test_a_task_of_a_hub_that_ended_is_lost(start):
    a, b = await start(Working)
    begun = (await ask(modern(a), "tools/call", {"name": "files__slow", "arguments": {}}, EXTENSION)).last["result"]
    about = {"taskId": begun["taskId"]}
    await b.membership.renew()
    elsewhere = await ask(modern(b), "tasks/get", about, EXTENSION, hubd_forwarded="1")
    assert "another hub" in elsewhere.last["error"]["message"]
    await a.kill()
    looked = (await ask(modern(b), "tasks/get", about, EXTENSION)).last["result"]
    assert (looked["status"], looked["error"]["data"]["hub"]) == ("failed", "upstream_lost")
    assert b.hub.sealer.open(TASK, begun["taskId"])


async def test_a_visit_is_waited_for_where_it_will_be_heard_of(start):
    a, b = await start(Linked)
    host = modern(a)
    result = (await ask(host, "tools/call", CALL)).last["result"]
    retry = {**CALL, "inputResponses": {"q1": {"action": "accept"}}, "requestState": result["requestState"]}
    await a.fakes["files"].link()
    answered = await ask(b.turn(host), "tools/call", retry)
    assert answered.last["result"]["content"][0]["text"] == "linked"
    assert not b.fakes["files"].linked
    assert host.version == L4 != MODERN


async def test_what_depends_on_no_hub_is_answered_anywhere(start):
    a, b = await start(lambda: FakeUpstream(version=L4))
    answered = await ask(modern(b), "tools/list", {})
    assert answered.status == 200
    assert (a.seen, b.gate.forwarder.forwarded) == ([], 0)
