"""The keyring of the system that does not answer: it is asked once, not once for each secret."""

import importlib.util

import pytest

from config.secrets import keyring as module
from config.secrets.keyring import KeyringRefused, SystemKeyring
from config.secrets.run_child import ChildFailed, ChildOutput
from config.secrets.store import SecretStore, SecretUnavailable


class Child:
    """Stands in for the program that asks the keyring. `takes_s`: of the clock that it moves; None: it never ends."""

    def __init__(self, monkeypatch, *takes_s):
        self.takes_s = list(takes_s)
        self.given_s = []
        self.now = 0.0
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
        monkeypatch.setattr(module, "run_child", self)
        monkeypatch.setattr(module, "now", lambda: self.now)

    def __call__(self, argv, *, within_s, limit_bytes, input):
        self.given_s.append(within_s)
        takes_s = self.takes_s.pop(0)
        if takes_s is None:
            self.now += within_s
            raise ChildFailed(f"did not end within {within_s:g} seconds")
        self.now += takes_s
        return ChildOutput(0, b'{"value": "v"}', b"")


def test_a_keyring_that_did_not_answer_is_not_asked_again(monkeypatch, tmp_path):
    child = Child(monkeypatch, 1, None)
    keyring = SystemKeyring(tmp_path)
    assert keyring.get("A") == "v"
    for _ in range(3):
        with pytest.raises(KeyringRefused, match=r"did not answer \(did not end within 60 seconds\): unlock it"):
            keyring.get("B")
    assert child.given_s == [60, 60]


def test_a_command_asks_a_silent_keyring_once_and_a_hub_anew_for_each_server(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("HUBD_STATE_DIR", raising=False)
    (tmp_path / "hubd").mkdir(mode=0o700)
    Child(monkeypatch, 0, 0)
    SecretStore(tmp_path / "hubd" / "secrets.json", SystemKeyring(tmp_path)).keep("A", "v")
    child = Child(monkeypatch, None, None, None)
    for _ in range(2):
        with pytest.raises(SecretUnavailable, match="did not answer"):
            SecretStore.open().get("A")
    assert len(child.given_s) == 1
    for _ in range(2):
        with pytest.raises(SecretUnavailable, match="did not answer"):
            SecretStore.open(module.hasty_keyring()).get("A")
    assert len(child.given_s) == 3


def test_requests_may_have_a_minute_together(monkeypatch, tmp_path):
    child = Child(monkeypatch, 50, 4, None)
    keyring = SystemKeyring(tmp_path, total_s=60)
    assert (keyring.get("A"), keyring.get("B")) == ("v", "v")
    with pytest.raises(KeyringRefused, match="did not end within 6 seconds"):
        keyring.get("C")
    assert child.given_s == [60, 10, 6]
