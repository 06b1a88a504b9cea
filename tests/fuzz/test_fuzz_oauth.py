"""Damaged challenges, metadata, registrations and answers with tokens: each is used, refused or passed over, and no
other error is raised.

`HUBD_FUZZ` is the number of inputs per entry point (`make fuzz`: 10 000).
"""

import json
import math
import os
import random
from base64 import urlsafe_b64encode
from contextlib import suppress

import pytest

from config.security_settings import UpstreamOAuth
from config.setting_declarations import Secret
from tests.fuzz.mutation import damaged
from tests.support.scripted_web import ScriptedWeb
from upstreams.fetch.terms_and_answers import Fetched
from upstreams.oauth.check_id_token import check_id_token, lasts
from upstreams.oauth.client_metadata import BadRegistration, read_registration
from upstreams.oauth.discovery.challenge import fits, is_scope, parse_challenges
from upstreams.oauth.discovery.discover import discover
from upstreams.oauth.model import Challenge, OAuthProblem, OAuthUnavailable
from upstreams.oauth.token_answers import LONGEST_LIFE_S, LONGEST_PAUSE_S, read_id_jag, read_token_answer

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
    told_people: list[str] = []
    for resource, server, challenge in inputs:
        resource = dice.choice(RESOURCES) if kept == "resource" else resource
        server = dice.choice(SERVERS) if kept == "server" else server
        told = parse_challenges([challenge.decode("latin-1")]) if kept == "neither" else Challenge()
        web = DamagedWeb(dice, resource, server)
        try:
            found = await discover(web, URL, SETTINGS, told, upstream="notes")
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


NOW = 1_800_000_000.0
CLAIMS = [
    json.dumps({"iss": "https://id.example", "aud": audience, "exp": NOW + 60, "iat": NOW, "nonce": "n"}).encode()
    for audience in ("me", ["you", "me"])
]
JAG = "urn:ietf:params:oauth:token-type:id-jag"
ANSWERS = [
    json.dumps({"access_token": "a.e30.c", "token_type": "Bearer", "expires_in": 60, "scope": "a b"}).encode(),
    json.dumps({"access_token": "a", "token_type": "bearer", "refresh_token": "r", "expires_in": "60"}).encode(),
    json.dumps({"access_token": "a", "token_type": "N_A", "issued_token_type": JAG, "id_token": "a.b.c"}).encode(),
    b"access_token=a&token_type=bearer&expires_in=60&scope=a+b",
    b'{"error": "invalid_grant", "error_description": "gone"}',
    b"error=temporarily_unavailable",
]


def jwt(claims: bytes) -> Secret:
    return Secret(f"e30.{urlsafe_b64encode(claims).rstrip(b'=').decode()}.c")


def test_answers_with_tokens():
    dice, ways = random.Random(5), {"taken": 0, "statement": 0, "refused": 0, "away": 0}
    told_people: list[str] = []
    pauses_s: list[float] = []
    for data in damaged(ANSWERS, COUNT, 5):
        kind = dice.choice(("application/json", "application/x-www-form-urlencoded; charset=utf-8", "", "text/html"))
        pause = dice.choice(
            ("", "5", "-1", "9" * 30, "Mon, 23 Nov 2026 17:00:00 GMT", "Mon, 99 Nov 9999 17:00:00 +9999")
        )
        status = dice.choice((200, 200, 200, 201, 400, 401, 403, 429, 503))
        data = dice.choice(ANSWERS) if dice.random() < 0.2 else data  # sound, in all other circumstances
        answer = Fetched(status, {"content-type": kind, "retry-after": pause}, data)
        for way, read in (("taken", read_token_answer), ("statement", read_id_jag)):
            try:
                found = read(answer, now=NOW, where="https://id.example")
            except OAuthProblem as problem:
                ways["refused"] += 1
                told_people.append(str(problem))
            except OAuthUnavailable as away:
                ways["away"] += 1
                told_people.append(str(away))
                pauses_s.append(away.retry_after_s or 0.0)
            else:
                ways[way] += 1
                if way == "statement":
                    continue
                life_s = found.expires_in_s
                assert life_s is None or (math.isfinite(life_s) and 0 <= life_s <= LONGEST_LIFE_S)
                assert found.access_token.reveal().isascii()
                assert (found.scope or "").isprintable()
    assert all(ways.values()), ways
    assert all(text.isprintable() and len(text) < 500 for text in told_people)
    assert all(0 <= pause_s <= LONGEST_PAUSE_S for pause_s in pauses_s)


def test_id_tokens():
    ways = {"ours": 0, "refused": 0}
    for claims in damaged([*CLAIMS, CLAIMS[0].replace(b"1800000060.0", b"1" + 400 * b"0")], COUNT, 6):
        lasts(jwt(claims), NOW)
        try:
            check_id_token(jwt(claims), "https://id.example", "me", "n", NOW)
        except OAuthProblem:
            ways["refused"] += 1
        else:
            ways["ours"] += 1
    for damage in damaged([jwt(CLAIMS[0]).reveal().encode()], COUNT, 7):
        token = Secret(damage.decode("latin-1"))
        lasts(token, NOW)
        with suppress(OAuthProblem):
            check_id_token(token, "https://id.example", "me", "n", NOW)
    assert all(ways.values()), ways
