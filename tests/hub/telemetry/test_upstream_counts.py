"""Sessions with upstreams and questions of theirs are counted, in all four pairs of eras."""

from collections import Counter

import pytest
import trio
import trio.testing

from config.settings import Timeouts
from hub.wire.jsonrpc import Failure
from tests.journeys.pairs import PAIRS, Pair
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
FORM = "elicitation/create", {"mode": "form", "message": "Name?", "requestedSchema": SCHEMA}
PROMPT = (
    "sampling/createMessage",
    {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]},
)
SAMPLED = {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "hello"}}
ACCEPTED = {"action": "accept", "content": {"name": "Ann"}}
CAPABILITIES = {"sampling": {}, "elicitation": {}}


def asking(pair, *question):
    fake = pair.fake()
    fake.on["tools/call"] = pair.asks({"q": question}, lambda answers: {"content": []})
    return fake


@pytest.mark.covers("OM-8")
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    ("question", "answer", "outcome"),
    [
        (FORM, ACCEPTED, "answered"),
        (FORM, {"action": "decline"}, "declined"),
        (PROMPT, SAMPLED, "answered"),
        (PROMPT, Failure(-1, "no"), "declined"),
        (PROMPT, Failure(-32603, "broken"), "refused"),
    ],
    ids=range(5),
)
async def test_what_became_of_questions(autojump_clock, pair, question, answer, outcome):
    pair = Pair(pair, "lines")
    if isinstance(answer, Failure) and not pair.from_legacy:
        pytest.skip("modern hosts answer with no errors")
    upstreams = {"files": {"session_mode": "per_host"}}
    async with a_house({"files": asking(pair, *question)}, upstreams=upstreams) as house:
        host = await pair.host(house, capabilities=CAPABILITIES)
        host.on[question[0]] = lambda params: answer
        ask = host.ask if pair.from_legacy else host.result  # which comes back with the answers
        await ask("tools/call", {"name": "files__echo", "arguments": {}})
        await trio.testing.wait_all_tasks_blocked()
        assert house.hub.counts.questions == Counter({("files", question[0], outcome): 1})


@pytest.mark.covers("OM-8")
@pytest.mark.parametrize("pair", PAIRS)
async def test_questions_that_no_host_can_be_asked_are_refused(autojump_clock, pair):
    pair = Pair(pair, "lines")
    upstreams = {"files": {"session_mode": "per_host"}}
    async with a_house({"files": asking(pair, *FORM)}, upstreams=upstreams) as house:
        host = await pair.host(house)
        await host.ask("tools/call", {"name": "files__echo", "arguments": {}})
        outcomes = {key[2] for key in house.hub.counts.questions}
        assert outcomes <= {"refused"}
        assert outcomes or not pair.to_legacy, "what a modern upstream may not ask at all is a fault of its own"


@pytest.mark.covers("OM-8")
@pytest.mark.parametrize("pair", ["LL", "LM", "ML"])
async def test_questions_that_nobody_answers_expire(autojump_clock, pair):
    pair = Pair(pair, "lines")

    async def wait(params):
        await trio.sleep_forever()

    upstreams = {"files": {"session_mode": "per_host", "timeouts": Timeouts(call=10_000, call_total=20_000)}}
    async with a_house({"files": asking(pair, *FORM)}, upstreams=upstreams) as house:
        host = await pair.host(house, capabilities=CAPABILITIES)
        host.on[FORM[0]] = wait
        await host.start("tools/call", {"name": "files__echo", "arguments": {}})
        await trio.sleep(2_000)
        assert house.hub.counts.questions == Counter({("files", FORM[0], "expired"): 1})


@pytest.mark.covers("OM-8")
async def test_sessions_by_how_they_end(autojump_clock):
    fakes = {"lazy": FakeUpstream(tools=["echo"]), "busy": FakeUpstream(tools=["echo"])}
    async with a_house(fakes, upstreams={"lazy": {"idle_stop_s": 50}}) as house:
        counts = house.hub.counts
        await trio.sleep(1)
        assert +counts.connects == Counter({("lazy", "ok"): 1, ("busy", "ok"): 1})
        await trio.sleep(60)
        assert counts.ends == Counter({("lazy", "idle"): 1})
        house.hub.supervisor.restart("busy")
        await trio.sleep(1)
        assert counts.ends["busy", "stopped"] == 1
        await fakes["busy"].conversations[-1].close()
        await trio.sleep(10)
        assert counts.ends["busy", "lost"] == 1
        assert counts.connects["busy", "ok"] == 3
        fakes["busy"].refuses = True
        await fakes["busy"].conversations[-1].close()
        await trio.sleep(30)
        assert counts.connects["busy", "error"] >= 1
        [lengths] = {
            transport: each.count for (name, transport), each in counts.sessions.items() if name == "busy"
        }.values()
        assert lengths == sum(number for (name, _), number in counts.ends.items() if name == "busy") == 3
