"""Replacing files: all or nothing, with a backup, as they were otherwise."""

import errno
import os
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from config.atomic_writes import KEPT, lock_edits, read_file, refuse_place, remove_file, replace_file, replace_private
from config.diagnostics import EditError

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 21, 12, 30, 15, tzinfo=UTC)


@pytest.fixture
def backups(tmp_path):
    return tmp_path / "state" / "backups"


def replace(path, data, was, backups, now=NOW):
    return replace_file(path, data, was=was, now=now, backups=backups)


def test_a_file_is_replaced_and_the_old_one_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    backup = replace(path, b"new", b"old", backups)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert backup is not None
    assert backup.read_bytes() == b"old"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert "20261121T123015" in backup.name
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "state"]


def test_a_new_file_is_private_and_has_no_backup(tmp_path, backups):
    path = tmp_path / "deep" / "er" / "a.json"
    assert replace(path, b"new", None, backups) is None
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["a.json"]


def test_links_are_followed_and_stay(tmp_path, backups):
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "real.json").write_bytes(b"old")
    link = tmp_path / "a.json"
    link.symlink_to("dotfiles/real.json")
    replace(link, b"new", b"old", backups)
    assert link.is_symlink()
    assert (dotfiles / "real.json").read_bytes() == b"new"


@pytest.mark.parametrize("was", [b"other", None])
def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path, backups, was):
    path = tmp_path / "a.json"
    path.write_bytes(b"theirs")
    with pytest.raises(EditError, match=r"changed by another program meanwhile.*run this again"):
        replace(path, b"new", was, backups)
    assert path.read_bytes() == b"theirs"
    assert len(list(tmp_path.iterdir())) <= 2
    with pytest.raises(EditError, match="meanwhile"):
        remove_file(path, was=b"other", now=NOW, backups=backups)
    assert path.exists()


def test_a_file_is_removed_and_kept_as_backup(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    backup = remove_file(path, was=b"old", now=NOW, backups=backups)
    assert not path.exists()
    assert backup is not None
    assert backup.read_bytes() == b"old"


@pytest.mark.covers("F-D-05")
def test_the_oldest_backup_and_the_latest_ones_are_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"0")
    for number in range(KEPT + 5):
        replace(path, b"%d" % (number + 1), b"%d" % number, backups, NOW + timedelta(seconds=number))
    kept = sorted(backups.iterdir())
    assert [each.read_bytes() for each in kept] == [b"%d" % number for number in (0, *range(6, KEPT + 5))]


@pytest.mark.covers("F-D-05", "F-D-06")
@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_no_backup_and_pushes_none_out(tmp_path, backups, monkeypatch, step):
    """Only the backups' disk is full: the draft beside the file itself is written."""
    path = tmp_path / "a.json"
    path.write_bytes(b"original")
    replace(path, b"1", b"original", backups)
    fsync, room = os.fsync, [True]

    def full(descriptor):
        if room[0] or not os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{backups}/"):
            fsync(descriptor)
            return
        if step == "write":
            os.truncate(descriptor, 0)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("config.atomic_writes.os.fsync", full)
    room[0] = False
    for number in range(KEPT + 2):
        later = NOW + timedelta(seconds=number + 1)
        with pytest.raises(EditError, match="No space left on device; it was left as it is"):
            replace(path, b"2", b"1", backups, later)
        with pytest.raises(EditError, match="No space left on device; it was left as it is"):
            remove_file(path, was=b"1", now=later, backups=backups)
    assert [each.read_bytes() for each in backups.iterdir()] == [b"original"]
    room[0] = True
    replace(path, b"2", b"1", backups, NOW + timedelta(hours=1))
    assert [each.read_bytes() for each in sorted(backups.iterdir())] == [b"original", b"1"]


LIMITED = """
import resource, signal, sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from config.diagnostics import EditError
from config.atomic_writes import KEPT, remove_file
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
path, backups = Path(sys.argv[1]), Path(sys.argv[2])
for number in range(KEPT + 2):
    try:
        remove_file(path, was=path.read_bytes(), now=datetime.now(UTC), backups=backups)
    except EditError as error:
        assert "File too large; it was left as it is" in str(error), error
    else:
        sys.exit("was removed")
"""


@pytest.mark.covers("F-D-05")
def test_a_backup_that_the_kernel_cuts_short_is_not_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"x" * 10_000)
    subprocess.run([sys.executable, "-c", LIMITED, path, backups], check=True, timeout=60, cwd=ROOT)
    assert path.read_bytes() == b"x" * 10_000
    assert list(backups.iterdir()) == []


