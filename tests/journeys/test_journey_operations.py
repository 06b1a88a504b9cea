"""Operations from host to upstream and back: parameters, results, errors, metadata."""

import pytest
import trio

from config.settings import CacheConfig
from hub.wire.hub_chains import HUBS
from hub.wire.jsonrpc import Failure, raw
from hub.wire.mcp import L1, L2, L3, L4, MODERN
from tests.support.fakes import FakeUpstream
from tests.support.house import a_house

PROMPT = {"name": "greet", "arguments": [{"name": "who"}]}
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOTE = {"uri": "note://one", "name": "one"}
NOTES = {"uriTemplate": "note://{name}", "name": "notes"}
HUB = {"name": "hubd", "title": "hubd"}
NOT_AT_ALL = CacheConfig(enabled=False)


def full(pair):
    fake = pair.fake(tools=["echo"], prompts=[PROMPT], resources=[NOTE], resourceTemplates=[NOTES])
    fake.capabilities["completions"] = {}
    return fake


def assert_face(pair, result):
    """Assert the members that every result has, or must not have, in the host's era."""
    if pair.from_legacy:
        assert not {"resultType", "ttlMs", "cacheScope"} & result.keys()
        assert "io.modelcontextprotocol/serverInfo" not in result.get("_meta", {})
    else:
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"].items() >= HUB.items()


# --- handshakes, and what is answered here ----------------------------------------------------------------------------


@pytest.mark.covers("V-14", "V-26", "V-27", "G-1", "G-12")
async def test_every_host_is_told_the_same_of_the_hub(pair, autojump_clock):
    one, two = full(pair), pair.fake()
    one.instructions, two.instructions = "Be brief.", "Be kind."
    async with pair.house({"one": one, "two": two}) as (house, first):
        assert await first.names() == ["one__echo", "two__echo"]
        host = await pair.host(house)
        welcome = host.welcome
        index, texts = welcome["instructions"].split("\n\n", 1)
        assert index == "one__*: Be brief; 1 tool\ntwo__*: Be kind; 1 tool"
        assert texts == "# one (tools: one__*)\n\nBe brief.\n\n# two (tools: two__*)\n\nBe kind."
        features = {"tools", "prompts", "resources", "completions", "logging"}
        assert set(welcome["capabilities"]) == {*features, "extensions", "experimental"}
        assert list(welcome["capabilities"]["experimental"]) == [HUBS], "what tells a hub that it is its own upstream"
        extensions = {name.rpartition("/")[2] for name in welcome["capabilities"]["extensions"]}
        assert extensions == {"ui"} | (set() if pair.from_legacy else {"tasks"})
        if pair.from_legacy:
            assert welcome["serverInfo"].items() >= HUB.items()
            assert (await host.error("server/discover"))["code"] == -32601
        else:
            assert welcome["supportedVersions"] == [MODERN, L4, L3, L2, L1]
            assert_face(pair, welcome)


@pytest.mark.covers("P-5", "G-1")
async def test_ping_is_for_legacy_hosts_and_never_forwarded(pair, autojump_clock):
    fake = pair.fake()
    async with pair.house({"files": fake}) as (_, host):
        if pair.from_legacy:
            assert await host.result("ping") == {}
        else:
            question = await host.start("ping")
            assert (await question.wait())["error"]["code"] == -32601
            await trio.testing.wait_all_tasks_blocked()
            assert question.status in (None, 404)
        assert fake.conversation.of("ping") == []


@pytest.mark.covers("X-23")
@pytest.mark.parametrize("method", ["tasks/list", "nonsense"])
async def test_what_the_hub_does_not_do_is_no_method(pair, autojump_clock, method):
    async with pair.house({"files": pair.fake()}) as (_, host):
        question = await host.start(method, {"uri": "note://one"})
        assert (await question.wait())["error"]["code"] == -32601


async def test_a_log_level_is_no_request_of_modern_hosts(pair, autojump_clock):
    async with pair.house({"files": pair.fake()}) as (_, host):
        if not pair.from_legacy:
            assert (await host.error("logging/setLevel", {"level": "info"}))["code"] == -32601


