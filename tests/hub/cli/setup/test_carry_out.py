"""Carrying a setup out: what ends it before hosts are changed."""

import argparse
import signal
from datetime import UTC, datetime
from types import MappingProxyType

import pytest

from config.atomic_writes import replace_file
from config.diagnostics import EditError
from hub.cli.context import Output
from hub.cli.setup.carry_out import CarryOut, SetupPlan
from hub.cli.setup.undo import Undo
from hub.cli.systemd_units import ServiceError
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


@pytest.fixture(autouse=True)
def directories(tmp_path, monkeypatch):
    for name, value in own_directories(tmp_path).items():
        monkeypatch.setenv(name, value)


def test_ctrl_c_ends_the_wait_for_a_keyring():
    secrets = SlowSecrets()
    plan = SetupPlan(imported=[], secrets=secrets, capture=None, installs=[], host_removals=None, start="background")
    work = CarryOut(plan, argparse.Namespace(output=Output(json=False)))
    with pytest.raises(KeyboardInterrupt), work:
        work.serve([], set())
    assert not secrets.is_kept
    assert work.aftermath == "everything is as it was"


NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS = b"ours\n"


@pytest.fixture
def undo():
    return Undo()


def write(undo, path, before):
    """Write `OURS`; the backup."""
    backups = path.parents[1] / "backups"

    def replace():
        return replace_file(path, OURS, was=before, now=NOW, backups=backups)

    return undo.file(path, replace, before=before, after=OURS)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "dir").mkdir()
    return tmp_path / "dir" / "file"


@pytest.mark.parametrize("before", [None, b"", b"before\n"])
def test_a_file_is_as_it_was(undo, path, before):
    if before is not None:
        path.write_bytes(before)
    write(undo, path, before)
    assert path.read_bytes() == OURS
    assert undo.run() == []
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize("before", [None, b"before\n"])
def test_a_file_that_was_changed_meanwhile_is_left(undo, path, before):
    if before is not None:
        path.write_bytes(before)
    backup = write(undo, path, before)
    path.write_bytes(b"theirs\n")
    (said,) = undo.run()
    assert path.read_bytes() == b"theirs\n"
    assert "it was changed meanwhile, and left as it is" in said
    assert before is None or str(backup) in said


def test_a_file_that_somebody_removed_meanwhile_stays_away(undo, path):
    write(undo, path, None)
    path.unlink()
    assert undo.run() == []
    assert not path.exists()


def test_what_was_not_written_is_not_undone(undo, path):
    path.write_bytes(b"theirs\n")
    with pytest.raises(EditError):
        write(undo, path, b"before\n")
    assert undo.run() == []
    assert path.read_bytes() == b"theirs\n"


def test_a_step_that_fails_keeps_no_other_from_being_done(undo, path):
    write(undo, path, None)

    def fail():
        raise ServiceError("systemctl does not answer")

    undo.add("the service", fail)
    assert undo.run() == ["the service could not be put back: systemctl does not answer"]
    assert not path.exists()
