"""What only 2026-07-28 has: headers that repeat the request."""

import json
from typing import Any

import pytest
import trio

from hub.link.call_interface import Operation
from hub.link.hub_errors import UpstreamProtocolError
from hub.wire.jsonrpc import Failure, Result, raw
from hub.wire.mcp import MODERN, Kind
from tests.support.http_fixture import TEXT, TIMEOUTS, Ear, answering, running
from tests.support.http_peer import PeerRequest, Script, Talk
from upstreams.inventory.read_lists import walk

COMPLETE = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "b"}}


@pytest.mark.covers("H-1", "H-2", "H-3", "H-6", "H-17", "B-10", "T-11", "T-18", "OT-3")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "caf\u00e9"}, "=?base64?Y2Fmw6k=?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///x"}, "file:///x"),
        ("completion/complete", COMPLETE, None),
    ],
)
async def test_modern_requests_say_everything_twice(method: str, params: dict[str, Any], name: str | None) -> None:
    async with running(Script("modern")) as it:
        meta = {"traceparent": raw("00-x"), "io.modelcontextprotocol/x": raw(1)}
        operation = Operation(method, {key: raw(value) for key, value in params.items()}, meta)
        await it.session.call(operation, Ear(), TIMEOUTS)
        request = it.peer.requests[-1]
        assert request.headers["mcp-protocol-version"] == MODERN
        assert request.headers["mcp-method"] == method
        assert request.headers.get("mcp-name") == name
        assert "mcp-session-id" not in request.headers
        sent = request.json["params"]["_meta"]
        assert sent["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert sent["io.modelcontextprotocol/clientCapabilities"] == {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        }
        assert sent["io.modelcontextprotocol/clientInfo"]["name"] == "hubd"
        assert sent["io.modelcontextprotocol/logLevel"] == "debug"
        assert sent["traceparent"] == "00-x"
        assert "traceparent" not in request.headers


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


REGION = {"type": "string", "x-mcp-header": "Region"}


@pytest.mark.covers("H-9", "H-16", "C-19")
async def test_arguments_are_mirrored_as_the_latest_schema_says(caplog: pytest.LogCaptureFixture) -> None:
    script = Script("modern")
    tools = [tool("t", region=REGION, n={"type": "integer"}), tool("bad", x={"type": "array", "x-mcp-header": "X"})]

    async def list_(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result({"tools": tools, "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}))

    script.on["tools/list"] = list_
    async with running(script) as it:

        async def listed() -> list[str]:
            reply = await it.session.request("tools/list", {})
            assert isinstance(reply, Result)
            value = json.loads(bytes(reply.value))
            assert value["ttlMs"] == 5
            return [entry["name"] for entry in value["tools"]]

        async def mirrored(**arguments: Any) -> str | None:
            await it.call("t", arguments)
            return it.peer.requests[-1].headers.get("mcp-param-region")

        assert await mirrored(region="eu") is None, "without a schema there is no header"
        assert await listed() == ["t"]
        assert "bad of far is left out" in caplog.text
        assert await mirrored(region="eu") == "eu"
        assert await mirrored(region="a\r\nB: c") == "=?base64?YQ0KQjogYw==?="
        assert await mirrored(region=None) is None
        assert await mirrored() is None
        tools[:] = [tool("t", region={"type": "string"})]
        assert await listed() == ["t"]
        assert await mirrored(region="eu") is None


@pytest.mark.covers("H-16")
async def test_tools_that_vanished_want_no_headers() -> None:
    script = Script("modern")
    pages: dict[str | None, dict[str, Any]] = {}

    async def list_(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result(pages[request.json["params"].get("cursor")]))

    script.on["tools/list"] = list_
    async with running(script) as it:

        async def mirrored(name: str) -> bool:
            await it.call(name, {"region": "eu"})
            return "mcp-param-region" in it.peer.requests[-1].headers

        pages |= {None: {"tools": [tool("a", region=REGION)], "nextCursor": "2"}}
        pages |= {"2": {"tools": [tool("b", region=REGION)]}}
        assert len((await walk(it.session, Kind.TOOL)).entries) == 2
        assert await mirrored("a")
        assert await mirrored("b")
        pages[None] = {"tools": [tool("c")], "nextCursor": "2"}
        await it.session.request("tools/list", {})
        assert await mirrored("a"), "the walk is not at its end"
        await it.session.request("tools/list", {"cursor": raw("2")})
        assert not await mirrored("a")
        assert await mirrored("b")
        pages[None] = {"tools": [tool("c")]}
        await walk(it.session, Kind.TOOL)
        assert not await mirrored("b")


@pytest.mark.covers("C-20", "F-P-17")
@pytest.mark.parametrize("how", ["circle", "error"])
async def test_a_refetch_that_fails_leaves_the_answer(how: str) -> None:
    script = Script("modern")

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.error(-32020, "Mcp-Param-Region is missing"), status=400)

    async def list_(request: PeerRequest, talk: Talk) -> None:
        after = {None: "a", "a": "b", "b": "a"}[request.json["params"].get("cursor")]
        if how == "circle":
            await talk.reply(request.result({"tools": [], "nextCursor": after}))
        else:
            await talk.reply(request.error(-32603, "broken"))

    script.on |= {"tools/call": call, "tools/list": list_}
    async with running(script) as it:
        reply = await it.call("t", {})
        assert isinstance(reply, Failure)
        assert reply.code == -32020
        assert it.peer.methods().count("tools/list") == (3 if how == "circle" else 1)


@pytest.mark.covers("C-20")
@pytest.mark.parametrize("heals", [True, False])
async def test_a_header_mismatch_refetches_the_tools_and_tries_once_more(heals: bool) -> None:
    script = Script("modern")

    async def call(request: PeerRequest, talk: Talk) -> None:
        if heals and request.headers.get("mcp-param-region") == "eu":
            await talk.reply(request.result(TEXT))
        else:
            await talk.reply(request.error(-32020, "Mcp-Param-Region is missing"), status=400)

    async def list_(request: PeerRequest, talk: Talk) -> None:
        if "cursor" in request.json["params"]:
            await talk.reply(request.result({"tools": [tool("t", region=REGION)]}))
        else:
            await talk.reply(request.result({"tools": [], "nextCursor": ""}))

    script.on |= {"tools/call": call, "tools/list": list_}
    async with running(script) as it:
        reply = await it.call("t", {"region": "eu"})
        assert reply == TEXT if heals else (isinstance(reply, Failure) and reply.code == -32020)
        assert it.peer.methods() == ["server/discover", "tools/call", "tools/list", "tools/list", "tools/call"]
        assert it.ear.kinds == [Kind.TOOL]
        ids = [request.json["id"] for request in it.peer.requests if request.rpc == "tools/call"]
        assert len(set(ids)) == 2, "an id is never used twice"


@pytest.mark.covers("V-12")
@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_modern_server_that_became_another_ends_the_session(status: int) -> None:
    script = Script("modern")
    async with running(script) as it:
        script.on["tools/call"] = answering(status=status)
        with pytest.raises(UpstreamProtocolError):
            await it.call()
        assert str(status) in str(await it.end())


async def test_an_error_without_id_answers_a_modern_request() -> None:
    script = Script("modern")
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"odd"}}'
    script.on["tools/call"] = answering(status=400, body=body, Content_Type="application/json")
    async with running(script) as it:
        reply = await it.call()
        assert reply.code == -32600


@pytest.mark.covers("B-9")
async def test_requests_of_a_modern_server_are_ignored() -> None:
    script = Script("modern")

    async def call(request: PeerRequest, talk: Talk) -> None:
        await talk.stream()
        await talk.event({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        await talk.event(request.result({}))
        await talk.end()

    script.on["tools/call"] = call
    async with running(script) as it:
        assert await it.call() == {}
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert it.peer.methods() == ["server/discover", "tools/call"]
