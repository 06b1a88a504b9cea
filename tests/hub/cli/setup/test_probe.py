"""The temporary directory of a setup: what killed ones have left goes, and nothing else."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from hub.cli.setup.probe import LOCK, PREFIX, temporary_directory

KILLED = """\
import os, sys
from hub.cli.setup.probe import temporary_directory
with temporary_directory() as (directory, lock):
    (directory / "state").mkdir()
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("hub.cli.setup.probe.LONGEST_PLACE", 4096)
    return tmp_path


def left_over(place):
    """The directory of a setup that was killed, which `alive` would be."""
    code = f"import tempfile; tempfile.tempdir = {str(place)!r}\n"
    code += "import hub.cli.setup.probe as it; it.LONGEST_PLACE = 4096\n" + KILLED
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_it_is_private_and_goes(place):
    with temporary_directory() as (directory, _):
        assert directory.stat().st_mode & 0o777 == 0o700
        assert (directory.parent, directory.name.startswith(PREFIX)) == (place, True)
    assert list(place.iterdir()) == []


def test_the_next_setup_removes_that_of_a_killed_one_and_not_that_of_one_that_runs(place):
    with left_over(place) as other:
        name = other.stdout.readline().strip()
        with temporary_directory():
            assert os.path.exists(f"{name}/state"), "it is in use"
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert os.path.exists(name)
        with temporary_directory():
            assert not os.path.exists(name)


def test_it_is_in_use_as_long_as_the_hub_of_a_killed_setup_runs(place):
    with temporary_directory() as (directory, lock):
        hub = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock])
        os.rename(directory, kept := f"{directory}x")
    os.mkdir(directory)
    with temporary_directory():
        assert os.path.exists(kept), "the lock is shared with the hub"
    hub.communicate(b"\n")
    with temporary_directory():
        assert not os.path.exists(kept)


def _open_to_others(directory):
    directory.chmod(0o755)


def _without_a_lock(directory):
    (directory / LOCK).unlink()


def _of_another_name(directory):
    directory.rename(directory.with_name("mine"))


def _a_link(directory):
    directory.rename(directory.with_name("mine"))
    directory.symlink_to(directory.with_name("mine"))


@pytest.mark.parametrize("alter", [_open_to_others, _without_a_lock, _of_another_name, _a_link])
def test_what_is_not_surely_ours_stays(place, alter):
    directory = place / f"{PREFIX}x"
    directory.mkdir(mode=0o700)
    (directory / LOCK).touch()
    (directory / "file").touch()
    alter(directory)
    with temporary_directory():
        pass
    assert list(place.rglob("file"))


def test_that_of_another_user_stays(place, monkeypatch):
    directory = place / f"{PREFIX}x"
    directory.mkdir(mode=0o700)
    (directory / LOCK).touch()
    uid = os.geteuid()
    monkeypatch.setattr("hub.cli.setup.probe.os.geteuid", lambda: uid + 1)
    with temporary_directory():
        assert directory.exists()
