"""Extensions that are declared to an upstream because of how the hub signs in there, in requests of both eras."""

from typing import Any

import pytest

from config.security_settings import UpstreamOAuth
from config.settings import UpstreamConfig
from hub.wire.jsonrpc import raw
from tests.support.http_fixture import TEXT, running
from tests.support.http_peer import PeerRequest, Script
from upstreams.sessions.sharing import terms_of

UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
TASKS = {"io.modelcontextprotocol/tasks": {}}
ITSELF = "io.modelcontextprotocol/oauth-client-credentials"
COMPANY = "io.modelcontextprotocol/enterprise-managed-authorization"
GRANTS = [("client_credentials", {ITSELF: {}}), ("id_jag", {COMPANY: {}}), ("authorization_code", {}), ("none", {})]


def declared(request: PeerRequest) -> Any:
    """The extensions that a request declares."""
    params = request.json["params"]
    meta = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities")
    return (params["capabilities"] if meta is None else meta)["extensions"]


def config_of(grant: str, **more: Any) -> UpstreamConfig:
    return UpstreamConfig(url="http://127.0.0.1/mcp", oauth=UpstreamOAuth(grant=grant), **more)


@pytest.mark.parametrize(("grant", "more"), GRANTS)
async def test_a_modern_upstream_hears_of_them_with_each_request(grant, more):
    async with running(Script("modern"), terms=terms_of(config_of(grant))) as it:
        assert await it.call() == TEXT
        await it.session.request("tools/list", {})
        asked, called, listed = it.peer.requests
    assert declared(asked) == declared(listed) == {**UI, **more}
    assert declared(called) == {**TASKS, **more}


@pytest.mark.parametrize(("grant", "more"), GRANTS)
async def test_a_legacy_upstream_hears_of_them_in_initialize(grant, more):
    async with running(Script(), era="legacy", terms=terms_of(config_of(grant))) as it:
        assert it.peer.methods()[0] == "initialize"
        assert declared(it.peer.requests[0]) == {**UI, **more}


@pytest.mark.parametrize("known", [None, {}, {"extensions": raw(UI)}])
def test_sessions_of_one_host_and_of_none_declare_them(known):
    mine = terms_of(config_of("id_jag", client_features="none"), known)
    assert mine.capabilities == {"extensions": raw({COMPANY: {}})}
    configured = terms_of(config_of("id_jag", headers={"authorization": raw("t")}), known)
    usual = terms_of(UpstreamConfig(url="http://127.0.0.1/mcp"), known)
    assert (configured.capabilities, configured.extensions) == (usual.capabilities, {})
