"""What a person at a terminal has to agree to, or to unlock, at whole hubs; and scopes that come later."""

import threading

import pytest

from hub.control.client_errors import ControlFailed
from tests.support.keyring_daemon import gnome_keyring, session_bus
from tests.support.oauth.rig import walk
from tests.support.signing_hub import signing_hub, state_folder

LOCKED = "The key of your sign-ins (keyring) is locked; unlock it, then try again."


@pytest.mark.covers("F-R-24")
def test_an_issuer_that_a_server_elsewhere_uses_is_for_a_person_to_agree_to(oauth, tmp_path):
    """A token for one of them may be good for the other: hosts get no page, `hubd auth` asks."""
    notes = oauth.liar()
    other = oauth.liar()
    other.move(notes.issuer)
    with signing_hub(tmp_path, {"notes": notes.url, "other": other.url}) as hub:
        for name in ("notes", "other"):
            hub.until_refused(name)
        before = hub.call("other__sign_in").text
        assert "/oauth/begin/" in before
        assert hub.sign_in().state == "signed_in"
        hub.sign_out()
        assert hub.sign_in().state == "signed_in", "that it is used here alone is usual"
    with signing_hub(tmp_path, {"notes": notes.url, "other": other.url}) as hub:
        hub.until_refused("other")
        told = hub.call("other__sign_in").text
        assert f"names {notes.issuer} as its authorization server, where you are signed in for notes" in told
        assert "/oauth/begin/" not in told
        with hub.begun("other") as begun:
            assert "where you are signed in for notes" in begun.step.unusual
            assert not begun.step.url
            assert not begun.url
        assert hub.sign_in("other", yes=True).state == "signed_in"
        hub.sign_out("other")
        with hub.begun("other") as begun:
            assert begun.url, "the person has agreed to it before"


@pytest.mark.everything
def test_a_locked_keyring_loses_no_sign_in(oauth, tmp_path, monkeypatch):
    notes, keyring = oauth.liar(), tmp_path / "keyring"
    keyring.mkdir(mode=0o700)
    kept = state_folder(tmp_path) / "oauth" / "grants"

    def files() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in kept.glob("*.json*")}

    def hub():
        return signing_hub(tmp_path, {"notes": notes.url}, "[oauth]\nkeyring = true")

    with session_bus(keyring) as address:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        with gnome_keyring(keyring, address, unlocked=True), hub() as it:
            assert it.sign_in().state == "signed_in"
            assert it.call().is_good
            assert it.account().key_source == "keyring"
        before = files()
        with hub() as it:
            with gnome_keyring(keyring, address, unlocked=False):
                assert LOCKED in it.call().text
                with pytest.raises(ControlFailed, match="is locked; unlock it"), it.begun():
                    pass
            assert files() == before
            with gnome_keyring(keyring, address, unlocked=True):
                while not (called := it.call()).is_good:  # it is asked again every ten seconds
                    assert LOCKED in called.text
                    threading.Event().wait(0.5)
    assert [entry["grant"] for entry in notes.asked("token")] == ["authorization_code"]


@pytest.mark.covers("F-R-02")
def test_two_sign_ins_for_more_scopes_then_it_is_denied(oauth, tmp_path):
    """Each time a person signs in the tool wants one scope more; the third time nobody is asked."""
    notes = oauth.liar("res-403-more")
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        assert hub.sign_in().scope == "mcp"
        for scope in ("mcp more:1", "mcp more:1 more:2"):
            told = hub.call("notes__write")
            assert told.is_error
            assert '"hubd auth notes"' in told.text
            assert hub.call().is_good, "what the token is good for goes on"
            assert hub.sign_in(yes=True).scope == scope
        denied = hub.call("notes__write")
        assert "refuses write: it wants the scopes more:3" in denied.text
        assert "hubd auth" not in denied.text
        assert denied.facts["hub"] == "denied"
        assert hub.call().is_good
    assert len(notes.asked("authorization")) == 3


def test_one_more_scope_and_the_call_goes_on(oauth, tmp_path):
    notes = oauth.liar()
    with signing_hub(tmp_path, {"notes": notes.url}) as hub:
        assert hub.sign_in().scope == "mcp"
        assert hub.call("notes__write").is_error
        with hub.begun(yes=True) as begun:
            assert begun.step.scope.split() == ["mcp", "mcp:write"]
            hub.finish(walk(begun.url))
            assert begun.outcome().scope == "mcp mcp:write"
        assert hub.call("notes__write").text == "write: done"
        assert hub.call().is_good
