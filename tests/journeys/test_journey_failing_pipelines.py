"""Pipelines that fail: each step by each failure says what was carried out; and many at once never cross."""

import json

import pytest
import trio
from msgspec import structs

from config.profile_settings import Pipeline, PipelineStep
from config.security_settings import ConditionalRule, PolicyConfig
from config.settings import ServerSettings, Timeouts
from hub.wire.jsonrpc import Failure
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_pipelines import CAN, PIPELINES, calls_of, failure_of, said, servers, text

TOOLS = "a", "b", "c"
STEPS = tuple(PipelineStep(id=each, tool=f"up__{each}", args={"x": 1}) for each in TOOLS)
REASONS = {
    "it says so": "no space left",
    "it breaks": "it broke",
    "it is slow": "the time for all steps together is over (timeouts.call_total, 30 s)",
    "a value is missing": "there is no ${input.gone}",
    "a rule denies it": "Not run: so it is.",
    "a person does not want it": "Not run: the user said no.",
    "its server is gone": "",
}
NOT_SENT = {"a value is missing", "a rule denies it", "a person does not want it"}


@pytest.mark.covers("EF-5")
@pytest.mark.parametrize("failure", REASONS)
@pytest.mark.parametrize("at", range(3))
async def test_each_step_says_by_each_failure_what_was_carried_out(autojump_clock, at, failure):
    pair = Pair("ML" if at % 2 else "LM", "http")
    fake, tool = pair.fake(tools=list(TOOLS)), f"up__{TOOLS[at]}"
    called = []

    async def answer(message, conversation):
        name = message["params"]["name"]
        called.append(name)
        if name == TOOLS[at]:
            if failure == "it says so":
                return pair.whole(content=text("no space left"), isError=True)
            if failure == "it breaks":
                return Failure(-32603, "it broke")
            if failure == "it is slow":
                await trio.sleep_forever()
            if failure == "its server is gone":
                await conversation.close()
                await trio.sleep_forever()
        return pair.whole(content=text("done"))

    fake.on["tools/call"] = answer
    steps = list(STEPS)
    policy = PolicyConfig()
    if failure == "a value is missing":
        steps[at] = structs.replace(steps[at], args={"x": "${input.gone}"})
    if failure == "a rule denies it":
        rule = ConditionalRule(effect="deny", match=(tool,), when="args.x == 1", reason="so it is")
        policy = PolicyConfig(rules=(rule,))
    if failure == "a person does not want it":
        policy = PolicyConfig(ask=(tool,))
    pipelines = {"p": Pipeline(description="P.", input={"type": "object"}, steps=tuple(steps))}
    defaults = ServerSettings(timeouts=Timeouts(call_total=30.0))
    async with pair.house({"up": fake}, pipelines=pipelines, defaults=defaults, policy=policy) as (house, _):
        host = await pair.host(house, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: {"action": "decline"}
        failed = await host.call("hub__p")
    start = f"step {at + 1} of 3 ({TOOLS[at]}: {tool}) failed: {REASONS[failure]}"
    done = ["", " Step 1 was carried out.", " Steps 1 to 2 were carried out."][at]
    assert said(failed).startswith(start)
    assert said(failed).endswith(done)
    assert said(failed).count("carried out") == (at > 0)
    facts, own = failure_of(failed), {"it says so": "yes"}.get(failure, "no" if failure in NOT_SENT else "unknown")
    assert (facts["step"], facts["executed"]) == (TOOLS[at], "yes" if at else own)
    assert facts["retryable"] is False or at == 0
    assert called == list(TOOLS[: at + (failure not in NOT_SENT)]), "nothing is repeated, and none comes after"


@pytest.mark.covers("EF-6")
async def test_fifty_at_once_never_cross(pair: Pair, autojump_clock):
    """Each has its own arguments, values, progress and result, whichever ends first."""
    fakes = servers(pair)

    async def get_issue(message, conversation):
        number = message["params"]["arguments"]["issue_number"]
        await trio.sleep(number * 7 % 10)
        return pair.whole(content=text(f"issue {number}"))

    fakes["github"].on["tools/call"] = get_issue
    async with pair.house(fakes, pipelines=PIPELINES) as (house, _):
        hosts = [await pair.host(house, capabilities=CAN) for _ in range(5)]
        asked = {
            number: await hosts[number % 5].start(
                "tools/call", {"name": "hub__save_issue", "arguments": {"number": number}}, token=f"t{number}"
            )
            for number in range(50)
        }
        for number, question in asked.items():
            result = (await question.wait())["result"]
            assert json.loads(said(result)) == {"path": f"issue-{number}.md", "content": f"issue {number}"}
            assert {each["params"]["progressToken"] for each in question.heard} == {f"t{number}"}
        assert sorted(each["issue_number"] for each in calls_of(fakes["github"])) == list(range(50))
        assert len(calls_of(fakes["files"])) == 50
        assert house.hub.budget.used == 0
