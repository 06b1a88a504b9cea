"""Isolation: hosts that share one upstream get nothing of each other, in any order of events."""

import hypothesis.strategies as st
import pytest
import trio
import trio.testing
from hypothesis import given, settings

from hub.link.call_interface import Identity
from hub.wire.mcp import L1, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house, tasks_at_rest
from tests.support.sweeps import At, first, moments, sweep

# --- two hosts, one upstream ------------------------------------------------------------------------------------------


def obedient(version):
    """An upstream whose tool follows `fake.orders` for each call: report progress, or end."""
    fake = FakeUpstream(version=version)
    fake.orders = {}

    async def call(message, conversation):
        params = message["params"]
        marker = params["arguments"]["marker"]
        orders, fake.orders[marker] = trio.open_memory_channel(100)[::-1]
        value = 0
        async for order in orders:
            if order == "end":
                break
            value += 1
            about = {"progressToken": params["_meta"]["progressToken"], "progress": value, "message": marker}
            await conversation.tell("notifications/progress", about)
        complete = {"resultType": "complete"} if version == MODERN else {}
        return {**complete, "content": [{"type": "text", "text": marker}]}

    fake.on["tools/call"] = call
    return fake


KINDS = st.tuples(st.sampled_from(["lines", "http"]), st.sampled_from([L1, L4, MODERN]))
STEPS = st.lists(
    st.tuples(st.sampled_from(["start", "start", "report", "end", "cancel"]), st.integers(0, 11)), max_size=40
)


@pytest.mark.covers("G-2", "F-H-02", "F-H-06", "P-1", "B-3")
@settings(max_examples=150, deadline=None)
@given(kinds=st.tuples(KINDS, KINDS), upstream=st.sampled_from([L4, MODERN]), steps=STEPS, same_account=st.booleans())
def test_hosts_with_equal_ids_and_tokens_never_meet(kinds, upstream, steps, same_account):
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_interleave, kinds, upstream, steps, same_account, clock=clock)


async def _interleave(kinds, upstream, steps, same_account):
    fake = obedient(upstream)
    identities = (ALICE, Identity(ALICE.principal if same_account else "bob", "other desk"))
    async with a_house({"files": fake}) as house:
        hosts = [
            await house.host(carrier, version, identity=identity)
            for (carrier, version), identity in zip(kinds, identities, strict=True)
        ]
        started = []
        cancelled = set()
        for what, which in steps:
            if what == "start":
                host = hosts[which % 2]
                number = 100 + sum(each is host for each, _, _ in started)
                marker = f"{hosts.index(host)}-{number}"
                params = {"name": "files__echo", "arguments": {"marker": marker}}
                question = await host.start("tools/call", params, id=number, token=number)
                started.append((host, question, marker))
                await trio.testing.wait_all_tasks_blocked()
            elif started:
                host, question, marker = started[which % len(started)]
                if question.done.is_set() or marker in cancelled:
                    continue
                if what == "cancel":
                    await host.cancel(question)
                    cancelled.add(marker)
                else:
                    fake.orders[marker].send_nowait(what)
                await trio.testing.wait_all_tasks_blocked()
        for _, question, marker in started:
            fake.orders[marker].close()
            if marker not in cancelled:
                await question.wait()
        await trio.testing.wait_all_tasks_blocked()
        for _, question, marker in started:
            assert (question.answer is None) == (marker in cancelled)
            if question.answer:
                assert question.answer["result"]["content"] == [{"type": "text", "text": marker}]
            assert all(message["params"].get("message") == marker for message in question.heard)
            assert [each["progress"] for each in (m["params"] for m in question.heard)] == sorted(
                {each["params"]["progress"] for each in question.heard}
            )
        for index, host in enumerate(hosts):
            assert all(params["message"].startswith(f"{index}-") for params in host.of("notifications/progress"))
        withdrawn = 0
        for conversation in fake.conversations:
            sent = conversation.of("tools/call")
            assert len({message["id"] for message in sent}) == len(sent)
            withdrawn += len(conversation.of("notifications/cancelled"))
        assert withdrawn == len(cancelled)


async def test_a_session_of_another_account_does_not_exist(autojump_clock):
    async with a_house({"files": FakeUpstream()}) as house:
        mine = await house.host("http", L4)
        other = await house.host("http", L4, identity=BOB)
        other.http.session = mine.http.session
        question = await other.start("tools/list")
        await trio.testing.wait_all_tasks_blocked()
        assert question.status == 404


# --- the cancel sweep -------------------------------------------------------------------------------------------------


