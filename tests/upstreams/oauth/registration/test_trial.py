"""The trial of `hubd doctor`: it says what would become of a sign-in, and registers nothing."""

import pytest

from config.setting import Secret
from config.tables.oauth import OAuthConfig, UpstreamOAuth
from tests.support.scripted_web import ScriptedWeb, timed_out
from upstreams.oauth.model import Challenge
from upstreams.oauth.registration.client_metadata import PATH, client_document
from upstreams.oauth.registration.trial import check_client_document, try_sign_in

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


async def redirect_of(server):
    return REDIRECT


async def trial(meta=META, settings=None, hub=None, prm=PRM, more=None):
    fetch = ScriptedWeb({PLACE: prm, SERVER: meta, DOCUMENT: GOOD, **(more or {})})
    found = await try_sign_in(
        fetch, URL, settings or UpstreamOAuth(), hub or OAuthConfig(), redirect_of, "notes", Challenge()
    )
    assert fetch.posted == []
    return found


@pytest.mark.parametrize(
    ("settings", "hub", "due"),
    [
        ({}, {}, "registered"),
        ({}, {"client_metadata_url": DOCUMENT}, "document"),
        ({"client_id": "me"}, {"client_metadata_url": DOCUMENT}, "configured"),
    ],
)
async def test_a_sign_in_that_can_begin(settings, hub, due):
    found = await trial(settings=UpstreamOAuth(**settings), hub=OAuthConfig(**hub))
    assert (found.client, found.problem, found.discovery.server.issuer) == (due, "", ID)


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
    found = await trial({**META, **meta}, UpstreamOAuth(**settings))
    assert due in found.problem
    assert not found.is_passing
    assert found.discovery.server.issuer == ID


async def test_a_sign_in_that_cannot_begin():
    found = await trial({**META, "issuer": "https://b.example"})
    assert "so it is not trusted" in found.problem
    assert (found.is_passing, found.discovery) == (False, None)
    found = await trial(503)
    assert found.problem == "https://id.example answers 503 now; trying again later may help."
    assert found.is_passing


async def test_a_sign_in_by_a_document_that_is_wrong():
    found = await trial(hub=OAuthConfig(client_metadata_url=DOCUMENT), more={DOCUMENT: {**GOOD, "client_id": "x"}})
    assert (found.client, found.is_passing) == ("document", False)
    assert "does not repeat its own URL" in found.problem


@pytest.mark.covers("A-21")
async def test_the_document_that_is_configured():
    hub = OAuthConfig(client_metadata_url=DOCUMENT)
    good = client_document("https://hubd.example", hub, [REDIRECT])
    assert await check_client_document(ScriptedWeb(), OAuthConfig(), REDIRECT) == ""
    assert await check_client_document(ScriptedWeb({DOCUMENT: good}), hub, REDIRECT) == ""
    assert await check_client_document(ScriptedWeb({DOCUMENT: {**good, "client_id": "x"}}), hub, REDIRECT + "/1") == (
        f"The document at client_metadata_url ({DOCUMENT}) does not repeat its own URL as client_id, and does not name "
        f"the redirect URI {REDIRECT}/1; correct it, or remove the setting."
    )
    assert "the answer is 404" in await check_client_document(ScriptedWeb(), hub, REDIRECT)
    assert "is no JSON object" in await check_client_document(ScriptedWeb({DOCUMENT: "<html>"}), hub, REDIRECT)
    away = ScriptedWeb({DOCUMENT: timed_out("https://hubd.example")})
    assert "does not answer within 10 seconds." in await check_client_document(away, hub, REDIRECT)
