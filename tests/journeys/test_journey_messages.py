"""Messages during a request: progress, log messages, cancellation."""

import re

import pytest
import trio
import trio.testing

from config.settings import Timeouts
from hub.link.call_interface import Identity
from hub.wire.jsonrpc import Failure
from hub.wire.mcp import L4, MODERN
from tests.support.failure_facts import but_ref
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house
from upstreams.questions.attribution import SUSPECT_S

TIMEOUTS = Timeouts(call=60)


def reporting(pair, *values, then=None, every_s=0.0, total=None):
    """An upstream whose tool reports these values of progress."""
    fake = pair.fake()

    async def call(message, conversation):
        token = message["params"].get("_meta", {}).get("progressToken")
        for value in values:
            more = {} if total is None else {"total": total}
            params = {"progressToken": token, "progress": value, "message": f"at {value}", **more}
            if token is not None:
                await conversation.tell("notifications/progress", params)
            await trio.sleep(every_s)
        if then is not None:
            await then.wait()
        return pair.whole(content=[])

    fake.on["tools/call"] = call
    return fake


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("P-1", "P-2", "G-2")
@pytest.mark.parametrize("token", ["seven", "7", 7, 0, ""])
async def test_progress_comes_back_under_the_hosts_token(pair, autojump_clock, token):
    async with pair.house({"files": reporting(pair, 0.5, 1, 2.25, total=4)}) as (_, host):
        question = await host.start("tools/call", {"name": "files__echo"}, token=token)
        await question.wait()
        heard = [message["params"] for message in question.heard]
        assert heard == [
            {"progressToken": token, "progress": value, "total": 4, "message": f"at {value}"}
            for value in (0.5, 1, 2.25)
        ]
        assert all(type(each["progressToken"]) is type(token) for each in heard)


@pytest.mark.covers("P-2")
async def test_progress_rises_strictly(pair, autojump_clock):
    async with pair.house({"files": reporting(pair, 1, 1, 3, 2, 3, 4)}) as (_, host):
        question = await host.start("tools/call", {"name": "files__echo"}, token="t")
        await question.wait()
        assert [message["params"]["progress"] for message in question.heard] == [1, 3, 4]


@pytest.mark.covers("P-3")
async def test_a_flood_of_progress_is_thinned_and_the_newest_arrives(pair, autojump_clock):
    async with pair.house({"files": reporting(pair, *range(200))}) as (_, host):
        question = await host.start("tools/call", {"name": "files__echo"}, token="t")
        await question.wait()
        heard = [message["params"]["progress"] for message in question.heard]
        assert heard == sorted(set(heard))
        assert len(heard) <= 12
        assert heard[-1] == 199


@pytest.mark.covers("P-2")
@pytest.mark.parametrize("every_s", [20.0, 0.0])
async def test_a_host_hears_that_a_silent_upstream_is_waited_for(pair, autojump_clock, every_s):
    release = trio.Event()
    async with pair.house({"files": reporting(pair, 1, then=release)}, synthetic_progress_s=every_s) as (_, host):
        question = await host.start("tools/call", {"name": "files__echo"}, token="t")
        await trio.sleep(50)
        release.set()
        await question.wait()
        await trio.sleep(50)
        heard = [message["params"] for message in question.heard]
        values = [each["progress"] for each in heard]
        assert values == sorted(set(values))
        assert [each["message"] for each in heard] == ["at 1"] + ["the call is still running, says hubd"] * (
            2 if every_s else 0
        )
        assert max(values) < 1.1


async def test_nobody_hears_of_progress_that_was_not_asked_for(pair, autojump_clock):
    fake = reporting(pair, 1, 2)

    async def chatty(message, conversation):
        for token in (message["id"], "made up", 12345, None, 1.5):
            await conversation.tell("notifications/progress", {"progressToken": token, "progress": 1})
        return pair.whole(content=[])

    fake.on["tools/call"] = chatty
    async with pair.house({"files": fake}) as (_, host):
        await host.call("files__echo")
        assert host.heard == []
        [sent] = fake.conversation.of("tools/call")
        assert "progressToken" not in sent["params"].get("_meta", {})


async def test_progress_resets_the_idle_time(pair, autojump_clock):
    fake = reporting(pair, *range(10), every_s=40)
    async with pair.house({"files": fake}, upstreams={"files": {"timeouts": TIMEOUTS}}) as (_, host):
        assert "isError" not in await host.call("files__echo", token=1)
        result = await host.call("files__echo")
        assert but_ref(result["_meta"]["dev.hubd/failure"]) == {
            "hub": "upstream_timeout",
            "executed": "unknown",
            "retryable": False,
            "upstream": "files",
        }
        await trio.testing.wait_all_tasks_blocked()
        assert len(fake.conversation.of("notifications/cancelled")) == 1
        await trio.sleep(1000)


