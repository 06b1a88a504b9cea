"""Carrying a setup out: what ends it before hosts are changed."""

import argparse
import signal
from types import MappingProxyType

import pytest

from config.errors import EditError
from config.secret_store import SecretStore
from config.system_keyring import KeyringRefused
from hub.cli.setup.carry_out import CarryOut, _forget
from hub.cli.setup.plan import SetupPlan
from hub.cli.subcommand import Output
from tests.support.processes import own_directories


class SlowSecrets:
    """Secrets whose keyring lets the user wait, who presses Ctrl-C."""

    values = MappingProxyType({"TOKEN": "secret"})
    is_kept = False

    def keep(self):
        signal.raise_signal(signal.SIGINT)
        self.is_kept = True
        return {}


def test_ctrl_c_ends_the_wait_for_a_keyring(tmp_path, monkeypatch):
    for name, value in own_directories(tmp_path).items():
        monkeypatch.setenv(name, value)
    secrets = SlowSecrets()
    plan = SetupPlan(imported=[], secrets=secrets, capture=None, installs=[], leaving=None, start="background")
    work = CarryOut(plan, argparse.Namespace(output=Output(json=False)))
    with pytest.raises(KeyboardInterrupt), work:
        work.serve([], set())
    assert not secrets.is_kept
    assert work.aftermath == "everything is as it was"


def test_all_secrets_are_forgotten_though_one_cannot_be(tmp_path, monkeypatch):
    store = SecretStore(tmp_path / "secrets.json", Stuck())
    for name in ("A", "B", "C"):
        store.set(name, "secret")
    monkeypatch.setattr(SecretStore, "open", lambda: store)
    with pytest.raises(EditError) as failed:
        _forget(["A", "B", "C", "NEVER-KEPT"])
    assert store.names() == {}
    assert [f"the secret {name}:" in str(failed.value) for name in ("A", "B", "C")] == [True, False, True]
    assert 'secret"' not in str(failed.value)


class Stuck:
    """A keyring that forgets nothing but B."""

    def get(self, name):
        return "secret"

    def set(self, name, value):
        pass

    def delete(self, name):
        if name != "B":
            raise KeyringRefused("it is locked")
