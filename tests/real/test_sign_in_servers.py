"""Signing in at real authorization servers, from the first call of a host to the logout."""

import time
from urllib.parse import parse_qsl, urlsplit

import pytest
import trio

from config.security_settings import UpstreamOAuth
from tests.support.everything import everything_but
from tests.support.oauth.sign_in import Walker
from tests.support.processes import free_port
from tests.support.signing_hub import age, grant_of, signing_hub
from upstreams.fetch.fetcher import Fetcher
from upstreams.oauth.discovery.discover import allowance_for
from upstreams.oauth.token_answers import TokenRefused, next_grant
from upstreams.oauth.token_endpoint import TokenEndpoint

SERVERS = {
    "oidc-provider": lambda oauth: oauth.oidc_provider(),
    "oidc-provider, opaque": lambda oauth: oauth.oidc_provider("--opaque"),
    "oidc-provider with a path": lambda oauth: oauth.oidc_provider("--path", "/tenant1"),
    "django-oauth-toolkit": lambda oauth: oauth.django_toolkit(),
}


@pytest.mark.parametrize("kind", everything_but(["oidc-provider", "django-oauth-toolkit"], SERVERS))
def test_one_sign_in_from_the_first_call_to_the_logout(oauth, tmp_path, kind):
    issuer = SERVERS[kind](oauth)
    notes = oauth.liar(behind=issuer)
    urls = {"notes": notes.url}
    with signing_hub(tmp_path, urls) as hub:
        hub.until_refused()
        asked = hub.call("notes__sign_in")
        assert '"hubd auth notes"' in asked.text
        assert (hub.row().state, hub.account().state) == ("unauthorized", "needed")
        outcome = hub.sign_in()
        assert (outcome.state, outcome.issuer) == ("signed_in", issuer.issuer), outcome.text
        assert hub.call().is_good
        assert (hub.row().state, hub.account().state) == ("connected", "good")
    age(tmp_path)  # a token that is refused when it is new would not be renewed
    renewed = issuer.refreshes()
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good, "no second sign-in"
        assert issuer.refreshes() == renewed
        notes.expire()
        assert all(called.is_good for called in hub.calls(10))
        assert issuer.refreshes() == renewed + 1
    age(tmp_path)
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good
        issuer.revoke_all()
        notes.expire()
        over = hub.call()
        assert over.is_error
        assert '"hubd auth notes"' in over.text
        assert hub.account().state == "needed"
        assert hub.account().note
        assert hub.sign_in().state == "signed_in"
        assert hub.call().is_good
        out = hub.sign_out()
        assert (out.was_signed_in, out.revoked) == (True, True), out.why_not
        assert hub.call().is_error
        assert hub.row().state == "unauthorized"
    assert not notes.asked("EVIL")


def by_api(issuer: str, url: str) -> str:
    """The redirect of a sign-in at Glewlwyd, whose pages want JavaScript."""
    asked = dict(parse_qsl(urlsplit(url).query))
    walker = Walker("alice")
    walker.glewlwyd_sign_in(issuer.removesuffix("/oidc"), asked["client_id"], asked["scope"])
    return walker.walk(f"{url}&g_continue=", asked["redirect_uri"])


def test_a_server_that_takes_no_public_clients_and_compares_redirect_uris_as_text(oauth, tmp_path):
    """Glewlwyd, from the first call of a host to the logout."""
    port = free_port()
    issuer = oauth.glewlwyd(f"http://127.0.0.1:{port}/mcp")
    notes = oauth.liar(None, "--port", str(port), behind=issuer)
    listen = f"127.0.0.1:{free_port()}"
    with signing_hub(tmp_path, {"notes": notes.url}, listen=listen) as hub:
        hub.until_refused()
        with hub.begun() as begun:
            hub.finish(by_api(issuer.issuer, begun.url))
            outcome = begun.outcome()
        assert outcome.state == "signed_in", outcome.text
        assert hub.call().is_good
        first = grant_of(tmp_path)
    assert first.client.token_auth != "none"
    age(tmp_path)
    with signing_hub(tmp_path, {"notes": notes.url}, listen=listen) as hub:
        assert hub.call().is_good, "no second sign-in"
        notes.expire()
        assert hub.call().is_good
        second = grant_of(tmp_path)
        assert second.generation == first.generation + 1
        assert second.refresh_token.reveal() != first.refresh_token.reveal(), "it was rotated"
        assert hub.sign_out().was_signed_in
        assert hub.call().is_error
    assert not notes.asked("EVIL")


@pytest.mark.parametrize("kind", ["oidc-provider", "django-oauth-toolkit"])
async def test_tokens_are_rotated_and_revoked_at_a_real_token_endpoint(oauth, tmp_path, kind):
    """What the hub keeps of a sign-in is renewed once for each generation, and ended by revocation."""
    issuer = SERVERS[kind](oauth)
    notes = oauth.liar(behind=issuer)
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        assert (await trio.to_thread.run_sync(hub.sign_in)).state == "signed_in"
    grant = grant_of(tmp_path)
    settings = UpstreamOAuth()
    allowed = allowance_for(notes.url, settings)
    endpoint = TokenEndpoint(Fetcher(), grant.server, grant.client, settings, allowed, wall=time.time)  # noqa: TID251
    answer = await endpoint.refresh(grant)
    assert answer.refresh_token is not None
    assert answer.refresh_token.reveal() != grant.refresh_token.reveal()
    renewed = next_grant(grant, answer, time.time())  # noqa: TID251
    assert (renewed.generation, renewed.key) == (2, grant.key)
    assert renewed.access_token.reveal() != grant.access_token.reveal()
    assert await endpoint.revoke(renewed)
    with pytest.raises(TokenRefused) as refused:
        await endpoint.refresh(renewed)
    assert refused.value.code == "invalid_grant"