# --- log messages -----------------------------------------------------------------------------------------------------


def logging(pair, *levels, fake=None):
    """An upstream whose tool logs once at each of these levels, if it was told to, as servers do."""
    fake = fake or pair.fake()
    order = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

    async def call(message, conversation):
        meta = message["params"].get("_meta", {})
        wanted = meta.get("io.modelcontextprotocol/logLevel")
        if pair.to_legacy:
            levels_set = conversation.of("logging/setLevel")
            wanted = levels_set[-1]["params"]["level"] if levels_set else None
        for level in levels:
            if wanted is not None and order.index(level) >= order.index(wanted):
                await conversation.tell("notifications/message", {"level": level, "logger": "disk", "data": level})
        return pair.whole(content=[])

    fake.on["tools/call"] = call
    return fake


@pytest.mark.covers("S-23", "N-9", "N-10")
async def test_log_messages_of_the_wanted_levels_arrive(pair, autojump_clock):
    fake = logging(pair, "debug", "info", "error")
    async with pair.house({"files": fake}) as (_, host):
        await host.call("files__echo")
        assert host.of("notifications/message") == []
        await host.set_level("info")
        await host.call("files__echo")
        assert host.of("notifications/message") == [
            {"level": level, "logger": "files/disk", "data": level} for level in ("info", "error")
        ]


@pytest.mark.parametrize("level", ["debug", "emergency"])
async def test_the_level_is_set_before_the_call_that_wants_it(pair, autojump_clock, level):
    fake = logging(pair, "debug", "emergency")
    slow = trio.Event()

    async def hesitate(message, conversation):
        await slow.wait()
        return {}

    if pair.to_legacy:
        fake.on["logging/setLevel"] = hesitate
    async with pair.house({"files": fake}) as (house, host):
        await host.set_level(level)
        question = await host.start("tools/call", {"name": "files__echo"})
        other = await pair.host(house, identity=BOB)
        await other.call("files__echo")  # who wants no messages does not wait
        await trio.testing.wait_all_tasks_blocked()
        assert question.done.is_set() != pair.to_legacy
        slow.set()
        await question.wait()
        assert len(fake.conversation.of("logging/setLevel")) == pair.to_legacy


async def test_an_upstream_that_takes_no_level_is_called_all_the_same(pair, autojump_clock):
    fake = pair.fake()
    del fake.capabilities["logging"]
    async with pair.house({"files": fake}) as (_, host):
        await host.set_level("debug")
        await host.call("files__echo")
        assert fake.conversation.of("logging/setLevel") == []


async def test_an_upstream_that_refuses_the_level_is_called_all_the_same(pair, autojump_clock):
    fake = pair.fake()
    fake.on["logging/setLevel"] = lambda *_: Failure(-32603, "no")
    async with pair.house({"files": fake}) as (_, host):
        await host.set_level("debug")
        await host.call("files__echo")
        assert bool(fake.conversation.of("logging/setLevel")) is pair.to_legacy, "else nothing was refused"


async def test_an_upstream_that_never_answers_to_the_level_is_called_in_the_end(pair, autojump_clock):
    fake = pair.fake()
    fake.on["logging/setLevel"] = lambda *_: None
    async with pair.house({"files": fake}) as (_, host):
        await host.set_level("debug")
        await host.call("files__echo")
        assert trio.current_time() < 20


async def test_a_restarted_upstream_is_told_the_level_again(pair, autojump_clock):
    fake = logging(pair, "info")
    async with pair.house({"files": fake}) as (_, host):
        await host.set_level("info")
        await host.call("files__echo")
        await fake.conversation.close()
        await host.call("files__echo")
        assert len(host.of("notifications/message")) == 2


async def test_levels_of_modern_requests_last_as_long_as_they_and_a_little_more(autojump_clock):
    fake = FakeUpstream(version=L4)
    release = trio.Event()

    async def wait(message, conversation):
        await release.wait()
        return {"content": []}

    fake.on["tools/call"] = wait
    async with a_house({"files": fake}) as house:
        steady = await house.host("lines", L4, identity=BOB)
        await steady.set_level("error")
        brief = await house.host("http", MODERN)
        brief.level = "debug"
        question = await brief.start("tools/call", {"name": "files__echo"})
        await trio.sleep(120)

        def told():
            return [each["params"]["level"] for each in fake.conversation.of("logging/setLevel")]

        assert told() == ["error", "debug"]
        release.set()
        await question.wait()
        await trio.sleep(15)
        assert told() == ["error", "debug"]
        await trio.sleep(60)
        assert told() == ["error", "debug", "error"]


