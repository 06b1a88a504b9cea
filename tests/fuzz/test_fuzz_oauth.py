"""Damaged challenges, metadata and registrations: each is used, refused or passed over, and no other error is raised.

`HUBD_FUZZ` is the number of inputs per entry point (`make fuzz`: 10 000).
"""

import json
import os
import random

import pytest

from config.oauth_settings import UpstreamOAuth
from tests.fuzz.mutation import damaged
from tests.support.scripted_web import ScriptedWeb
from upstreams.fetch.model import Fetched
from upstreams.oauth.discovery.challenge import parse_challenges
from upstreams.oauth.discovery.discover import allowed_for, discover
from upstreams.oauth.discovery.scopes import fits, is_scope
from upstreams.oauth.model import Challenge, OAuthProblem, OAuthUnavailable
from upstreams.oauth.registration.dynamic import BadRegistration, read_registration

COUNT = int(os.environ.get("HUBD_FUZZ", "300"))
URL = "https://notes.example/team/mcp"
HOSTS = ("https://notes.example/", "https://id.example/", "https://b.example/")
"""All that the sound documents name; damage may name others, which are asked only if they are sound as well."""
PLACE = "https://notes.example/.well-known/oauth-protected-resource/team/mcp"
OURS = {
    "",
    *(url + slash for url in (URL, "https://notes.example/team", "https://notes.example") for slash in ("", "/")),
}
"""Identifiers that stand for the upstream."""
SETTINGS = UpstreamOAuth()
CHALLENGES = [
    f'Bearer realm="x", resource_metadata="{PLACE}", scope="a b", error="invalid_token"'.encode(),
    b'Basic realm="a, Bearer scope=\\"b\\"", Bearer scope="c", DPoP algs="ES256"',
    b"Negotiate YWJj==, bearer error=invalid_token , scope = x",
    b'Bearer ="",,,scope=", \x7f',
]
RESOURCES = [
    json.dumps({"resource": resource, "authorization_servers": servers, "scopes_supported": ["a", "b:*"]}).encode()
    for resource in (URL, "https://notes.example/team")
    for servers in (["https://id.example"], ["https://b.example/o", "https://id.example"])
]
SERVERS = [
    json.dumps(
        {
            "issuer": issuer,
            "authorization_endpoint": "https://id.example/authorize?tenant=1",
            "token_endpoint": "https://id.example/token",
            "registration_endpoint": "https://id.example/register",
            "code_challenge_methods_supported": ["S256", "plain"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "scopes_supported": ["openid", "offline_access"],
            "authorization_response_iss_parameter_supported": True,
        }
    ).encode()
    for issuer in ("https://id.example", "https://b.example/o")
]
REGISTRATIONS = [
    json.dumps({"client_id": "c", "redirect_uris": [URL], "token_endpoint_auth_method": method, **more}).encode()
    for method, more in (("none", {}), ("client_secret_post", {"client_secret": "s", "client_secret_expires_at": 9e9}))
]


class DamagedWeb(ScriptedWeb):
    """Answers everything with damaged documents."""

    def __init__(self, dice: random.Random, resource: bytes, server: bytes) -> None:
        super().__init__()
        self._dice, self._resource, self._server = dice, resource, server

    async def get(self, url, allowed, *, headers=None):
        await super().get(url, allowed, headers=headers)
        status = self._dice.choice((200, 200, 200, 200, 404, 302, 401, 500))
        return Fetched(status, {}, self._resource if "protected-resource" in url else self._server)


def test_challenges():
    for data in damaged(CHALLENGES, COUNT):
        found = parse_challenges([data.decode("latin-1"), *([CHALLENGES[0].decode()] * (len(data) % 2))])
        scopes = found.scope.split()
        assert all(map(is_scope, scopes))
        assert fits(scopes)
        assert len(found.resource_metadata) <= 2048
        assert found.resource_metadata.isascii()
        assert found.error.isprintable()


@pytest.mark.parametrize("kept", ["resource", "server", "neither"])
async def test_metadata(kept):
    """The sound one of the two leads to the other; damage that changes a host in a URL leads where that says."""
    dice, ways = random.Random(7), {"found": 0, "refused": 0, "away": 0}
    inputs = zip(damaged(RESOURCES, COUNT, 1), damaged(SERVERS, COUNT, 2), damaged(CHALLENGES, COUNT, 3), strict=True)
    allowed = allowed_for(URL, SETTINGS)
    told_people: list[str] = []
    for resource, server, challenge in inputs:
        resource = dice.choice(RESOURCES) if kept == "resource" else resource
        server = dice.choice(SERVERS) if kept == "server" else server
        told = parse_challenges([challenge.decode("latin-1")]) if kept == "neither" else Challenge()
        web = DamagedWeb(dice, resource, server)
        try:
            found = await discover(web, URL, SETTINGS, told, allowed=allowed, upstream="notes")
        except OAuthProblem as problem:
            ways["refused"] += 1
            told_people.append(str(problem))
        except OAuthUnavailable:
            ways["away"] += 1
        else:
            ways["found"] += 1
            assert found.server.token_endpoint.startswith("https://")
            assert found.server.authorization_endpoint.startswith("https://")
            assert found.server.registration_endpoint == "" or found.server.registration_endpoint.startswith("https://")
            assert found.resource.resource.lower() in OURS
            assert fits(found.scope.split())
        assert len(web.asked) <= 6
        assert all(url.startswith("https://") for url in web.asked)
        if kept == "resource":
            assert all(url.startswith(HOSTS) for url in web.asked)
    assert all(text.isprintable() and len(text) < 1500 for text in told_people)
    assert all(ways.values()), ways


def test_registrations():
    ways = {"taken": 0, "refused": 0}
    for data in damaged(REGISTRATIONS, COUNT):
        try:
            client = read_registration(Fetched(201, {}, data).json_object(), "https://id.example", URL, "none")
        except BadRegistration:
            ways["refused"] += 1
        else:
            ways["taken"] += 1
            assert 0 < len(client.client_id) <= 1024
            assert client.client_id.isascii()
            assert client.redirect_uri == URL
            assert client.token_auth in ("none", "client_secret_basic", "client_secret_post")
    assert all(ways.values()), ways
