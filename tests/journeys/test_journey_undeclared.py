"""Legacy upstreams that ask a modern host for what it has not declared: they cope, or fail and the host hears why."""

import pytest

from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L4
from tests.journeys.pairs import Pair
from tests.support.fakes import FakeUpstream

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
PROMPT = {"maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]}
TOOL = {"name": "add", "inputSchema": {"type": "object"}}
QUESTIONS = {
    "form": ("elicitation/create", {"mode": "form", "message": "Name?", "requestedSchema": SCHEMA}),
    "page": ("elicitation/create", {"mode": "url", "message": "Go", "url": "https://a.test", "elicitationId": "1"}),
    "prompt": ("sampling/createMessage", PROMPT),
    "tools": ("sampling/createMessage", {**PROMPT, "tools": [TOOL]}),
    "roots": ("roots/list", {}),
}
NEEDED = {
    "form": {"elicitation": {"form": {}}},
    "page": {"elicitation": {"url": {}}},
    "prompt": {"sampling": {}},
    "tools": {"sampling": {"tools": {}}},
    "roots": {"roots": {}},
}
WORDS = [{"type": "text", "text": "I cannot do without"}]
SHARING = {"shared": "auto", "each host its own": "per_host"}
YES = {"action": "accept", "content": {"name": "Ann"}}


@pytest.fixture(params=["lines", "http"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair("ML", request.param)


@pytest.fixture(params=SHARING)
def upstreams(request):
    return {"files": {"session_mode": SHARING[request.param]}}


def asking(*names, then):
    """An upstream that asks, is refused, and then does `then` with the answers."""
    fake = FakeUpstream(version=L4)
    fake.refusals = []

    async def ask(message, conversation):
        for name in names:
            fake.refusals.append((await conversation.ask(*QUESTIONS[name])).get("error", {}).get("code"))
        return then

    fake.on["tools/call"] = ask
    return fake


async def called(pair, fake, upstreams, capabilities=None):
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, _):
        host = await pair.host(house, capabilities=capabilities)
        question = await host.start("tools/call", {"name": "files__echo", "arguments": {}})
        message = await question.wait()
        return message, getattr(question, "status", None)


@pytest.mark.parametrize("name", QUESTIONS)
async def test_who_fails_without_an_answer_is_told_what_the_host_lacks(pair, upstreams, autojump_clock, name):
    fake = asking(name, then={"content": WORDS, "isError": True})
    message, status = await called(pair, fake, upstreams)
    assert fake.refusals[0] in (-32601, -32602)
    error = message["error"]
    assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, NEEDED[name])
    assert error["data"]["upstream"] == {"server": "files", "content": WORDS}
    assert "I cannot do without" in error["message"]
    assert status in (None, 400)


async def test_an_error_of_the_upstream_is_kept_whole(pair, upstreams, autojump_clock):
    fake = asking("prompt", then=Failure(-32000, "no model", raw({"why": "none"})))
    message, _ = await called(pair, fake, upstreams)
    assert message["error"]["code"] == -32021
    theirs = {"server": "files", "code": -32000, "message": "no model", "data": {"why": "none"}}
    assert message["error"]["data"]["upstream"] == theirs


async def test_all_that_was_asked_in_vain_is_named(pair, upstreams, autojump_clock):
    fake = asking("form", "page", "tools", "roots", then={"content": [], "isError": True})
    message, _ = await called(pair, fake, upstreams)
    assert message["error"]["data"]["requiredCapabilities"] == {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "roots": {},
    }
    assert message["error"]["message"] == (
        "files failed after asking for what this host did not declare"
        " (elicitation.form, elicitation.url, sampling.tools, roots)"
    )


async def test_who_copes_is_not_interfered_with(pair, upstreams, autojump_clock):
    message, status = await called(pair, asking("prompt", then={"content": WORDS}), upstreams)
    assert message["result"]["content"] == WORDS
    assert status in (None, 200)


async def test_a_failure_that_nobody_was_asked_before_is_relayed(pair, upstreams, autojump_clock):
    message, _ = await called(pair, asking(then={"content": WORDS, "isError": True}), upstreams)
    assert message["result"]["isError"] is True


async def test_a_host_that_declared_it_is_asked_and_its_own_refusal_is_no_lack(pair, upstreams, autojump_clock):
    fake = asking("form", then={"content": WORDS, "isError": True})
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, _):
        host = await pair.host(house, capabilities={"elicitation": {}})
        call = {"name": "files__echo", "arguments": {}}
        asked = await host.result("tools/call", call)
        assert asked["resultType"] == "input_required"
        answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
        result = await host.result(
            "tools/call", {**call, "inputResponses": answers, "requestState": asked["requestState"]}
        )
        assert (result["isError"], result["content"]) == (True, WORDS)


async def test_a_host_that_declared_something_else_hears_it_at_its_retry(pair, upstreams, autojump_clock):
    fake = asking("prompt", "form", then={"content": WORDS, "isError": True})
    async with pair.house({"files": fake}, upstreams=upstreams) as (house, _):
        host = await pair.host(house, capabilities={"elicitation": {}})
        call = {"name": "files__echo", "arguments": {}}
        asked = await host.result("tools/call", call)
        answers = dict.fromkeys(asked["inputRequests"], YES)
        error = await host.error(
            "tools/call", {**call, "inputResponses": answers, "requestState": asked["requestState"]}
        )
        assert (error["code"], error["data"]["requiredCapabilities"]) == (-32021, {"sampling": {}})


async def test_no_host_is_told_to_declare_what_its_user_turned_off(pair, autojump_clock):
    fake = asking("prompt", then={"content": WORDS, "isError": True})
    for mode in SHARING.values():
        upstreams = {"files": {"session_mode": mode, "client_features": "none"}}
        message, _ = await called(pair, fake, upstreams)
        assert message["result"]["isError"] is True


@pytest.mark.parametrize("carrier", ["lines", "http"])
async def test_a_legacy_host_gets_what_the_upstream_said(carrier, upstreams, autojump_clock):
    fake = asking("prompt", then={"content": WORDS, "isError": True})
    message, _ = await called(Pair("LL", carrier), fake, upstreams)
    assert message["result"] == {"content": WORDS, "isError": True}
