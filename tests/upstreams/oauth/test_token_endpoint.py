"""What a token endpoint is asked, and how the hub proves who it is."""

import json
from base64 import b64decode, urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from msgspec.structs import replace

from config.security_settings import UpstreamOAuth
from config.setting_declarations import Secret
from tests.support.token_world import (
    ISSUER,
    KEY,
    LOST,
    NOT_SENT,
    PUBLIC,
    SERVER,
    START,
    URL,
    ScriptedServer,
    answer,
    error,
    tokens,
)  # fmt: skip
from upstreams.fetch.terms_and_answers import Allowed, FetchFailed
from upstreams.oauth.model import Grant, OAuthClient, OAuthProblem, OAuthUnavailable
from upstreams.oauth.token_endpoint import JWT_BEARER, TokenEndpoint

GRANT = Grant(
    key=KEY,
    access_token=Secret("a1"),
    refresh_token=Secret("r1"),
    obtained_at=START,
    signed_in_at=START,
    server=SERVER,
    client=PUBLIC,
)


def asked_by(client=PUBLIC, settings=None, *, answers=(), server=SERVER, **more):
    scripted = ScriptedServer(*(answers or (tokens(),)))
    settings = settings or UpstreamOAuth()
    return scripted, TokenEndpoint(scripted, server, client, settings, Allowed(), wall=lambda: START, **more)


def with_secret(method, id="rig-secret", secret="rig secret: 100%+/="):
    return OAuthClient(issuer=ISSUER, client_id=id, secret=Secret(secret), token_auth=method)


async def test_a_code():
    scripted, endpoint = asked_by()
    await endpoint.exchange_code("c", "v", "http://127.0.0.1:8765/oauth/callback", URL)
    assert scripted.urls == [f"{ISSUER}/token"]
    assert scripted.asked == [
        {
            "grant_type": "authorization_code",
            "code": "c",
            "redirect_uri": "http://127.0.0.1:8765/oauth/callback",
            "code_verifier": "v",
            "resource": URL,
            "client_id": "hub-1",
        }
    ]
    assert scripted.headers == [{"accept": "application/json"}]
    await endpoint.exchange_code("c", "v", "http://127.0.0.1:8765/oauth/callback", None)
    assert "resource" not in scripted.asked[1]


async def test_a_renewal_names_the_resource_as_the_sign_in_did():
    scripted, endpoint = asked_by()
    await endpoint.refresh(GRANT)
    await endpoint.refresh(replace(GRANT, sends_resource=False))
    await endpoint.refresh(replace(GRANT, key=replace(KEY, resource="")))
    base = {"grant_type": "refresh_token", "refresh_token": "r1", "client_id": "hub-1"}
    assert scripted.asked == [{**base, "resource": URL}, base, base]


async def test_basic_encodes_both_parts_and_names_the_client_in_the_body_too():
    scripted, endpoint = asked_by(with_secret("client_secret_basic", "a:b c"))
    await endpoint.refresh(GRANT)
    header = scripted.headers[0]["authorization"]
    assert b64decode(header.removeprefix("Basic ")) == b"a%3Ab+c:rig+secret%3A+100%25%2B%2F%3D"
    assert scripted.asked[0]["client_id"] == "a:b c"
    assert "client_secret" not in scripted.asked[0]


async def test_post_and_none():
    scripted, endpoint = asked_by(with_secret("client_secret_post"))
    await endpoint.refresh(GRANT)
    assert scripted.asked[0]["client_secret"] == "rig secret: 100%+/="
    assert "authorization" not in scripted.headers[0]
    scripted, endpoint = asked_by(with_secret("none"))  # a secret beside `none` is kept, and not shown
    await endpoint.refresh(GRANT)
    assert scripted.asked[0]["client_id"] == "rig-secret"
    assert "client_secret" not in scripted.asked[0]


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "private_key_jwt", "tls_client_auth"])
async def test_nothing_is_asked_without_the_proof(method):
    scripted, endpoint = asked_by(OAuthClient(issuer=ISSUER, client_id="x", token_auth=method))
    with pytest.raises(OAuthProblem):
        await endpoint.refresh(GRANT)
    assert scripted.count == 0


def pem(key):
    return Secret(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
    )


RSA = rsa.generate_private_key(65537, 2048)
P256, P384, ED = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1()), None
ED = ed25519.Ed25519PrivateKey.generate()


