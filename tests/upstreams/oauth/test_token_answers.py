"""Answers of token endpoints, good, odd and hostile."""

import base64
import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.setting_declarations import Secret
from tests.support.token_world import START, answer, error, tokens
from upstreams.fetch.terms_and_answers import Fetched
from upstreams.oauth.check_id_token import check_id_token, lasts
from upstreams.oauth.model import OAuthProblem, OAuthUnavailable
from upstreams.oauth.token_answers import LONGEST_LIFE_S, TokenRefused, read_id_jag, read_token_answer

ISSUER = "https://idp.example"
GOOD = {"iss": ISSUER, "aud": "hub", "nonce": "n", "exp": 1300}


def read(answered):
    return read_token_answer(answered, now=START, where="https://id.example")


def form(status=200, kind="application/x-www-form-urlencoded", **members):
    return Fetched(status, {"content-type": kind}, urlencode(members).encode())


def jwt(**claims):
    part = urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{part}.sig"


@pytest.mark.parametrize("status", [200, 201])
@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_tokens(status, kind):
    got = read(answer(status, access_token="a", token_type=kind, refresh_token="r", scope="b a", id_token="i"))
    assert (got.access_token.reveal(), got.refresh_token.reveal(), got.id_token.reveal()) == ("a", "r", "i")
    assert (got.scope, got.expires_in_s) == ("b a", None)


@pytest.mark.parametrize(
    ("expires_in", "life"),
    [
        (3600, 3600), (3600.5, 3600.5), ("3600", 3600), (" 3600 ", 3600), (0, 0), ("0", 0), (-1, 0), ("-1", 0),
        (None, None), ("soon", None), (True, None), ([], None), ({}, None), (1e300, LONGEST_LIFE_S),
        ("9" * 18, LONGEST_LIFE_S), ("9" * 400, None), ("٣", None),
    ],
)  # fmt: skip
def test_how_long_a_token_lives(expires_in, life):
    assert read(tokens(expires_in=expires_in)).expires_in_s == life


@pytest.mark.parametrize(
    ("claims", "life"),
    [
        ({"exp": START + 60}, 60),
        ({"exp": START + 60, "iat": START + 20}, 40),
        ({"exp": START - 60}, 0),
        ({"exp": "x"}, None),
        ({}, None),
        ([1], None),
    ],
)
def test_a_jwt_tells_how_long_it_lives_where_the_answer_does_not(claims, life):
    token = jwt(**claims) if isinstance(claims, dict) else f"e30.{urlsafe_b64encode(b'[1]').decode()}.s"
    assert read(answer(access_token=token, token_type="bearer")).expires_in_s == life
    assert read(answer(access_token=token, token_type="bearer", expires_in=5)).expires_in_s == 5


@pytest.mark.parametrize("token", ["a.!.c", "a.e30", "..", "a.W1tbW1tbW1tb.c", "a." + "W" * 9000 + ".c"])
def test_what_only_looks_like_a_jwt_tells_nothing(token):
    assert read(answer(access_token=token, token_type="bearer")).expires_in_s is None


def test_a_form_is_an_answer_too():
    got = read(form(access_token="a", token_type="bearer", expires_in="60", scope="x"))
    assert (got.access_token.reveal(), got.expires_in_s, got.scope) == ("a", 60, "x")
    assert read(form(kind="text/plain; charset=utf-8", access_token="a", token_type="bearer")).scope is None


@pytest.mark.parametrize("status", [200, 201, 400, 401, 403, 404])
def test_an_error_member_is_an_error_at_any_status(status):
    for answered in (error("bad_verification_code", status), form(status, error="bad_verification_code")):
        with pytest.raises(TokenRefused) as refused:
            read(answered)
        assert (refused.value.code, refused.value.status) == ("bad_verification_code", status)
        assert str(refused.value) == "https://id.example refuses (bad_verification_code)"


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500, 503])
@pytest.mark.parametrize("code", ["invalid_grant", "invalid_client", "unauthorized_client"])
def test_some_errors_mean_what_they_say_whatever_the_status(status, code):
    with pytest.raises(TokenRefused) as refused:
        read(error(code, status))
    assert refused.value.code == code


@pytest.mark.parametrize("code", ["bad_refresh_token", "invalid_refresh_token"])
def test_own_words_for_invalid_grant(code):
    with pytest.raises(TokenRefused) as refused:
        read(error(code, 200))
    assert refused.value.code == "invalid_grant"


