"""What servers want of sign-ins beyond the rules, and the settings for it: what a whole hub sends then."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from hub.control.client_errors import ControlFailed
from tests.support.oauth.rig import walk
from tests.support.signing_hub import age, grant_of, signing_hub

FORMS = ("authorization_code", "refresh_token")


def signed_in(hub) -> dict[str, str]:
    """The parameters of the authorization request of a sign-in, which is gone through."""
    with hub.begun() as begun:
        hub.finish(walk(begun.url))
        assert begun.outcome().state == "signed_in"
        return dict(parse_qsl(urlsplit(begun.url).query))


@pytest.mark.parametrize("how", ["send", "omit"])
def test_the_resource_is_named_with_every_request_or_with_none(oauth, tmp_path, how):
    """Some servers refuse a resource (AADSTS9010010), others give a token for another audience without."""
    notes, settings = oauth.liar(), f'oauth.resource_parameter = "{how}"'
    with signing_hub(tmp_path, {"notes": notes.url}, notes=settings) as hub:
        asked = signed_in(hub)
    age(tmp_path)
    with signing_hub(tmp_path, {"notes": notes.url}, notes=settings) as hub:
        assert hub.call().is_good
        notes.expire()
        assert hub.call().is_good
    due = notes.url if how == "send" else None
    assert asked.get("resource") == due
    assert [(entry["grant"], entry["resource"]) for entry in notes.asked("token")] == [(form, due) for form in FORMS]


def test_what_only_one_server_wants_is_sent_to_it(oauth, tmp_path):
    notes = oauth.liar()
    settings = 'oauth.extra = { audience = "https://api.example/", access_type = "offline" }\noauth.scopes = ["mcp"]'
    with signing_hub(tmp_path, {"notes": notes.url}, notes=settings) as hub:
        asked = signed_in(hub)
    assert (asked["audience"], asked["access_type"], asked["scope"]) == ("https://api.example/", "offline", "mcp")
    assert asked["code_challenge_method"] == "S256"


def test_a_refresh_token_that_stays_is_kept(oauth, tmp_path):
    """An answer without another one means that the old one is good for the next renewal, too."""
    notes = oauth.liar("ref-not-rotated")
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        signed_in(hub)
    first = grant_of(tmp_path)
    for generation in (2, 3):
        age(tmp_path)
        with signing_hub(tmp_path, {"notes": notes.url}) as hub:
            assert hub.call().is_good
            notes.expire()
            assert hub.call().is_good
        kept = grant_of(tmp_path)
        assert kept.generation == generation
        assert kept.refresh_token.reveal() == first.refresh_token.reveal()
        assert kept.access_token.reveal() != first.access_token.reveal()


def test_a_server_that_lets_no_unknown_client_in_says_how_it_could(oauth, tmp_path):
    """Slack, GitHub, Entra: the words name the redirect URI to register, and with a client id nothing is registered."""
    notes = oauth.liar(None, "--no-dcr")
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        hub.until_refused()
        told = hub.call("notes__sign_in")
        assert told.is_error
        with pytest.raises(ControlFailed, match="lets no unknown client in") as refused, hub.begun():
            pass
        assert "/oauth/callback" in str(refused.value)
        assert "set client_id below [upstreams.notes.oauth]" in str(refused.value)
    with signing_hub(tmp_path, {"notes": notes.url}, notes='oauth.client_id = "by-hand"') as hub:
        assert signed_in(hub)["client_id"] == "by-hand"
        assert hub.call().is_good
    assert notes.asked("registration") == []