@pytest.mark.covers("F-D-05")
def test_tries_that_change_nothing_leave_no_backup(tmp_path, backups, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    with pytest.raises(EditError, match="meanwhile"):
        replace(path, b"new", b"other", backups)
    replace_name = os.replace

    def busy(source, target, **directories):
        if target == "a.json":
            raise OSError(errno.EBUSY, "Device or resource busy")
        replace_name(source, target, **directories)

    monkeypatch.setattr("config.atomic_writes.os.replace", busy)
    with pytest.raises(EditError, match="busy; it was left as it is"):
        replace(path, b"new", b"old", backups)
    assert list(backups.iterdir()) == []


@pytest.mark.covers("F-D-05")
def test_empty_backups_are_neither_counted_nor_kept(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"original")
    first = replace(path, b"1", b"original", backups)
    assert first is not None
    for number in range(KEPT + 2):
        stamp = NOW + timedelta(seconds=number + 1)
        (backups / first.name.replace(f"{NOW:%Y%m%dT%H%M%S.%f}", f"{stamp:%Y%m%dT%H%M%S.%f}")).touch()
    replace(path, b"", b"1", backups, NOW + timedelta(hours=1))
    assert [each.read_bytes() for each in sorted(backups.iterdir())] == [b"original", b"1"]
    assert replace(path, b"2", b"", backups, NOW + timedelta(hours=2)) is None


@pytest.mark.covers("F-D-05")
def test_backups_of_other_files_are_not_counted_and_none_takes_anothers_place(tmp_path, backups):
    path, other = tmp_path / "a.json", tmp_path / "a.json.2"
    path.write_bytes(b"original")
    other.write_bytes(b"other")
    replace(other, b"new", b"other", backups)
    for number in range(KEPT + 2):  # all of them at the same time
        replace(path, b"%d" % number, path.read_bytes(), backups)
    kept = {each.read_bytes() for each in backups.iterdir()}
    assert len(list(backups.iterdir())) == KEPT + 1
    assert {b"other", b"original", b"%d" % KEPT} <= kept


def test_without_a_backup_nothing_is_changed(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    backups.parent.write_bytes(b"a file where the directory should be")
    with pytest.raises(EditError, match=r"a.json: cannot be written: .*; it was left as it is"):
        replace(path, b"new", b"old", backups)
    with pytest.raises(EditError, match=r"a.json: cannot be removed: .*; it was left as it is"):
        remove_file(path, was=b"old", now=NOW, backups=backups)
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(EditError, match="cannot be made"), lock_edits(backups.parent):
        pass


def test_what_is_no_plain_file_is_refused(tmp_path, backups):
    with pytest.raises(EditError, match="cannot be read"):
        read_file(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(EditError, match="is a link to nothing"):
        read_file(tmp_path / "dangling")
    assert read_file(tmp_path / "missing") is None


def test_one_command_edits_at_a_time(tmp_path):
    order = []
    second_started = threading.Event()

    def second():
        second_started.set()
        with lock_edits(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with lock_edits(tmp_path):
        thread.start()
        assert second_started.wait(60)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


@pytest.mark.covers("F-D-05")
def test_a_private_file_is_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "below" / "keys"
    replace_private(path, b"one")
    replace_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("config.atomic_writes.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_private(path, b"three")
    assert path.read_bytes() == b"two"
    assert [each.name for each in path.parent.iterdir()] == ["keys"]


# --- files and directories of other users -----------------------------------------------------------------------------


@pytest.fixture
def stranger(monkeypatch) -> int:
    """This process is another user than the one whom all its files belong to; the number of that one."""
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for name in ("config.private_directories.ROOT", "config.safe_reading.ROOT"):
        monkeypatch.setattr(name, -1)  # or the tests, run by root, would see files of root
    return uid


@pytest.mark.covers("F-C-10", "SEC-62")
def test_a_file_of_another_user_is_not_read(tmp_path, stranger):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    with pytest.raises(EditError, match=rf"a.json: belongs to another user \(uid {stranger}\); run this as that user"):
        read_file(path)


@pytest.mark.covers("F-C-10", "F-D-06", "SEC-62")
def test_nothing_is_written_into_a_directory_of_another_user(tmp_path, stranger, backups):
    path = tmp_path / "a.json"
    for write in (
        lambda: replace(path, b"new", None, backups),
        lambda: replace(tmp_path / "deep" / "a.json", b"new", None, backups),
        lambda: refuse_place(tmp_path / "deep" / "a.json"),
        lambda: lock_edits(tmp_path / "deep").__enter__(),
    ):
        with pytest.raises(EditError, match=r"belongs to another user .*; run this as that user"):
            write()
    with pytest.raises(PermissionError, match="belongs to another user"):
        replace_private(path, b"new")
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(EditError, match="belongs to another user"):
        replace(path, b"new", b"old", backups)
    with pytest.raises(EditError, match="belongs to another user"):
        remove_file(path, was=b"old", now=NOW, backups=backups)
    assert path.read_bytes() == b"old"


@pytest.mark.covers("SEC-62")
def test_a_link_put_in_between_changes_the_mode_of_nothing_else(tmp_path, backups, monkeypatch):
    path, other = tmp_path / "a.json", tmp_path / "other"
    path.write_bytes(b"old")
    path.chmod(0o644)
    other.write_bytes(b"secret")
    other.chmod(0o600)
    fstat = os.fstat

    def put_link(descriptor):
        for new in tmp_path.glob(".a.json.*.new"):
            new.unlink()
            new.symlink_to(other)
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", put_link)
    replace(path, b"new", b"old", backups)
    assert stat.S_IMODE(other.stat().st_mode) == 0o600


def test_extended_attributes_stay(tmp_path, backups):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has none")
    replace(path, b"new", b"old", backups)
    assert os.getxattr(path, "user.note") == b"kept"


@pytest.mark.covers("SEC-50", "F-C-10")
def test_commands_are_taken_only_from_files_that_nobody_else_could_write(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"{}")
    path.chmod(0o666)
    assert read_file(path) == b"{}"
    with pytest.raises(EditError, match=r"others may write it, and it decides which commands hubd runs"):
        read_file(path, trusted=True)
    path.chmod(0o600)
    assert read_file(path, trusted=True) == b"{}"
    assert read_file(tmp_path / "missing", trusted=True) is None
