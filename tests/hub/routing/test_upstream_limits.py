"""Limits of an upstream through a whole hub: who waits, who is refused, and what a place is held by."""

import pytest
import trio
import trio.testing
from msgspec import structs

from config.settings import Timeouts
from hub.calls.chain import Stage
from hub.control.answers import LimitStatus
from hub.link.call_interface import Identity
from hub.link.hub_errors import DeadlineExceeded
from hub.routing.compose_chains import Line
from hub.wire.jsonrpc import Request, Result, raw
from hub.wire.mcp import HUB_FAILURE, L4, MODERN
from tests.support.failure_facts import but_ref
from tests.support.fakes import FakeHost, FakeUpstream
from tests.support.house import ALICE, BOB, a_house

CAROL = Identity("carol", "desk")
CAN = {"elicitation": {"form": {}}}
FORM = {"message": "Who?", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
ASKS = {"resultType": "input_required", "inputRequests": {"who": {"method": "elicitation/create", "params": FORM}}}
SAID = {"action": "accept", "content": {}}


class Busy(FakeUpstream):
    """Answers calls of `work` one after another, as it is let; `began` has what they said, in order."""

    def __init__(self, version=L4, **more):
        super().__init__(version=version, tools=["work", "echo"], **more)
        self.began: list[str] = []
        self._ends: list[trio.Event] = []
        self.on["tools/call:work"] = self.work

    async def work(self, message, conversation):
        self.began.append(message["params"]["arguments"]["text"])
        self._ends.append(end := trio.Event())
        await end.wait()
        return self.answer(message)

    async def end_one(self):
        self._ends.pop(0).set()
        await trio.testing.wait_all_tasks_blocked()


def a_busy_house(fake=None, **limits):
    fake = fake or Busy()
    settings = {"session_mode": "shared", "across_principals": True, **limits}
    return fake, a_house({"up": fake}, upstreams={"up": settings})


async def begin(host, *texts):
    """Calls that have come as far as they can, one after another."""
    questions = []
    for text in texts:
        questions.append(await host.start("tools/call", {"name": "up__work", "arguments": {"text": text}}))
        await trio.testing.wait_all_tasks_blocked()
    return questions


async def adjust(house, **settings):
    config = house.hub.config
    changed = structs.replace(config.upstreams["up"], **settings)
    house.hub.apply(structs.replace(config, upstreams={"up": changed}))
    await trio.testing.wait_all_tasks_blocked()


def limits_of(house):
    return house.hub.router.chains.limits.status("up")


async def failure(question):
    """The facts of a call that the hub refused, and the text."""
    result = (await question.wait())["result"]
    assert result["isError"]
    return result["_meta"][HUB_FAILURE], result["content"][0]["text"]


async def end_all(fake, *questions):
    while not all(question.done.is_set() for question in questions):
        await fake.end_one()


async def test_without_limits_there_is_no_stage(autojump_clock):
    fake, a_hub = a_busy_house(queue=1)
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, *"abc")
        assert fake.began == [*"abc"]
        assert limits_of(house) is None
        assert (await house.api.status()).upstreams[0].limits is None
        await end_all(fake, *questions)


@pytest.mark.parametrize("version", [L4, MODERN])
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_hosts_take_turns(autojump_clock, carrier, version):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        greedy = await house.host(carrier, version)
        modest = await house.host(carrier, version, identity=BOB)
        questions = await begin(greedy, "a1", "a2", "a3", "a4")
        questions += await begin(modest, "b1", "b2")
        assert fake.began == ["a1"]
        assert limits_of(house) == LimitStatus(running=1, waiting=5)
        assert (await house.api.status()).upstreams[0].limits == LimitStatus(1, 5)
        await end_all(fake, *questions)
        assert fake.began == ["a1", "a2", "b1", "a3", "b2", "a4"]
        assert limits_of(house) == LimitStatus()


@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_the_queue_does_not_hold_is_refused(autojump_clock, version):
    fake, a_hub = a_busy_house(in_flight=1, queue=3)
    async with a_hub as house:
        greedy, modest = await house.host("lines", version), await house.host("lines", version, identity=BOB)
        kept = await begin(greedy, "a1", "a2", "a3")
        late = await begin(greedy, "a4")
        kept += await begin(modest, "b1")
        for question in (*late, *await begin(greedy, "a5")):
            facts, text = await failure(question)
            assert but_ref(facts) == {
                "hub": "overloaded",
                "executed": "no",
                "retryable": True,
                "upstream": "up",
                "retryAfterMs": 1000,
            }
            assert text == "up is busy and its queue is full, so nothing was sent; try again in 1 s"
        await end_all(fake, *kept)
        assert fake.began == ["a1", "a2", "b1", "a3"]


