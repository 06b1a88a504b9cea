"""Sharing of an upstream over time: accounts never share, hosts do until the upstream asks a question."""

import json

import hypothesis.strategies as st
import pytest
import trio
import trio.testing
from hypothesis import given, settings

from config.remembered_facts import Memory
from hub.link.call_interface import Identity
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import ALICE, BOB, a_house
from upstreams.questions.attribution import SUSPECT_S

FORM = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {"who": {"type": "string"}}}}
FORMS = {"elicitation": {"form": {}}}
DESK = Identity(ALICE.principal, "other desk")
SHARED_ANSWER = {"action": "accept", "content": {"who": "?"}}

settle = trio.testing.wait_all_tasks_blocked


def curious():
    """An upstream whose tool asks for the host's name and returns it, or waits for a signal first."""
    fake = FakeUpstream(tools=["ask", "wait"])
    fake.refusals = []
    fake.gate = trio.Event()

    async def ask(message, conversation):
        answer = await conversation.ask("elicitation/create", FORM)
        if "error" in answer:
            fake.refusals.append(answer["error"]["code"])
            return text("refused")
        return text(answer["result"]["content"]["who"])

    async def wait(message, conversation):
        await fake.gate.wait()
        return text("waited")

    fake.on |= {"tools/call:ask": ask, "tools/call:wait": wait}
    return fake


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def said(answer):
    return answer["result"]["content"][0]["text"]


async def named(house, name, carrier="lines", version=L4, identity=ALICE):
    """A host that answers `name` when it is asked."""
    host = await house.host(carrier, version, identity=identity, capabilities=FORMS)
    host.on["elicitation/create"] = lambda params: {"action": "accept", "content": {"who": name}}
    return host


@pytest.mark.covers("F-I-02", "SEC-22", "D-13")
@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_question_between_two_hosts_is_refused_once_and_never_again(autojump_clock, carrier):
    fake, memory = curious(), Memory(None)
    async with a_house({"files": fake}, memory=memory) as house:
        upstream = house.hub.supervisor.upstreams["files"]
        one, two = await named(house, "one", carrier), await named(house, "two", carrier)
        waiting = await one.start("tools/call", {"name": "files__wait"})
        await settle()
        assert said(await two.ask("tools/call", {"name": "files__ask"})) == "refused"
        assert fake.refusals == [-32602]
        assert (one.asked, two.asked) == ([], [])
        status = upstream.status()
        assert (status.unattributed, status.mode, status.sessions) == (1, "interactive", 1)

        asking = [await host.start("tools/call", {"name": "files__ask"}) for host in (one, two, one, two)]
        assert said(await asking[1].wait()) == said(await asking[3].wait()) == "two"
        assert said(await asking[0].wait()) == said(await asking[2].wait()) == "one"
        fake.gate.set()
        assert said(await waiting.wait()) == "waited"
        assert upstream.status().unattributed == 1
        assert len(one.asked) == len(two.asked) == 2
        assert upstream.status().sessions == 3  # the main one was asked something between both: it is nobody's

        await one.leave()
        await one.end()
        await trio.sleep(10)
        assert upstream.status().sessions == 2
        three = await named(house, "three", carrier)
        assert said(await three.ask("tools/call", {"name": "files__ask"})) == "three"
        await trio.sleep(400)
        assert upstream.status().sessions == 1  # nobody has called anything for long

    async with a_house({"files": curious()}, memory=memory) as house:
        one, two = await named(house, "one", carrier), await named(house, "two", carrier)
        asking = [await host.start("tools/call", {"name": "files__ask"}) for host in (one, two)]
        assert [said(await each.wait()) for each in asking] == ["one", "two"]
        assert house.hub.supervisor.upstreams["files"].status().sessions == 3


@pytest.mark.covers("D-13")
async def test_a_host_that_is_alone_is_asked_and_keeps_its_session(autojump_clock):
    fake = curious()
    async with a_house({"files": fake}) as house:
        one = await named(house, "one")
        assert said(await one.ask("tools/call", {"name": "files__ask"})) == "one"
        two = await named(house, "two")
        assert said(await two.ask("tools/call", {"name": "files__ask"})) == "two"
        assert said(await one.ask("tools/call", {"name": "files__ask"})) == "one"
        assert [len(conversation.of("tools/call")) for conversation in fake.conversations] == [2, 1]
        assert fake.refusals == []