# --- tools ------------------------------------------------------------------------------------------------------------


@pytest.mark.covers("G-2", "G-3", "G-8")
async def test_a_tool_is_called_by_its_own_name(pair, autojump_clock):
    fake = full(pair)
    async with pair.house({"files": fake}) as (_, host):
        result = await host.call("files__echo", {"text": "\U0001f4a1", "n": 1.50})
        assert_face(pair, result)
        [sent] = fake.conversation.of("tools/call")
        assert sent["params"]["name"] == "echo"
        assert sent["params"]["arguments"] == {"text": "\U0001f4a1", "n": 1.5}


@pytest.mark.covers("S-10", "S-11")
async def test_results_pass_with_structure_and_failure(pair, autojump_clock):
    fake = full(pair)
    fake.on["tools/call"] = lambda *_: pair.whole(
        content=[{"type": "text", "text": "no"}], structuredContent={"why": [1]}, isError=True, extra="kept"
    )
    async with pair.house({"files": fake}) as (_, host):
        result = await host.call("files__echo")
        assert_face(pair, result)
        assert result["content"] == [{"type": "text", "text": "no"}]
        assert (result["structuredContent"], result["isError"], result["extra"]) == ({"why": [1]}, True, "kept")


@pytest.mark.covers("F-P-12")
async def test_a_result_of_another_type_is_the_upstreams_fault(pair, autojump_clock):
    fake = full(pair)
    fake.on["tools/call"] = lambda *_: {"resultType": "riddle", "content": 7}
    fake.on["prompts/get"] = lambda *_: {"resultType": "riddle"}
    async with pair.house({"files": fake}) as (_, host):
        result = await host.call("files__echo")
        assert result["isError"] is True
        assert result["_meta"]["dev.hubd/failure"]["hub"] == "upstream_protocol"
        error = await host.error("prompts/get", {"name": "files__greet"})
        assert (error["code"], error["data"]["hub"]) == (-32603, "upstream_protocol")


# --- prompts, resources, completion -----------------------------------------------------------------------------------


async def test_a_prompt_is_got_by_its_own_name(pair, autojump_clock):
    fake = full(pair)
    async with pair.house({"files": fake}) as (_, host):
        assert await host.names("prompts") == ["files__greet"]
        result = await host.result("prompts/get", {"name": "files__greet", "arguments": {"who": "me"}})
        assert_face(pair, result)
        assert result["messages"][0]["role"] == "user"
        [sent] = fake.conversation.of("prompts/get")
        assert (sent["params"]["name"], sent["params"]["arguments"]) == ("greet", {"who": "me"})


async def test_a_resource_is_read(pair, autojump_clock):
    fake = full(pair)
    async with pair.house({"files": fake}) as (_, host):
        assert await host.names("resources") == ["note://one"]
        result = await host.result("resources/read", {"uri": "note://one"})
        assert_face(pair, result)
        assert result["contents"][0]["uri"] == "note://one"
        if not pair.from_legacy:
            expected = (0, "private") if pair.to_legacy else (60_000, "public")
            assert (result["ttlMs"], result["cacheScope"]) == expected


async def test_a_resource_of_a_template_is_read_without_being_listed(pair, autojump_clock):
    async with pair.house({"files": full(pair), "other": pair.fake()}) as (_, host):
        assert await host.names("resourceTemplates") == ["note://{name}"]
        assert (await host.result("resources/read", {"uri": "note://two"}))["contents"][0]["uri"] == "note://two"


@pytest.mark.covers("S-8", "S-9")
async def test_one_not_found_has_a_face_for_each_era(pair, autojump_clock):
    fake = full(pair)
    code = -32002 if pair.to_legacy else -32602
    fake.on["resources/read"] = lambda *_: Failure(code, "Resource not found", raw({"uri": "note://none"}))
    async with pair.house({"files": fake}) as (_, host):
        expected = -32002 if pair.from_legacy else -32602
        for uri in ("note://none", "nobodys://none"):
            error = await host.error("resources/read", {"uri": uri})
            assert (error["code"], error["data"]["uri"]) == (expected, uri)