async def test_a_read_that_is_refused_is_an_error(autojump_clock):
    fake = Busy(resources=[{"uri": "note:a", "name": "a"}])
    fake, a_hub = a_busy_house(fake, in_flight=1, queue=0)
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, "a")
        error = await host.error("resources/read", {"uri": "note:a"})
        assert (error["data"]["hub"], error["data"]["executed"]) == ("overloaded", "no")
        await end_all(fake, *questions)


async def test_a_read_that_hosts_share_takes_one_place_and_a_copy_none(autojump_clock):
    fake = Busy(MODERN, resources=[{"uri": "note:a", "name": "a"}])
    gate, reads = trio.Event(), []

    async def read(message, conversation):
        reads.append(message)
        await gate.wait()
        contents = [{"uri": "note:a", "text": "x"}]
        return {"resultType": "complete", "contents": contents, "ttlMs": 60_000, "cacheScope": "public"}

    fake.on["resources/read"] = read
    fake, a_hub = a_busy_house(fake, in_flight=1, queue=0)
    async with a_hub as house:
        hosts = [await house.host(), await house.host(identity=ALICE)]
        questions = [await host.start("resources/read", {"uri": "note:a"}) for host in hosts]
        await trio.testing.wait_all_tasks_blocked()
        assert limits_of(house) == LimitStatus(1, 0)
        gate.set()
        assert all(["result" in await question.wait() for question in questions])
        busy = await begin(hosts[0], "a")
        await hosts[1].result("resources/read", {"uri": "note:a"})
        assert len(reads) == 1
        await end_all(fake, *busy)


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_whoever_cancels_waits_no_more_and_gives_its_place_back(autojump_clock, carrier):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        host = await house.host(carrier)
        first, second, third, last = await begin(host, *"abcd")
        await host.cancel(third)
        await trio.testing.wait_all_tasks_blocked()
        assert limits_of(house) == LimitStatus(1, 2)
        await host.cancel(first)
        await trio.testing.wait_all_tasks_blocked()
        assert fake.began == [*"ab"]
        await end_all(fake, second, last)
        assert fake.began == [*"abd"]
        assert limits_of(house) == LimitStatus()


async def test_a_host_that_leaves_waits_no_more(autojump_clock):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        host, other = await house.host(), await house.host(identity=BOB)
        await begin(host, *"abc")
        (question,) = await begin(other, "o")
        await host.leave()
        await trio.sleep(6)  # it is given a moment for what it has asked
        assert fake.began == [*"ao"]
        fake._ends.pop(0)
        await end_all(fake, question)


async def test_the_time_in_the_queue_counts(autojump_clock):
    times = Timeouts(call=100.0, call_total=10.0)
    fake, a_hub = a_busy_house(in_flight=1, timeouts=times)
    async with a_hub as house:
        host, other = await house.host(), await house.host(identity=BOB)
        (first,) = await begin(host, "a")
        await trio.sleep(4)
        second, third = await begin(other, "b", "c")
        facts, text = await failure(first)
        assert (facts["hub"], facts["executed"]) == ("upstream_timeout", "unknown")
        assert trio.current_time() == pytest.approx(10, abs=0.5)
        facts, _ = await failure(second)
        assert (facts["hub"], facts["executed"]) == ("upstream_timeout", "unknown")
        assert trio.current_time() == pytest.approx(14, abs=0.5), "of its ten seconds it waited six"
        facts, text = await failure(third)
        assert trio.current_time() == pytest.approx(14, abs=0.5)
        assert but_ref(facts) == {"hub": "upstream_timeout", "executed": "no", "retryable": False, "upstream": "up"}
        assert text == "up is busy: the call waited in its queue until its time was up, and nothing was sent"
        assert fake.began == [*"ab"]


async def test_so_many_begin_within_a_minute(autojump_clock):
    _, a_hub = a_busy_house(per_minute=2, queue=3)
    async with a_hub as house:
        host, other = await house.host(), await house.host(identity=BOB)
        began = trio.current_time()
        for _ in range(2):
            await host.call("up__echo")
        await host.names()
        questions = [await each.start("tools/call", {"name": "up__echo"}) for each in (host, host, other)]
        await trio.testing.wait_all_tasks_blocked()
        facts, _ = await failure(await host.start("tools/call", {"name": "up__echo"}))
        assert (facts["hub"], facts["retryAfterMs"]) == ("overloaded", 60_000)
        ends = []
        for question in (questions[0], questions[2], questions[1]):
            await question.wait()
            ends.append(trio.current_time() - began)
        assert ends == pytest.approx([60, 60, 120], abs=0.5)
        await trio.sleep(60)
        assert limits_of(house) == LimitStatus()