@pytest.mark.covers("D-13")
async def test_one_that_may_run_only_once_refuses_what_is_not_plain(autojump_clock):
    fake = curious()
    async with a_house({"files": fake}, upstreams={"files": {"session_mode": "singleton"}}) as house:
        one, two = await named(house, "one"), await named(house, "two", identity=DESK)
        waiting = await one.start("tools/call", {"name": "files__wait"})
        for _ in range(3):
            assert said(await two.ask("tools/call", {"name": "files__ask"})) == "refused"
        fake.gate.set()
        await waiting.wait()
        assert said(await two.ask("tools/call", {"name": "files__ask"})) == "refused", "it may be about what was over"
        await trio.sleep(SUSPECT_S)
        assert said(await two.ask("tools/call", {"name": "files__ask"})) == "two"
        assert len(fake.conversations) == 1
        assert house.hub.supervisor.upstreams["files"].status().unattributed == 4
        other = await named(house, "other", identity=BOB)
        answer = await other.ask("tools/call", {"name": "files__ask"})
        assert answer["result"]["isError"]
        assert "across_principals" in said(answer)


# --- what one leaves behind in an upstream is not seen by others ------------------------------------------------------


def counting(version):
    """An upstream that remembers its callers per process."""
    fake = FakeUpstream(version=version, tools=["count"])
    memories = {}
    complete = {"resultType": "complete"} if version == MODERN else {}

    async def count(message, conversation):
        seen = memories.setdefault(id(conversation), [])
        seen.append(message["params"]["arguments"]["who"])
        if message["params"]["arguments"]["asks"] and version != MODERN:
            answer = await conversation.ask("elicitation/create", FORM)
            seen.append(answer.get("result", {}).get("content", {}).get("who"))
        return {**complete, **text(json.dumps([each for each in seen if each]))}

    fake.on["tools/call"] = count
    return fake


WHO = {"a1": ALICE, "a2": DESK, "b1": BOB, "b2": BOB}
STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(WHO)), st.sampled_from(["call", "call", "ask", "leave", "later"])), max_size=25
)


@pytest.mark.covers("SEC-21", "I-2")
@settings(max_examples=60, deadline=None)
@given(
    mode=st.sampled_from(["auto", "shared", "per_host", "singleton"]),
    version=st.sampled_from([L4, MODERN]),
    carriers=st.tuples(st.sampled_from(["lines", "http"]), st.sampled_from(["lines", "http"])),
    steps=STEPS,
)
def test_what_one_account_counts_no_other_sees(mode, version, carriers, steps):
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_count, mode, version, carriers, steps, clock=clock)


async def _count(mode, version, carriers, steps):
    async with a_house({"files": counting(version)}, upstreams={"files": {"session_mode": mode}}) as house:
        hosts = {}
        answers = []
        for who, what in steps:
            if what == "later":
                await trio.sleep(200)
            elif what == "leave":
                if who in hosts:
                    host = hosts.pop(who)
                    await host.leave()
                    await host.end()
                    await settle()
            else:
                if who not in hosts:
                    hosts[who] = await named(house, who, carriers[int(who[1]) - 1], identity=WHO[who])
                params = {"name": "files__count", "arguments": {"who": who, "asks": what == "ask"}}
                answers.append((who, await hosts[who].start("tools/call", params)))
        await settle()
        for who, question in answers:
            if question.answer is None:  # it left
                continue
            result = question.answer["result"]
            if result.get("isError"):
                assert mode == "singleton", result
                continue
            seen = json.loads(result["content"][0]["text"])
            assert {each[0] for each in seen} == {who[0]}
            if mode == "per_host" and version == L4:
                assert set(seen) == {who}
        for who, host in hosts.items():
            assert all(asked["params"]["message"].endswith("Who?") for asked in host.asked)
            del who