@pytest.mark.covers("G-2", "I-2")
@pytest.mark.parametrize(
    ("identity", "program"),
    [(BOB, "host"), (Identity(ALICE.principal, "other desk"), "host"), (ALICE, "other"), (ALICE, "host")],
    ids=["another account", "another label", "another program", "another window"],
)
async def test_a_message_that_may_be_anyones_is_nobodys(pair, autojump_clock, identity, program):
    fake = pair.fake(tools=["wait", "talk"])
    release = trio.Event()

    async def wait(message, conversation):
        await release.wait()
        return pair.whole(content=[])

    async def talk(message, conversation):
        await conversation.tell("notifications/message", {"level": "error", "data": "whose?"})
        return pair.whole(content=[])

    fake.on |= {"tools/call:wait": wait, "tools/call:talk": talk}
    settings = {"files": {"across_principals": True}}
    async with pair.house({"files": fake}, upstreams=settings) as (house, host):
        other = await pair.host(house, identity=identity, program=program)
        assert host.identity == ALICE
        is_same = (identity, program) == (ALICE, host.program)
        is_one = is_same and not (
            pair.from_legacy or pair.carrier == "lines"
        )  # the requests of one program stand alone
        for each in (host, other):
            await each.set_level("debug")
        waiting = await other.start("tools/call", {"name": "files__wait"})
        await trio.testing.wait_all_tasks_blocked()
        await host.call("files__talk")
        told = 1 if is_one else 0
        assert [len(each.of("notifications/message")) for each in (host, other)] == [told, 0]
        release.set()
        await waiting.wait()
        await host.call("files__talk")
        told += 1 if is_same else 0  # else it may still be about the other's call
        assert [len(each.of("notifications/message")) for each in (host, other)] == [told, 0]
        await trio.sleep(SUSPECT_S)
        await host.call("files__talk")
        told += 0 if identity == BOB else 1  # what served two accounts may still be at work for the other
        assert [len(each.of("notifications/message")) for each in (host, other)] == [told, 0]


@pytest.mark.covers("G-2")
async def test_what_is_logged_between_calls_goes_to_the_host_of_the_session(pair, autojump_clock):
    if not pair.to_legacy:
        return
    fake = pair.fake()
    async with pair.house({"files": fake}, upstreams={"files": {"session_mode": "per_host"}}) as (house, host):
        other = await pair.host(house)
        for each in (host, other):
            await each.set_level("error")
            await each.call("files__echo")
        await trio.testing.wait_all_tasks_blocked()
        for level in ("debug", "error"):
            await fake.conversations[1].tell("notifications/message", {"level": level, "data": "later"})
        await trio.testing.wait_all_tasks_blocked()
        told = 1 if pair.from_legacy else 0  # a modern host hears of its running requests only
        assert [len(each.of("notifications/message")) for each in (host, other)] == [told, 0]
        await fake.conversations[0].tell("notifications/message", {"level": "error", "data": "anyone's"})
        await trio.testing.wait_all_tasks_blocked()
        assert [len(each.of("notifications/message")) for each in (host, other)] == [told, 0]


# --- cancellation -----------------------------------------------------------------------------------------------------


def stuck(pair):
    """An upstream whose tool ends when `fake.release` is set, if at all."""
    fake = pair.fake(tools=["echo", "wait"])
    fake.release = trio.Event()

    async def wait(message, conversation):
        await fake.release.wait()
        return pair.whole(content=[])

    fake.on["tools/call:wait"] = wait
    return fake


@pytest.mark.covers("P-8", "P-10", "T-16", "G-4")
async def test_a_cancelled_request_is_cancelled_upstream_and_not_answered(pair, autojump_clock):
    fake = stuck(pair)
    async with pair.house({"files": fake}) as (house, host):
        question = await host.start("tools/call", {"name": "files__wait"})
        await trio.testing.wait_all_tasks_blocked()
        [sent] = fake.conversation.of("tools/call")
        await host.cancel(question)
        await trio.testing.wait_all_tasks_blocked()
        [told] = fake.conversation.of("notifications/cancelled")
        assert told["params"]["requestId"] == sent["id"]
        house.assert_at_rest()
        fake.release.set()  # a late answer is dropped
        await host.call("files__echo")
        assert question.answer is None