async def test_completion_asks_the_owner_of_what_is_referred_to(pair, autojump_clock):
    fake = full(pair)
    async with pair.house({"files": fake}) as (_, host):
        argument = {"name": "who", "value": "o"}
        for ref, own in (
            ({"type": "ref/prompt", "name": "files__greet"}, {"type": "ref/prompt", "name": "greet"}),
            ({"type": "ref/resource", "uri": "note://{name}"}, {"type": "ref/resource", "uri": "note://{name}"}),
        ):
            result = await host.result("completion/complete", {"ref": ref, "argument": argument})
            assert_face(pair, result)
            assert result["completion"]["values"] == ["one", "two"]
            sent = fake.conversation.of("completion/complete")[-1]
            assert (sent["params"]["ref"], sent["params"]["argument"]) == (own, argument)
        ref = {"type": "ref/prompt", "name": "files__nothing"}
        assert (await host.error("completion/complete", {"ref": ref, "argument": argument}))["code"] == -32602


@pytest.mark.parametrize("declared", [False, True])
async def test_without_completions_there_are_no_values(pair, autojump_clock, declared):
    fake = full(pair)
    fake.on["completion/complete"] = lambda *_: Failure(-32601, "Method not found")
    if not declared:
        del fake.capabilities["completions"]
    async with pair.house({"files": fake}) as (_, host):
        ref = {"type": "ref/prompt", "name": "files__greet"}
        result = await host.result("completion/complete", {"ref": ref, "argument": {"name": "who", "value": ""}})
        assert_face(pair, result)
        assert result["completion"] == {"values": [], "total": 0, "hasMore": False}
        assert len(fake.conversation.of("completion/complete")) == declared


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "passes_to_legacy", "passes_to_modern"),
    [
        (-32602, True, True),
        (-32603, True, True),
        (-32600, True, True),
        (-32601, True, False),
        (-32000, True, False),
        (-32019, True, False),
        (-32020, False, False),
        (-32022, False, False),
        (-1, True, True),
        (-31999, True, True),
        (42, True, True),
    ],
)
@pytest.mark.covers("E-1", "E-2", "E-8")
async def test_errors_mean_the_same_on_both_sides(pair, autojump_clock, code, passes_to_legacy, passes_to_modern):
    fake = full(pair)
    fake.on["tools/call"] = fake.on["prompts/get"] = lambda *_: Failure(code, "It broke", raw({"detail": 1}))
    async with pair.house({"files": fake}) as (_, host):
        for method, params in (("tools/call", {"name": "files__echo"}), ("prompts/get", {"name": "files__greet"})):
            error = await host.error(method, params)
            if passes_to_legacy if pair.from_legacy else passes_to_modern:
                assert error == {"code": code, "message": "It broke", "data": {"detail": 1}}
            else:
                original = {"server": "files", "code": code, "message": "It broke", "data": {"detail": 1}}
                assert error == {"code": -32603, "message": "It broke", "data": {"upstream": original}}


async def test_a_capability_that_the_host_lacks_is_its_own_affair(pair, autojump_clock):
    fake = full(pair)
    needed = raw({"requiredCapabilities": {"sampling": {}}})
    fake.on["tools/call"] = lambda *_: Failure(-32021, "It needs sampling", needed)
    async with pair.house({"files": fake}) as (house, host):
        question = await host.start("tools/call", {"name": "files__echo"})
        assert (await question.wait())["error"]["code"] == -32021
        await trio.testing.wait_all_tasks_blocked()
        if pair.carrier == "http" and not pair.from_legacy:
            assert question.status == 400
        able = await pair.host(house, capabilities={"sampling": {}})
        assert (await able.error("tools/call", {"name": "files__echo"}))["code"] == -32603


@pytest.mark.covers("P-13")
async def test_unknown_names_are_refused(pair, autojump_clock):
    async with pair.house({"files": full(pair)}) as (_, host):
        for method in ("tools/call", "prompts/get"):
            for params in ({"name": "files__nothing"}, {"name": "nobody__echo"}, {"name": "echo"}):
                assert (await host.error(method, params))["code"] == -32602


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": None}, {"uri": []}, {"ref": {}}])
async def test_params_without_what_they_need_are_refused(pair, autojump_clock, params):
    async with pair.house({"files": full(pair)}) as (_, host):
        for method in ("tools/call", "prompts/get", "resources/read", "completion/complete"):
            assert (await host.error(method, params))["code"] in (-32602, -32020)


