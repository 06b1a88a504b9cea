"""The parts of sign-ins of one hub: what stops them, and what does not."""

from types import SimpleNamespace

import pytest
import trio

from config.secrets.keyring import KeyringRefused, NoKeyring
from config.security_settings import OAuthConfig
from config.setting_declarations import Secret
from config.settings import HubConfig, UpstreamConfig
from hub.daemon.assemble_sign_ins import SignInParts, oauth_seal
from hub.link.sealing import Keys
from upstreams.oauth.store.key_seal import KeyLocked, NotSealedHere

OWN = Keys(b"o" * 32)


class FakeKeyring:
    """A keyring in memory; `error` is what it answers while it is set."""

    def __init__(self):
        self.kept = {}
        self.error = None

    def get(self, name):
        if self.error is not None:
            raise self.error
        return self.kept.get(name)

    def set(self, name, value):
        self.kept[name] = value

    def delete(self, name):
        self.kept.pop(name, None)


def seal_of(tmp_path, keyring=None, environ=None, **config):
    return oauth_seal(HubConfig(**config), OWN, tmp_path, environ or {}, lambda state: keyring)


def test_the_order_of_places(tmp_path):
    (tmp_path / "hubd-oauth-key").write_text("ab" * 32 + "\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    setting = Secret("cd" * 32)
    keyring = FakeKeyring()
    seals = [
        seal_of(tmp_path, keyring, environ, sealing_key=setting, oauth=OAuthConfig(keyring=True)),
        seal_of(tmp_path, keyring, sealing_key=setting, oauth=OAuthConfig(keyring=True)),
        seal_of(tmp_path, keyring, oauth=OAuthConfig(keyring=True)),
        seal_of(tmp_path, keyring),
    ]
    assert [seal.source for seal in seals] == ["credential", "sealing_key", "keyring", "keys"]
    assert len({seal.key_name for seal in seals}) == 4
    text = seals[0].seal(b"x")
    assert seals[0].open(text) == b"x"
    for other in seals[1:]:
        with pytest.raises(NotSealedHere):
            other.open(text)


def test_the_keyring_keeps_one_key_and_is_asked_when_it_is_needed(tmp_path):
    keyring = FakeKeyring()
    one = seal_of(tmp_path, keyring, oauth=OAuthConfig(keyring=True))
    assert keyring.kept == {}
    text = one.seal(b"x")
    assert seal_of(tmp_path, keyring, oauth=OAuthConfig(keyring=True)).open(text) == b"x"


@pytest.mark.parametrize("error", [KeyringRefused("CANARY"), NoKeyring("CANARY")])
def test_a_keyring_that_is_locked_is_asked_again_and_nothing_is_made(tmp_path, error):
    keyring = FakeKeyring()
    keyring.error = error
    seal = seal_of(tmp_path, keyring, oauth=OAuthConfig(keyring=True))
    for use in (lambda: seal.seal(b"x"), lambda: seal.open("v1.a.b"), lambda: seal.key_name):
        with pytest.raises(KeyLocked) as raised:
            use()
        assert str(raised.value) == "The key of your sign-ins (keyring) is locked; unlock it, then try again."
    assert keyring.kept == {}
    keyring.error = None
    assert seal.open(seal.seal(b"x")) == b"x"


def test_what_other_places_hold_cannot_be_used(tmp_path):
    (tmp_path / "hubd-oauth-key").write_text("CANARY")
    seal = seal_of(tmp_path, environ={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    with pytest.raises(KeyLocked):
        seal.seal(b"x")
    assert "CANARY" not in repr(seal)


def parts_at(tmp_path) -> SignInParts:
    parts = SignInParts(tmp_path, Keys(b"k" * 32), {}, trio.current_time)
    notes = SimpleNamespace(config=UpstreamConfig(url="http://127.0.0.1:1/mcp"))
    supervisor = SimpleNamespace(upstreams={"notes": notes})
    parts.serves(SimpleNamespace(follow_sign_ins=lambda parts: None, supervisor=supervisor, config=HubConfig()), None)
    return parts


async def test_facts_that_cannot_be_read_stop_no_renewal_and_no_sign_in(tmp_path, caplog):
    from tests.upstreams.oauth.store.test_grant_store import grant

    parts = parts_at(tmp_path)
    parts.accounts.store().save(grant())
    (tmp_path / "oauth" / "facts.lock").mkdir()
    renewed, signed_in = trio.Event(), trio.Event()

    async def renew():
        renewed.set()

    async def sign_in():
        signed_in.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(parts.run)
        parts.accounts.spawn("a renewal", renew)
        await renewed.wait()
        while "is not looked through" not in caplog.text:
            await trio.lowlevel.checkpoint()
        parts.accounts.spawn("A sign-in", sign_in)
        await signed_in.wait()
        nursery.cancel_scope.cancel()
    assert "facts.lock cannot be opened: Is a directory" in caplog.text
