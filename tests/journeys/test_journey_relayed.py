"""Questions between two modern peers: relayed, with the upstream's state sealed."""

import pytest

from hub.wire.mcp import L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import BOB, a_house

FORM = {
    "message": "Who?",
    "mode": "form",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}
CAN = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
SAID = {"action": "accept", "content": {"a": "me"}}


@pytest.fixture(params=["lines", "http"])
def carrier(request):
    return request.param


def asking(state="opaque", **questions):
    """An upstream whose tool asks first, and answers with what it was told."""
    fake = FakeUpstream(version=MODERN, prompts=[{"name": "echo"}], resources=[{"uri": "x:1", "name": "x"}])
    asked = questions or {"who": {"method": "elicitation/create", "params": FORM}}
    kept = {} if state is None else {"requestState": state}

    def handle(message, conversation):
        params = message["params"]
        if "inputResponses" not in params:
            return {"resultType": "input_required", "inputRequests": asked, **kept}
        said = str(params["inputResponses"]) + str(params.get("requestState"))
        whole = {"resultType": "complete"}
        if message["method"] == "tools/call":
            return {**whole, "content": [{"type": "text", "text": said}]}
        if message["method"] == "prompts/get":
            return {**whole, "messages": [{"role": "user", "content": {"type": "text", "text": said}}]}
        contents = [{"uri": params["uri"], "text": said}]
        return {**whole, "contents": contents, "ttlMs": 5000, "cacheScope": "public"}

    for method in ("tools/call", "prompts/get", "resources/read"):
        fake.on[method] = handle
    return fake


@pytest.mark.covers("R-1", "R-12", "R-14", "R-19", "G-10")
async def test_a_question_and_its_answer_pass(autojump_clock, carrier):
    fake = asking()
    async with a_house({"up": fake}) as house:
        host = await house.host(carrier, MODERN, capabilities=CAN)
        first = await host.result("tools/call", {"name": "up__echo", "arguments": {}})
        assert first["resultType"] == "input_required"
        assert "opaque" not in first["requestState"]
        host.on["elicitation/create"] = lambda params: SAID
        result = await host.call("up__echo")
        assert result["content"][0]["text"] == str({"who": SAID}) + "opaque"
        assert host.asked[0]["params"]["message"] == "[up] Who?"
        calls = fake.conversation.of("tools/call")
        assert len({call["id"] for call in calls}) == len(calls) == 3


@pytest.mark.covers("R-2", "R-13", "K-5")
async def test_prompts_and_resources_may_ask_too(autojump_clock, carrier):
    async with a_house({"up": asking(state=None)}) as house:
        host = await house.host(carrier, MODERN, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: SAID
        prompt = await host.result("prompts/get", {"name": "up__echo"})
        assert prompt["messages"][0]["content"]["text"] == str({"who": SAID}) + "None"
        read = await host.result("resources/read", {"uri": "x:1"})
        assert (read["ttlMs"], read["cacheScope"]) == (0, "private")


@pytest.mark.covers("R-5", "C-9")
async def test_upstreams_hear_what_this_very_host_can_do(autojump_clock, carrier):
    fake = asking()
    fake.on.clear()
    async with a_house({"up": fake}) as house:
        host = await house.host(carrier, MODERN, capabilities={"elicitation": {}})
        await host.call("up__echo")
        other = await house.host(
            carrier, L4, capabilities={"sampling": {"context": {}}, "roots": {"listChanged": True}}
        )
        await other.call("up__echo")
        key = "io.modelcontextprotocol/clientCapabilities"
        told = [call["params"]["_meta"][key] for call in fake.conversation.of("tools/call")]
        assert [set(each) - {"extensions"} for each in told] == [{"elicitation"}, {"sampling", "roots"}]
        assert told[1]["sampling"] == told[1]["roots"] == {}


@pytest.mark.covers("R-5", "F-I-01")
async def test_what_a_host_cannot_answer_is_not_asked(autojump_clock, carrier):
    async with a_house({"up": asking()}) as house:
        host = await house.host(carrier, MODERN, capabilities={"sampling": {}})
        result = await host.call("up__echo")
        assert result["isError"]
        assert "asks for input that this host cannot give" in result["content"][0]["text"]


@pytest.mark.covers("F-H-15", "R-6", "R-7", "SEC-87")
async def test_a_state_is_good_for_its_own_request_only(autojump_clock, carrier):
    fake = asking()
    async with a_house({"up": fake}, upstreams={"up": {"across_principals": True}}) as house:
        host = await house.host(carrier, MODERN, capabilities=CAN)
        thief = await house.host(carrier, MODERN, capabilities=CAN, identity=BOB)
        call = {"name": "up__echo", "arguments": {"n": 1}}
        state = (await host.result("tools/call", call))["requestState"]
        before = len(fake.conversation.received)
        retry = {"inputResponses": {"who": SAID}, "requestState": state}
        forged = state[:-2] + ("AA" if state[-2:] != "AA" else "BB")
        for who, changed in (
            (thief, {}),
            (host, {"arguments": {"n": 2}}),
            (host, {"requestState": forged}),
            (host, {"requestState": "opaque"}),
        ):
            error = await who.error("tools/call", {**call, **retry, **changed})
            assert (error["code"], error["data"]["reason"]) == (-32602, "request_state_invalid")
        assert len(fake.conversation.received) == before
        assert "content" in await host.result("tools/call", {**call, **retry, "arguments": {"n": 1.0}})