async def test_other_limits_take_effect_at_once(autojump_clock):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, *"abcdef")
        await adjust(house, in_flight=3)
        assert sorted(fake.began) == [*"abc"]
        await adjust(house, in_flight=1, queue=1)
        facts, _ = await failure(questions[5])
        assert facts["hub"] == "overloaded"
        await failure(questions[4])
        await fake.end_one()
        await fake.end_one()
        assert (len(fake.began), limits_of(house)) == (3, LimitStatus(1, 1))
        await fake.end_one()
        assert fake.began[3:] == ["d"]
        late = await begin(host, "g")
        await adjust(house, in_flight=0)
        assert (fake.began[4:], limits_of(house)) == (["g"], None)
        await adjust(house, in_flight=1)
        late += await begin(host, "h")
        assert limits_of(house) == LimitStatus(2, 1), "those that were counted before still are"
        await end_all(fake, *late, *questions[:4])


async def test_a_limit_is_set_and_taken_back_while_calls_run(autojump_clock):
    fake, a_hub = a_busy_house()
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, *"ab")
        await adjust(house, in_flight=1)
        questions += await begin(host, *"cd")
        assert fake.began == [*"abc"], "what ran before is not counted"
        await adjust(house, per_minute=0, in_flight=0)
        assert fake.began == [*"abcd"]
        await end_all(fake, *questions)
        await adjust(house, prefix="up")
        assert house.hub.router.chains.limits._known == {}


async def test_a_successor_shares_the_count(autojump_clock):
    old, new = Busy(), Busy()
    _, a_hub = a_busy_house(old, in_flight=1)
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, *"ab")
        house.fakes["up"] = new
        await adjust(house, url="http://new/", command=None)
        await trio.sleep(1)
        questions += await begin(host, "c")
        assert (old.began, new.began) == (["a"], [])
        assert limits_of(house) == LimitStatus(1, 2)
        await old.end_one()
        await trio.sleep(1)
        assert (old.began, new.began) == (["a"], ["b"]), "the successor carries on"
        await end_all(new, *questions)
        assert new.began == [*"bc"]


async def test_what_waits_for_an_upstream_that_goes_is_told(autojump_clock):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        host = await house.host()
        first, second = await begin(host, *"ab")
        house.hub.apply(structs.replace(house.hub.config, upstreams={}))
        facts, _ = await failure(second)
        assert (facts["hub"], facts["executed"]) == ("upstream_unavailable", "no")
        await end_all(fake, first)


async def test_no_place_is_held_by_a_person_and_the_next_round_goes_first(autojump_clock):
    fake = Busy(MODERN)
    fake.on["tools/call:echo"] = lambda message, _: (
        fake.answer(message) if "inputResponses" in message["params"] else ASKS
    )
    fake, a_hub = a_busy_house(fake, in_flight=1)
    async with a_hub as house:
        host = await house.host("http", MODERN, capabilities=CAN)
        other = await house.host(identity=BOB)
        asked = await host.result("tools/call", {"name": "up__echo", "arguments": {}})
        assert asked["resultType"] == "input_required"
        assert limits_of(house) == LimitStatus()
        questions = await begin(other, *"ab")
        more = {"inputResponses": {"who": SAID}, "requestState": asked["requestState"]}
        unasked = {"name": "up__echo", "arguments": {"text": "u"}, "inputResponses": {"who": SAID}}
        early = await host.start("tools/call", unasked)
        round = await host.start("tools/call", {"name": "up__echo", "arguments": {}, **more})
        await trio.testing.wait_all_tasks_blocked()
        assert limits_of(house) == LimitStatus(1, 3)
        await fake.end_one()
        assert round.done.is_set()
        assert not early.done.is_set(), "answers that nobody asked for begin something"
        assert fake.began == [*"ab"]
        await end_all(fake, *questions, early)