async def test_a_notification_of_another_host_cancels_nothing(pair, autojump_clock):
    fake = stuck(pair)
    async with pair.house({"files": fake}) as (house, host):
        other = await pair.host(house, identity=BOB)
        question = await host.start("tools/call", {"name": "files__wait"}, id="same")
        await trio.testing.wait_all_tasks_blocked()
        if other.carrier == "lines" or pair.from_legacy:
            await other.tell("notifications/cancelled", {"requestId": "same"})
        for wrong in (17, "other", None, 1.5):
            if pair.from_legacy or pair.carrier == "lines":
                await host.tell("notifications/cancelled", {"requestId": wrong})
        fake.release.set()
        await question.wait()
        assert fake.conversation.of("notifications/cancelled") == []


@pytest.mark.covers("T-28")
async def test_a_legacy_host_that_loses_its_stream_gets_its_answer_later(pair, autojump_clock):
    if pair.carrier == "lines" or not pair.from_legacy:
        return
    fake = stuck(pair)
    async with pair.house({"files": fake}) as (_, host):
        question = await host.start("tools/call", {"name": "files__wait"})
        answered = host.open_answers[question.id]
        await trio.sleep(3)  # an event stream by now
        answered.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert fake.conversation.of("notifications/cancelled") == []
        fake.release.set()
        await trio.testing.wait_all_tasks_blocked()
        last = re.findall(rb"^id: (.*)$", answered.raw_events, re.MULTILINE)[-1].decode()
        again = host.response_to(question)
        await host.http.get(into=again, last_event_id=last)
        assert (await question.wait())["result"] == {"content": []}


@pytest.mark.covers("F-H-01")
async def test_a_host_that_is_gone_wants_nothing_any_more(pair, autojump_clock):
    fake = stuck(pair)
    async with pair.house({"files": fake}) as (house, host):
        await host.start("tools/call", {"name": "files__wait"})
        await host.start("tools/call", {"name": "files__wait"})
        await trio.testing.wait_all_tasks_blocked()
        await host.leave()
        await trio.sleep(10)
        if pair.carrier == "http" and pair.from_legacy:
            assert fake.conversation.of("notifications/cancelled") == []
            await host.end()
            await trio.testing.wait_all_tasks_blocked()
        assert len(fake.conversation.of("notifications/cancelled")) == 2
        house.assert_at_rest()


async def test_a_request_that_waits_for_its_upstream_can_be_cancelled(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (house, host):
        await host.names()
        release = trio.Event()

        async def late(message, conversation):
            await release.wait()
            return fake.answer(message)

        fake.on |= {"initialize": late, "server/discover": late}
        await fake.conversation.close()
        question = await host.start("tools/call", {"name": "files__echo"})
        await trio.testing.wait_all_tasks_blocked()
        await host.cancel(question)
        await trio.testing.wait_all_tasks_blocked()
        requests = house.hub.hosts.requests
        scope = trio.CancelScope()
        requests.admit("x", scope)
        requests.release("x", scope)
        assert requests.count == 0
        release.set()
        await host.call("files__echo")
        assert question.answer is None
        assert len(fake.conversation.of("tools/call")) == 1


async def test_a_request_that_waits_for_the_level_can_be_cancelled(pair, autojump_clock):
    fake = logging(pair, "debug")
    release = trio.Event()

    async def late(message, conversation):
        await release.wait()
        return {}

    if not pair.to_legacy:
        return
    fake.on["logging/setLevel"] = late
    async with pair.house({"files": fake}) as (house, host):
        await host.set_level("debug")
        questions = [await host.start("tools/call", {"name": "files__echo"}) for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        await host.cancel(questions[0])
        await trio.testing.wait_all_tasks_blocked()
        assert house.hub.supervisor.upstreams["files"].in_flight == 2
        release.set()
        for question in questions[1:]:
            await question.wait()
        assert questions[0].answer is None
        methods = [message["method"] for message in fake.conversation.received if "list" not in message["method"]]
        assert methods[-3:] == ["logging/setLevel", "tools/call", "tools/call"]


async def test_the_level_falls_when_the_most_curious_host_leaves(autojump_clock):
    fake = FakeUpstream(version=L4)
    async with a_house({"files": fake}) as house:
        for carrier in ("lines", "http"):
            calm = await house.host("lines", L4, identity=BOB)
            await calm.set_level("error")
            curious = await house.host(carrier, L4)
            await curious.set_level("debug")
            await trio.testing.wait_all_tasks_blocked()
            await curious.end()
            await curious.leave()
            await trio.sleep(10)
            levels = [message["params"]["level"] for message in fake.conversation.of("logging/setLevel")]
            assert levels[-2:] == ["debug", "error"]
