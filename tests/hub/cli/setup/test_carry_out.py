"""Carrying a setup out: what ends it before hosts are changed."""

import argparse
import signal
from types import MappingProxyType

import pytest

from hub.cli.setup.carry_out import CarryOut
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

    def take_back(self):
        pass


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
