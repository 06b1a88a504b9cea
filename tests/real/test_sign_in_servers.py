"""Signing in at real authorization servers, from the first call of a host to the logout."""

import pytest

from tests.support.signing_hub import age, signing_hub

SERVERS = {
    "oidc-provider": lambda oauth: oauth.oidc_provider(),
    "oidc-provider, opaque": lambda oauth: oauth.oidc_provider("--opaque"),
    "oidc-provider with a path": lambda oauth: oauth.oidc_provider("--path", "/tenant1"),
    "django-oauth-toolkit": lambda oauth: oauth.django_toolkit(),
}


@pytest.mark.parametrize("kind", SERVERS)
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
