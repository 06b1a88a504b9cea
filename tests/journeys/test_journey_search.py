"""A call by way of the hub's own tool is that call, in all era pairs, over both carriers of hosts."""

import json

import pytest
import trio
import trio.testing

from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import MODERN
from tests.journeys.pairs import Pair
from tests.journeys.test_journey_tasks import FakeTask, TaskServer
from tests.support.house import a_house

CALL, READ, FIND = "hub__call_tool", "hub__call_read_only_tool", "hub__find_tools"
FORM = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
}
YES = {"action": "accept", "content": {"a": "Ann"}}
CAN = {"elicitation": {"form": {}}}
TOOL = "dev.hubd/tool"


def tool(name, **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


async def asked(host, via, /, **arguments):
    """The text of the hub's own answer, and whether it is an error."""
    result = await host.result("tools/call", {"name": via, "arguments": arguments})
    return result["content"][0]["text"], result.get("isError", False)


def without_mark(result):
    meta = dict(result.get("_meta", {}))
    assert meta.pop(TOOL) == "files__echo"
    return {**result, "_meta": meta}


@pytest.mark.covers("ES-5")
@pytest.mark.parametrize(
    "said",
    [
        {"content": [{"type": "text", "text": "hello"}]},
        {"content": [], "structuredContent": {"a": [1, 2.5]}, "isError": True},
        {"content": [{"type": "text", "text": "x"}], "_meta": {"example.com/a": 1}},
    ],
)
async def test_the_result_is_that_of_a_direct_call(pair: Pair, said, autojump_clock):
    fake = pair.fake()
    fake.on["tools/call"] = lambda message, conversation: pair.whole(**said)
    async with pair.house({"files": fake}) as (_, host):
        direct = await host.call("files__echo", {"a": [1, {"b": "\u2028"}]})
        direct = {**direct, "_meta": direct.get("_meta", {})}
        host.via = CALL
        assert without_mark(await host.call("files__echo", {"a": [1, {"b": "\u2028"}]})) == direct
        first, second = (each["params"] for each in fake.conversation.of("tools/call"))
        assert {**first, "_meta": 0} == {**second, "_meta": 0}
        assert second["name"] == "echo"


@pytest.mark.covers("ES-5")
async def test_arguments_as_a_text_arrive_as_an_object(pair: Pair, autojump_clock):
    async with pair.house({"files": pair.fake()}) as (house, host):
        text = json.dumps({"a": "\u00e9", "b": [1]})
        await host.result("tools/call", {"name": CALL, "arguments": {"name": "files__echo", "arguments_json": text}})
        (call,) = house.fakes["files"].conversation.of("tools/call")
        assert call["params"]["arguments"] == {"a": "\u00e9", "b": [1]}


@pytest.mark.covers("ES-5")
async def test_progress_arrives_under_the_token_of_the_call(pair: Pair, autojump_clock):
    async def steps(message, conversation):
        token = message["params"]["_meta"]["progressToken"]
        for at in (1, 2):
            await conversation.tell("notifications/progress", {"progressToken": token, "progress": at, "total": 2})
        return pair.whole(content=[])

    fake = pair.fake()
    fake.on["tools/call"] = steps
    async with pair.house({"files": fake}) as (_, host):
        host.via = CALL
        question = await host.start("tools/call", {"name": "files__echo"}, token="mine")
        await question.wait()
        heard = [each["params"] for each in question.heard if each["method"] == "notifications/progress"]
        assert [(each["progressToken"], each["progress"]) for each in heard] == [("mine", 1), ("mine", 2)]


@pytest.mark.covers("ES-5")
async def test_questions_of_the_tool_are_answered(pair: Pair, autojump_clock):
    fake = pair.fake()
    fake.on["tools/call"] = pair.asks({"q": ("elicitation/create", FORM)}, lambda got: {"content": text_of(got)})
    async with a_house({"files": fake}, upstreams={"files": {"session_mode": "per_host"}}) as house:
        host = await pair.host(house, capabilities=CAN)
        host.on["elicitation/create"] = lambda params: YES
        host.via = CALL
        result = await host.call("files__echo", {"a": 1})
        assert json.loads(result["content"][0]["text"])["q"] == YES
        assert result["_meta"][TOOL] == "files__echo"
        assert len(host.asked) == 1


def text_of(value):
    return [{"type": "text", "text": json.dumps(value)}]


@pytest.mark.covers("ES-5")
async def test_a_cancelled_call_is_cancelled_at_its_server(pair: Pair, autojump_clock):
    fake = pair.fake()
    fake.on["tools/call"] = lambda message, conversation: None
    async with pair.house({"files": fake}) as (_, host):
        host.via = CALL
        question = await host.start("tools/call", {"name": "files__echo"})
        await trio.testing.wait_all_tasks_blocked()
        await host.cancel(question)
        await trio.testing.wait_all_tasks_blocked()
        (call,) = fake.conversation.of("tools/call")
        (cancelled,) = fake.conversation.of("notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]


@pytest.mark.covers("ES-5")
async def test_a_task_is_waited_for(pair: Pair, autojump_clock):
    async def soon(task: FakeTask):
        await trio.sleep(1)
        task.complete({"content": [{"type": "text", "text": "at last"}]})

    server = TaskServer(pair.upstream_version, soon)
    async with pair.house({"files": server}) as (_, host):
        host.via = CALL
        result = await host.call("files__slow")
        assert result["content"][0]["text"] == "at last"
        assert result["_meta"][TOOL] == "files__slow"


@pytest.mark.covers("ES-6")
async def test_what_a_model_can_mend_is_a_tool_error(pair: Pair, autojump_clock):
    fake = pair.fake(tools=["create_issue"])
    async with pair.house({"github": fake}) as (_, host):
        text, is_error = await asked(host, CALL, name="gihub__create_issue", arguments={})
        assert is_error
        assert text == (
            "there is no tool gihub__create_issue; did you mean github__create_issue? Or search with hub__find_tools."
        )
        for wrong in ({}, {"name": "github__create_issue"}, {"name": "github__create_issue", "arguments_json": "{"}):
            assert (await asked(host, CALL, **wrong))[1], wrong
        assert fake.conversation.of("tools/call") == []


@pytest.mark.covers("ES-6")
async def test_wrong_arguments_are_answered_with_the_definition(pair: Pair, autojump_clock):
    fake = pair.fake(tools=[])
    schema = {"type": "object", "required": ["owner"], "properties": {"owner": {"type": "string"}}}
    fake.lists["tools"] = [tool("create_issue", inputSchema=schema)]
    fake.on["tools/call"] = lambda message, conversation: Failure(-32602, "owner is required")
    async with pair.house({"github": fake}) as (_, host):
        text, is_error = await asked(host, CALL, name="github__create_issue", arguments={})
        assert is_error
        assert text.startswith("owner is required\nThe definition of github__create_issue:\n")
        assert json.loads(text.splitlines()[2])["inputSchema"] == schema
        assert (await host.error("tools/call", {"name": "github__create_issue"}))["code"] == -32602


@pytest.mark.covers("ES-5")
async def test_other_errors_are_those_of_a_direct_call(pair: Pair, autojump_clock):
    fake = pair.fake()
    fake.on["tools/call"] = lambda message, conversation: Failure(-32000, "broken", raw({"a": 1}))
    async with pair.house({"files": fake}) as (_, host):
        direct = await host.ask("tools/call", {"name": "files__echo"})
        host.via = CALL
        again = await host.ask("tools/call", {"name": "files__echo"})
        assert {**direct, "id": 0} == {**again, "id": 0}


@pytest.mark.covers("ES-5")
async def test_the_read_only_call_takes_what_a_trusted_server_says_only_reads(pair: Pair, autojump_clock):
    tools = [tool("look", annotations={"readOnlyHint": True}), tool("change")]
    fakes = {name: pair.fake() for name in ("a", "b")}
    for fake in fakes.values():
        fake.lists["tools"] = tools
    async with pair.house(fakes, upstreams={"a": {"trusted": True}}) as (_, host):
        assert not (await asked(host, READ, name="a__look", arguments={}))[1]
        for name, why in (("a__change", "does not say that it only reads"), ("b__look", "is not trusted")):
            text, is_error = await asked(host, READ, name=name, arguments={})
            assert is_error
            assert why in text
            assert not (await asked(host, CALL, name=name, arguments={}))[1]
        assert len(fakes["a"].conversation.of("tools/call")) == 2
        assert len(fakes["b"].conversation.of("tools/call")) == 1


@pytest.mark.covers("ES-3")
async def test_tools_are_found_and_then_called(pair: Pair, autojump_clock):
    tools = [tool("create_issue", description="Opens an issue"), tool("list_pulls", description="Pull requests")]
    fake = pair.fake()
    fake.lists["tools"] = tools
    async with pair.house({"github": fake, "files": pair.fake()}) as (_, host):
        text, is_error = await asked(host, FIND, query="open an issue")
        assert not is_error
        found = json.loads(text.splitlines()[0])
        assert found["name"] == "github__create_issue"
        assert not (await asked(host, CALL, name=found["name"], arguments={}))[1]


@pytest.mark.covers("ES-4")
async def test_a_change_is_found_and_what_is_hidden_is_not(pair: Pair, autojump_clock):
    fake = pair.fake()
    fake.lists["tools"] = [tool("one", description="alpha"), tool("secret", description="alpha beta")]
    async with pair.house({"files": fake}, upstreams={"files": {"tools": ("!secret",)}}) as (_, host):
        text, _ = await asked(host, FIND, query="alpha")
        assert "files__one" in text
        assert "secret" not in text
        assert "No tool" in (await asked(host, FIND, query="beta"))[0]
        fake.lists["tools"].append(tool("gamma", description="alpha gamma"))
        await fake.conversation.tell("notifications/tools/list_changed")
        await trio.sleep(60)
        assert "files__gamma" in (await asked(host, FIND, query="gamma"))[0]


@pytest.mark.covers("ES-5")
async def test_on_the_endpoint_of_one_server_the_names_are_its_own(autojump_clock):
    pair = Pair("MM", "http")
    fake = pair.fake(tools=[CALL])
    async with a_house({"files": fake}) as house:
        host = await house.host("http", MODERN, endpoint="files")
        await host.result("tools/call", {"name": CALL, "arguments": {"name": "x"}})
        assert fake.conversation.of("tools/call")[0]["params"]["arguments"] == {"name": "x"}


@pytest.mark.covers("ES-10")
async def test_bare_names_that_are_the_hubs_are_left_out(autojump_clock):
    pair = Pair("LL", "lines")
    fake = pair.fake(tools=[CALL, "hub__x", "echo"])
    async with pair.house({"files": fake}, upstreams={"files": {"prefix": ""}}) as (house, host):
        assert await host.names() == ["echo"]
        assert any("names that begin with hub__ are the hub's" in each for each in house.hub.live.warnings)
        assert (await asked(host, CALL, name="hub__x", arguments={}))[1]
