"""ID tokens of the identity provider."""

import base64
import json

import pytest

from config.setting import Secret
from upstreams.oauth.model import OAuthProblem
from upstreams.oauth.tokens.id_token import check_id_token, lasts

ISSUER = "https://idp.example"
GOOD = {"iss": ISSUER, "aud": "hub", "nonce": "n", "exp": 1300}


def token(**claims) -> Secret:
    body = base64.urlsafe_b64encode(json.dumps(GOOD | claims).encode()).decode().rstrip("=")
    return Secret(f"e30.{body}.x")


@pytest.mark.parametrize("claims", [{}, {"aud": ["other", "hub"]}, {"exp": 950}])
def test_one_that_belongs_to_the_sign_in(claims):
    check_id_token(token(**claims), ISSUER, "hub", "n", 1000.0)


BAD = [
    None,
    token(iss="https://other.example"),
    token(iss=None),
    token(aud="another"),
    token(aud=["another"]),
    token(aud={"hub": 1}),
    token(nonce="another"),
    token(nonce=None),
    token(exp=900),
    token(exp="soon"),
    token(exp=float("nan")),
    Secret("text"),
    Secret("a.b.c"),
    Secret("a.W10.c"),
    Secret("a." + base64.urlsafe_b64encode(b"[" * 20_000).decode() + ".c"),
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_one_that_does_not(bad):
    with pytest.raises(OAuthProblem, match="ID token"):
        check_id_token(bad, ISSUER, "hub", "n", 1000.0)


def test_how_long_it_is_shown():
    assert lasts(token(), 1269.0)
    assert not lasts(token(), 1271.0)
    assert all(lasts(Secret(text), 0.0) for text in ("text", "a.b.c", "a.W10.c"))
