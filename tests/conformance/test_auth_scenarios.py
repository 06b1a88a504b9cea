"""The suite's `auth/` scenarios, with the hub as the client that signs in.

`make everything` and `make conformance` run each in every revision it applies to; `make test` runs four, which its seed
draws.
"""

import sys
import tomllib
from pathlib import Path

import pytest

from tests.conformance.auth_client import settings, sign_in, wants_sign_in
from tests.conformance.run import client_scenarios, failures_of, judge_client
from tests.support.everything import draw
from tests.support.oauth.flow import signed_up
from tests.support.processes import DEPS, PYTHON_2

CLIENT = f"{sys.executable} {Path(__file__).parent / 'auth_client.py'}"
SDK = f"{PYTHON_2} {DEPS / 'src' / 'mcp-2.3.0' / '.github' / 'actions' / 'conformance' / 'client.py'}"
MODERN = "2026-07-28"
EXTENSION = "extension"
"""The revision of scenarios that belong to none."""
EVERYWHERE = (
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "pre-registration",
)
NEW = (
    "resource-mismatch",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
)
OLD = ("2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback")
MACHINES = ("client-credentials-jwt", "client-credentials-basic", "enterprise-managed-authorization")
SCENARIOS = [
    *((revision, f"auth/{name}") for revision in ("2025-11-25", MODERN) for name in EVERYWHERE),
    *((MODERN, f"auth/{name}") for name in NEW),
    *(("2025-03-26", f"auth/{name}") for name in OLD),
    *(("2025-06-18", f"auth/token-endpoint-auth-{name}") for name in ("basic", "post", "none")),
    *((EXTENSION, f"auth/{name}") for name in MACHINES),
]
LEFT = {
    "auth/dpop": "tokens bound to keys are no part of the hub",
    "auth/dpop-nonce": "tokens bound to keys are no part of the hub",
    "auth/wif-jwt-bearer": "identities of workloads are no part of the hub",
}
ANSWERING = """
import json, sys
print(json.dumps({"url": sys.argv[1], "expires_s": 600}), flush=True)
came = sys.stdin.readline()
good = sys.argv[2] in came and "code=" in came
print(json.dumps({"signed_in": good}), flush=True)
sys.exit(0 if good else 1)
"""


@pytest.mark.real
@pytest.mark.parametrize(("revision", "scenario"), draw(4, SCENARIOS))
def test_the_hub_signs_in_as_the_specification_wants_it(revision, scenario, tmp_path):
    judged = judge_client(CLIENT, scenario, None if revision == EXTENSION else revision, tmp_path)
    assert failures_of(judged.checks) == [], judged.said
    assert any(check["status"] == "SUCCESS" for check in judged.checks)


@pytest.mark.real
def test_no_auth_scenario_is_left_out_silently():
    offered = {pair for pair in client_scenarios() if pair[1].startswith("auth/")}
    assert {pair for pair in offered if pair[1] not in LEFT} == set(SCENARIOS)


@pytest.mark.real
@pytest.mark.everything
@pytest.mark.parametrize("scenario", ["auth/scope-step-up", "auth/client-credentials-jwt"])
def test_the_judge_lets_a_client_pass_that_signs_in(scenario, tmp_path):
    judged = judge_client(SDK, scenario, None if "credentials" in scenario else MODERN, tmp_path)
    assert failures_of(judged.checks) == [], judged.said
    assert any(check["status"] == "SUCCESS" for check in judged.checks)


@pytest.mark.real
def test_the_judge_refuses_a_client_that_does_not_sign_in(tmp_path):
    assert failures_of(judge_client("true", "auth/scope-step-up", MODERN, tmp_path).checks) != []


@pytest.mark.parametrize("due", [0, 1])
def test_the_person_at_the_command_tells_it_where_the_browser_came_to(oauth, due):
    url, trip = signed_up(oauth.liar().issuer).authorization_url()
    expected = trip.asked["state"] if due == 0 else "another state"
    assert sign_in([sys.executable, "-c", ANSWERING, url, expected], {}) is (due == 0)


def test_a_command_that_can_start_no_sign_in_is_believed(oauth):
    refusing = """print('{"error": "no authorization server"}'); raise SystemExit(1)"""
    assert sign_in([sys.executable, "-c", refusing], {}) is False


def test_an_answer_that_tells_of_the_command_wants_a_sign_in():
    said = 'suite needs you to sign in at id.example. Ask the user to run "hubd auth suite" or to open ...'
    assert wants_sign_in({"isError": True, "content": [{"type": "text", "text": said}]})
    assert not wants_sign_in({"content": [{"type": "text", "text": "tool result"}]})


def test_the_configuration_has_what_is_registered_in_advance(oauth):
    server = oauth.liar()
    key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n"
    context = {"client_id": "me", "private_key_pem": key}
    found = tomllib.loads(settings("auth/client-credentials-jwt", server.url, context))["upstreams"]["suite"]
    assert found["oauth"] == {
        "client_id": "me",
        "issuer": server.issuer,
        "private_key": key,
        "signing_alg": "ES256",
        "grant": "client_credentials",
    }
    assert "oauth" not in tomllib.loads(settings("auth/metadata-default", server.url, {}))["upstreams"]["suite"]
    assert "client_metadata_url" in tomllib.loads(settings("auth/basic-cimd", server.url, {}))["oauth"]
