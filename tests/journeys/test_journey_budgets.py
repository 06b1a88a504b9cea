"""Budgets of questions in all four pairs: what is within is asked, what is beyond is refused and counted."""

import pytest

from config.security_settings import ElicitationBudget, SamplingBudget
from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

CAN = {"elicitation": {"form": {}}, "sampling": {}}
FORM = {"message": "Who?", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 100}
SAID = {"action": "accept", "content": {}}
WROTE = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}
ON = {"elicitation/create": lambda params: SAID, "sampling/createMessage": lambda params: WROTE}


class Curious(FakeUpstream):
    """Asks `times` before it answers; `heard` has what legacy hubs said, as codes of errors or `ok`."""

    def __init__(self, version, method, params, times):
        super().__init__(version=version, tools=["work"])
        self.asks, self.times, self.heard = (method, params), times, []
        self.on["tools/call:work"] = self.work if version == MODERN else self.work_and_ask

    async def work_and_ask(self, message, conversation):
        for _ in range(self.times):
            answer = await conversation.ask(*self.asks)
            self.heard.append(answer["error"]["code"] if "error" in answer else "ok")
        return self.answer(message)

    def work(self, message, conversation):
        round = int(message["params"].get("requestState", "0"))
        if round >= self.times:
            return self.answer(message)
        request = {"method": self.asks[0], "params": self.asks[1]}
        return {"resultType": "input_required", "inputRequests": {f"q{round}": request}, "requestState": str(round + 1)}


def a_curious_house(fake, **budgets):
    return a_house({"up": fake}, upstreams={"up": {"session_mode": "per_host", **budgets}})


async def work(house, version, **more):
    host = await house.host("lines" if version == L4 else "http", version, capabilities=CAN)
    host.on = ON
    answer = await host.ask("tools/call", {"name": "up__work", "arguments": {}})
    while answer["result"].get("resultType") == "input_required":
        params = await host.fulfil({"name": "up__work", "arguments": {}}, answer["result"])
        answer = await host.ask("tools/call", params)
    return host, answer["result"]


BUDGETS = {
    "forms of a call": ("elicitation/create", FORM, {"elicitation": ElicitationBudget(per_call=2)}, 2),
    "forms of a minute": ("elicitation/create", FORM, {"elicitation": ElicitationBudget(per_minute=1)}, 1),
    "no forms": ("elicitation/create", FORM, {"elicitation": ElicitationBudget(allow=False)}, 0),
    "samples of a minute": ("sampling/createMessage", SAMPLE, {"sampling": SamplingBudget(per_minute=2)}, 2),
    "tokens of a day": ("sampling/createMessage", SAMPLE, {"sampling": SamplingBudget(tokens_per_day=250)}, 2),
    "tokens of a sample": ("sampling/createMessage", SAMPLE, {"sampling": SamplingBudget(max_tokens=99)}, 0),
    "no samples": ("sampling/createMessage", SAMPLE, {"sampling": SamplingBudget(allow=False)}, 0),
}


@pytest.mark.covers("POL-55", "POL-56", "F-I-08")
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("theirs", [L4, MODERN])
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_what_is_beyond_a_budget_reaches_no_host(autojump_clock, version, theirs, name):
    method, params, budgets, within = BUDGETS[name]
    fake = Curious(theirs, method, params, within + 1)
    async with a_curious_house(fake, **budgets) as house:
        host, result = await work(house, version)
        assert len(host.asked) == within
        if theirs == L4:  # it is refused the question, and can do without
            assert fake.heard == ["ok"] * within + [-32602]
            assert "isError" not in result
        else:
            assert result["isError"]
            assert "it was not asked" in result["content"][0]["text"]
        assert (await house.api.status()).upstreams[0].beyond_budget == 1


@pytest.mark.covers("POL-55", "POL-56")
@pytest.mark.parametrize("theirs", [L4, MODERN])
@pytest.mark.parametrize("version", [L4, MODERN])
async def test_a_budget_of_two_hosts_is_one(autojump_clock, version, theirs):
    fake = Curious(theirs, "elicitation/create", FORM, 1)
    async with a_curious_house(fake, elicitation=ElicitationBudget(per_minute=1)) as house:
        first, _ = await work(house, version)
        second, _ = await work(house, version)
        assert len(first.asked) == 1
        assert second.asked == []
