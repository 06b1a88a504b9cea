"""The URL at which a person signs in: parameters, their spelling, and what is refused."""

from types import MappingProxyType, SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest

from config.security_settings import OWN_PARAMETERS
from hub.sign_in.authorization_request import AuthorizationRequest, challenge, host_of, new_secrets
from hub.sign_in.parse_redirect_uri import Listening, base_url, callback_at, parse_redirect
from hub.wire.questions.page_urls import is_openable
from upstreams.oauth.model import OAuthProblem

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
REDIRECT = "http://127.0.0.1:8765/oauth/callback"


def asked(endpoint="https://id.example/authorize", *, extra=MappingProxyType({}), scope="", resource=""):
    url = AuthorizationRequest(
        verifier=VERIFIER,
        nonce="NONCE",
        account=SimpleNamespace(settings=SimpleNamespace(extra=extra)),
        discovery=SimpleNamespace(server=SimpleNamespace(authorization_endpoint=endpoint)),
        client=SimpleNamespace(client_id="me"),
        redirect=parse_redirect(REDIRECT),
        scope=scope,
        resource=resource,
    ).url("STATE")
    pairs = parse_qsl(urlsplit(url).query, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs), "a name is there twice"
    return url, dict(pairs)


def test_the_example_of_the_rfc():
    assert challenge(VERIFIER) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_without_anything_special():
    _, given = asked()
    assert given == {
        "response_type": "code",
        "client_id": "me",
        "redirect_uri": REDIRECT,
        "state": "STATE",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
    }


def test_secrets_are_new_each_time_and_long_enough():
    values = [*new_secrets(), *new_secrets()]
    assert len(set(values)) == 6
    assert all(len(value) >= 43 for value in values)


@pytest.mark.parametrize(
    ("scope", "more"),
    [
        ("a b", {"scope": "a b"}),
        ("openid a", {"scope": "openid a", "nonce": "NONCE"}),
        ("a offline_access", {"scope": "a offline_access", "prompt": "consent"}),
        ("openidx offline_accessory", {"scope": "openidx offline_accessory"}),
    ],
)
def test_scopes_bring_what_belongs_to_them(scope, more):
    assert asked(scope=scope)[1].items() - asked()[1].items() == more.items()


def test_the_resource_is_sent_as_it_is():
    url, given = asked(resource="https://N.example:443/a%2Fb/")
    assert given["resource"] == "https://N.example:443/a%2Fb/"
    assert "resource=https%3A%2F%2FN.example%3A443%2Fa%252Fb%2F" in url


@pytest.mark.parametrize("joint", ["?tenant=1", "?tenant=1&", "?"])
def test_a_query_that_is_there_stays(joint):
    url, given = asked(f"https://id.example/authorize{joint}")
    assert url.startswith(f"https://id.example/authorize{joint}")
    assert given["state"] == "STATE"
    assert ("tenant" in given) == ("tenant" in joint)


def test_further_parameters_of_the_configuration():
    assert asked(extra={"audience": "x y", "access_type": "offline"})[1]["audience"] == "x y"


@pytest.mark.parametrize("name", sorted(OWN_PARAMETERS))
def test_what_the_hub_decides_cannot_be_configured(name):
    with pytest.raises(OAuthProblem, match=name):
        asked(extra={name: "x"})


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example/a?b=c",
        "https://[2001:db8::1]:8443/",
        "http://127.0.0.1:9401/auth",
        "http://[::1]:9401/auth",
        "http://localhost/auth",
    ],
)
def test_urls_to_open(url):
    assert is_openable(url)


@pytest.mark.covers("SEC-40")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "--help",
        "-https://id.example",
        "data:text/html,x",
        "http://id.example/",
        "http://localhost.evil.test/",
        "http://127.0.0.1.evil.test/",
        "https://",
        "https:///x",
        "https://a b/",
        "https://id.example/\n",
        "https://id.example/\x00",
        "https://id.example/$(touch x)\t",
        "https://user@id.example/",
        "https://user:x@id.example/",
        "https://id.example/#f",
        "https://id.example\\@evil.test/",
        "https://id.example:99999/",
        "https://[::1/",
        "https://id.ex\u202eample/",
        "HTTPS//id.example",
        "https://id.example/" + "x" * 9000,
    ],
)
def test_urls_that_nobody_is_sent_to(url):
    assert not is_openable(url)
    with pytest.raises(OAuthProblem):
        asked(url)


def test_the_host_for_people():
    assert host_of("https://id.example:8443/o") == "id.example:8443"
    assert host_of("https://u:p@id.example/") == "id.example"


def test_with_and_without_a_number():
    assert callback_at("http://127.0.0.1:8765", 0) == "http://127.0.0.1:8765/oauth/callback"
    assert callback_at("https://hub.example", 3) == "https://hub.example/oauth/callback/3"


@pytest.mark.parametrize(
    ("uri", "addresses", "path"),
    [
        ("http://127.0.0.1:3118/cb", (("127.0.0.1", 3118),), "/cb"),
        ("http://[::1]:3118/", (("::1", 3118),), "/"),
        ("http://localhost:3118/oauth/callback", (("127.0.0.1", 3118), ("::1", 3118)), "/oauth/callback"),
        ("http://127.0.0.1", (("127.0.0.1", 80),), "/"),
    ],
)
def test_what_is_listened_at(uri, addresses, path):
    redirect = parse_redirect(uri)
    assert (redirect.addresses, redirect.path) == (addresses, path)
    assert redirect.is_loopback


def test_one_behind_a_proxy():
    redirect = parse_redirect("https://hub.example/oauth/callback/2")
    assert not redirect.is_loopback
    assert (redirect.host, redirect.port) == ("hub.example", 443)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/oauth/callback",
        "http://evil.test/cb",
        "http://10.0.0.1:80/cb",
        "http://localhost.evil.test/cb",
        "http://127.0.0.1:3118/cb#f",
        "http://127.0.0.1:3118/cb?x=1",
        "http://u@127.0.0.1:3118/cb",
        "http://127.0.0.1:99999/cb",
        "http://127.0.0.1:3118/c b",
        "http://127.0.0.1:3118\\@evil.test/",
        "cursor://anysphere/cb",
        "http://[::1/cb",
    ],
)
def test_what_nobody_can_come_back_to(uri):
    with pytest.raises(OAuthProblem, match="redirect_uri"):
        parse_redirect(uri)


@pytest.mark.parametrize(
    ("host", "reached", "covers"),
    [
        ("127.0.0.1", "http://127.0.0.1:8765", {"127.0.0.1"}),
        ("::1", "http://[::1]:8765", {"::1"}),
        ("0.0.0.0", "http://127.0.0.1:8765", {"127.0.0.1"}),
        ("::", "http://127.0.0.1:8765", {"127.0.0.1", "::1"}),
        ("10.0.0.5", None, {"10.0.0.5"}),
    ],
)
def test_how_the_hub_is_reached(host, reached, covers):
    listening = Listening(host, 8765, True)
    assert listening.base == reached
    assert listening.covers == {(each, 8765) for each in covers}


def test_origins():
    assert base_url("::1", 1) == "http://[::1]:1"
    assert base_url("127.0.0.1", 1) == "http://127.0.0.1:1"
