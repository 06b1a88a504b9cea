"""The trial of `hubd doctor`: it says what would become of a sign-in, and registers nothing."""

import re

import pytest

from config.security_settings import OAuthConfig, UpstreamOAuth
from config.setting_declarations import Secret
from tests.support.scripted_web import ScriptedWeb, timed_out
from upstreams.oauth.client_id import ClientSearch, check_client_document
from upstreams.oauth.client_metadata import PATH, client_document
from upstreams.oauth.discovery.discover import discover
from upstreams.oauth.model import Challenge, OAuthProblem

URL = "https://notes.example/mcp"
PLACE = "https://notes.example/.well-known/oauth-protected-resource/mcp"
ID = "https://id.example"
SERVER = ID + "/.well-known/oauth-authorization-server"
REDIRECT = "http://127.0.0.1:8765/oauth/callback"
DOCUMENT = "https://hubd.example" + PATH
PRM = {"resource": URL, "authorization_servers": [ID]}
GOOD = client_document("https://hubd.example", OAuthConfig(client_metadata_url=DOCUMENT), [REDIRECT])
META = {
    "issuer": ID,
    "authorization_endpoint": ID + "/authorize",
    "token_endpoint": ID + "/token",
    "registration_endpoint": ID + "/register",
    "code_challenge_methods_supported": ["S256"],
    "client_id_metadata_document_supported": True,
    "authorization_response_iss_parameter_supported": True,
}


async def foresee(meta=META, settings=None, hub=None, more=None):
    fetch, settings = (
        ScriptedWeb({PLACE: PRM, SERVER: meta, DOCUMENT: GOOD, **(more or {})}),
        settings or UpstreamOAuth(),
    )
    found = await discover(fetch, URL, settings, Challenge(), upstream="notes")
    try:
        return await ClientSearch(fetch, found, settings, hub or OAuthConfig(), REDIRECT, "notes").foresee()
    finally:
        assert fetch.posted == []


@pytest.mark.parametrize(
    ("settings", "hub", "due"),
    [
        ({}, {}, "registered"),
        ({}, {"client_metadata_url": DOCUMENT}, "document"),
        ({"client_id": "me"}, {"client_metadata_url": DOCUMENT}, "configured"),
    ],
)
async def test_a_sign_in_that_can_begin(settings, hub, due):
    assert await foresee(settings=UpstreamOAuth(**settings), hub=OAuthConfig(**hub)) == due


@pytest.mark.parametrize(
    ("meta", "settings", "due"),
    [
        (
            {"registration_endpoint": None},
            {},
            f"Register hubd there with the redirect URI {REDIRECT} and set client_id",
        ),
        ({"token_endpoint_auth_methods_supported": ["tls_client_auth"]}, {}, "set client_id and private_key"),
        ({}, {"client_id": "me", "client_secret": Secret("s")}, 'issuer = "https://id.example"'),
        ({}, {"grant": "client_credentials"}, "client_id is needed"),
    ],
)
async def test_a_sign_in_without_a_client_id(meta, settings, due):
    with pytest.raises(OAuthProblem, match=re.escape(due)):
        await foresee({**META, **meta}, UpstreamOAuth(**settings))


async def test_a_sign_in_by_a_document_that_is_wrong():
    with pytest.raises(OAuthProblem, match="does not repeat its own URL"):
        await foresee(hub=OAuthConfig(client_metadata_url=DOCUMENT), more={DOCUMENT: {**GOOD, "client_id": "x"}})


@pytest.mark.covers("A-21")
async def test_the_document_that_is_configured():
    hub = OAuthConfig(client_metadata_url=DOCUMENT)
    good = client_document("https://hubd.example", hub, [REDIRECT])
    assert await check_client_document(ScriptedWeb({DOCUMENT: good}), hub, REDIRECT) == ""
    assert await check_client_document(ScriptedWeb({DOCUMENT: {**good, "client_id": "x"}}), hub, REDIRECT + "/1") == (
        f"The document at client_metadata_url ({DOCUMENT}) does not repeat its own URL as client_id, and does not name "
        f"the redirect URI {REDIRECT}/1; correct it, or remove the setting."
    )
    assert "the answer is 404" in await check_client_document(ScriptedWeb(), hub, REDIRECT)
    assert "is no JSON object" in await check_client_document(ScriptedWeb({DOCUMENT: "<html>"}), hub, REDIRECT)
    away = ScriptedWeb({DOCUMENT: timed_out("https://hubd.example")})
    assert "does not answer within 10 seconds." in await check_client_document(away, hub, REDIRECT)