@pytest.mark.parametrize(
    ("answered", "retry_s", "sent"),
    [
        (answer(429, {"retry-after": "7"}), 7, False),
        (answer(503, {"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}), 30, False),
        (answer(503, {"retry-after": "99999999"}), 3600, False),
        (answer(503, {"retry-after": "-3"}), None, False),
        (answer(503, {"retry-after": "soon"}), None, False),
        (answer(503, {"retry-after": "Tue, 14 Nov 2023 21:13:50 GMT"}), 0, False),
        (error("temporarily_unavailable", 400), None, False),
        (error("internal", 500), None, False),
        (answer(502), None, True),
        (answer(504), None, True),
        (Fetched(200, {"content-type": "text/html"}, b"<!doctype html><p>Sign in"), None, True),
        (Fetched(302, {"location": "https://evil.example"}, b""), None, False),
        (Fetched(401, {}, b""), None, False),
        (Fetched(403, {}, b"Forbidden"), None, False),
        (Fetched(404, {}, b""), None, False),
        (Fetched(200, {}, b""), None, True),
        (Fetched(204, {}, b""), None, True),
        (Fetched(200, {}, b"[" * 60000), None, True),
        (Fetched(200, {}, b'{"access_token": NaN}'), None, True),
        (Fetched(200, {}, b'{"access_token": "a", "access_token": "b", "token_type": "bearer"}'), None, True),
        (Fetched(200, {"content-type": "text/plain"}, b"access_token=a&access_token=b&token_type=bearer"), None, True),
        (Fetched(200, {"content-type": "text/plain"}, b"&".join(b"a%d=1" % n for n in range(999))), None, True),
        (answer(error={}, access_token="a", token_type="bearer"), None, True),
        (answer(token_type="bearer"), None, True),
        (tokens(""), None, True),
        (tokens("a b"), None, True),
        (tokens("a\n"), None, True),
        (tokens("é"), None, True),
        (tokens("a" * 16385), None, True),
        (tokens(7), None, True),
        (tokens(token_type="mac"), None, True),
        (tokens(token_type=None), None, True),
        (tokens(token_type="DPoP"), None, True),
    ],
)
def test_there_is_no_answer_now(answered, retry_s, sent):
    with pytest.raises(OAuthUnavailable) as away:
        read(answered)
    assert (away.value.retry_after_s, away.value.sent) == (retry_s, sent)


@pytest.mark.parametrize(
    "answered",
    [
        Fetched(400, {}, b""),
        Fetched(400, {}, b"<html>"),
        error("", 400),
        error("two words", 400),
        error("x" * 65, 400),
        error("\x1b[2J", 400),
    ],
)
def test_a_refusal_that_does_not_say_why(answered):
    with pytest.raises(TokenRefused) as refused:
        read(answered)
    assert refused.value.code == ""
    assert str(refused.value) == "https://id.example refuses (400)"


def test_long_tokens_and_lists_of_scopes():
    assert read(tokens("a" * 16384, scope=["x", "y"])).scope == "x y"
    for scope in (7, "é", ["x", 1], "x" * 9000, {"a": 1}):
        assert read(tokens(scope=scope)).scope is None
    for refresh in ("", 7, "é", "r" * 16385, "a\x00"):
        assert read(tokens(refresh_token=refresh)).refresh_token is None


def test_an_identity_assertion():
    kind = "urn:ietf:params:oauth:token-type:id-jag"
    assert read_id_jag(answer(access_token="x.y.z", issued_token_type=kind), now=START, where="it") == "x.y.z"
    for answered in (
        answer(access_token="x.y.z", issued_token_type="urn:ietf:params:oauth:token-type:access_token"),
        answer(access_token="x.y.z"),
        answer(access_token="x y", issued_token_type=kind),
    ):
        with pytest.raises(OAuthUnavailable):
            read_id_jag(answered, now=START, where="it")
    with pytest.raises(TokenRefused):
        read_id_jag(error("invalid_target"), now=START, where="it")


@given(status=st.integers(100, 599), kind=st.sampled_from(["", "application/json", "text/plain"]), body=st.binary())
def test_no_answer_leads_to_anything_else(status, kind, body):
    with suppress(TokenRefused, OAuthUnavailable):
        read(Fetched(status, {"content-type": kind, "retry-after": repr(body)}, body))


def test_no_text_repeats_what_is_secret_or_what_a_server_says():
    for answered in (error("invalid_grant", error_description="CANARY"), tokens("CANARY", token_type="mac")):
        with pytest.raises((TokenRefused, OAuthUnavailable)) as raised:
            read(answered)
        assert "CANARY" not in str(raised.value)
    assert "CANARY" not in repr(read(tokens("CANARY", refresh_token="CANARY", id_token="CANARY")))


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
