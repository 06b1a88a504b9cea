"""Payloads for hosts that are older than the upstream, end to end, checked by the schemas."""

import pytest

from hub.wire.http.mirror_headers import encode_header
from hub.wire.mcp import L1, L2, L3, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "note://one", "name": "one", "title": "One", "mimeType": "text/plain"}
TEXT = {"type": "text", "text": "hello", "annotations": {"audience": ["user"]}}
TOOL = {
    "name": "all",
    "title": "All",
    "inputSchema": {
        "type": "object",
        "properties": {"yes": True, "no": False, "where": {"type": "string", "x-mcp-header": "Where"}},
        "oneOf": [{"required": ["yes"]}],
    },
    "outputSchema": {"type": "array", "items": {"type": "integer"}},
    "execution": {"taskSupport": "optional"},
    "icons": [{"src": "data:image/png;base64,AAAA"}],
    "annotations": {"readOnlyHint": True},
    "_meta": {"vendor.example/x": 1},
}


def prolific(version=MODERN):
    fake = FakeUpstream(version=version, prompts=[{"name": "all"}])
    fake.lists["tools"] = [TOOL]
    complete = {"resultType": "complete"} if version == MODERN else {}
    fake.on["tools/call"] = lambda *_: {**complete, "content": [TEXT, AUDIO, LINK], "structuredContent": [1, 2]}
    fake.on["prompts/get"] = lambda *_: {
        **complete,
        "messages": [{"role": "user", "content": block} for block in (TEXT, AUDIO, LINK)],
    }
    return fake


@pytest.fixture(params=["lines", "http"])
def carrier(request):
    return request.param


@pytest.mark.parametrize("version", [L1, L2, L3, L4, MODERN])
@pytest.mark.covers("S-12")
async def test_content_is_put_into_words_the_host_has(autojump_clock, carrier, version):
    async with a_house({"files": prolific()}) as house:
        host = await house.host(carrier, version)
        text, audio, link = (await host.call("files__all"))["content"]
        messages = (await host.result("prompts/get", {"name": "files__all"}))["messages"]
        assert text == TEXT
        if version == L1:
            assert audio["type"] == "resource"
            assert (audio["resource"]["blob"], audio["resource"]["mimeType"]) == ("AAAA", "audio/wav")
        else:
            assert audio == AUDIO
        if version in (L1, L2):
            assert link["type"] == "text"
            assert all(part in link["text"] for part in ("One", "note://one", "text/plain"))
        else:
            assert link == LINK
        assert [message["content"]["type"] for message in messages] == [each["type"] for each in (text, audio, link)]


@pytest.mark.parametrize("version", [L1, L2, L3, L4, MODERN])
@pytest.mark.covers("S-12", "H-18")
async def test_structure_that_is_no_object_is_for_modern_hosts_only(autojump_clock, carrier, version):
    fake = prolific()
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, version)
        [tool] = (await host.result("tools/list"))["tools"]
        result = await host.call("files__all")
        assert ("outputSchema" in tool) == ("structuredContent" in result) == (version == MODERN)
        assert result["content"][0] == TEXT
        fake.on["tools/call"] = lambda *_: {"resultType": "complete", "content": [], "structuredContent": [1, 2]}
        if version != MODERN:
            assert (await host.call("files__all"))["content"] == [{"type": "text", "text": "[1,2]"}]


@pytest.mark.parametrize("version", [L1, L2, L3, L4, MODERN])
@pytest.mark.covers("H-18")
async def test_definitions_are_tidied_and_otherwise_kept(autojump_clock, carrier, version):
    async with a_house({"files": prolific()}) as house:
        host = await house.host(carrier, version)
        [tool] = (await host.result("tools/list"))["tools"]
        schema = tool["inputSchema"]
        if version == MODERN:
            assert (schema["properties"]["yes"], schema["properties"]["no"]) == (True, False)
        else:
            assert (schema["properties"]["yes"], schema["properties"]["no"]) == ({}, {"not": {}})
        mirror = {"x-mcp-header": "Where"} if version == MODERN else {}
        assert schema["properties"]["where"] == {"type": "string", **mirror}
        assert schema["oneOf"] == TOOL["inputSchema"]["oneOf"]
        assert "execution" not in tool
        assert all(tool[name] == TOOL[name] for name in ("title", "icons", "annotations"))
        assert tool["_meta"] == {"vendor.example/x": 1, "dev.hubd/server": "files"}


@pytest.mark.covers("H-11", "H-17", "F-H-17", "SEC-14")
async def test_arguments_in_headers_are_checked_over_http_and_nowhere_else(autojump_clock):
    async with a_house({"files": prolific()}) as house:
        host = await house.host("http", MODERN)
        call = {"name": "files__all", "arguments": {"where": "här"}}
        encoded = encode_header("här").decode()
        assert "result" in (await host.http.modern("tools/call", call, mcp_param_where=encoded)).last
        for wrong in (None, "there", "har"):
            answered = await host.http.modern("tools/call", call, mcp_param_where=wrong)
            assert (answered.status, answered.last["error"]["code"]) == (400, -32020)
        assert (await (await house.host("lines", MODERN)).call("files__all", {"where": "här"}))["content"][0] == TEXT
        assert (await (await house.host("http", L4)).call("files__all", {"where": "här"}))["content"][0] == TEXT


@pytest.mark.parametrize("version", [L1, L2, L3, L4])
async def test_between_legacy_peers_only_the_hosts_revision_counts(autojump_clock, carrier, version):
    fake = prolific(L4)
    fake.lists["tools"] = [{"name": "all", "inputSchema": {"type": "object"}}]
    fake.on["tools/call"] = lambda *_: {"content": [TEXT, AUDIO, LINK], "structuredContent": {"a": 1}}
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, version)
        result = await host.call("files__all")
        assert result["structuredContent"] == {"a": 1}
        kinds = {L1: ["text", "resource", "text"], L2: ["text", "audio", "text"]}
        expected = kinds.get(version, ["text", "audio", "resource_link"])
        assert [block["type"] for block in result["content"]] == expected


async def test_marks_of_tasks_and_of_the_other_server_do_not_reach_hosts(pair, autojump_clock):
    fake = pair.fake(tools=["echo"])
    there = {"io.modelcontextprotocol/related-task": {"taskId": "t"}, "io.modelcontextprotocol/subscriptionId": "s"}
    fake.on["tools/call"] = lambda *_: pair.whole(content=[], _meta=there, ttlMs=5, cacheScope="public")
    async with pair.house({"files": fake}) as (_, host):
        result = await host.call("files__echo")
        assert not there.keys() & result.get("_meta", {}).keys()


async def test_uris_of_user_interfaces_carry_their_server(pair, autojump_clock):
    fake = pair.fake(tools=["echo"], resources=[{"uri": "ui://panel", "name": "panel"}])
    link = {"type": "resource_link", "uri": "ui://panel", "name": "panel"}
    fake.on["tools/call"] = lambda *_: pair.whole(content=[link])
    async with pair.house({"files": fake}, upstreams={"files": {"apps": True}}) as (_, host):
        [uri] = await host.names("resources")
        assert uri != "ui://panel"
        assert (await host.call("files__echo"))["content"][0]["uri"] == uri
        read = await host.result("resources/read", {"uri": uri})
        assert read["contents"][0]["uri"] == uri
        assert fake.conversation.of("resources/read")[0]["params"]["uri"] == "ui://panel"
