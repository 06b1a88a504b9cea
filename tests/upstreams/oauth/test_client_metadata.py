"""The client metadata document: what the hub serves, and what is said of one that is wrong."""

import pytest

from config.security_settings import OAuthConfig
from upstreams.oauth.client_metadata import CALLBACK, PATH, SHARED_ORIGINS, client_document, flaws_of, has_redirect_uri

HOST = "https://hub.example"
REDIRECT = "http://127.0.0.1:8765/oauth/callback"
SHARED = [origin + CALLBACK for origin in SHARED_ORIGINS]


@pytest.mark.covers("A-21")
def test_the_document_that_is_hosted_for_all_hubs():
    assert client_document(HOST, OAuthConfig(), SHARED) == {
        "client_id": "https://hub.example/oauth/client.json",
        "client_name": "hubd",
        "client_uri": "https://hub.example/",
        "application_type": "native",
        "redirect_uris": ["http://127.0.0.1:8765/oauth/callback", "http://localhost:8765/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def test_the_document_of_a_team_server():
    document = client_document(HOST + "/", OAuthConfig(client_name="hub of Ann"))
    assert document["client_id"] == HOST + PATH
    assert (document["client_name"], document["application_type"]) == ("hub of Ann", "web")
    assert document["redirect_uris"] == [f"{HOST}/oauth/callback"]
    assert all(has_redirect_uri(HOST + PATH, uri) for uri in document["redirect_uris"])


def test_redirect_uris_that_a_document_can_be_expected_to_name():
    assert all(has_redirect_uri("https://a.example/x", uri) for uri in SHARED)
    for uri in ("http://127.0.0.1:8766/oauth/callback", REDIRECT + "/", REDIRECT + "/1", REDIRECT + "?x", ""):
        assert not has_redirect_uri(HOST + PATH, uri)


GOOD = client_document(HOST, OAuthConfig(), SHARED)


def test_a_document_that_is_right():
    assert flaws_of(GOOD, HOST + PATH, REDIRECT) == []
    less = {name: value for name, value in GOOD.items() if name not in ("client_uri", "token_endpoint_auth_method")}
    assert flaws_of(less, HOST + PATH, REDIRECT) == []


@pytest.mark.parametrize(
    ("change", "due"),
    [
        ({"client_id": HOST}, "does not repeat its own URL as client_id"),
        ({"redirect_uris": [REDIRECT + "/1"]}, f"does not name the redirect URI {REDIRECT}"),
        ({"redirect_uris": REDIRECT + "x"}, f"does not name the redirect URI {REDIRECT}"),
        ({"client_name": None}, "has no client_name"),
        ({"token_endpoint_auth_method": "client_secret_basic"}, "wants another token_endpoint_auth_method than none"),
        ({"grant_types": ["authorization_code"]}, "lacks refresh_token in grant_types"),
        ({"response_types": "code"}, "lacks code in response_types"),
    ],
)
def test_a_document_that_is_wrong(change, due):
    assert flaws_of({**GOOD, **change}, HOST + PATH, REDIRECT) == [due]
    assert flaws_of(None, HOST + PATH, REDIRECT) == ["is no JSON object"]
