"""What authorization servers and upstreams do while a hub is used: tokens end, registrations and grants go, an upstream
names another authorization server, or the wrong one answers."""

import pytest

from tests.support.oauth.rig import walk
from tests.support.oauth.sign_in import Stuck
from tests.support.signing_hub import age, grant_of, signing_hub

URL_WORDS = "/oauth/begin/"


@pytest.mark.covers("SEC-42", "F-R-22")
def test_fifty_calls_at_a_time_and_tokens_that_are_refused_lead_to_one_renewal(oauth, tmp_path):
    notes = oauth.liar()
    urls = {"notes": notes.url}
    with signing_hub(tmp_path, urls) as hub:
        assert hub.sign_in().state == "signed_in"
    age(tmp_path)
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good
        notes.expire()
        assert all(called.is_good for called in hub.calls(50))
    assert notes.refreshes() == 1


@pytest.mark.covers("SEC-42")
def test_two_hubs_with_one_state_folder_and_tokens_of_five_seconds(oauth, tmp_path):
    """Each renewal is of the last generation: the server ends nobody's family, and no host hears of it."""
    notes = oauth.liar(None, "--ttl", "5")
    urls = {"notes": notes.url}
    with signing_hub(tmp_path, urls) as hub:
        assert hub.sign_in().state == "signed_in"
    other = tmp_path / "other"
    other.mkdir()
    (other / "xdg_state_home").symlink_to(tmp_path / "xdg_state_home")
    with signing_hub(tmp_path, urls) as one, signing_hub(other, urls) as two:
        while notes.refreshes() < 3:
            for hub in (one, two):
                assert [called.text for called in hub.calls(25) if not called.is_good] == []
    assert notes.refreshes() == grant_of(tmp_path).generation - 1
    assert not notes.asked("refresh refused")


def ready(oauth, tmp_path, *, behind=None):
    """A server at which the hub is signed in for two minutes, and the URLs of the hub's upstreams."""
    notes = oauth.liar(behind=behind)
    urls = {"notes": notes.url}
    with signing_hub(tmp_path, urls) as hub:
        assert hub.sign_in().state == "signed_in"
    age(tmp_path)
    return notes, urls


def test_a_registration_that_is_forgotten_is_made_anew(oauth, tmp_path):
    notes, urls = ready(oauth, tmp_path)
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good
        notes.forget_clients()
        notes.expire()
        told = hub.calls(10)
        assert all('"hubd auth notes"' in called.text for called in told)
        assert hub.account().state == "needed"
        assert hub.sign_in().state == "signed_in"
        assert all(called.is_good for called in hub.calls(10))
    assert len(notes.asked("registration")) == 2


def test_a_grant_that_is_revoked_is_not_renewed_again(oauth, tmp_path):
    notes, urls = ready(oauth, tmp_path)
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good
        notes.revoke_all()
        for _ in range(2):
            assert all('"hubd auth notes"' in called.text for called in hub.calls(10))
        assert notes.refreshes() == 1
        assert hub.account().state == "needed"
        assert hub.sign_in().state == "signed_in"
        assert hub.call().is_good


@pytest.mark.covers("F-R-24")
def test_an_upstream_that_moves_gets_no_old_token_and_hosts_get_no_page(oauth, tmp_path):
    """What was given by one authorization server goes to no other, and only a person at a terminal follows."""
    notes, urls = ready(oauth, tmp_path)
    other = oauth.liar()
    with signing_hub(tmp_path, urls) as hub:
        assert hub.call().is_good
        notes.move(other.issuer)
        notes.revoke_all()
        moved = hub.calls(10)
        assert all(called.is_error for called in moved)
        told = hub.call().text
        assert other.issuer in told
        assert 'run "hubd auth notes" in a terminal' in told
        assert URL_WORDS not in told
        with hub.begun() as begun:
            assert other.issuer in begun.step.unusual
            assert not begun.url
        assert hub.sign_in(yes=True).issuer == other.issuer
    assert [entry["grant"] for entry in other.asked("token")] == ["authorization_code"]
    assert not notes.asked("EVIL")


def test_a_registration_that_is_pruned_is_told_to_the_browser_only(oauth, tmp_path):
    """The server never tells the hub, so a sign-in that got no answer is followed by one with another client id."""
    notes = oauth.liar()
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        assert hub.sign_in().state == "signed_in"
        hub.sign_out()
        notes.forget_clients()
        with hub.begun(yes=True) as begun, pytest.raises(Stuck, match="unknown client"):
            walk(begun.url)
        assert hub.sign_in(yes=True).state == "signed_in"
        assert hub.call().is_good
    assert len(notes.asked("registration")) == 2
