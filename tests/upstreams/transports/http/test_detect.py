"""Finding out what a server by URL speaks."""

import json
from functools import partial
from typing import Any

import pytest
import trio

from config.diff import config_key
from config.remembered_facts import Memory
from config.settings import UpstreamConfig
from hub.link.hub_errors import (
    Overloaded,
    UpstreamProtocolError,
    UpstreamUnauthorized,
    UpstreamUnavailable,
    UpstreamVersionError,
)
from hub.wire.jsonrpc import raw
from hub.wire.mcp import MODERN, Era
from tests.support.http_fixture import TEXT, answering, config_for, failing, run, running
from tests.support.http_peer import PeerRequest, Script, Talk, http_peer


@pytest.mark.covers("V-10")
async def test_a_modern_server() -> None:
    async with running(Script("modern")) as it:
        assert it.session.era is Era.MODERN
        assert it.session.facts.version == MODERN
        assert it.session.transport == "http"
        assert it.session.pid is None
        assert await it.call() == TEXT
        assert it.peer.methods() == ["server/discover", "tools/call"]
        assert it.memory.era(config_key(config_for(it.peer))) == "modern"


@pytest.mark.covers("V-10", "V-11", "V-16", "T-32", "T-35")
async def test_a_legacy_server() -> None:
    async with running(Script()) as it:
        assert it.session.era is Era.LEGACY
        assert it.session.facts.version == "2025-11-25"
        assert it.session.facts.server_info["name"] == raw("far")
        assert await it.call() == TEXT
        methods = it.peer.methods()
        assert methods == ["server/discover", "initialize", "notifications/initialized", "GET", "tools/call"]
        asked, first, *later = it.peer.requests
        assert asked.headers["mcp-protocol-version"] == MODERN
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        for request in later:
            assert request.headers["mcp-session-id"] == "session-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
            assert request.headers["x-key"] == "k"
        assert later[-1].headers["accept"] == "application/json, text/event-stream"


@pytest.mark.covers("T-35")
@pytest.mark.parametrize(("version", "named"), [("2024-11-05", False), ("2025-03-26", False), ("2025-06-18", True)])
async def test_the_version_header_begins_with_2025_06_18(version: str, named: bool) -> None:
    async with running(Script(version=version, session=False), era="legacy") as it:
        await it.call()
        assert ("mcp-protocol-version" in it.peer.requests[-1].headers) is named
        assert "mcp-session-id" not in it.peer.requests[-1].headers


LEGACY_ANSWERS_TO_DISCOVER = {
    "json error": {"status": 200, "body": b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'},
    "400 text": {"status": 400, "body": b"Bad Request: no session", "Content_Type": "text/plain"},
    "400 json": {"status": 400, "body": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}'},
    "404": {"status": 404},
    "405": {"status": 405},
    "406": {"status": 406},
    "web page": {"status": 200, "body": b"<html>", "Content_Type": "text/html"},
    "202": {"status": 202},
    "only legacy versions": {
        "status": 200,
        "body": b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2025-11-25"]}}',
    },
    "no common version": {
        "status": 400,
        "body": b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}',
    },
}


@pytest.mark.covers("V-10", "V-11")
@pytest.mark.parametrize("answer", LEGACY_ANSWERS_TO_DISCOVER.values(), ids=LEGACY_ANSWERS_TO_DISCOVER.keys())
async def test_answers_to_discover_that_mean_legacy(answer: dict[str, Any]) -> None:
    script = Script()
    script.on["server/discover"] = answering(**{"Content_Type": "application/json"} | answer)
    async with running(script) as it:
        assert it.session.era is Era.LEGACY


@pytest.mark.covers("V-9")
@pytest.mark.parametrize("supported", [[MODERN], [MODERN, "2025-11-25"]])
async def test_a_modern_error_is_never_followed_by_initialize(supported: list[str]) -> None:
    script = Script("modern")

    async def picky(request: PeerRequest, talk: Talk) -> None:
        del script.on["server/discover"]
        await talk.reply(request.error(-32022, data={"supported": supported, "requested": "x"}), status=400)

    script.on["server/discover"] = picky
    async with running(script) as it:
        assert it.session.era is Era.MODERN
        assert it.peer.methods() == ["server/discover", "server/discover"]


