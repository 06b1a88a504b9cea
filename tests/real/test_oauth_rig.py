"""The OAuth rig itself: each of its servers starts, does what it promises, and can be told to forget."""

import json
import subprocess
import urllib.error
import urllib.request
from collections import Counter

import pytest

from tests.support.oauth.flow import Client, signed_up
from tests.support.oauth.flow_steps import Report
from tests.support.oauth.liar_machines import BEARER, CREDENTIALS, EXCHANGE, ID_JAG, ID_TOKEN
from tests.support.oauth.lies import LIES
from tests.support.oauth.rig import INTROSPECTION_CLIENT, module, walked, walked_to_the_end
from tests.support.processes import ROOT

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}


def call(url, token=None):
    """Status, `WWW-Authenticate` and body of a tool call."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(CALL).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, None, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["WWW-Authenticate"], error.read().decode()


def test_the_list_of_lies_is_complete():
    done = subprocess.run(module("liar", "--list"), cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} == set(LIES)
    told = "".join(path.read_text() for path in (ROOT / "tests/support/oauth").glob("liar_*.py"))
    assert [lie for lie in LIES if f'"{lie}"' not in told] == []
    assert len(LIES) == 59


def test_there_are_tokens_to_take_and_tokens_to_refuse(oauth):
    audience = "http://127.0.0.1:8765/mcp"
    issuer = oauth.token_issuer(audience)
    assert Counter(token["verdict"] for token in issuer.tokens().values()) == {200: 7, 401: 69, 403: 3}
    issuer.fail("jwks", "500")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{issuer.issuer}/jwks", timeout=60)
    refused.value.close()
    issuer.fail("jwks")
    with urllib.request.urlopen(f"{issuer.issuer}/jwks", timeout=60) as answer:
        before = json.load(answer)
    issuer.rotate_keys()
    with urllib.request.urlopen(f"{issuer.issuer}/jwks", timeout=60) as answer:
        assert json.load(answer) != before


def test_a_liar_without_a_lie_lets_in_who_has_signed_in(oauth):
    server = oauth.liar()
    status, challenge, _ = call(server.url)
    assert status == 401
    assert "resource_metadata=" in challenge
    assert server.asked("EVIL") == []
    server.move("https://elsewhere.example")
    metadata = f"{server.origin}/.well-known/oauth-protected-resource/mcp"
    with urllib.request.urlopen(metadata, timeout=60) as answer:
        assert json.load(answer)["authorization_servers"] == ["https://elsewhere.example"]


@pytest.mark.everything
@pytest.mark.parametrize("kind", ["oidc_provider", "django_toolkit"])
def test_a_real_server_does_all_that_a_client_needs(oauth, kind):
    server = getattr(oauth, kind)()
    client = Client(server.issuer)
    steps = Report(client).run(introspect=INTROSPECTION_CLIENT)
    assert [step for step in steps if step.verdict == "BAD"] == []
    assert {"sign-in and consent", "refresh", "and ends the family", "revocation"} <= {step.name for step in steps}
    assert server.refreshes() > 0
    tokens = client.tokens()
    server.revoke_all()
    assert client.renew(tokens["refresh_token"]).error == "invalid_grant"
    server.forget_clients()
    assert client.renew(tokens["refresh_token"]).error == "invalid_client"


@pytest.mark.everything
def test_glewlwyd_does_all_that_a_client_needs(oauth):
    client = Client(oauth.glewlwyd().issuer, glewlwyd=True)
    steps = {step.name: step for step in Report(client, scope="openid mcp").run()}
    assert [step for step in steps.values() if step.verdict == "BAD"] == []
    assert steps["another port on loopback"].verdict == "no"
    assert steps["refresh"].verdict == "ok"


@pytest.mark.everything
@pytest.mark.parametrize(("kind", "options"), [("oidc_provider", ["--ttl", "60"]), ("django_toolkit", [])])
def test_a_protected_server_takes_the_tokens_of_a_real_one(oauth, kind, options):
    real = getattr(oauth, kind)(*options)
    protected = oauth.liar(behind=real)
    token = signed_up(real.issuer, resource=protected.url).tokens()["access_token"]
    assert call(protected.url, token)[0] == 200
    protected.expire()
    assert call(protected.url, token)[0] == 401


def test_a_client_is_known_by_its_document(oauth):
    document = oauth.client_document()
    real = oauth.oidc_provider("--no-dcr", trust=document)
    client = signed_up(real.issuer, client_id=document.client_id)
    assert "access_token" in client.tokens()
    assert document.log() != []


def test_machines_get_tokens_without_a_sign_in(oauth):
    provider, server = oauth.liar(), oauth.liar()
    machine = signed_up(server.issuer)
    given = machine.token(grant_type=CREDENTIALS, scope="mcp").body
    assert "refresh_token" not in given
    assert call(server.url, given["access_token"])[0] == 200
    person = signed_up(provider.issuer)
    about = {"audience": server.issuer, "resource": server.url, "scope": "mcp"}
    kinds = {"requested_token_type": ID_JAG, "subject_token_type": ID_TOKEN}
    id_token = person.tokens("openid")["id_token"]
    jag = person.token(grant_type=EXCHANGE, subject_token=id_token, **kinds, **about).body
    assert jag["issued_token_type"] == ID_JAG
    assert machine.token(grant_type=BEARER, assertion=id_token).error == "invalid_grant"
    given = machine.token(grant_type=BEARER, assertion=jag["access_token"], scope="mcp").body
    assert call(server.url, given["access_token"])[0] == 200
    assert {id_token, jag["access_token"]} <= set(provider.secrets())


@pytest.mark.parametrize("lie", ["mixup", "mixup-redirect"])
def test_a_mix_up_sends_the_user_to_the_honest_server(oauth, lie):
    honest = oauth.liar()
    liar = oauth.liar(lie, "--honest", honest.issuer)
    client = signed_up(liar.issuer)
    trip = client.sign_in()
    assert trip.found["iss"] == honest.issuer
    assert client.exchange(trip).status == 400
    assert [entry["code"] for entry in liar.asked("token")] == [True]


async def test_who_walks_to_the_end_sees_the_page_of_the_callback(oauth):
    server, callback = oauth.liar(), oauth.liar()
    client = signed_up(server.issuer)
    redirect = f"{callback.origin}/oauth/callback"
    url, _ = client.authorization_url(redirect=redirect)
    assert (await walked(url)).startswith(redirect + "?code=")
    assert callback.log() == []
    answer = await walked_to_the_end(url)
    assert (answer.status, answer.text) == (404, "<!doctype html><p>not found")
    assert [entry["what"] for entry in callback.log()] == ["GET /oauth/callback"]


@pytest.mark.everything
async def test_a_real_browser_signs_in(oauth, browser):
    server, callback = oauth.django_toolkit(), oauth.liar()
    client = signed_up(server.issuer)
    url, _ = client.authorization_url()
    assert "code=" in (await browser(url)).redirect
    redirect = f"{callback.origin}/oauth/callback"
    client.register(redirect_uris=[redirect])
    url, _ = client.authorization_url(redirect=redirect)
    trip = await browser(url, follow=True)
    assert "code=" in trip.redirect
    assert trip.text == "not found"
    assert "GET /oauth/callback" in [entry["what"] for entry in callback.log()]