# --- metadata ---------------------------------------------------------------------------------------------------------


@pytest.mark.covers("G-2", "G-13", "B-11")
async def test_metadata_of_a_hop_ends_there_and_the_rest_passes(pair, autojump_clock):
    fake = full(pair)
    there = {"io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"}, "vendor.example/b": [1]}
    fake.on["tools/call"] = lambda *_: pair.whole(content=[], _meta={**there, "traceparent": "00-b"})
    async with pair.house({"files": fake}) as (_, host):
        host.level = None if pair.from_legacy else "error"
        meta = {"traceparent": TRACEPARENT, "vendor.example/a": {"deep": True}, "progressToken": "host's"}
        result = await host.call("files__echo", meta=meta)
        [sent] = fake.conversation.of("tools/call")
        found = sent["params"]["_meta"]
        assert (found.pop("traceparent"), found.pop("vendor.example/a")) == (TRACEPARENT, {"deep": True})
        assert isinstance(found.pop("progressToken"), int)
        if pair.to_legacy:
            assert found == {}
        else:
            level = {} if pair.from_legacy else {"io.modelcontextprotocol/logLevel": "error"}
            about = found.pop("io.modelcontextprotocol/clientInfo")
            assert about["name"] == "hubd"
            assert found == {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
                **level,
            }
        assert result["_meta"]["traceparent"] == "00-b"
        assert result["_meta"]["vendor.example/b"] == [1]
        assert_face(pair, result)


@pytest.mark.covers("R-19")
async def test_what_is_meant_for_the_hub_is_not_passed_on(pair, autojump_clock):
    fake = full(pair)
    async with pair.house({"files": fake}) as (_, host):
        call = {"name": "files__echo", "arguments": {}, "task": {"ttl": 1}, "inputResponses": {}}
        forged = {**call, "requestState": "forged"}
        if pair.from_legacy:
            await host.result("tools/call", forged)
        else:
            assert (await host.error("tools/call", forged))["data"]["reason"] == "request_state_invalid"
            await host.result("tools/call", call)
        [sent] = fake.conversation.of("tools/call")
        known = {"name", "arguments", "_meta", *(["inputResponses"] if pair.name == "MM" else [])}
        assert sent["params"].keys() <= known


# --- scoped endpoints, bare names -------------------------------------------------------------------------------------


async def test_an_endpoint_of_one_upstream_shows_its_own_names(pair, autojump_clock):
    async with pair.house({"files": full(pair), "other": pair.fake(tools=["more"])}) as (house, _):
        host = await pair.host(house, endpoint="files")
        assert await host.names() == ["echo"]
        assert await host.names("prompts") == ["greet"]
        assert "content" in await host.call("echo")
        assert "messages" in await host.result("prompts/get", {"name": "greet"})
        assert "contents" in await host.result("resources/read", {"uri": "any://thing"})
        assert (await host.error("tools/call", {"name": "other__more"}))["code"] == -32602
        assert (await host.error("tools/call", {"name": "files__echo"}))["code"] == -32602


async def test_one_upstream_may_have_bare_names(pair, autojump_clock):
    fakes = {"files": full(pair), "other": pair.fake(tools=["echo"])}
    async with pair.house(fakes, upstreams={"files": {"prefix": ""}}) as (_, host):
        assert await host.names() == ["echo", "other__echo"]
        await host.call("echo")
        await host.call("other__echo")
        assert [len(fake.conversation.of("tools/call")) for fake in fakes.values()] == [1, 1]