@pytest.mark.covers("V-9", "V-3")
@pytest.mark.parametrize(
    "error",
    [
        {"code": -32022, "message": "no", "data": {"supported": ["2031-01-01"], "requested": MODERN}},
        {"code": -32020, "message": "no"},
    ],
)
async def test_a_modern_server_without_a_common_revision(error: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    script = Script("modern")
    script.on["server/discover"] = answering(status=400, body=body, Content_Type="application/json")
    with pytest.raises((UpstreamVersionError, UpstreamProtocolError), match="far"):
        await failing(script)


@pytest.mark.covers("V-29", "F-R-05", "F-R-06", "F-R-07")
@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (401, UpstreamUnauthorized, "401"),
        (403, UpstreamUnauthorized, "403"),
        (500, UpstreamProtocolError, "status 500"),
        (502, UpstreamProtocolError, "status 502"),
        (503, Overloaded, "overloaded"),
        (429, Overloaded, "overloaded"),
        (302, UpstreamProtocolError, "redirect to https://else.example:444, which"),
    ],
)
async def test_what_says_nothing_about_the_era(status: int, error: type[Exception], text: str) -> None:
    script = Script()
    where = "https://else.example:444/mcp?token=x"
    script.on["server/discover"] = answering(status=status, body=b"secret", Location=where)
    async with http_peer(script) as peer:
        with pytest.raises(error, match=text) as caught:
            await run(config_for(peer))
        assert peer.methods() == ["server/discover"]
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)


@pytest.mark.covers("V-29")
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("legacy", [False, True])
async def test_a_refusal_in_json_rpc_says_nothing_about_the_era(status: int, legacy: bool) -> None:
    async def refuse(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.error(-32001, "Unauthorized"), status=status)

    script = Script()
    script.on["initialize" if legacy else "server/discover"] = refuse
    with pytest.raises(UpstreamUnauthorized, match=str(status)):
        await failing(script)


@pytest.mark.covers("V-12")
async def test_the_era_is_remembered_and_doubted_when_contradicted() -> None:
    script = Script()

    async def front(request: PeerRequest, talk: Talk) -> None:
        await script(request, talk)

    memory = Memory(None)
    async with http_peer(front) as peer:

        async def once() -> str:
            peer.requests.clear()
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(run, config_for(peer), memory=memory))
                nursery.cancel_scope.cancel()
            return peer.methods()[0]

        assert await once() == "server/discover"
        assert await once() == "initialize"
        script = Script("modern")
        assert await once() == "initialize"
        assert "server/discover" in peer.methods()
        assert await once() == "server/discover"


async def test_a_forced_era() -> None:
    async with running(Script(), era="legacy") as it:
        assert it.peer.methods()[0] == "initialize"
    with pytest.raises(UpstreamVersionError, match='remove era = "modern"'):
        await failing(Script(), era="modern")
    with pytest.raises(UpstreamProtocolError):
        await failing(Script("modern"), era="legacy")


@pytest.mark.covers("V-15", "V-19")
@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"protocolVersion": "2031-01-01", "capabilities": {}}, UpstreamVersionError),
        ({"capabilities": {}}, UpstreamProtocolError),
        ([], UpstreamProtocolError),
    ],
)
async def test_a_handshake_that_fails(result: Any, error: type[Exception]) -> None:
    script = Script()

    async def initialize(request: PeerRequest, talk: Talk) -> None:
        await talk.reply(request.result(result))

    script.on["initialize"] = initialize
    with pytest.raises(error):
        await failing(script)


async def test_a_configuration_that_cannot_be_used() -> None:
    with pytest.raises(UpstreamUnavailable, match="far is configured wrongly: a user name") as caught:
        await run(UpstreamConfig(url="http://u:secret@h/"))
    assert "secret" not in str(caught.value)
