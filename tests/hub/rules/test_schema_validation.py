"""Schemas through a whole hub: what does not fit is not sent, and what is sent is what was checked."""

import json

import pytest
from msgspec import structs

from hub.wire.mcp import HUB_FAILURE, L2, L4, MODERN, Kind
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

ADD = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "labels": {"type": "array", "items": {"type": "string"}}},
    "required": ["text"],
    "additionalProperties": False,
}
SAYS = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
PROMISES = {"name": "promise", "inputSchema": {"type": "object"}, "outputSchema": SAYS}


class Strict(FakeUpstream):
    """Keeps what it was called with."""

    def __init__(self, version=L4, **more):
        tools = [
            {"name": "add", "inputSchema": ADD},
            PROMISES,
            {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}},
            {"name": "far", "inputSchema": {"$ref": "https://example.com/schema.json"}},
        ]
        super().__init__(version=version, tools=["echo"], **more)
        self.lists["tools"] = tools
        self.called = []
        self.gives = {"content": []}
        for name in ("add", "promise", "odd", "far"):
            self.on[f"tools/call:{name}"] = self.take

    def take(self, message, conversation):
        self.called.append(message["params"].get("arguments"))
        given = {"resultType": "complete", **self.gives} if self.version == MODERN else self.gives
        return given


def a_strict_house(fake, **settings):
    return a_house({"up": fake}, upstreams={"up": {"validate_": "strict", **settings}})


async def result_of(host, name, arguments=None):
    params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    return (await host.ask("tools/call", params))["result"]


@pytest.mark.covers("POL-51")
@pytest.mark.parametrize("version", [L2, L4, MODERN])
@pytest.mark.parametrize("theirs", [L4, MODERN])
async def test_what_does_not_fit_is_not_sent(autojump_clock, version, theirs):
    fake = Strict(theirs)
    async with a_strict_house(fake) as house:
        host = await house.host(version=version)
        result = await result_of(host, "up__add", {"text": 3, "labels": ["a", 7, "a secret"], "other": 1})
        assert result["isError"]
        assert result["_meta"][HUB_FAILURE]["hub"] == "invalid_arguments"
        assert result["_meta"][HUB_FAILURE]["executed"] == "no"
        first, *lines = result["content"][0]["text"].splitlines()
        assert first == "The arguments do not fit the input schema of up__add. Nothing was executed."
        assert set(lines) == {
            '/text: not of type "string"',
            '/labels/1: not of type "string"',
            "/: Additional properties are not allowed ('other' was unexpected)",
        }
        result = await result_of(host, "up__add")
        assert '/: "text" is a required property' in result["content"][0]["text"]
        assert fake.called == []
        assert "isError" not in await result_of(host, "up__add", {"text": "a"})
        assert fake.called == [{"text": "a"}]


@pytest.mark.covers("POL-50")
async def test_by_default_nothing_is_checked_and_nothing_is_loaded(autojump_clock):
    fake = Strict()
    async with a_house({"up": fake}) as house:
        host = await house.host()
        await result_of(host, "up__add", {"text": 3})
        assert fake.called == [{"text": 3}]
        assert house.hub.router.chains.checks is None


@pytest.mark.covers("POL-50")
async def test_what_was_checked_is_what_is_sent(autojump_clock):
    """Of a key that stands twice, another reader might take the first."""
    fake = Strict()
    async with a_strict_house(fake) as house:
        host = await house.host()
        received = []
        judge = fake.judge
        fake.judge = lambda line, method: (received.append(bytes(line)), judge(line, method))[1]
        question = await host.start("tools/call", {"name": "up__add", "arguments": {"text": "TWICE"}})
        await question.wait()
        assert received[-1].count(b'"text"') == 1


@pytest.mark.covers("POL-51")
async def test_what_a_tool_promised_is_checked(autojump_clock):
    fake = Strict()
    async with a_strict_house(fake, validate_="off", validate_output="strict") as house:
        host = await house.host()
        for given, is_refused in (
            ({"content": [], "structuredContent": {"sum": 3}}, False),
            ({"content": [], "structuredContent": {"sum": "three"}}, True),
            ({"content": []}, True),
            ({"content": [], "isError": True}, False),
        ):
            fake.gives = given
            result = await result_of(host, "up__promise", {})
            facts = result.get("_meta", {}).get(HUB_FAILURE)
            assert (facts is not None) == is_refused
            if is_refused:
                assert facts["hub"] == "upstream_protocol"
                assert facts["executed"] == "yes"
                assert "three" not in json.dumps(result)


@pytest.mark.covers("POL-51")
async def test_a_schema_that_is_no_use_is_said_and_one_that_would_be_fetched_leaves_its_tool_out(autojump_clock):
    fake = Strict()
    async with a_strict_house(fake) as house:
        host = await house.host()
        tools = [tool["name"] for tool in (await host.ask("tools/list"))["result"]["tools"]]
        assert tools == ["up__add", "up__promise", "up__odd"]
        await result_of(host, "up__odd", {"a": 3})
        assert fake.called == [{"a": 3}]
        row = (await house.api.status()).upstreams[0]
        assert row.unchecked == ('odd: its inputSchema is not valid: a part of it is not a "regex"',)
        why = "its inputSchema refers to https://example.com/schema.json, which is never fetched"
        assert row.degraded == (f"its tool far is left out: {why}",)


@pytest.mark.covers("POL-50")
async def test_a_change_counts_at_once(autojump_clock):
    fake = Strict()
    async with a_house({"up": fake}) as house:
        host = await house.host()
        config = house.hub.config
        for validate in ("strict", "off"):
            changed = structs.replace(config.upstreams["up"], validate_=validate)
            house.hub.apply(structs.replace(config, upstreams={"up": changed}))
            result = await result_of(host, "up__add", {"text": 3})
            assert ("isError" in result) == (validate == "strict")
        assert Kind.TOOL in house.hub.supervisor.upstreams["up"].snapshot.lists