def is_signed(algorithm, public, signed, signature):
    if algorithm in ("ES256", "ES384"):
        half = len(signature) // 2
        both = encode_dss_signature(int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
        public.verify(both, signed, ec.ECDSA(hashes.SHA256() if algorithm == "ES256" else hashes.SHA384()))
        return half == (32 if algorithm == "ES256" else 48)
    if algorithm == "EdDSA":
        public.verify(signature, signed)
    elif algorithm == "RS256":
        public.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    else:
        public.verify(signature, signed, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
    return True


@pytest.mark.parametrize(
    ("algorithm", "key"), [("ES256", P256), ("ES384", P384), ("RS256", RSA), ("PS256", RSA), ("EdDSA", ED)]
)
async def test_a_private_key(algorithm, key):
    settings = UpstreamOAuth(private_key=pem(key), signing_alg=algorithm, key_id="k1")
    client = OAuthClient(issuer=ISSUER, client_id="me", token_auth="private_key_jwt")
    scripted, endpoint = asked_by(client, settings)
    await endpoint.tokens("client_credentials", scope="read", resource=URL)
    await endpoint.tokens("client_credentials", scope="", resource=None)
    first, second = scripted.asked
    assert "client_id" not in first
    assert first["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert (first["scope"], first["resource"]) == ("read", URL)
    assert not {"scope", "resource"} & set(second)
    header, claims, signature = (urlsafe_b64decode(part + "==") for part in first["client_assertion"].split("."))
    assert json.loads(header) == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
    claims = json.loads(claims)
    id = claims.pop("jti")
    assert claims == {"iss": "me", "sub": "me", "aud": ISSUER, "iat": START, "exp": START + 60}
    signed = first["client_assertion"].rpartition(".")[0].encode()
    assert is_signed(algorithm, key.public_key(), signed, signature)
    other = json.loads(urlsafe_b64decode(second["client_assertion"].split(".")[1] + "=="))
    assert other["jti"] != id


SMALL = rsa.generate_private_key(65537, 1024)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [("ES256", pem(P384)), ("ES384", pem(P256)), ("RS256", pem(P256)), ("PS256", pem(ED)), ("EdDSA", pem(RSA)),
     ("RS256", pem(SMALL)), ("ES256", Secret("-----BEGIN CANARY")), ("ES256", Secret(""))],
)  # fmt: skip
async def test_a_key_that_cannot_be_used(algorithm, key):
    settings = UpstreamOAuth(private_key=key, signing_alg=algorithm)
    scripted, endpoint = asked_by(OAuthClient(issuer=ISSUER, client_id="me", token_auth="private_key_jwt"), settings)
    with pytest.raises(OAuthProblem, match="private_key") as raised:
        await endpoint.tokens("client_credentials", scope="", resource=None)
    assert "CANARY" not in str(raised.value)
    assert scripted.count == 0


async def test_an_identity_provider_vouches_and_another_server_believes_it():
    jag = answer(access_token="j.a.g", issued_token_type="urn:ietf:params:oauth:token-type:id-jag", token_type="N_A")
    scripted, endpoint = asked_by(with_secret("client_secret_post"), answers=(jag, tokens("a9")))
    assertion = await endpoint.exchange_for_id_jag("id.to.ken", "https://other.example", "read", URL)
    got = await endpoint.tokens(JWT_BEARER, assertion=assertion, scope="read", resource=URL)
    assert got.access_token.reveal() == "a9"
    first, second = scripted.asked
    assert first == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "audience": "https://other.example",
        "subject_token": "id.to.ken",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "resource": URL,
        "scope": "read",
        "client_id": "rig-secret",
        "client_secret": "rig secret: 100%+/=",
    }
    assert second["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert second["assertion"] == "j.a.g"


async def test_ending_a_grant():
    scripted, endpoint = asked_by(answers=(answer(200), answer(503)))
    assert await endpoint.revoke(GRANT)
    assert not await endpoint.revoke(replace(GRANT, refresh_token=None))
    assert scripted.urls == [f"{ISSUER}/revoke"] * 2
    assert scripted.asked == [
        {"token": "r1", "token_type_hint": "refresh_token", "client_id": "hub-1"},
        {"token": "a1", "token_type_hint": "access_token", "client_id": "hub-1"},
    ]
    scripted, endpoint = asked_by(server=replace(SERVER, revocation_endpoint=""))
    assert not await endpoint.revoke(GRANT)
    assert scripted.count == 0


@pytest.mark.parametrize(("failed", "sent"), [(LOST, True), (NOT_SENT, False)])
async def test_no_answer(failed, sent):
    _, endpoint = asked_by(answers=(failed,))
    with pytest.raises(OAuthUnavailable) as away:
        await endpoint.refresh(GRANT)
    assert away.value.sent is sent
    assert str(away.value) == f"{ISSUER} cannot be asked: {failed.text}"


async def test_an_address_that_must_not_be_asked():
    _, endpoint = asked_by(answers=(FetchFailed("10.0.0.1 is private", refused=True),))
    with pytest.raises(OAuthProblem, match="is private"):
        await endpoint.refresh(GRANT)


async def test_refusals_pass():
    _, endpoint = asked_by(answers=(error("invalid_code", 403),))
    with pytest.raises(OAuthProblem) as refused:
        await endpoint.exchange_code("c", "v", "x", None)
    assert refused.value.code == "invalid_code"


def test_nothing_shows_secrets():
    _, endpoint = asked_by(with_secret("client_secret_post", secret="CANARY"))
    assert repr(endpoint) == "<TokenEndpoint of https://id.example for rig-secret>"
    from upstreams.oauth.token_endpoint import proof_of

    proof = proof_of(with_secret("client_secret_basic", secret="CANARY"), UpstreamOAuth(), audience="", now=0)
    assert repr(proof) == "<Proof ['client_id', 'authorization']>"