@pytest.mark.parametrize("version", [L1, L2, L3])
@pytest.mark.parametrize("carrier", ["lines", "http"])
@pytest.mark.parametrize("upstream", [L1, L4, MODERN])
async def test_older_hosts_do_all_of_it(autojump_clock, version, carrier, upstream):
    fake = FakeUpstream(version=upstream, prompts=[PROMPT], resources=[NOTE], resourceTemplates=[NOTES])
    async with a_house({"files": fake}) as house:
        host = await house.host(carrier, version)
        assert await host.names() == ["files__echo"]
        assert await host.result("ping") == {}
        await host.call("files__echo")
        await host.result("prompts/get", {"name": "files__greet"})
        await host.result("resources/read", {"uri": "note://one"})
        for kind in ("prompts", "resources", "resourceTemplates"):
            assert len(await host.names(kind)) == 1
        assert (await host.error("resources/read", {"uri": "x://y"}))["code"] == -32002


# --- files that several local upstreams can read ----------------------------------------------------------------------


def files(pair):
    return pair.fake(resourceTemplates=[{"uriTemplate": "file:///{path}", "name": "files"}])


async def test_a_file_that_one_upstream_cannot_read_is_asked_of_the_next(pair, autojump_clock):
    one, two = files(pair), files(pair)
    params = {"uri": "file:///a/b"}
    async with pair.house({"one": one, "two": two}, cache=NOT_AT_ALL) as (_, host):
        await host.result("resources/read", params)
        assert (len(one.conversation.of("resources/read")), len(two.conversation.of("resources/read"))) == (1, 0)
        one.on["resources/read"] = lambda *_: Failure(-32603, "Permission denied")
        await host.result("resources/read", params)
        assert len(two.conversation.of("resources/read")) == 1
        two.on["resources/read"] = lambda *_: Failure(-32603, "No such file")
        assert (await host.error("resources/read", params))["message"] == "No such file"


async def test_an_upstream_that_is_away_does_not_keep_files_from_others(pair, autojump_clock):
    one, two = files(pair), files(pair)

    async def die(message, conversation):
        await conversation.close()

    one.on["resources/read"] = die
    async with pair.house({"one": one, "two": two}, cache=NOT_AT_ALL) as (_, host):
        assert "contents" in await host.result("resources/read", {"uri": "file:///a/b"})
        two.on["resources/read"] = die
        error = await host.error("resources/read", {"uri": "file:///a/b"})
        assert error["data"]["hub"] == "upstream_lost"


# --- one URI, two upstreams -------------------------------------------------------------------------------------------


async def test_upstreams_with_the_same_uri_are_told_apart(pair, autojump_clock):
    fakes = {"one": full(pair), "two": full(pair)}
    async with pair.house(fakes) as (_, host):
        first, second = await host.names("resources")
        assert first == "note://one" != second
        for uri, owner in ((first, fakes["one"]), (second, fakes["two"])):
            result = await host.result("resources/read", {"uri": uri})
            assert result["contents"][0]["uri"] == uri
            assert len(owner.conversation.of("resources/read")) == 1
            assert owner.conversation.of("resources/read")[0]["params"]["uri"] == "note://one"


@pytest.mark.covers("S-8", "S-9")
async def test_what_is_not_found_is_named_as_the_host_named_it(pair, autojump_clock):
    fakes = {"one": full(pair), "two": full(pair)}
    code = -32002 if pair.to_legacy else -32602
    fakes["two"].on["resources/read"] = lambda *_: Failure(code, "Gone", raw({"uri": "note://one"}))
    async with pair.house(fakes) as (_, host):
        _, tagged = await host.names("resources")
        error = await host.error("resources/read", {"uri": tagged})
        assert (error["code"], error["data"]["uri"]) == (-32002 if pair.from_legacy else -32602, tagged)


async def test_uris_in_arguments_and_results_are_those_of_the_side_that_sees_them(pair, autojump_clock):
    fakes = {"one": full(pair), "two": full(pair)}
    block = {"type": "resource", "resource": {"uri": "note://one", "text": "t"}}
    fakes["two"].on["tools/call"] = lambda *_: pair.whole(content=[block])
    async with pair.house(fakes) as (_, host):
        _, tagged = await host.names("resources")
        result = await host.call("two__echo", {"uri": tagged, "other": "note://x"})
        assert result["content"][0]["resource"]["uri"] == tagged
        sent = fakes["two"].conversation.of("tools/call")[0]["params"]["arguments"]
        assert sent == {"uri": "note://one", "other": "note://x"}