NAME = {"name": "files__echo"}
JOURNEYS = {
    "tool": ("tools/call", {**NAME, "arguments": {"a": 1}}, "t"),
    "prompt": ("prompts/get", {"name": "files__p"}, None),
    "resource": ("resources/read", {"uri": "a://b"}, None),
    "nowhere": ("resources/read", {"uri": "c://d"}, None),
    "completion": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "files__p"}, "argument": {"name": "x", "value": ""}},
        None,
    ),
    "list": ("tools/list", {}, None),
    "second look": ("tools/call", {"name": "files__nothing"}, None),
}


def willing(pair):
    """An upstream that takes a few steps for each answer."""
    fake = pair.fake(prompts=[{"name": "p"}], resources=[{"uri": "a://b", "name": "r"}])
    fake.capabilities["completions"] = {}

    async def call(message, conversation):
        if token := message["params"].get("_meta", {}).get("progressToken"):
            await conversation.tell("notifications/progress", {"progressToken": token, "progress": 1})
        await conversation.tell("notifications/message", {"level": "error", "data": "oh"})
        await trio.sleep(0.01)
        return fake.answer(message)

    fake.on |= dict.fromkeys(("tools/call", "prompts/get", "resources/read", "completion/complete"), call)
    return fake


@pytest.mark.covers("P-8", "P-10", "T-16")
@pytest.mark.parametrize("journey", JOURNEYS)
async def test_a_request_can_be_cancelled_at_any_moment(pair, autojump_clock, journey):
    method, params, token = JOURNEYS[journey]
    async with pair.house({"files": willing(pair)}) as (house, host):
        await host.set_level("error")
        await host.names()
        await host.call("files__echo")
        await trio.sleep(20)
        tasks = await tasks_at_rest(house.nursery)

        async def start(n):
            return await host.start_without_waiting(method, params, token=f"{token}{n}" if token else None)

        async def after():
            assert await tasks_at_rest(house.nursery) == tasks
            assert "content" in await host.call("files__echo")

        assert await sweep(house, lambda: host.cancel_now(house.hub), start, after=after) > 3


@pytest.mark.covers("F-H-01")
async def test_a_host_can_go_at_any_moment(pair, autojump_clock):
    async with pair.house({"files": willing(pair)}) as (house, steady):
        await steady.names()
        hosts = []

        async def before():
            hosts.append(await pair.host(house, identity=BOB))

        async def start(n):
            return await hosts[-1].start_without_waiting("tools/call", NAME, token=1)

        async def after():
            assert "content" in await steady.call("files__echo")
            await hosts[-1].end()

        assert await sweep(house, lambda: hosts[-1].kill_now(), start, before=before, after=after) > 3


@pytest.mark.covers("F-P-01")
async def test_an_upstream_can_be_restarted_at_any_moment(pair, autojump_clock):
    async with pair.house({"files": willing(pair)}) as (house, host):
        await host.names()
        answers = []

        async def start(n):
            answers.append(await host.start_without_waiting("tools/call", NAME, token=n))
            return answers[-1]

        async def after():
            assert (await answers[-1].wait())["result"]["content"]
            assert "isError" not in await host.call("files__echo")

        assert await sweep(house, lambda: house.hub.supervisor.restart("files"), start, after=after) > 3


async def test_the_hub_can_be_stopped_at_any_moment(pair, autojump_clock):
    for n in moments(apart=12):
        fake = willing(pair)
        with trio.CancelScope() as everything:
            at = At(n, everything.cancel)
            trio.lowlevel.add_instrument(at)
            try:
                async with pair.house({"files": fake}) as (_, host):
                    await host.call("files__echo", token=1)
            finally:
                trio.lowlevel.remove_instrument(at)
        if not at.acted.is_set():
            assert n > 30
            return


@pytest.mark.covers("F-H-01", "V-17")
async def test_a_host_can_go_while_it_arrives(pair, autojump_clock):
    async with pair.house({"files": willing(pair)}) as (house, steady):
        await steady.names()
        await trio.sleep(20)
        for n in moments():
            tasks, attached = await tasks_at_rest(house.nursery), len(house.hub.hosts)
            at = At(n, lambda: house.hosts[-1].kill_now())
            arrived = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_arrive, pair, house, at, arrived)
                for event in (arrived, at.acted):
                    nursery.start_soon(first, event, nursery.cancel_scope)
            trio.lowlevel.remove_instrument(at)
            if not at.acted.is_set():
                assert n > 5
                return
            newcomer = house.hosts[-1]
            await trio.sleep(3)
            await newcomer.leave()
            await newcomer.end()
            await trio.sleep(3)
            house.assert_at_rest()
            assert (await tasks_at_rest(house.nursery), len(house.hub.hosts)) == (tasks, attached)
        raise AssertionError("it never arrives")


async def _arrive(pair, house, at, arrived):
    trio.lowlevel.add_instrument(at)
    await pair.host(house, identity=BOB)
    arrived.set()
