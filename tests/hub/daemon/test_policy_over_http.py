"""Rules that go by what tokens of issuers say, over real sockets."""

import json
import re

import pytest
import trio

from config.remembered_facts import Memory
from config.security_settings import AccessConfig, AccessIssuer, PolicyConfig
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig
from hub.app import Hub
from hub.daemon.bind_http import Bound, listen_tcp
from hub.daemon.http_listener import HttpListener
from hub.downstream.access.issuer_token_verdicts import IssuerTokens
from hub.downstream.http.durable_sessions import DurableSessions
from hub.link.call_interface import Identity, Rights
from hub.link.sealing import Sealer, Signer
from hub.wire.mcp import CLIENT_CAPABILITIES_KEY, L4, MODERN, VERSION_KEY
from tests.support.fakes import FakeUpstream, opener
from tests.support.http_client import Client

ALICE = Identity("team/alice", "claude")
POLICY = PolicyConfig(default="deny", allow=("echo__read", "echo__write scope:mcp:write", "echo__drop group:admins"))


def check(self, request, token):
    """Believe a token that is its scopes and groups."""
    scopes, _, groups = token.partition("/")
    request.rights = Rights("team", frozenset(scopes.split("~")), frozenset(groups.split("~")))
    return ALICE


@pytest.fixture
async def listener(nursery, monkeypatch, tmp_path, request):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(IssuerTokens, "check", check)
    issuers = (AccessIssuer(name="team", issuer="https://id.example"),)
    access = AccessConfig(resource="https://hub.example.com/mcp", issuers=issuers, step_up=request.param)
    config = HubConfig(
        auth="oauth",
        token=Secret("0123456789abcdef"),
        access=access,
        policy=POLICY,
        upstreams={"echo": UpstreamConfig(command="echo")},
    )
    fake = FakeUpstream(tools=["read", "write", "drop"])
    hub = Hub(config, Memory(None), Sealer(b"k" * 32), run_session=opener({"echo": fake}))
    durable = DurableSessions(Signer(b"k" * 32), Memory(None), lambda: 1e9, "")
    listener = HttpListener(hub, Bound(listen_tcp("127.0.0.1:0")), durable)
    await nursery.start(hub.run)
    await nursery.start(listener.run)
    yield listener
    nursery.cancel_scope.cancel()


class Caller:
    """A host of one era, which may show another token each time."""

    def __init__(self, listener, *, modern):
        self.listener, self.modern, self.session = listener, modern, None

    async def post(self, token, method, params):
        client = Client(await trio.open_tcp_stream(*self.listener.address))
        if self.modern:
            params = {**params, "_meta": {VERSION_KEY: MODERN, CLIENT_CAPABILITIES_KEY: {}}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        lines = ["POST /mcp HTTP/1.1", f"Host: localhost:{self.listener.address[1]}", f"Authorization: Bearer {token}"]
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json", "Accept: application/json"]
        if self.modern:
            lines += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}"]
            lines += [f"Mcp-Name: {params['name']}"] if "name" in params else []
        if self.session is not None:
            lines.append(f"Mcp-Session-Id: {self.session}")
        await client.send("\r\n".join([*lines, "", ""]).encode() + body)
        answer = await client.answer()
        await client.stream.aclose()
        return answer

    async def ask(self, token, method, **params):
        if not self.modern and self.session is None:
            about = {"protocolVersion": L4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            self.session = (await self.post(token, "initialize", about)).headers["mcp-session-id"]
        return await self.post(token, method, params)

    async def names(self, token):
        listed = json.loads((await self.ask(token, "tools/list")).body)
        return [tool["name"] for tool in listed["result"]["tools"]]

    async def call(self, token, name):
        return await self.ask(token, "tools/call", name=name, arguments={})


@pytest.mark.covers("AUTH-H9", "POL-03", "POL-08")
@pytest.mark.parametrize("listener", [False], indirect=True)
@pytest.mark.parametrize("modern", [False, True])
async def test_scopes_and_groups_of_each_request_count(listener, modern):
    caller = Caller(listener, modern=modern)
    assert await caller.names("mcp:other") == ["echo__read"]
    refused = json.loads((await caller.call("mcp:other", "echo__write")).body)
    unknown = json.loads((await caller.call("mcp:other", "echo__wrote")).body)
    assert json.dumps(refused).replace("write", "wrote") == json.dumps(unknown)
    assert await caller.names("mcp") == ["echo__read", "echo__write"]
    assert "result" in json.loads((await caller.call("mcp", "echo__write")).body)
    assert await caller.names("x/admins") == ["echo__read", "echo__drop"]
    assert "error" in json.loads((await caller.call("x/admins", "echo__write")).body)


@pytest.mark.covers("AUTH-H9")
@pytest.mark.parametrize("listener", [True], indirect=True)
@pytest.mark.parametrize("modern", [False, True])
async def test_who_lacks_scopes_alone_is_told_which(listener, modern):
    caller = Caller(listener, modern=modern)
    assert await caller.names("x") == ["echo__read", "echo__write"]
    answer = await caller.call("x", "echo__write")
    assert answer.status == 403
    challenge = answer.headers["www-authenticate"]
    assert re.search(r'error="insufficient_scope", scope="mcp:write", resource_metadata="https://hub[^"]+"', challenge)
    assert (await caller.call("x", "echo__drop")).status == 200
    assert "error" in json.loads((await caller.call("x", "echo__drop")).body)
    assert "result" in json.loads((await caller.call("mcp:write", "echo__write")).body)
