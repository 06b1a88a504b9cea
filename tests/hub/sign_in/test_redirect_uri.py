"""Where browsers come back to."""

import pytest

from hub.sign_in.redirect_uri import Listening, base_url, callback_at, taken_apart
from upstreams.oauth.model import OAuthProblem


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
    redirect = taken_apart(uri)
    assert (redirect.addresses, redirect.path) == (addresses, path)
    assert redirect.is_loopback


def test_one_behind_a_proxy():
    redirect = taken_apart("https://hub.example/oauth/callback/2")
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
        taken_apart(uri)


@pytest.mark.parametrize(
    ("host", "reached", "covers"),
    [
        ("127.0.0.1", "127.0.0.1", {"127.0.0.1"}),
        ("::1", "::1", {"::1"}),
        ("0.0.0.0", "127.0.0.1", {"127.0.0.1"}),
        ("::", "127.0.0.1", {"127.0.0.1", "::1"}),
        ("10.0.0.5", None, {"10.0.0.5"}),
    ],
)
def test_how_the_hub_is_reached(host, reached, covers):
    listening = Listening(host, 8765, True)
    assert listening.reached_at == reached
    assert listening.covers == {(each, 8765) for each in covers}


def test_origins():
    assert base_url("::1", 1) == "http://[::1]:1"
    assert base_url("127.0.0.1", 1) == "http://127.0.0.1:1"