async def test_a_parked_call_holds_its_place_and_its_retry_needs_none(autojump_clock):
    fake = Busy()

    async def ask(message, conversation):
        await conversation.ask("elicitation/create", FORM)
        return fake.answer(message)

    fake.on["tools/call:echo"] = ask
    fake, a_hub = a_busy_house(fake, in_flight=1, queue=1)
    async with a_hub as house:
        host = await house.host("http", MODERN, capabilities=CAN)
        asked = await host.result("tools/call", {"name": "up__echo", "arguments": {}})
        assert limits_of(house) == LimitStatus(1, 0)
        (waiting,) = await begin(host, "a")
        more = {"inputResponses": {next(iter(asked["inputRequests"])): SAID}, "requestState": asked["requestState"]}
        assert "content" in await host.result("tools/call", {"name": "up__echo", "arguments": {}, **more})
        await trio.testing.wait_all_tasks_blocked()
        assert fake.began == ["a"]
        await end_all(fake, waiting)


async def test_calls_by_way_of_search_count_as_the_tool_does(autojump_clock):
    fake, a_hub = a_busy_house(in_flight=1, queue=0)
    async with a_hub as house:
        host = await house.host()
        questions = await begin(host, "a")
        host.via = "hub__call_tool"
        facts, _ = await failure(await host.start("tools/call", {"name": "up__echo"}))
        assert facts["hub"] == "overloaded"
        await end_all(fake, *questions)


# --- a stage more -----------------------------------------------------------------------------------------------------


class CallsByHost(Stage):
    """Counts calls by host: what a new file would hold."""

    def __init__(self):
        self.counts = {}

    def admits(self, intent):
        host = intent.host.caller.identity.principal
        self.counts[host] = self.counts.get(host, 0) + 1


async def test_a_new_stage_is_a_class_and_a_line_of_the_table(autojump_clock):
    _, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        stage, chains = CallsByHost(), house.hub.router.chains
        chains.outer.append(Line(stage))
        house.hub.apply(house.hub.config)
        host, other = await house.host(), await house.host("http", MODERN, identity=BOB)
        for each in (host, other, host):
            await each.call("up__echo")
        assert stage.counts == {"alice": 2, "bob": 1}


class Outcomes(Stage):
    """Collects how operations ended."""

    def __init__(self):
        self.kinds = []

    def left(self, intent, outcome):
        self.kinds.append(type(outcome))


@pytest.mark.parametrize("section", ["outer", "inner"])
async def test_a_stage_hears_whether_there_was_a_reply_an_error_or_a_cancellation(autojump_clock, section):
    _, a_hub = a_busy_house(timeouts=Timeouts(call=5))
    async with a_hub as house:
        stage, chains = Outcomes(), house.hub.router.chains
        getattr(chains, section).append(Line(stage))
        house.hub.apply(house.hub.config)
        host = await house.host()
        await host.call("up__echo")
        await failure((await begin(host, "late"))[0])
        [cancelled] = await begin(host, "enough")
        await host.cancel(cancelled)
        await trio.testing.wait_all_tasks_blocked()
        assert stage.kinds == [Result, DeadlineExceeded, type(None)]


# --- calls that are begun without a task ------------------------------------------------------------------------------


def a_request(id):
    params = {"name": raw("up__work"), "arguments": raw({"text": str(id)})}
    return Request(id, "tools/call", params)


async def test_a_call_that_is_sent_at_once_has_a_place_until_its_reply(autojump_clock):
    fake, a_hub = a_busy_house(in_flight=1)
    async with a_hub as house:
        await (await house.host()).call("up__echo")
        router, replies = house.hub.router, []
        hosts = [FakeHost() for _ in range(3)]
        sent = router.begin(a_request(1), hosts[0], replies.append)
        assert sent is not None
        assert limits_of(house) == LimitStatus(1, 0)
        assert router.begin(a_request(2), hosts[1], replies.append) is None, "it has to wait"
        house.nursery.start_soon(router.dispatch, a_request(2), hosts[1])
        await trio.testing.wait_all_tasks_blocked()
        assert (fake.began, limits_of(house)) == (["1"], LimitStatus(1, 1))
        await fake.end_one()
        assert len(replies) == 1
        assert (fake.began, limits_of(house)) == (["1", "2"], LimitStatus(1, 0))
        await fake.end_one()
        sent = router.begin(a_request(3), hosts[2], replies.append)
        sent.cancel()
        assert (len(replies), replies[1], limits_of(house)) == (2, None, LimitStatus())


async def test_what_is_cancelled_before_its_turn_comes_gives_its_place_back(autojump_clock):
    _, a_hub = a_busy_house(in_flight=1, idle_stop_s=5)
    async with a_hub as house:
        await (await house.host()).call("up__echo")
        await trio.sleep(20)
        host = FakeHost()
        assert house.hub.router.begin(a_request(1), host, print) is None, "its server has to be started first"
        assert limits_of(house) == LimitStatus(1, 0)
        host.close()
        assert limits_of(house) == LimitStatus()
